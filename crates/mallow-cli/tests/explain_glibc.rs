// SPDX-License-Identifier: MIT
//! `mallow explain` on glibc's large blocks, wherever the kernel's mappings begin and end.

use std::process::Command;

use crate::common::program::Program;
use serde_json::Value;

fn group(report: &Value, kind: &str) -> f64 {
    let groups = report["groups"].as_array().unwrap();
    let group = groups.iter().find(|group| group["kind"] == kind);
    group.map_or(0.0, |group| group["size"].as_f64().unwrap())
}

#[test]
fn blocks_are_found_in_split_and_joined_mappings() {
    let folder = tempfile::tempdir().unwrap();
    let source = include_str!("programs/large_blocks.c");
    let program =
        crate::common::compile("cc", folder.path(), source, &["-O1", "-fno-builtin"]).unwrap();
    let program = Program::at_rest(&mut Command::new(program));
    let report = program.explain();
    let mapped = &report["heap"]["mapped"];
    assert_eq!(mapped["bytes"].as_f64().unwrap(), program.own("mapped"));
    assert_eq!(mapped["chunks"].as_f64().unwrap(), program.own("blocks"));
    // By glibc's own counters, read from outside.
    assert_eq!(mapped["counted"]["bytes"], mapped["bytes"]);
    assert_eq!(mapped["counted"]["chunks"], mapped["chunks"]);
    assert_eq!(group(&report, "glibc_block"), program.own("mapped"));
    // What the program mapped itself is not called a block; the loader has some pages of its own.
    let rest = group(&report, "anonymous") - program.own("own");
    assert!((0.0..256e3).contains(&rest), "{rest}");
}

/// One block in seven stays, in each page several.
const PINNED: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
    enum { COUNT = 700000 };\nstatic void *blocks[COUNT];\n\
    int main(void) { for (int i = 0; i < COUNT; i++) blocks[i] = malloc(120); \
    for (int i = 0; i < COUNT; i++) if (i % 7) free(blocks[i]); \
    puts(\"{}\"); fflush(stdout); pause(); return 0; }\n";

#[test]
fn free_memory_that_cannot_be_trimmed_is_called_pinned() {
    let folder = tempfile::tempdir().unwrap();
    let program =
        crate::common::compile("cc", folder.path(), PINNED, &["-O1", "-fno-builtin"]).unwrap();
    let program = Program::at_rest(&mut Command::new(program));
    let report = program.explain();
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["id"] == "MLW2108").expect("it is pinned");
    assert!(found["evidence"].as_str().unwrap().contains("(86 % of the heap is free)"), "{found}");
    assert!(findings.iter().all(|finding| finding["id"] != "MLW2102"), "nothing to trim");
}

/// What is freed last points to the main arena, whose list of arenas then leads nowhere.
const UNKNOWN_SHAPE: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
    int main(void) { void ***block = malloc(5000), *next = malloc(5000); puts(\"{}\"); fflush(stdout); \
    free(block); void **bins = *block + 2; bins[256] = (void *)8; for (;;) pause(); return next != 0; }\n";

#[test]
fn a_heap_of_an_unknown_shape_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-O1", "-fno-builtin", "-Wno-use-after-free"];
    let program = crate::common::compile("cc", folder.path(), UNKNOWN_SHAPE, &options).unwrap();
    let program = Program::at_rest(&mut Command::new(program));
    let report = program.explain();
    assert_eq!(report["heap"]["kind"], "unknown");
    let notes = report["notes"].to_string();
    assert!(notes.contains("The heap of the C library could not be read"), "{notes}");
}

/// A program of `main_arena.c`, and what explain says of it; its blocks have to be found.
#[track_caller]
fn main_arena(case: &str) -> (Program, Value) {
    let folder = tempfile::tempdir().unwrap();
    let source = include_str!("programs/main_arena.c");
    let program =
        crate::common::compile("cc", folder.path(), source, &["-O1", "-fno-builtin"]).unwrap();
    let program = Program::at_rest(Command::new(program).arg(case));
    let report = program.explain();
    let arenas = report["heap"]["arenas"].as_array().unwrap();
    let sum = |field: &str| arenas.iter().map(|arena| arena[field].as_f64().unwrap()).sum::<f64>();
    let mapped = &report["heap"]["mapped"];
    let bytes = sum("used_bytes") - sum("fast") - sum("cached") + mapped["bytes"].as_f64().unwrap();
    let blocks = sum("used_count") - sum("listed_count") + mapped["chunks"].as_f64().unwrap();
    for (found, own) in [(bytes, program.own("bytes")), (blocks, program.own("blocks"))] {
        assert!((found - own).abs() < 0.01 * own, "{case}: {found} against {own}");
    }
    assert_eq!((sum("unread"), sum("unaccounted")), (0.0, 0.0), "{case}");
    (program, report)
}

#[test]
fn a_main_arena_that_cannot_grow_by_the_break_is_found() {
    let (_, report) = main_arena("wall");
    let system = report["heap"]["arenas"][0]["system"].as_f64().unwrap();
    assert_eq!(report["heap"]["arenas"][0]["top_is_mapped"], true, "malloc_trim leaves it");
    assert!(group(&report, "glibc_heap") >= system, "{}", report["groups"]);
    assert!(group(&report, "anonymous") < 1e6, "{}", report["groups"]);
}

#[test]
fn a_main_arena_whose_break_grows_again_is_found() {
    let (_, report) = main_arena("again");
    assert!(report["heap"]["arenas"][0]["heaps"].as_f64().unwrap() > 2.0);
    assert_eq!(report["heap"]["arenas"][0]["top_is_mapped"], false);
}

#[test]
fn pieces_of_the_main_arena_are_told_from_what_lies_between_them() {
    let (program, report) = main_arena("apart");
    let system = report["heap"]["arenas"][0]["system"].as_f64().unwrap();
    let more = group(&report, "glibc_heap") - system;
    assert!((0.0..256e3).contains(&more), "{more}");
    let others = group(&report, "anonymous") + group(&report, "guard");
    let more = others - program.own("other");
    assert!((0.0..256e3).contains(&more), "{more}");
}

#[test]
fn others_may_move_the_break_too() {
    let (program, report) = main_arena("foreign");
    let foreign = report["heap"]["arenas"][0]["foreign"].as_f64().unwrap();
    assert!((foreign - program.own("other")).abs() < 64e3, "{foreign}");
    let notes = report["notes"].to_string();
    assert!(notes.contains("120 MiB between the pieces of glibc's main arena"), "{notes}");
}

#[test]
fn a_second_copy_of_the_c_library_is_counted() {
    let (_, report) = main_arena("copy");
    let notes = report["notes"].to_string();
    assert!(notes.contains("2 copies of the C library"), "{notes}");
    let copies = report["heap"]["arenas"].as_array().unwrap();
    let is_large = |arena: &&Value| arena["used_bytes"].as_f64().unwrap() > 20e6;
    assert_eq!(copies.iter().filter(is_large).count(), 2, "each has its own");
}
