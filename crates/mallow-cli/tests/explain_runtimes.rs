// SPDX-License-Identifier: MIT
//! `mallow explain` on the runtimes of languages: what they keep beside malloc's heap, against what
//! they say themselves.

use std::path::Path;
use std::process::Command;

use crate::common::program::Program;
use crate::common::python::interpreters;
use crate::common::{json, refuses, run};
use serde_json::Value;

/// `None`, visibly, where the program is not installed.
fn at_rest(command: &mut Command) -> Option<Program> {
    if is_missing(command) {
        return None;
    }
    Some(Program::at_rest(command))
}

fn is_missing(command: &Command) -> bool {
    let program = command.get_program().to_owned();
    let is_missing = Command::new(&program).arg("--version").output().is_err();
    if is_missing {
        eprintln!("skipped: {} is not installed", program.to_string_lossy());
    }
    is_missing
}

fn kept<'a>(report: &'a Value, what: &str) -> Option<&'a Value> {
    let all = report["runtime_spaces"].as_array().unwrap();
    all.iter().find(|kept| kept["what"].as_str().unwrap().contains(what))
}

fn group_size(report: &Value, kind: &str) -> f64 {
    let groups = report["groups"].as_array().unwrap();
    let group = groups.iter().find(|group| group["kind"] == kind);
    group.map_or(0.0, |group| group["size"].as_f64().unwrap())
}

/// Resident bytes of the mappings with a label.
fn resident(report: &Value, label: &str) -> f64 {
    let mappings = report["mappings"].as_array().unwrap();
    let named = mappings.iter().filter(|m| m["label"].as_str().unwrap().starts_with(label));
    named.map(|mapping| mapping["rss"].as_f64().unwrap()).sum()
}

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 0.03 * expected, "{found} against {expected}");
}

const PYTHON: &str = "
import json, os, re, sys, tempfile, time
kept = [(n, str(n)) for n in range(200000)]
del kept[::3]
file, saved = tempfile.TemporaryFile(), os.dup(2)
os.dup2(file.fileno(), 2); sys._debugmallocstats(); os.dup2(saved, 2)
file.seek(0)
text = file.read().decode()
count = lambda name: int(re.search(name + r'\\s*=\\s*([\\d,]+)', text).group(1).replace(',', ''))
print(json.dumps({'used': count('# bytes in allocated blocks'),
                  'arenas': int(re.search(r'arenas? \\* (\\d+) bytes/arena\\s*=\\s*([\\d,]+)', text).group(2).replace(',', ''))}), flush=True)
time.sleep(1000)";

#[test]
fn arenas_of_python_are_told_by_their_pools() {
    let Some(program) = at_rest(Command::new("python3").args(["-c", PYTHON])) else { return };
    let report = program.explain();
    let arenas = kept(&report, "Python: arenas").expect("Python's arenas are found");
    near(arenas["size"].as_f64().unwrap(), program.own("arenas"));
    near(arenas["used"].as_f64().unwrap(), program.own("used"));
}

/// From 3.13 on Python has mimalloc inside, which serves all of its objects where it is chosen.
#[test]
fn mimalloc_of_python_is_a_heap_beside_malloc() {
    const KEPT: &str = "
import sys, time
kept = [bytes(1000) for _ in range(30000)]
print(sum(map(sys.getsizeof, kept)), flush=True)
time.sleep(1000)";
    let found = interpreters().into_iter().find(|(version, _)| version == "3.13");
    let Some((_, python)) = found else {
        eprintln!("skipped: no python3.13");
        return;
    };
    let mut command = Command::new(python);
    let program =
        Program::at_rest(command.env("PYTHONMALLOC", "mimalloc").args(["-S", "-c", KEPT]));
    let report = program.explain();
    assert_eq!(report["allocator"], "glibc");
    let heaps = report["other_heaps"].as_array().unwrap();
    assert_eq!(heaps.len(), 1, "{heaps:?}");
    assert_eq!(heaps[0]["allocator"], "mimalloc");
    assert_eq!(heaps[0]["owner"], "Python");
    // Blocks of 1,033 bytes lie in slots of 1,280, and the interpreter keeps a few of them too.
    let classes = heaps[0]["classes"].as_array().unwrap();
    let class = classes.iter().find(|class| class["slot_size"] == 1280).unwrap();
    near(class["used"].as_f64().unwrap(), program.own.as_f64().unwrap() / 1033.0);
    assert!(resident(&report, "Python: its own mimalloc") > program.own.as_f64().unwrap());
}

const RUBY: &str = "kept = (0...100_000).map { |n| { number: n, text: 'a text ' * 20 + n.to_s } }
GC.start; stat = GC.stat
puts '{\"pages\": %d, \"slots\": %d}' % [stat[:heap_allocated_pages], stat[:heap_live_slots]]
$stdout.flush; sleep 1000";

