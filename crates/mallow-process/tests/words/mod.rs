//! A process's memory made of any words, for tests and for the fuzz targets.

use std::cell::Cell;

use mallow_process::memory::Memory;

pub const DATA: u64 = 0x7f00_0000_0000;
pub const HEAP: u64 = 0x5500_0000_0000;
pub const HEAP_SIZE: u64 = 0x21000;

/// A word of a main arena since glibc 2.27 whose bins are all empty.
pub fn arena_word(address: u64) -> u64 {
    let arena = DATA + 0x100;
    let bins = arena + 112;
    let behind = bins + 254 * 8;
    match address {
        _ if (bins..behind).contains(&address) => bins - 16 + (address - bins) / 16 * 16,
        _ if address == bins - 16 => HEAP + 0x1000,
        // The only arena of its list, with one thread.
        _ if address == behind + 16 => arena,
        _ if address == behind + 32 => 1,
        _ if address == behind + 40 => HEAP_SIZE,
        _ => 0,
    }
}

/// Memory in which any word may be anything.
pub struct Words<F: Fn(u64) -> u64> {
    pub word: F,
    pub resident: u64,
    /// Reads until nothing more can be read.
    pub left: Cell<u32>,
}

impl<F: Fn(u64) -> u64> Memory for Words<F> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        self.left.set(self.left.get().checked_sub(1)?);
        for (index, part) in buffer.chunks_mut(8).enumerate() {
            let word = (self.word)(address.wrapping_add(8 * index as u64));
            part.copy_from_slice(&word.to_le_bytes()[..part.len()]);
        }
        Some(())
    }

    fn reload(&self) {}

    fn loads(&self) -> u64 {
        0
    }

    fn number_now(&self, address: u64, size: u64) -> Option<u64> {
        self.number(address, size)
    }

    fn resident(&self, start: u64, end: u64) -> Option<u64> {
        assert!(start <= end, "{start:x} {end:x}");
        Some(self.resident.min(end - start))
    }
}
