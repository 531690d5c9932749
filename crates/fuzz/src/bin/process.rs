//! The files that are known of a process, as `mallow explain --save` keeps them: the first byte
//! says which of them is not to be trusted.
#![no_main]

use std::sync::LazyLock;

use mallow_process::heap::Heap;
use mallow_process::mappings::{self, Context};
use mallow_process::process::{Process, SAVED};
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let changed = usize::from(first) % SAVED.len();
    for (index, file) in SAVED.iter().enumerate() {
        let own = || std::fs::read(format!("/proc/self/{file}")).unwrap_or_default();
        let content = if index == changed { bytes.to_vec() } else { own() };
        std::fs::write(FOLDER.path().join(file), content).expect("a file");
    }
    let Ok(process) = Process::saved(FOLDER.path()) else { return };
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
