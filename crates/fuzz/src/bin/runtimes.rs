//! What runtimes of languages keep: Go's tables and Java's counters. The input says which words of
//! them are others: sixteen bytes each, of which the first eight choose the place.
#![no_main]

use std::cell::Cell;
use std::collections::HashMap;

use mallow_fuzz::word_at;
use mallow_fuzz::words::{Words, runtimes_places, runtimes_vmas, runtimes_word};
use mallow_process::binding::Inspector;
use mallow_process::process::Process;
use mallow_process::runtimes;
use mallow_process::smaps::Vma;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let places = runtimes_places();
    let change = |index: u64| {
        let place = places[word_at(bytes, 2 * index) as usize % places.len()];
        (place, word_at(bytes, 2 * index + 1))
    };
    let changes: HashMap<u64, u64> = (0..bytes.len() as u64 / 16).map(change).collect();
    let word = |at: u64| changes.get(&at).copied().unwrap_or_else(|| runtimes_word(at));
    let memory = Words { word, resident: u64::MAX, left: Cell::new(0) };
    for is_go in [true, false] {
        memory.left.set(100_000);
        let (start, end, name) = (1 << 12, 2 << 12, "/libjvm.so".into());
        let library = Vma { start, end, inode: 9, name, ..Vma::default() };
        let vmas = Some(library).filter(|_| !is_go).into_iter().chain(runtimes_vmas()).collect();
        let process = Process { is_go, vmas, ..Process::default() };
        let found = runtimes::find(&process, &memory, &mut Inspector::default());
        let is_sound = |used: u64, size: u64| !is_go || used <= size;
        assert!(found.kept.iter().all(|k| k.used.is_none_or(|used| is_sound(used, k.size))));
    }
});
