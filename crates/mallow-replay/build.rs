// SPDX-License-Identifier: MIT
//! Builds the player, which the crate carries inside.

use std::hash::Hasher as _;
use std::path::PathBuf;
use std::{env, fs};

const SOURCES: [&str; 5] = ["player.c", "lane.c", "clock.c", "memory.c", "count.c"];

fn main() {
    let player = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let player = player.join("player");
    println!("cargo::rerun-if-changed={}", player.display());
    println!("cargo::rerun-if-changed=build.rs");
    let program = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join("player");
    let compiler = cc::Build::new().no_default_flags(true).opt_level(2).get_compiler();
    let mut command = compiler.to_command();
    command
        // The calls to the allocator are the point: none may be optimised away.
        .args(["-std=c17", "-O2", "-fno-builtin", "-pthread"])
        // The allocators have to find the player's clock.
        .arg("-rdynamic")
        .arg("-o")
        .arg(&program)
        .args(SOURCES.iter().map(|file| player.join(file)))
        .arg("-ldl");
    let status = command.status().unwrap_or_else(|error| {
        panic!("cannot start the C compiler {}: {error}", compiler.path().display())
    });
    assert!(status.success(), "the C compiler failed on the player: {command:?}");
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(&fs::read(&program).expect("the player was just built"));
    println!("cargo::rustc-env=PLAYER_HASH={:016x}", hasher.finish());
}
