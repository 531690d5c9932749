// SPDX-License-Identifier: MIT
//! `mallow explain` on heaps of Mallow's builds whose memory the kernel splits and joins: what is resident of a
//! block is the heap's, whatever mapping it lies in.

use std::path::{Path, PathBuf};

use crate::common::program::Program;
use crate::common::{compile, json, mallow, run};
use serde_json::Value;

const MIB: f64 = 1048576.0;

fn built(folder: &Path) -> PathBuf {
    let source = include_str!("programs/very_large.c");
    compile("cc", folder, source, &["-O1", "-fno-builtin", "-pthread"]).unwrap()
}

fn started(program: &Path, allocator: &str, case: &str, settings: &str) -> Program {
    let arguments = ["run", "-a", allocator, "--", program.to_str().unwrap(), case];
    Program::at_rest(mallow(&arguments).env("MALLOW_CONF", settings))
}

/// Of all mappings of a kind, MiB.
fn of_kind(report: &Value, kind: &str, figure: &str) -> f64 {
    let groups = report["groups"].as_array().unwrap();
    let group = groups.iter().find(|group| group["kind"] == kind);
    group.map_or(0.0, |group| group[figure].as_f64().unwrap() / MIB)
}

/// Of 8 threads with 3 blocks of 20 MiB and one of 3 MiB each, the first MiB is touched; the program has touched
/// 8 MiB of its own, which the kernel joins with what lies beside it.
#[test]
fn very_large_blocks_are_the_heaps() {
    let folder = tempfile::tempdir().unwrap();
    let program = built(folder.path());
    for allocator in ["mallow", "mallow-secure", "mallow-debug"] {
        let report = started(&program, allocator, "threads", "").explain();
        let rss = |kind| of_kind(&report, kind, "rss");
        let heap = rss("mallow_huge") + rss("mallow_region") + rss("mallow_metadata");
        assert!((32.0..36.0).contains(&heap), "{allocator}: {heap}: {}", report["groups"]);
        let own = rss("anonymous");
        assert!((8.0..9.0).contains(&own), "{allocator}: {own}: {}", report["groups"]);
        let size =
            of_kind(&report, "mallow_huge", "size") + of_kind(&report, "mallow_region", "size");
        assert!(size >= 504.0, "{allocator}: {size}: {}", report["groups"]);
    }
}

/// What the heap counts as metadata is what is mapped as such, but for guards and a large object of the debug
/// build that nothing leads to.
#[test]
fn metadata_is_what_is_mapped_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let program = built(folder.path());
    for allocator in ["mallow", "mallow-secure", "mallow-debug"] {
        let report = started(&program, allocator, "threads", "").explain();
        let counted = report["heap"]["metadata"].as_f64().unwrap() / MIB;
        let mapped = of_kind(&report, "mallow_metadata", "size");
        // Nothing leads to the call stacks of the debug build and their table.
        let stacks = if allocator == "mallow-debug" { 0.5 } else { 0.0 };
        assert!(
            mapped <= counted && mapped > 0.85 * counted - stacks,
            "{allocator}: {mapped} of {counted} MiB: {}",
            report["groups"]
        );
    }
}

/// Each block has a mapping of its own, which begins and ends with guards.
#[test]
fn thousands_of_blocks_have_mappings_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let program = started(&built(folder.path()), "mallow-secure", "many", "security:4");
    let report = program.explain();
    let rss = |kind| of_kind(&report, kind, "rss");
    assert!(rss("anonymous") < 1.0, "{}", report["groups"]);
    assert!(rss("mallow_huge") > 10.0, "{}", report["groups"]);
    assert_eq!(report["notes"], Value::Array(vec![]), "nothing was left out");
}

/// Guards are marks in the page tables as those of pages in swap space are. The heap is read again and again while
/// its threads go on.
#[test]
fn guards_are_not_in_swap_space() {
    let folder = tempfile::tempdir().unwrap();
    let program = started(&built(folder.path()), "mallow-secure", "busy", "security:4");
    let ran = run(&["explain", &program.pid(), "--json"]);
    // 6: the heap was never at rest, and the report says so.
    assert!(matches!(ran.code, Some(0 | 6)), "{}", ran.stderr);
    let report = json(&ran);
    let notes = report["notes"].to_string();
    assert!(!notes.contains("Parts of the heap are swapped out"), "{notes}");
}
