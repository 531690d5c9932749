// SPDX-License-Identifier: MIT
//! Programs, libraries and core files.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use mallow_process::elf::{self, ElfInfo};
use mallow_process::heap::core_file;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));
static FILE: LazyLock<PathBuf> = LazyLock::new(|| FOLDER.path().join("file"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    std::fs::write(&*FILE, bytes).expect("a file");
    if let Ok(Some(info)) = ElfInfo::read(&FILE) {
        info.libc();
        info.machine_name();
        info.is_static();
        elf::identify(&FILE, &info);
    }
    elf::loaded_size(&FILE);
    let _ = core_file::read(std::fs::File::open(&*FILE).expect("a file"));
});