#[test]
fn heap_pages_of_ruby_are_told_by_their_descriptions() {
    let Some(program) = at_rest(Command::new("ruby").args(["-e", RUBY])) else { return };
    let report = program.explain();
    assert_eq!(report["runtime"], "ruby");
    let pages = kept(&report, "Ruby: heap pages").expect("Ruby's pages are found");
    let page = pages["size"].as_f64().unwrap() / program.own("pages");
    let is_one = |size: f64| (page - size).abs() < 0.03 * size;
    assert!(is_one(16384.0) || is_one(65536.0), "{page}");
    let slot = pages["used"].as_f64().unwrap() / program.own("slots");
    // Since Ruby 3.3 a text of 150 bytes lies in a slot of 320.
    assert!((39.0..330.0).contains(&slot), "{slot}");
}

const GO: &str = "package main
import (\"fmt\"; \"runtime\"; \"time\")
func main() {
    var kept, dropped [][]byte
    for n := 0; n < 20000; n++ { block := make([]byte, 2048); block[7] = 1; kept = append(kept, block) }
    for n := 0; n < 600; n++ { block := make([]byte, 100000); for i := range block { block[i] = 1 }; dropped = append(dropped, block) }
    for n := 0; n < 2000; n++ { go func() { time.Sleep(time.Hour) }() }
    time.Sleep(100 * time.Millisecond)
    println(len(dropped)); dropped = nil; runtime.GC()
    var stats runtime.MemStats
    runtime.ReadMemStats(&stats)
    fmt.Printf(\"{\\\"system\\\": %d, \\\"live\\\": %d, \\\"spans\\\": %d, \\\"stacks\\\": %d, \\\"version\\\": \\\"%s\\\"}\\n\",
        stats.HeapSys + stats.StackSys, stats.HeapAlloc, stats.HeapInuse, stats.StackInuse, runtime.Version())
    time.Sleep(time.Hour)
    fmt.Println(len(kept), kept[0][7])
}";

/// Builds the program; `None`, visibly, where there is no Go.
fn go(folder: &Path, flags: &[&str]) -> Option<Program> {
    std::fs::write(folder.join("main.go"), GO).unwrap();
    let program = folder.join("main");
    let mut build = Command::new("go");
    build.arg("build").args(flags).arg("-o").arg(&program).arg("main.go").current_dir(folder);
    build.env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod");
    match build.status() {
        Ok(status) => assert!(status.success(), "go build failed"),
        Err(error) => {
            eprintln!("skipped: go: {error}");
            return None;
        }
    }
    Some(Program::at_rest(&mut Command::new(program)))
}

#[test]
fn heap_of_go_is_no_stack() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = go(folder.path(), &[]) else { return };
    let report = program.explain();
    assert_eq!(report["runtime"], "go");
    assert_eq!(report["runtime_version"], program.own["version"]);
    assert_eq!(group_size(&report, "thread_stack"), 0.0);
    let heap = kept(&report, "Go: heap").expect("Go's heap is found");
    near(heap["size"].as_f64().unwrap(), program.own("system"));
    let resident = resident(&report, "Go: heap");
    assert!(resident > 0.97 * program.own("live"), "{resident}");
}

/// Without symbols.
#[test]
fn pages_of_go_are_told_by_its_own_tables() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = go(folder.path(), &["-ldflags=-s -w"]) else { return };
    let report = program.explain();
    let figure = |what: &str, name: &str| {
        kept(&report, what).unwrap_or_else(|| panic!("{what}"))[name].as_f64().unwrap()
    };
    near(figure("Go: objects", "size"), program.own("spans"));
    near(figure("Go: objects", "used"), program.own("live"));
    near(figure("Go: stacks", "size"), program.own("stacks"));
    let parts = ["Go: objects", "Go: stacks", "Go: memory of the collector", "Go: free pages"];
    let parts = parts.iter().filter_map(|what| kept(&report, what));
    let sum: f64 = parts.map(|part| part["size"].as_f64().unwrap()).sum();
    assert_eq!(sum, figure("Go: heap", "size"));
    let free = figure("Go: free pages", "rss");
    assert!(free > 40e6, "60 MB were dropped: {free}");
    let ids = report["findings"].as_array().unwrap().iter().map(|f| f["id"].as_str().unwrap());
    assert!(ids.collect::<Vec<_>>().contains(&"MLW2505"));
}

const NODE: &str = "const kept = [];
for (let n = 0; n < 200000; n++) kept.push({ number: n, text: 'text ' + n });
setTimeout(() => {
  gc(); gc();
  const spaces = require('v8').getHeapSpaceStatistics();
  const size = (name) => spaces.filter((s) => name.test(s.space_name))
    .reduce((sum, s) => sum + s.physical_space_size, 0);
  console.log(JSON.stringify({ old: size(/^(old|trusted)/), large: size(/^(new_)?large/) }));
  setInterval(() => kept.length, 1000000);
}, 300);";

