// SPDX-License-Identifier: MIT
//! Names in `mallow report`: of C++ and Rust functions, inlined ones too, with lines, from files of
//! the recorded build and no other, and of run-time compiled code.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::recording::record_to;
use crate::common::{build_id, compile_file, hexadecimal, json, mallow, objcopy, ran, run};
use mallow_trace::*;

/// Prints where `leaf` returns to: into `fill`, which is inlined into `main`.
const PROGRAM: &str = r#"#include <cstdio>
extern "C" __attribute__((noinline)) void leaf(void) {
  std::printf("%p\n", __builtin_return_address(0));
}
namespace store {
template <class T> struct Reader {
  __attribute__((always_inline)) inline void fill(T) {
    leaf();
    asm volatile("");
  }
};
}
int main() {
  store::Reader<int> reader;
  reader.fill(7);
  return 0;
}
"#;

/// A trace with one allocation, from this place of this module.
fn write_trace(path: &Path, module: Module, address: u64) {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    let process = Process { id: 1, pid: 77, ..Process::default() };
    let stack =
        Stack { id: 1, frames: vec![Frame { module: module.id, address }], ..Stack::default() };
    let call = Call { op: Op::Malloc, size: 10, address: 16, stack: 1, ..Call::default() };
    let events = [
        (0, Event::Process(Box::new(process))),
        (1, Event::Thread(Thread { process: 1, tid: 77, name: "main".into() })),
        (0, Event::Module(Box::new(module))),
        (0, Event::Stack(stack)),
        (1, Event::Call(call)),
    ];
    for (thread, event) in events {
        writer.write(&Record { time: 1, thread, event }).unwrap();
    }
    std::fs::write(path, writer.finish().unwrap()).unwrap();
}

struct Built {
    folder: tempfile::TempDir,
    program: PathBuf,
    trace: PathBuf,
}

impl Built {
    /// `None`, visibly, without a C++ compiler.
    fn new() -> Option<Built> {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("program.cpp");
        let flags = ["-g", "-O2", "-no-pie", "-Wl,--build-id=sha1"];
        let program = compile_file("g++", &source, PROGRAM, &flags)?;
        let printed = Command::new(&program).output().unwrap().stdout;
        let printed = String::from_utf8(printed).unwrap();
        let address = u64::from_str_radix(printed.trim().trim_start_matches("0x"), 16).unwrap();
        let trace = folder.path().join("trace.mlwt");
        let module = Module {
            id: 1,
            path: program.display().to_string(),
            build_id: build_id(&program),
            ..Module::default()
        };
        write_trace(&trace, module, address);
        Some(Built { folder, program, trace })
    }

    fn report(&self, more: &[&str]) -> serde_json::Value {
        let trace = self.trace.to_str().unwrap();
        json(&run(&[&["report", trace, "--json"], more].concat()))
    }

    fn is_named(&self, report: &serde_json::Value) {
        let frames = report["stacks"][0]["frames"].as_array().unwrap();
        assert_eq!(frames.len(), 2, "{frames:?}");
        assert_eq!(frames[0]["function"], "store::Reader<int>::fill(int)");
        assert_eq!((&frames[0]["line"], &frames[0]["inlined"]), (&8.into(), &true.into()));
        assert!(frames[0]["file"].as_str().unwrap().ends_with("program.cpp"));
        assert_eq!((&frames[1]["function"], &frames[1]["line"]), (&"main".into(), &15.into()));
        assert_eq!(frames[1]["inlined"], serde_json::Value::Null);
        assert!(!report["notes"].to_string().contains("names"));
    }
}

#[test]
fn inlined_functions_are_frames_with_lines() {
    let Some(built) = Built::new() else { return };
    built.is_named(&built.report(&[]));
    let text = run(&["report", built.trace.to_str().unwrap()]).stdout;
    assert!(text.contains("program.cpp:8 (inlined)\n    main at "), "{text}");
}

