// SPDX-License-Identifier: MIT
//! `mallow explain` on a program that brings an allocator along under names of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::program::Program;

/// As Rust programs link it: what jemalloc defines has a prefix, and malloc is the C library's.
const PREFIXED: [&str; 9] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "malloc_usable_size",
];

const PROGRAM: &str = r#"#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void *own_malloc(size_t);
void own_free(void *);
int mallctl(const char *, void *, size_t *, void *, size_t);
int main(void) {
    static void *kept[60000], *libc[1000];
    for (int n = 0; n < 60000; n++) memset(kept[n] = own_malloc(40 + n % 1000), 1, 40);
    for (int n = 0; n < 60000; n += 3) own_free(kept[n]);
    memset(own_malloc(8 << 20), 1, 8 << 20);
    for (int n = 0; n < 1000; n++) memset(libc[n] = malloc(3000), 1, 3000);
    uint64_t epoch = 1; size_t used, size = sizeof used;
    mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
    mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    mallctl("stats.allocated", &used, &size, NULL, 0);
    printf("{\"beside\": %zu, \"libc\": %d}\n", used, 1000 * 3008);
    fflush(stdout); sleep(1000); return libc[7] == kept[5];
}
"#;

/// `None`, visibly, where there is no jemalloc to link.
fn with_prefixed_jemalloc(folder: &Path) -> Option<PathBuf> {
    let places = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"];
    let archives = places.iter().map(|place| Path::new(place).join("libjemalloc_pic.a"));
    let Some(archive) = archives.into_iter().find(|path| path.exists()) else {
        eprintln!("skipped: libjemalloc_pic.a is not installed");
        return None;
    };
    let prefixed = folder.join("prefixed.a");
    let mut rename = Command::new("objcopy");
    rename.args(PREFIXED.map(|name| format!("--redefine-sym={name}=own_{name}")));
    match rename.arg(archive).arg(&prefixed).status() {
        Ok(status) => assert!(status.success(), "objcopy failed"),
        Err(error) => {
            eprintln!("skipped: objcopy: {error}");
            return None;
        }
    }
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    std::fs::write(&source, PROGRAM).unwrap();
    let mut link = Command::new("cc");
    link.args(["-O1", "-fno-builtin", "-s", "-o"]).arg(&program).arg(source).arg(prefixed);
    let status = link.args(["-pthread", "-ldl", "-lm", "-lstdc++"]).status().unwrap();
    assert!(status.success(), "cc failed");
    Some(program)
}

#[test]
fn heap_beside_mallocs_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = with_prefixed_jemalloc(folder.path()) else { return };
    let program = Program::at_rest(&mut Command::new(program));
    let report = program.explain();
    assert_eq!((&report["allocator"], &report["heap"]["kind"]), (&"glibc".into(), &"glibc".into()));
    let other = &report["other_heaps"][0];
    assert_eq!(other["allocator"], "jemalloc");
    let sum = |name: &str| -> f64 {
        other["arenas"].as_array().unwrap().iter().map(|arena| arena[name].as_f64().unwrap()).sum()
    };
    let (used, own) = (sum("small") + sum("large"), program.own("beside"));
    assert!((used - own).abs() < 0.03 * own, "{used} against {own}");
    let libc = report["heap"]["arenas"][0]["used_bytes"].as_f64().unwrap();
    assert!(libc > 0.97 * program.own("libc") && libc < 2.0 * program.own("libc"), "{libc}");
    let groups = report["groups"].as_array().unwrap();
    let group = groups.iter().find(|group| group["kind"] == "other_heap").unwrap();
    assert!(group["rss"].as_f64().unwrap() > own, "{group}");
    let unexplained = groups.iter().find(|group| group["kind"] == "anonymous");
    assert!(
        unexplained.is_none_or(|group| group["rss"].as_f64().unwrap() < 2e6),
        "{unexplained:?}"
    );
}

/// A program whose only malloc is the C library's has one heap.
#[test]
fn nothing_is_beside_a_heap_that_is_alone() {
    let program = Program::at_rest(Command::new("sh").args(["-c", "echo ready; exec sleep 1000"]));
    assert_eq!(program.explain()["other_heaps"].as_array().unwrap().len(), 0);
}
