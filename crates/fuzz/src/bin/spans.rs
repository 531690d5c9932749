//! Heaps of other allocators: jemalloc, mimalloc and musl. The input says which words of heaps that
//! look right are others: sixteen bytes each, of which the first eight choose the place.
#![no_main]

use std::cell::Cell;
use std::collections::HashMap;

use mallow_fuzz::word_at;
use mallow_fuzz::words::{Words, spans_places, spans_vmas, spans_word};
use mallow_process::heap::{Heap, jemalloc, mallocng, mimalloc};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let places = spans_places();
    let change = |index: u64| {
        let place = places[word_at(bytes, 2 * index) as usize % places.len()];
        (place, word_at(bytes, 2 * index + 1))
    };
    let changes: HashMap<u64, u64> = (0..bytes.len() as u64 / 16).map(change).collect();
    let word = |at: u64| changes.get(&at).copied().unwrap_or_else(|| spans_word(at));
    let memory = Words { word, resident: u64::MAX, left: Cell::new(20_000) };
    let vmas = spans_vmas();
    for found in [
        jemalloc::read(&memory, &vmas),
        mimalloc::read(&memory, &vmas),
        mallocng::read(&memory, &vmas, |_| true),
    ] {
        memory.left.set(20_000);
        let heap = found.map_or(Heap::Unknown, Heap::Spans);
        if let Some((used, _)) = heap.used_and_free() {
            assert!(used < 1 << 63, "{used}");
        }
    }
});
