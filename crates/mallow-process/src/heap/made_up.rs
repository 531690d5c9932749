// SPDX-License-Identifier: MIT
//! Memory that a test writes word by word, and then reads as a process's. All else in it is 0.

use std::collections::HashMap;

use crate::memory::Memory;

#[derive(Default)]
pub struct MadeUp(HashMap<u64, u8>);

impl MadeUp {
    pub fn set(&mut self, address: u64, word: u64) {
        self.0.extend((address..).zip(word.to_le_bytes()));
    }

    pub fn set_all(&mut self, address: u64, words: &[u64]) {
        for (at, word) in (address..).step_by(8).zip(words) {
            self.set(at, *word);
        }
    }

    /// A counter of a thread's cache.
    pub fn set_short(&mut self, address: u64, number: u64) {
        self.0.extend((address..).zip((number as u16).to_le_bytes()));
    }
}

impl Memory for MadeUp {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        for (at, byte) in (address..).zip(buffer) {
            *byte = self.0.get(&at).copied().unwrap_or(0);
        }
        Some(())
    }
}
