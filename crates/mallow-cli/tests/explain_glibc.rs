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
