// SPDX-License-Identifier: MIT
//! Profiles of the heap as jemalloc and Mallow write them, which `mallow report` reads.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let Ok(heap) = mallow_report::HeapProfile::parse(&text) else { return };
    assert!(heap.distance > 0 && mallow_report::HeapProfile::is_one(bytes));
    let mut all = mallow_report::Amount::default();
    for stack in &heap.stacks {
        all.merge(stack.live);
        all.merge(stack.all);
    }
    assert!(!heap.has_all() || all.blocks > 0);
});
