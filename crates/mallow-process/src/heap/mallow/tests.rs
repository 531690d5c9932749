// SPDX-License-Identifier: MIT

use std::cell::Cell;

use super::*;

/// A list of three slots, whose last one leads back to the first until it is read anew.
struct Circle {
    refreshes: Cell<u32>,
    closed: u32,
}

impl Memory for Circle {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let next = match address {
            8 | 16 | 24 => address + 8,
            _ if self.refreshes.get() < self.closed => 16,
            _ => 0,
        };
        buffer.copy_from_slice(&u64::to_le_bytes(next));
        Some(())
    }

    fn refresh(&self) {
        self.refreshes.set(self.refreshes.get() + 1);
    }
}

#[test]
fn a_circle_is_read_again() {
    let length = |closed| list_length(&Circle { refreshes: Cell::new(0), closed }, 8, [0; 2]);
    assert_eq!((length(0), length(2), length(u32::MAX)), (3, 3, 0));
}

const KEYS: [u64; 2] = [0x1234_5678_9abc_def0, 0xfedc_ba98_7654_3211];

/// A list of three slots whose links are encoded; nothing else can be read.
struct Coded;

impl Memory for Coded {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let coded = |next: u64| next ^ (address ^ KEYS[0]).wrapping_mul(KEYS[1]);
        let word = match address {
            8 => 16,
            16 => coded(24),
            24 => coded(32),
            32 => coded(0),
            _ => return None,
        };
        buffer.copy_from_slice(&u64::to_le_bytes(word));
        Some(())
    }
}

#[test]
fn encoded_links_are_followed() {
    assert_eq!((list_length(&Coded, 8, KEYS), list_length(&Coded, 8, [0; 2])), (3, 2));
}
