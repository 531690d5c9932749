// SPDX-License-Identifier: MIT
//! Stacks of Python: functions and lines of an interpreter that was not prepared for it.

use std::path::Path;

use crate::common::python::{KNOWN, interpreters};
use crate::common::{compile, json, run};

/// Large enough for malloc, from a line, a generator, a class and a callback of C.
const SCRIPT: &str = "\
import threading

def rd(n):
    return bytearray(n)

def gen(n):
    yield bytearray(n)

class Box:
    def fill(self, n):
        self.data = bytearray(n)

def by_key(n):
    return len(bytearray(n))

def main():
    keep = [rd(3000001) for _ in range(10)]
    keep.append(next(gen(3000002)))
    box = Box()
    box.fill(3000003)
    sorted([3000004], key=by_key)
    thread = threading.Thread(target=lambda: keep.append(rd(3000005)))
    thread.start()
    thread.join()
    return keep

main()
";

/// Functions and lines of the stacks of a script's own allocations, innermost first.
fn stacks(python: &Path, folder: &Path, options: &[&str]) -> (Vec<String>, serde_json::Value) {
    stacks_of(&[python.to_str().unwrap()], folder, options)
}

/// The same with options of the interpreter behind its path.
fn stacks_of(python: &[&str], folder: &Path, options: &[&str]) -> (Vec<String>, serde_json::Value) {
    let script = folder.join("script.py");
    std::fs::write(&script, SCRIPT).unwrap();
    let trace = folder.join("t.trace");
    let [script, trace] = [&script, &trace].map(|path| path.to_str().unwrap());
    let mut words = vec!["record", "-o", trace];
    words.extend(options);
    // Isolated and without site, so that little else is recorded.
    words.push("--");
    words.extend(python);
    words.extend(["-IS", script]);
    let recorded = run(&words);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    let report = json(&run(&["report", trace, "--json", "-n", "10000"]));
    let line = |frame: &serde_json::Value| {
        let line = frame["line"].as_u64().unwrap_or(0);
        let file = frame["file"].as_str().unwrap_or_default();
        let is_ours = file.ends_with("script.py");
        is_ours.then(|| format!("{}:{line}", frame["function"].as_str().unwrap()))
    };
    let stacks = report["stacks"].as_array().unwrap().iter().map(|stack| {
        let frames = stack["frames"].as_array().unwrap();
        frames.iter().filter_map(line).collect::<Vec<_>>().join(" ")
    });
    let stacks = stacks.filter(|stack| !stack.is_empty()).collect();
    (stacks, report)
}

#[test]
fn functions_and_lines_of_every_known_version() {
    let found = interpreters();
    let usable: Vec<_> = found.iter().filter(|(name, _)| KNOWN.contains(&name.as_str())).collect();
    if usable.is_empty() {
        eprintln!("skipped: no Python of {KNOWN:?}");
    }
    for (version, python) in usable {
        for options in [&["--sample", "all"][..], &["--stacks", "fp"]] {
            let folder = tempfile::tempdir().unwrap();
            let (stacks, report) = stacks(python, folder.path(), options);
            // Comprehensions are functions of their own until 3.12.
            let comprehension = if version == "3.11" { "main.<locals>.<listcomp>:17 " } else { "" };
            let expected = [
                format!("rd:4 {comprehension}main:17 <module>:27"),
                "gen:7 main:18 <module>:27".into(),
                "Box.fill:11 main:20 <module>:27".into(),
                "by_key:14 main:21 <module>:27".into(),
                "rd:4 main.<locals>.<lambda>:22".into(),
            ];
            for stack in &expected {
                assert!(stacks.contains(stack), "{version} {options:?}: {stack} in {stacks:#?}");
            }
            assert!(!report["notes"].to_string().contains("Python"), "{}", report["notes"]);
        }
    }
}

