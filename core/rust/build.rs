// SPDX-License-Identifier: MIT
//! Compiles the allocator, one translation unit, into a static library.

use std::env;
use std::path::PathBuf;

fn main() {
    let core = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets the variable"));
    let source = core.join("src/mallow.c");
    println!("cargo::rerun-if-changed={}", core.join("src").display());
    println!("cargo::rerun-if-changed={}", core.join("include").display());
    println!("cargo::metadata=include={}", core.join("include").display());

    if env::var_os("CARGO_FEATURE_LIBRARY").is_none() {
        return;
    }
    let enabled = |feature: &str| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    // The numbers are those of core/src/base/config.h.
    let mode = match (enabled("DEBUG"), enabled("SECURE")) {
        (true, _) => "2",
        (false, true) => "1",
        (false, false) => "0",
    };
    let export_libc = if enabled("EXPORT_LIBC") { "1" } else { "0" };
    let mut build = cc::Build::new();
    build
        .file(source)
        .include(core.join("include"))
        .std("c17")
        .opt_level(2)
        .pic(true)
        .warnings(false)
        .flag("-fvisibility=hidden")
        .flag("-fno-builtin-malloc")
        // Outline atomics would need libgcc's start-up code, which calls into a libc.
        .flag_if_supported("-mno-outline-atomics")
        .define("MW_MODE", mode)
        .define("MW_EXPORT_LIBC", export_libc)
        // An archive, though position-independent: what it needs of the C library is linked in.
        .define("MW_SHARED_OBJECT", "0");
    if enabled("EXPORT_LIBC") {
        // A member of its own, which only programs take that use operator new.
        build.file(core.join("src/entry/shim_cxx.c"));
    }
    build.compile("mallow");
}
