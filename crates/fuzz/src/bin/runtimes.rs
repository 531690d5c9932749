// SPDX-License-Identifier: MIT
//! What runtimes of languages keep: Go's tables, Java's counters, pages of Python, Ruby and V8. The
//! input says which words of them are others.
#![no_main]

use mallow_fuzz::changed;
use mallow_fuzz::words::{RUNTIMES, runtime_process, runtimes_places, runtimes_words};
use mallow_process::binding::Inspector;
use mallow_process::runtimes;

/// Until nothing more can be read.
const READS: u32 = 100_000;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let memory = changed(runtimes_words(), &runtimes_places(), bytes, READS);
    for program in RUNTIMES {
        memory.left.set(READS);
        let process = runtime_process(program);
        let found = runtimes::find(&process, &memory, &mut Inspector::default());
        let is_counted = matches!(program, "go" | "python3");
        let is_sound = |used: u64, size: u64| !is_counted || used <= size;
        assert!(found.kept.iter().all(|k| k.used.is_none_or(|used| is_sound(used, k.size))));
    }
});
