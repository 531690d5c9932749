// SPDX-License-Identifier: MIT
//! The memory of a process whose loader is asked: an object as it lies there, and the list of all. The first byte
//! says how many pairs of the auxiliary vector follow, and what is behind them is the memory from `BASE` on.
#![no_main]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::LazyLock;

use mallow_process::{image, linkmap};
use tempfile::TempDir;

const BASE: u64 = 0x1000;
const MOST_PAIRS: usize = 16;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

fn memory(bytes: &[u8]) -> std::io::Result<File> {
    let path = FOLDER.path().join("mem");
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    file.write_all_at(bytes, BASE)?;
    Ok(file)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&pairs, bytes)) = bytes.split_first() else { return };
    let (vector, bytes) = bytes.split_at(bytes.len().min(16 * (pairs as usize % MOST_PAIRS)));
    let memory = memory(bytes).expect("a file");
    if let Some(info) = image::read(&memory, BASE) {
        info.libc();
        info.machine_name();
        assert!(info.defined.len() <= info.definitions.len());
    }
    let proc: &Path = FOLDER.path();
    std::fs::write(proc.join("auxv"), vector).expect("a file");
    if let Some(objects) = linkmap::read(proc, &memory) {
        assert!((1..=10_000).contains(&objects.len()));
    }
});
