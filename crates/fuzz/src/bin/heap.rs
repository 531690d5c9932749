// SPDX-License-Identifier: MIT
//! The memory of a process: heaps of glibc and of Mallow. Words of the input lie where a heap would
//! be; the libraries' data hold an arena that looks right, with words of the input in it.
#![no_main]

use std::cell::Cell;

use mallow_fuzz::word_at;
use mallow_fuzz::words::{DATA, HEAP, HEAP_SIZE, Words, arena_word};
use mallow_process::heap::{Heap, glibc, mallow, stats_page::Page};
use mallow_process::smaps::Vma;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let word = |address: u64| match address.wrapping_sub(HEAP) {
        at @ 0..HEAP_SIZE => word_at(bytes, at / 8),
        // Every few words of the arena are the input's.
        _ if address.is_multiple_of(104) && !bytes.is_empty() && bytes[0] & 1 == 1 => {
            word_at(bytes, address / 8)
        }
        _ => arena_word(address),
    };
    let memory = Words { word, resident: u64::MAX, left: Cell::new(100_000) };
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
    if let Some(page) = Page::read(&memory, HEAP) {
        mallow::read(&memory, &page);
        mallow::huge(&memory, &page, &[(HEAP, HEAP + HEAP_SIZE)]);
    }
});