#[test]
fn python_stands_among_the_frames_of_c() {
    let mut found = interpreters();
    found.retain(|(version, _)| KNOWN.contains(&version.as_str()));
    if found.is_empty() {
        eprintln!("skipped: no Python of {KNOWN:?}");
    }
    for (_, python) in found {
        check_frames_of_c(&[python.to_str().unwrap()]);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn python_with_trampolines_stands_among_the_frames_of_c() {
    let have_trampolines = ["3.12", "3.13", "3.14", "3.15"];
    let mut found = interpreters();
    found.retain(|(name, _)| have_trampolines.contains(&name.as_str()));
    if found.is_empty() {
        eprintln!("skipped: no python3.12 to 3.15");
    }
    for (_, python) in found {
        check_frames_of_c(&[python.to_str().unwrap(), "-X", "perf"]);
    }
}

/// Between `by_key` and `main` runs the sorting of C, and outermost is the program's begin.
fn check_frames_of_c(python: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let (_, report) = stacks_of(python, folder.path(), &["--sample", "all"]);
    let names = |stack: &serde_json::Value| -> Vec<String> {
        let frames = stack["frames"].as_array().unwrap();
        frames.iter().map(|frame| frame["function"].as_str().unwrap().to_owned()).collect()
    };
    let all: Vec<Vec<String>> = report["stacks"].as_array().unwrap().iter().map(names).collect();
    let stack = all
        .iter()
        .find(|names| names.contains(&"by_key".to_owned()))
        .unwrap_or_else(|| panic!("{all:#?}"));
    let at = |name: &str| stack.iter().position(|found| found == name).unwrap();
    assert!(at("by_key") + 1 < at("main"), "{stack:#?}");
    assert!(at("<module>") < at("Py_BytesMain"), "{stack:#?}");
    assert!(!stack.iter().any(|name| name == "_PyEval_EvalFrameDefault"), "{stack:#?}");
}

#[test]
fn unknown_versions_are_said() {
    let found = interpreters();
    let other = found.iter().find(|(name, _)| !KNOWN.contains(&name.as_str()));
    let Some((_, python)) = other else {
        eprintln!("skipped: no other Python");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (stacks, report) = stacks(python, folder.path(), &["--sample", "all"]);
    assert_eq!(stacks, [""; 0]);
    let notes = report["notes"].to_string();
    assert!(notes.contains("Python 3.11 to 3.15"), "{notes}");
}

const OF_3_14: &str = include_str!("programs/python/3.14.S");

/// What interpreters of these versions kept of their frames, one of them without a global lock.
const DUMPS: [(&str, &str); 5] = [
    ("3.12", include_str!("programs/python/3.12.S")),
    ("3.13", include_str!("programs/python/3.13.S")),
    ("3.13t", include_str!("programs/python/3.13t.S")),
    ("3.14", OF_3_14),
    ("3.15", include_str!("programs/python/3.15.S")),
];

const FLAGS: [&str; 2] = ["-O1", "-fno-optimize-sibling-calls"];

/// Functions and lines of the one block that a program allocates whose interpreter has this dump.
fn frames_of_dump(dump: &str, options: &[&str], flags: &[&str]) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let [data, trace] = ["data.S", "t.trace"].map(|name| folder.path().join(name));
    std::fs::write(&data, dump).unwrap();
    let [data, trace] = [&data, &trace].map(|path| path.to_str().unwrap());
    let source = include_str!("programs/python/interpreter.c");
    let flags = [&FLAGS[..], &["-fno-omit-frame-pointer", "-rdynamic", data], flags].concat();
    let program = compile("cc", folder.path(), source, &flags)?;
    let command = [&["record", "-o", trace], options, &["--", program.to_str().unwrap()]].concat();
    let recorded = run(&command);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    let report = json(&run(&["report", trace, "--json", "-n", "10000"]));
    let stacks = report["stacks"].as_array().unwrap().iter();
    let stack = stacks
        .map(|stack| stack["frames"].as_array().unwrap())
        .find(|frames| frames.iter().any(|frame| frame["function"] == "allocate"));
    let name = |frame: &serde_json::Value| {
        let function = frame["function"].as_str().unwrap();
        let is_python = frame["file"].as_str() == Some("/srv/app.py");
        if is_python { format!("{function}:{}", frame["line"]) } else { function.into() }
    };
    Some(stack.expect("the block has a stack").iter().map(name).collect())
}

#[test]
fn frames_of_saved_interpreters() {
    let expected =
        ["allocate", "naïve_λ:83", "Box.by_key:90", "sort", "main:95", "<module>:100", "main"];
    // As one that the frame has only borrowed.
    let marked = OF_3_14.replace("code_1, entry_2", "code_1 + 1, entry_2");
    assert_ne!(marked, OF_3_14);
    for (version, dump) in DUMPS.into_iter().chain([("3.14, marked", marked.as_str())]) {
        for options in [&["--sample", "all"][..], &["--stacks", "fp"]] {
            let Some(frames) = frames_of_dump(dump, options, &[]) else { return };
            let found = &frames[..expected.len().min(frames.len())];
            assert_eq!(found, expected, "{version} {options:?}: {frames:?}");
        }
    }
}

/// What a library does that has no frame pointers is its own, though the interpreter's function is then hidden.
#[test]
fn a_library_without_frame_pointers_is_not_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\nvoid *allocate(void) { return malloc(3000001); }\n";
    let library = [&FLAGS[..], &["-fomit-frame-pointer", "-fPIC", "-shared"]].concat();
    let Some(library) = compile("cc", folder.path(), source, &library) else { return };
    let path = format!("-Wl,-rpath,{}", folder.path().display());
    let flags = ["-DALLOCATE_ELSEWHERE", "-Wl,--no-as-needed", library.to_str().unwrap(), &path];
    for options in [&["--sample", "all"][..], &["--stacks", "fp"]] {
        let Some(frames) = frames_of_dump(OF_3_14, options, &flags) else { return };
        let expected = ["allocate", "naïve_λ:83", "Box.by_key:90", "sort", "main:95"];
        assert_eq!(frames[..expected.len()], expected, "{options:?}: {frames:?}");
    }
}

#[test]
fn frames_that_go_round_in_a_circle_end() {
    let known = "0xb51bb1, frame_3, 0xfffffffffffffff9";
    assert!(OF_3_14.contains(known));
    let circle = OF_3_14.replace(known, "0xb51bb1, entry_2, 0xfffffffffffffff9");
    let Some(frames) = frames_of_dump(&circle, &["--sample", "all"], &[]) else { return };
    assert!(frames.contains(&"naïve_λ:83".into()), "{frames:?}");
}

/// A version to come, one that is not done, another than the program says, and a place outside of what
/// it is said to be in.
#[test]
fn descriptions_that_are_not_known_are_not_followed() {
    let dump = OF_3_14;
    let changes = [
        ("0x30e0af0", "0x3100af0"),
        ("0x30e0af0", "0x30e00b1"),
        (
            "_PyRuntime:\n    .quad 0x7970677562656478, 0x30e0af0",
            "_PyRuntime:\n    .quad 0x7970677562656478, 0x30e09f0",
        ),
        ("0x8, 0x0, 0x38, 0x50", "0x8, 0x0, 0x58, 0x50"),
    ];
    for (known, other) in changes {
        assert!(dump.contains(known), "{known}");
        let Some(frames) = frames_of_dump(&dump.replace(known, other), &["--sample", "all"], &[])
        else {
            return;
        };
        assert!(!frames.iter().any(|name| name.contains("by_key")), "{other}: {frames:?}");
    }
}
