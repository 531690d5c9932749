// SPDX-License-Identifier: MIT
//! Takes the allocator's own table of figures, which lies in the crate of its sources.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let table = Path::new(mallow_sys::SOURCES).join("insight/stats.def");
    println!("cargo::rerun-if-changed={}", table.display());
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    fs::copy(&table, out.join("stats.def")).expect("mallow-sys brings it");
}