#[test]
fn names_come_from_the_file_that_a_stripped_one_names() {
    let Some(built) = Built::new() else { return };
    let program = built.program.to_str().unwrap();
    let beside = built.folder.path().join("names");
    let link = format!("--add-gnu-debuglink={}", beside.display());
    objcopy(&["--only-keep-debug", program, beside.to_str().unwrap()]);
    objcopy(&["--strip-all", &link, program]);
    built.is_named(&built.report(&[]));
    std::fs::create_dir(built.folder.path().join(".debug")).unwrap();
    std::fs::rename(&beside, built.folder.path().join(".debug/names")).unwrap();
    built.is_named(&built.report(&[]));
    // Of another build.
    std::fs::copy("/bin/sh", built.folder.path().join(".debug/names")).unwrap();
    let frames = &built.report(&[])["stacks"][0]["frames"];
    assert!(frames[0]["function"].as_str().unwrap().starts_with("program+0x"), "{frames}");
}

#[test]
fn names_come_from_another_folder_and_only_from_the_same_build() {
    let Some(built) = Built::new() else { return };
    let elsewhere = built.folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let debug = elsewhere.join("program.debug");
    let program = built.program.to_str().unwrap();
    objcopy(&["--only-keep-debug", program, debug.to_str().unwrap()]);
    objcopy(&["--strip-all", program]);
    let stripped = built.report(&[]);
    let function = stripped["stacks"][0]["frames"][0]["function"].as_str().unwrap();
    assert!(function.starts_with("program+0x"), "{function}");
    let folder = elsewhere.to_str().unwrap();
    built.is_named(&built.report(&["--symbols", folder]));

    // By build id, as distributions and debuginfod's cache keep them.
    let id = hexadecimal(&build_id(&built.program));
    let place = elsewhere.join(".build-id").join(&id[..2]);
    std::fs::create_dir_all(&place).unwrap();
    std::fs::rename(&debug, place.join(format!("{}.debug", &id[2..]))).unwrap();
    built.is_named(&built.report(&["--symbols", folder]));

    // And as debuginfod's clients keep what they have fetched.
    let cache = elsewhere.join("cache");
    std::fs::create_dir_all(cache.join(&id)).unwrap();
    std::fs::rename(place.join(format!("{}.debug", &id[2..])), cache.join(&id).join("debuginfo"))
        .unwrap();
    let words = ["report", built.trace.to_str().unwrap(), "--json", "--frames", "inlined"];
    let output = mallow(&words).env("DEBUGINFOD_CACHE_PATH", &cache).output().unwrap();
    built.is_named(&json(&ran(output)));
    std::fs::rename(cache.join(&id).join("debuginfo"), elsewhere.join("program.debug")).unwrap();

    // Another build in its place is not believed.
    std::fs::copy("/bin/sh", &built.program).unwrap();
    let changed = built.report(&[]);
    assert!(changed["notes"].to_string().contains("is another build now than"), "{changed}");
    built.is_named(&built.report(&["--symbols", folder]));
}

#[test]
fn run_time_compiled_code_is_named_by_a_perf_map() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.mlwt");
    let jit = Module { id: 1, kind: ModuleKind::Jit, process: 1, ..Module::default() };
    write_trace(&trace, jit, 0x2011);
    let map = "1000 100 JS:*other /a.js:1:1\n2000 20 JS:~parse file:///srv/a.js:12:3\n";
    std::fs::write(folder.path().join("perf-77.map"), map).unwrap();
    let trace = trace.to_str().unwrap();
    let report =
        json(&run(&["report", trace, "--json", "--symbols", folder.path().to_str().unwrap()]));
    let frame = &report["stacks"][0]["frames"][0];
    assert_eq!(frame["function"], "parse");
    assert_eq!((&frame["file"], &frame["line"]), (&"/srv/a.js".into(), &12.into()));
}

