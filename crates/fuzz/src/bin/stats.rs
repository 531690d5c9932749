// SPDX-License-Identifier: MIT
//! Dumps of allocators' statistics, and what follows from their figures.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(stats) = mallow_stats::read(bytes) else { return };
    assert!(!stats.allocator.is_empty());
    stats.requests();
    stats.uptime_s();
    for lock in &stats.locks {
        lock.contended();
        lock.waiting(stats.uptime_ns);
    }
    for class in &stats.classes {
        class.free();
    }
});
