// SPDX-License-Identifier: MIT
//! The files that are known of a process, as `mallow explain --save` keeps them: the first byte
//! says which of them is not to be trusted.
#![no_main]

use std::sync::LazyLock;

use mallow_process::heap::Heap;
use mallow_process::mappings::{self, Context};
use mallow_process::process::{Process, SAVED};
use tempfile::TempDir;

/// The files of the fuzzer itself, as they were when it started: to read them anew for each input
/// would take most of the time.
static OWN: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let read = |file| std::fs::read(format!("/proc/self/{file}")).unwrap_or_default();
    SAVED.iter().map(read).collect()
});

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, own) in SAVED.iter().zip(OWN.iter()) {
        std::fs::write(folder.path().join(file), own).expect("a file");
    }
    folder
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let changed = usize::from(first) % SAVED.len();
    let file = FOLDER.path().join(SAVED[changed]);
    std::fs::write(&file, bytes).expect("a file");
    let process = Process::saved(FOLDER.path());
    std::fs::write(&file, &OWN[changed]).expect("a file");
    let Ok(process) = process else { return };
    let heap = Heap::Unknown;
    let context = Context {
        process: &process,
        heap: &heap,
        allocator: "glibc",
        memory: None,
        page: None,
        spaces: &[],
    };
    let named = mappings::name(&context);
    assert_eq!(named.len(), process.vmas.len());
    mappings::groups(&named, "glibc");
    mappings::runtime(&process);
    (process.rss(), process.peak_rss(), process.thread_count());
});