/// The runtime keeps a pool for itself, and the vector grows through three functions of std.
const VECTOR: &str = "#include <vector>\n\
    __attribute__((noinline)) void fill(std::vector<long> &list) {\n\
      for (long i = 0; i < 100000; i++) list.push_back(i);\n\
    }\n\
    int main() { std::vector<long> list; fill(list); return list.size() != 100000; }\n";

#[test]
fn stacks_begin_with_the_users_function_and_the_runtimes_pool_is_no_leak() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-x", "c++", "-g", "-O1", "-Wl,--no-as-needed", "-lstdc++"];
    let Some(program) = crate::common::compile("c++", folder.path(), VECTOR, &flags) else {
        return;
    };
    let trace = folder.path().join("t.trace");
    record_to(&trace, &["--sample", "all"], &[program.to_str().unwrap()]);
    let of = |frames: &str| {
        json(&run(&["report", trace.to_str().unwrap(), "--json", "--frames", frames]))
    };
    let first = |report: &serde_json::Value| -> Vec<String> {
        let frames = report["stacks"][0]["frames"].as_array().unwrap();
        frames.iter().map(|frame| frame["function"].as_str().unwrap().to_owned()).collect()
    };
    let (user, all) = (of("user"), of("all"));
    assert!(first(&user)[0].starts_with("fill(std::vector"), "{:?}", first(&user));
    assert_eq!(first(&user)[1], "main");
    assert!(first(&all)[0].contains("operator new") || first(&all)[0].starts_with("std::"));
    assert!(first(&all).len() > first(&user).len());
    assert_eq!(user["totals"]["leaked"]["blocks"], 0, "{}", user["totals"]);
    assert!(user["notes"].to_string().contains("own pool for exceptions"), "{}", user["notes"]);
    assert!(!user["notes"].to_string().contains("callers"), "{}", user["notes"]);
}

/// Without frame pointers only the caller is seen, which the report says with the remedy.
#[test]
fn callers_that_are_missing_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\n\
        __attribute__((noinline)) void *grow(void) { void *volatile p = malloc(9); return p; }\n\
        int main(void) { for (int i = 0; i < 100; i++) free(grow()); return 0; }\n";
    let flags = ["-O2", "-fomit-frame-pointer", "-fno-builtin"];
    let program = crate::common::compile("cc", folder.path(), source, &flags).unwrap();
    let trace = folder.path().join("t.trace");
    let program = program.to_str().unwrap();
    let notes = |options: &[&str]| {
        record_to(&trace, options, &[program]);
        json(&run(&["report", trace.to_str().unwrap(), "--json"]))["notes"].to_string()
    };
    let full = notes(&["--stacks", "full", "--sample", "all"]);
    assert!(!full.contains("allers"), "{full}");
    let fp = notes(&["--stacks", "fp"]);
    assert!(fp.contains("Callers are missing in") && fp.contains("--stacks full"), "{fp}");
    let none = notes(&["--stacks", "none"]);
    assert!(!none.contains("allers"), "{none}");
}

#[test]
fn line_tables_alone_give_the_lines() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("lines.rs");
    let text = "#[inline(never)]\nfn hold(n: usize) -> Vec<u8> { std::hint::black_box(vec![1; n]) }\n\
        fn main() {\n    std::mem::forget(hold(1 << 20));\n}\n";
    std::fs::write(&source, text).unwrap();
    let program = folder.path().join("lines");
    let mut rustc = Command::new("rustc");
    rustc.args(["-C", "debuginfo=line-tables-only", "-o"]).arg(&program).arg(&source);
    assert!(rustc.status().unwrap().success());
    let trace = folder.path().join("trace");
    record_to(&trace, &[], &[program.to_str().unwrap()]);
    let report = run(&["report", trace.to_str().unwrap()]).stdout;
    assert!(report.contains("lines::hold at ") && report.contains("lines.rs:2"), "{report}");
    assert!(report.contains("lines::main at ") && report.contains("lines.rs:4"), "{report}");
}
