// SPDX-License-Identifier: MIT
//! What runtimes of languages keep: Go's tables and Java's counters. The input says which words of
//! them are others.
#![no_main]

use mallow_fuzz::changed;
use mallow_fuzz::words::{runtimes_places, runtimes_vmas, runtimes_words};
use mallow_process::binding::Inspector;
use mallow_process::process::Process;
use mallow_process::runtimes;
use mallow_process::smaps::Vma;

/// Until nothing more can be read.
const READS: u32 = 100_000;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let memory = changed(runtimes_words(), &runtimes_places(), bytes, READS);
    for is_go in [true, false] {
        memory.left.set(READS);
        let (start, end, name) = (1 << 12, 2 << 12, "/libjvm.so".into());
        let library = Vma { start, end, inode: 9, name, ..Vma::default() };
        let vmas = Some(library).filter(|_| !is_go).into_iter().chain(runtimes_vmas()).collect();
        let process = Process { is_go, vmas, ..Process::default() };
        let found = runtimes::find(&process, &memory, &mut Inspector::default());
        let is_sound = |used: u64, size: u64| !is_go || used <= size;
        assert!(found.kept.iter().all(|k| k.used.is_none_or(|used| is_sound(used, k.size))));
    }
});
