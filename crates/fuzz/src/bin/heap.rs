//! The memory of a process: heaps of glibc and of Mallow. Words of the input lie where a heap would
//! be; the libraries' data hold an arena that looks right, with words of the input in it.
#![no_main]

use std::cell::Cell;

use mallow_fuzz::{DATA, HEAP, HEAP_SIZE, arena_word, word_at};
use mallow_process::heap::{Heap, glibc, mallow, stats_page::Page};
use mallow_process::memory::Memory;
use mallow_process::smaps::Vma;

struct Words<'a> {
    bytes: &'a [u8],
    /// Reads until nothing more can be read.
    left: Cell<u32>,
}

impl Words<'_> {
    fn word(&self, address: u64) -> u64 {
        match address.wrapping_sub(HEAP) {
            at @ 0..HEAP_SIZE => word_at(self.bytes, at / 8),
            // Every few words of the arena are the input's.
            _ if address % 104 == 0 && !self.bytes.is_empty() && self.bytes[0] & 1 == 1 => {
                word_at(self.bytes, address / 8)
            }
            _ => arena_word(address),
        }
    }
}

impl Memory for Words<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        self.left.set(self.left.get().checked_sub(1)?);
        for (index, part) in buffer.chunks_mut(8).enumerate() {
            let word = self.word(address.wrapping_add(8 * index as u64));
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
        Some(end - start)
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let memory = Words { bytes, left: Cell::new(100_000) };
    let vma = |start, end, name: &str| Vma {
        start,
        end,
        perms: "rw-p".into(),
        name: name.into(),
        rss: end - start,
        ..Vma::default()
    };
    let vmas = [vma(HEAP, HEAP + HEAP_SIZE, "[heap]"), vma(DATA, DATA + 0x2000, "")];
    let found = glibc::read(&memory, &[(DATA, DATA + 0x2000)], &vmas);
    if let Some(heaps) = found {
        Heap::Glibc(heaps).used_and_free();
    }
    glibc::mapped_chunk_sizes(&memory, &vmas[0]);
    if let Some(page) = Page::read(&memory, HEAP) {
        mallow::read(&memory, &page);
        mallow::huge_at(&memory, &page, HEAP);
    }
});
