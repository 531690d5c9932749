// SPDX-License-Identifier: MIT
//! Heaps of other allocators: jemalloc, mimalloc and musl. The input says which words of heaps that
//! look right are others.
#![no_main]

use mallow_fuzz::changed;
use mallow_fuzz::words::{spans_places, spans_vmas, spans_words};
use mallow_process::heap::{Heap, jemalloc, mallocng, mimalloc};

/// Until nothing more can be read.
const READS: u32 = 20_000;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let memory = changed(spans_words(), &spans_places(), bytes, READS);
    let vmas = spans_vmas();
    for found in [
        jemalloc::read(&memory, &vmas),
        mimalloc::read(&memory, &vmas),
        mallocng::read(&memory, &vmas, |_| true),
    ] {
        memory.left.set(READS);
        let heap = found.map_or(Heap::Unknown, Heap::Spans);
        if let Some((used, _)) = heap.used_and_free() {
            assert!(used < 1 << 63, "{used}");
        }
    }
});
