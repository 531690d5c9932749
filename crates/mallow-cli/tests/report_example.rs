// SPDX-License-Identifier: MIT
//! The example that everybody starts with, recorded and reported: ten Python threads that read a
//! large file. Its task tree, its totals, and its dominant size come out.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::python::{KNOWN, interpreters};
use crate::common::{json, run};
use serde_json::Value;

/// What `io` reads at once (8 KiB) and a bytes object's head.
const DOMINANT: u64 = 8225;
const READERS: usize = 10;
/// Two threads that start five readers each, and the main thread.
const OTHERS: usize = 3;

/// The interpreter itself rather than a wrapper that searches for it; `None` without one.
fn python() -> Option<PathBuf> {
    let arguments = ["-c", "import sys; print(sys.executable)"];
    let Ok(output) = Command::new("python3").args(arguments).output() else {
        eprintln!("skipped: python3 is not installed, and the example is a Python program");
        return None;
    };
    Some(PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()))
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kallsyms_threads.py")
}

fn calls(value: &Value, function: &str) -> u64 {
    let functions = value["functions"].as_array().unwrap();
    let found = functions.iter().find(|row| row["name"] == function);
    found.map_or(0, |row| row["calls"].as_u64().unwrap())
}

/// Calls of malloc, realloc and calloc as glibc's own counting library sees them.
fn counted_by_glibc(python: &Path) -> Option<[u64; 3]> {
    let library =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/lib64"]
            .map(|folder| format!("{folder}/libmemusage.so"))
            .into_iter()
            .find(|path| Path::new(path).exists());
    let Some(library) = library else {
        eprintln!("skipped: libmemusage.so is not installed, so nothing else counts the calls");
        return None;
    };
    let output = Command::new(python).arg(example()).env("LD_PRELOAD", library).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(["malloc|", "realloc|", "calloc|"].map(|name| {
        let line = text.lines().find(|line| line.contains(name)).unwrap();
        let after = line.split(name).nth(1).unwrap();
        // The name is followed by the end of its colour.
        let after = after.split_once('m').map_or(after, |(_, rest)| rest);
        after.split_whitespace().next().unwrap().parse().unwrap()
    }))
}

#[test]
fn ten_readers_their_calls_and_their_size() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.mlwt");
    let trace = trace.to_str().unwrap();
    let example = example();
    let command = [python.to_str().unwrap(), example.to_str().unwrap()];
    let recorded = run(&[&["record", "-o", trace, "--"][..], &command[..]].concat());
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    let report = json(&run(&["report", trace, "--json"]));

    // The tree: one process, and its threads.
    let processes = report["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 1, "{:?}", processes.iter().map(|p| &p["command"]));
    let threads = processes[0]["threads"].as_array().unwrap();
    assert_eq!(threads.len(), OTHERS + READERS);
    let most_frequent = |thread: &Value| thread["sizes"]["frequent"][0].clone();
    let readers: Vec<&Value> =
        threads[1..].iter().filter(|thread| most_frequent(thread)["size"] == DOMINANT).collect();
    assert_eq!(readers.len(), READERS);

    // All readers do the same, and nearly everything.
    let per_reader = calls(readers[0], "malloc");
    for reader in &readers {
        assert!(calls(reader, "malloc").abs_diff(per_reader) <= per_reader / 50);
        assert!(most_frequent(reader)["share"].as_f64().unwrap() > 0.4, "{reader}");
    }
    let (mallocs, reallocs) = (calls(&report, "malloc"), calls(&report, "realloc"));
    let of_readers: u64 = readers.iter().map(|reader| calls(reader, "malloc")).sum();
    assert!(of_readers * 4 > mallocs * 3, "{of_readers} of {mallocs}");
    // Half of the reads are of text that is handed on in a shrunk object.
    assert!((3..7).contains(&(reallocs * 10 / mallocs)), "{reallocs} to {mallocs}");

    // The dominant size, about 45 %.
    let dominant = &report["sizes"]["frequent"][0];
    assert_eq!(dominant["size"], DOMINANT);
    let share = dominant["share"].as_f64().unwrap();
    assert!((0.38..0.52).contains(&share), "{share}");
    let in_readers: u64 =
        readers.iter().map(|reader| most_frequent(reader)["calls"].as_u64().unwrap()).sum();
    assert!(in_readers * 10 > dominant["calls"].as_u64().unwrap() * 8);

    if let Some([malloc, realloc, calloc]) = counted_by_glibc(&python) {
        let near = |found: u64, known: u64| found.abs_diff(known) <= 20 + known / 200;
        assert!(near(mallocs, malloc), "{mallocs} mallocs, glibc counts {malloc}");
        assert!(near(reallocs, realloc), "{reallocs} reallocs, glibc counts {realloc}");
        let callocs = calls(&report, "calloc");
        assert!(near(callocs, calloc), "{callocs} callocs, glibc counts {calloc}");
    }
}

/// The stack of most blocks of that size alone: whose they are, and in which line.
#[test]
fn the_line_that_reads_is_named() {
    let known = |(version, _): &(String, PathBuf)| KNOWN.contains(&version.as_str());
    let Some((_, python)) = interpreters().into_iter().find(known) else {
        eprintln!("skipped: no Python of {KNOWN:?}");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let [text, trace] = ["text", "trace.mlwt"].map(|name| folder.path().join(name));
    // As long as it takes to be read once.
    std::fs::write(&text, "0123456789 abcdefghij\n".repeat(60_000)).unwrap();
    let trace = trace.to_str().unwrap();
    let record = ["record", "-q", "--sample", "all", "-o", trace, "--"];
    let example = example();
    let command = [&python, &example, &text].map(|word| word.to_str().unwrap());
    let recorded = run(&[&record[..], &command].concat());
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    let report = json(&run(&["report", trace, "--json", "-n", "10000", "--depth", "64"]));

    let blocks = |stack: &Value| stack["allocated"]["blocks"].as_u64().unwrap();
    let is_telling = |stack: &&Value| stack["allocated"]["bytes"] == DOMINANT * blocks(stack);
    let stacks = report["stacks"].as_array().unwrap().iter().filter(is_telling);
    let stack = stacks.max_by_key(|stack| blocks(stack)).unwrap();
    let frames = stack["frames"].as_array().unwrap();
    let is_ours = |frame: &&Value| {
        frame["file"].as_str().is_some_and(|file| Path::new(file).ends_with("kallsyms_threads.py"))
    };
    let frame = frames.iter().find(is_ours).unwrap_or_else(|| panic!("{frames:#?}"));
    let source = std::fs::read_to_string(&example).unwrap();
    let reads = source.lines().position(|line| line.trim() == "for _line in file:").unwrap();
    assert_eq!(frame["function"], "read_lines", "{frames:#?}");
    assert_eq!(frame["line"], reads + 1, "{frames:#?}");
}