#[test]
fn pages_of_v8_are_told_by_their_headers() {
    let mut command = Command::new("node");
    let Some(program) = at_rest(command.args(["--expose-gc", "-e", NODE])) else { return };
    let report = program.explain();
    assert_eq!(report["runtime"], "node");
    // What happened since it counted is a few pages of 256 KiB.
    for (space, own) in [("V8: old objects", "old"), ("V8: large objects", "large")] {
        let (found, own) = (resident(&report, space), program.own(own));
        assert!((found - own).abs() < 0.03 * own + 1e6, "{space}: {found} against {own}");
    }
    assert!(kept(&report, "V8: code space").is_some());
}

const JAVA: &str = "public class Rest { public static void main(String[] words) throws Exception {
    Object[] kept = new Object[200000];
    for (int n = 0; n < kept.length; n++) kept[n] = \"text \" + n;
    System.gc();
    long old = 0, classes = 0;
    for (var pool : java.lang.management.ManagementFactory.getMemoryPoolMXBeans()) {
        if (pool.getName().contains(\"Old Gen\")) old = pool.getUsage().getUsed();
        if (pool.getName().contains(\"Metaspace\")) classes = pool.getUsage().getCommitted();
    }
    System.out.println(\"{\\\"heap\\\": \" + Runtime.getRuntime().maxMemory() + \", \\\"old\\\": \" + old
        + \", \\\"classes\\\": \" + classes + \", \\\"version\\\": \\\"\" + System.getProperty(\"java.version\") + \"\\\"}\");
    Thread.sleep(1000000 + kept.length); } }";

fn java(folder: &Path, flags: &[&str]) -> Option<Program> {
    let source = folder.join("Rest.java");
    std::fs::write(&source, JAVA).unwrap();
    let mut command = Command::new("java");
    // G1 takes what -Xmx says whole; others keep a part back.
    command.args(["-XX:+UseG1GC", "-Xmx192m"]).args(flags).arg(source);
    at_rest(&mut command)
}

#[test]
fn spaces_of_java_are_told_by_its_own_table() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = java(folder.path(), &[]) else { return };
    let report = program.explain();
    assert_eq!(report["runtime"], "java");
    let heap = kept(&report, "Java: heap of objects").expect("Java's heap is found");
    assert_eq!(heap["size"].as_f64().unwrap(), program.own("heap"));
    assert!(kept(&report, "Java: compiled code").is_some());
}

#[test]
fn java_is_asked_for_its_own_count() {
    if is_missing(&Command::new("jcmd")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-XX:NativeMemoryTracking=summary"];
    let Some(program) = java(folder.path(), &flags) else { return };
    let ran = run(&["explain", &program.pid(), "--ask", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report = json(&ran);
    let spaces = report["native"].as_array().unwrap();
    let figure = |what: &str, name: &str| {
        let space = spaces.iter().find(|space| space["what"] == what);
        space.unwrap_or_else(|| panic!("{what} in {spaces:?}"))[name].as_f64().unwrap()
    };
    assert_eq!(figure("Java Heap", "reserved"), program.own("heap"));
    let parts = spaces[1..].iter().map(|space| space["committed"].as_f64().unwrap());
    assert_eq!(parts.sum::<f64>(), figure("all", "committed"));
    assert!(figure("all", "malloc") > 0.0);
    let text = run(&["explain", &program.pid(), "--ask"]).stdout;
    assert!(text.contains("Shared class space") || text.contains("Metaspace"), "{text}");
}

#[test]
fn java_that_does_not_count_says_so() {
    if is_missing(&Command::new("jcmd")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = java(folder.path(), &[]) else { return };
    let ask = |pid: &str, code, words: &[&str]| refuses(&["explain", pid, "--ask"], code, words);
    ask(&program.pid(), 4, &["-XX:NativeMemoryTracking=summary"]);
    ask(&std::process::id().to_string(), 2, &["asks a Java machine"]);
    ask("/nonexistent", 2, &["number of a process"]);
}

#[test]
fn use_of_javas_spaces_is_told_by_its_counters() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = java(folder.path(), &[]) else { return };
    let report = program.explain();
    let version = program.own["version"].as_str().unwrap();
    assert_eq!(report["runtime_version"], format!("Java {version}"));
    let figure = |what: &str, name: &str| {
        kept(&report, what).unwrap_or_else(|| panic!("{what}"))[name].as_f64().unwrap()
    };
    near(figure("Java: old", "used"), program.own("old"));
    // Classes are still loaded after the program asked.
    let (found, own) = (figure("Java: classes", "size"), program.own("classes"));
    assert!((found - own).abs() < 0.03 * own + 600e3, "{found} against {own}");
    assert!(figure("Java: classes", "used") < found);
}
