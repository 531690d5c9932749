//! What `mallow record` writes is exactly what the program did.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{compile, is_root, mallow, ran, refuses, run};
use mallow_trace::{Call, Ending, Event, Op, Process, Reader, Record, Start};

struct Trace {
    code: Option<i32>,
    stderr: String,
    records: Vec<Record>,
}

impl Trace {
    fn read(path: &Path) -> Vec<Record> {
        let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
        Reader::new(file).unwrap().merged().collect::<Result<_, _>>().unwrap()
    }

    fn calls(&self) -> impl Iterator<Item = (u32, Call)> {
        self.records.iter().filter_map(|record| match record.event {
            Event::Call(call) => Some((record.thread, call)),
            _ => None,
        })
    }

    /// Allocations of this size.
    fn count(&self, size: u64) -> usize {
        self.calls().filter(|(_, call)| call.size == size && !call.op.is_free()).count()
    }

    fn processes(&self) -> Vec<Process> {
        let process = |record: &Record| match &record.event {
            Event::Process(process) => Some((**process).clone()),
            _ => None,
        };
        self.records.iter().filter_map(process).collect()
    }

    /// Each block is freed once, by a free or a realloc, after it was given out.
    #[track_caller]
    fn check_addresses(&self) {
        let mut live = BTreeMap::new();
        let mut faults = 0;
        for (_, call) in self.calls() {
            if call.op.is_free() || call.op.is_realloc() && !call.failed {
                let gone = if call.op.is_free() { call.address } else { call.old };
                faults += usize::from(gone != 0 && live.remove(&gone).is_none());
            }
            if !call.op.is_free() && call.address != 0 {
                faults += usize::from(live.insert(call.address, call.size).is_some());
            }
        }
        assert_eq!(faults, 0, "blocks freed twice or given out twice");
    }

    /// Each process but the first has a parent before it, which has the same pid for an exec alone.
    #[track_caller]
    fn check_stories(&self) {
        let processes = self.processes();
        for process in &processes {
            let parent = processes.iter().find(|parent| parent.id == process.parent);
            let is_story = match (process.start, parent) {
                (Start::First, parent) => parent.is_none(),
                (Start::Fork, Some(parent)) => {
                    parent.pid != process.pid && parent.command == process.command
                }
                (Start::Exec, Some(parent)) => parent.id < process.id,
                (_, None) => false,
            };
            assert!(is_story, "{process:?} {parent:?}");
        }
    }
}

fn record(options: &[&str], command: &[&str]) -> Trace {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.trace");
    let mut arguments = vec!["record", "-o", file.to_str().unwrap()];
    arguments.extend(options);
    arguments.push("--");
    arguments.extend(command);
    let ran = run(&arguments);
    assert!(file.exists(), "{}", ran.stderr);
    Trace { code: ran.code, stderr: ran.stderr, records: Trace::read(&file) }
}

fn program(compiler: &str, folder: &Path, source: &str, flags: &[&str]) -> Option<PathBuf> {
    compile(compiler, folder, source, flags)
}

const ENTRY_POINTS: &str = include_str!("programs/entry_points.c");
const LIVES: &str = include_str!("programs/lives.c");

fn lives(folder: &Path) -> PathBuf {
    program("cc", folder, LIVES, &["-w", "-O1", "-pthread", "-ldl"]).expect("there is a compiler")
}

/// How often the program calls each entry point between its markers.
fn expected_counts() -> BTreeMap<Op, usize> {
    let mut counts: BTreeMap<Op, usize> =
        Op::ALL.into_iter().enumerate().map(|(at, op)| (op, at + 1)).collect();
    counts.insert(Op::Malloc, 500 - (2 + 5 + 6 + 7 + 8 + 9 + (10..=17).sum::<usize>()));
    counts.insert(Op::Free, 19);
    counts.insert(Op::FreeAlignedSized, 3);
    counts.insert(Op::DeleteAligned, 28);
    counts.insert(Op::DeleteArrayAligned, 29);
    counts.insert(Op::DeleteSizedAligned, 2);
    counts.insert(Op::DeleteArraySizedAligned, 1);
    counts.insert(Op::DeleteAlignedNothrow, 1);
    counts.insert(Op::DeleteArrayAlignedNothrow, 3);
    counts
}

#[track_caller]
fn check_entry_points(options: &[&str], program: &Path) {
    let trace = record(options, &[program.to_str().unwrap()]);
    assert_eq!(trace.code, Some(0), "{options:?}: {}", trace.stderr);
    let marker = |text: &str| {
        let is_it = |record: &Record| matches!(&record.event, Event::Marker(m) if m == text);
        trace.records.iter().position(is_it).unwrap_or_else(|| panic!("no marker {text}"))
    };
    let mut counts = BTreeMap::new();
    for record in &trace.records[marker("begin")..marker("end")] {
        if let Event::Call(call) = record.event {
            *counts.entry(call.op).or_insert(0) += 1;
            assert!(!call.failed, "{options:?}: {call:?}");
            let aligned = call.op.name().contains("align") || call.op.name().contains("valloc");
            assert_eq!(call.alignment != 0, aligned, "{options:?}: {call:?}");
        }
    }
    assert_eq!(counts, expected_counts(), "{options:?} {}", program.display());
    trace.check_addresses();
}

/// Those installed here that serve programs of glibc.
fn allocators() -> Vec<String> {
    let report = common::json(&run(&["list", "--json"]));
    let of_glibc = |a: &&serde_json::Value| a["libc"] == "glibc" || a["libc"].is_null();
    let names = report["allocators"].as_array().unwrap().iter().filter(of_glibc);
    names.map(|a| a["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_entry_point_is_counted_exactly_over_every_allocator() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-w", "-O1", "-fno-builtin", "-Wl,--no-as-needed", "-lstdc++"];
    let program = program("cc", folder.path(), ENTRY_POINTS, &flags).unwrap();
    check_entry_points(&[], &program);
    for name in allocators() {
        // scudo takes the pairing of entry points more seriously than the program does.
        if name != "scudo" {
            check_entry_points(&["-a", &name], &program);
        }
    }
}

#[test]
fn operators_without_a_cxx_library_and_musl_programs() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-w", "-O1", "-fno-builtin"];
    check_entry_points(&[], &program("cc", folder.path(), ENTRY_POINTS, &flags).unwrap());
    if let Some(program) = program("musl-gcc", folder.path(), ENTRY_POINTS, &flags) {
        check_entry_points(&[], &program);
        check_entry_points(&["-a", "mallow"], &program);
    }
}

#[test]
fn threads_have_names_and_all_their_calls() {
    let folder = tempfile::tempdir().unwrap();
    let program = lives(folder.path());
    let trace = record(&[], &[program.to_str().unwrap(), "threads"]);
    assert_eq!(trace.code, Some(0));
    assert_eq!(trace.count(7001), 8000);
    let mut by_thread = BTreeMap::new();
    for (thread, call) in trace.calls().filter(|(_, call)| call.size == 7001) {
        *by_thread.entry(thread).or_insert(0) += u32::from(!call.op.is_free());
    }
    assert_eq!(by_thread.into_values().collect::<Vec<_>>(), [1000; 8]);
    trace.check_addresses();
    let ends = trace.records.iter().filter(|r| matches!(r.event, Event::ThreadEnd)).count();
    assert_eq!(ends, 9);
    let end = trace.records.iter().find_map(|record| match &record.event {
        Event::ProcessEnd(end) => Some(end.ending),
        _ => None,
    });
    assert_eq!(end, Some(Ending::Code(0)));
}

#[test]
fn short_lived_threads_reuse_their_memory() {
    let folder = tempfile::tempdir().unwrap();
    let program = lives(folder.path());
    let trace = record(&[], &[program.to_str().unwrap(), "churn"]);
    assert_eq!(trace.code, Some(0), "{}", trace.stderr);
    assert_eq!(trace.count(7001), 2_000_000);
    assert!(trace.stderr.contains("none were dropped"), "{}", trace.stderr);
}

#[test]
fn forked_children_are_processes_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let program = lives(folder.path());
    for how in ["fork", "raw-fork"] {
        if how == "raw-fork" && cfg!(not(target_arch = "x86_64")) {
            continue;
        }
        let trace = record(&[], &[program.to_str().unwrap(), how]);
        let processes = trace.processes();
        let starts: Vec<_> = processes.iter().map(|p| (p.id, p.parent, p.start)).collect();
        assert_eq!(starts, [(1, 0, Start::First), (2, 1, Start::Fork)], "{how}");
        assert_eq!(
            (trace.count(7000), trace.count(7004), trace.count(7005)),
            (10, 100, 100),
            "{how}"
        );
        if how == "fork" {
            assert_eq!(trace.code, Some(5), "{}", trace.stderr);
            // The child frees a block of its parent.
            let of = |size| trace.calls().find(|(_, call)| call.size == size).unwrap();
            let (parent, block) = of(7003);
            let (child, _) = of(7004);
            let frees = |thread| {
                let is_it = |(t, c): &(u32, Call)| {
                    *t == thread && c.op.is_free() && c.address == block.address
                };
                trace.calls().filter(is_it).count()
            };
            assert_ne!(parent, child);
            assert_eq!(frees(child), 1);
        }
    }
}

#[test]
fn exec_begins_a_new_process() {
    let folder = tempfile::tempdir().unwrap();
    let program = lives(folder.path());
    let trace = record(&[], &[program.to_str().unwrap(), "exec"]);
    assert_eq!(trace.code, Some(0));
    let processes = trace.processes();
    let starts: Vec<_> = processes.iter().map(|p| (p.parent, p.start)).collect();
    assert_eq!(starts, [(0, Start::First), (1, Start::Exec)]);
    assert_eq!(processes[0].pid, processes[1].pid);
    assert_eq!(processes[1].command.last().unwrap(), "threads");
    assert!(processes[1].allocator.contains("libc"), "{}", processes[1].allocator);
    assert_eq!((trace.count(7000), trace.count(7001)), (20, 8000));
}

/// An argument of the program, its exit code, and how many allocations it makes of which sizes.
type Life = (&'static str, i32, &'static [(u64, usize)]);

const LIVES_EXPECTED: [Life; 10] = [
    ("threads", 0, &[(7000, 10), (7001, 8000)]),
    ("fork", 5, &[(7000, 10), (7003, 1), (7004, 100), (7005, 100)]),
    ("raw-fork", 0, &[(7000, 10), (7004, 100), (7005, 100)]),
    ("vfork", 0, &[(7000, 30), (7005, 100)]),
    ("exec", 0, &[(7000, 20), (7001, 8000)]),
    ("_exit", 6, &[(7006, 77)]),
    ("_Exit", 6, &[(7006, 77)]),
    ("kill", 137, &[(7007, 88)]),
    ("signal", 0, &[(7002, 100)]),
    ("close", 0, &[(7001, 2000)]),
];

#[track_caller]
fn check_lives(options: &[&str], program: &Path) {
    for (how, code, counts) in LIVES_EXPECTED {
        if how == "raw-fork" && cfg!(not(target_arch = "x86_64")) {
            continue;
        }
        let trace = record(options, &[program.to_str().unwrap(), how]);
        assert_eq!(trace.code, Some(code), "{options:?} {how}: {}", trace.stderr);
        for &(size, count) in counts {
            assert_eq!(trace.count(size), count, "{options:?} {how}: {size}");
        }
        trace.check_addresses();
        assert!(trace.stderr.contains("none were dropped"), "{how}: {}", trace.stderr);
    }
}

#[test]
fn every_way_to_live_and_die_keeps_every_call() {
    let folder = tempfile::tempdir().unwrap();
    let program = lives(folder.path());
    for stacks in ["none", "fp", "full"] {
        let sample: &[&str] = if stacks == "none" { &[] } else { &["--sample", "all"] };
        check_lives(&[&["--stacks", stacks], sample].concat(), &program);
    }
    for name in allocators() {
        check_lives(&["-a", &name], &program);
    }
}

#[test]
fn trees_of_quick_processes_lose_nothing_and_mix_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let source = include_str!("programs/counter.c");
    let counter = program("cc", folder.path(), source, &["-O1", "-shared", "-fPIC"]).unwrap();
    let count = folder.path().join("count");
    let file = folder.path().join("t.trace");
    // Each process is three programs in turn, and the last of them forks.
    let script = "for i in $(seq 80); do env env bash -c 'for j in 1 2 3 4 5 6 7 8; do (:); done; \
                  x=$(env true)' & [ $((i % 4)) = 0 ] && wait; done; wait";
    for _ in 0..3 {
        std::fs::write(&count, [0; 4096]).unwrap();
        let arguments = ["record", "-o", file.to_str().unwrap(), "--", "bash", "-c", script];
        let mut command = mallow(&arguments);
        let ran = ran(command.env("LD_PRELOAD", &counter).env("COUNTER", &count).output().unwrap());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stderr.contains("none were dropped"), "{}", ran.stderr);
        let trace = Trace { code: ran.code, stderr: ran.stderr, records: Trace::read(&file) };
        trace.check_stories();
        let operations = |call: &Call| !matches!(call.op, Op::AlignedAlloc | Op::PosixMemalign);
        let recorded = trace.calls().filter(|(_, call)| operations(call)).count();
        let counted = std::fs::read(&count).unwrap();
        let counted = u64::from_le_bytes(counted[..8].try_into().unwrap());
        assert_eq!(recorded as u64, counted);
    }
}

#[test]
fn every_way_to_live_and_die_on_musl() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-w", "-O1", "-pthread"];
    let Some(program) = program("musl-gcc", folder.path(), LIVES, &flags) else { return };
    check_lives(&[], &program);
    check_lives(&["-a", "mallow"], &program);
    check_lives(&["--stacks", "full", "--sample", "all"], &program);
}

#[test]
fn loaded_libraries_are_found_in_stacks() {
    let folder = tempfile::tempdir().unwrap();
    let program = lives(folder.path());
    let source = "#include <stdlib.h>\nvoid plugin(void) { for (int i = 0; i < 50; i++) { void *volatile \
                  p = malloc(7008); free(p); } }\n";
    let flags = ["-shared", "-fPIC", "-fno-omit-frame-pointer"];
    let plugin_folder = tempfile::tempdir().unwrap();
    let plugin = self::program("cc", plugin_folder.path(), source, &flags).unwrap();
    for stacks in ["fp", "full"] {
        let options = ["--stacks", stacks, "--sample", "all"];
        let command = [program.to_str().unwrap(), "dlopen", plugin.to_str().unwrap()];
        let trace = record(&options, &command);
        assert_eq!(trace.code, Some(0), "{}", trace.stderr);
        assert_eq!(trace.count(7008), 50);
        let (_, call) = trace.calls().find(|(_, call)| call.size == 7008).unwrap();
        let frames = trace.records.iter().find_map(|record| match &record.event {
            Event::Stack(stack) if stack.id == call.stack => Some(stack.frames.clone()),
            _ => None,
        });
        let modules: BTreeMap<u32, String> = trace
            .records
            .iter()
            .filter_map(|record| match &record.event {
                Event::Module(module) => Some((module.id, module.path.clone())),
                _ => None,
            })
            .collect();
        let first = frames.unwrap()[0];
        assert_eq!(modules[&first.module], plugin.to_str().unwrap(), "{stacks}");
    }
}

#[test]
fn programs_mark_moments_and_run_without_a_recording_too() {
    let folder = tempfile::tempdir().unwrap();
    let include =
        format!("-I{}", concat!(env!("CARGO_MANIFEST_DIR"), "/../mallow-recorder/include"));
    let source = "#include <mallow-trace.h>\n#include <stdlib.h>\nint main(void) { void *volatile p = \
        malloc(7013); MW_TRACE_MARKER(\"here\"); free(p); return 0; }\n";
    let ways = [["cc", "-fPIE", "-pie"], ["cc", "-fno-pie", "-no-pie"], ["cc", "-w", "-static"]];
    let of_musl = [["musl-gcc", "-fPIE", "-pie"], ["musl-gcc", "-fno-pie", "-no-pie"]];
    for [compiler, flags @ ..] in ways.into_iter().chain(of_musl) {
        let flags = [&flags[..], &[&include]].concat();
        let Some(program) = program(compiler, folder.path(), source, &flags) else { continue };
        assert!(Command::new(&program).status().unwrap().success(), "{compiler} {flags:?}");
        if flags.contains(&"-static") {
            continue;
        }
        let trace = record(&[], &[program.to_str().unwrap()]);
        let place = |wanted: &dyn Fn(&Event) -> bool| {
            trace.records.iter().position(|record| wanted(&record.event)).unwrap()
        };
        let allocated = place(&|event| matches!(event, Event::Call(c) if c.size == 7013));
        let marked = place(&|event| matches!(event, Event::Marker(text) if text == "here"));
        assert!(allocated < marked, "{compiler} {flags:?}");
    }
}

#[test]
fn sampled_stacks_estimate_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let program = lives(folder.path());
    let options = ["--stacks", "fp", "--sample", "64K"];
    let trace = record(&options, &[program.to_str().unwrap(), "threads"]);
    let sampled = trace.calls().filter(|(_, call)| call.size == 7001 && call.stack != 0).count();
    // 8,000 calls of 7,001 bytes: each with probability 0.1013, so 811 of them, give or take 27.
    assert!((640..980).contains(&sampled), "{sampled}");
}

#[test]
fn allocator_that_runs_out_is_recorded_as_failing() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <new>\n#include <cstdlib>\nint main() { void *volatile p = \
        std::malloc(1ull << 60); int n = p != nullptr; try { p = ::operator new(1ull << 60); n++; } \
        catch (const std::bad_alloc &) {} p = ::operator new(7009); ::operator delete(p); return n; }\n";
    let Some(program) = compile("c++", folder.path(), source, &["-w", "-x", "c++"]) else { return };
    let trace = record(&[], &[program.to_str().unwrap()]);
    assert_eq!(trace.code, Some(0), "{}", trace.stderr);
    let failed: Vec<Op> =
        trace.calls().filter(|(_, call)| call.failed).map(|(_, call)| call.op).collect();
    assert_eq!(failed, [Op::Malloc, Op::New]);
    assert_eq!(trace.count(7009), 1);
}

#[test]
fn what_is_dropped_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 1000000; i++) { void \
        *volatile p = malloc(7014); free(p); } return 0; }\n";
    let program = program("cc", folder.path(), source, &["-O1"]).unwrap();
    let trace = record(&["--when-full", "drop"], &[program.to_str().unwrap()]);
    let dropped: u64 = trace
        .records
        .iter()
        .filter_map(|record| match record.event {
            Event::Dropped(count) => Some(count),
            _ => None,
        })
        .sum();
    let all = dropped + trace.calls().count() as u64;
    assert!((2_000_000..2_000_020).contains(&all), "{dropped} of {all}: {}", trace.stderr);
    assert_eq!(dropped == 0, trace.stderr.contains("none were dropped"), "{}", trace.stderr);
}

#[test]
fn program_that_allocates_nothing_is_recorded_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let program = program("cc", folder.path(), "int main(void) { return 3; }\n", &[]).unwrap();
    let trace = record(&[], &[program.to_str().unwrap()]);
    assert_eq!((trace.code, trace.calls().count()), (Some(3), 0), "{}", trace.stderr);
    assert!(trace.stderr.contains("0 calls"), "{}", trace.stderr);
}

#[test]
fn exit_codes_and_signals_are_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let file = file.to_str().unwrap();
    assert_eq!(run(&["record", "-o", file, "--", "sh", "-c", "exit 42"]).code, Some(42));
    assert_eq!(run(&["record", "-o", file, "--", "sh", "-c", "kill -TERM $$"]).code, Some(143));
}

#[test]
fn collector_that_is_killed_leaves_a_readable_trace_and_a_running_program() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.trace");
    let done = folder.path().join("done");
    let script = format!("ls > /dev/null; kill -9 $PPID; ls > /dev/null; : > {}", done.display());
    let arguments = ["record", "-o", file.to_str().unwrap(), "--", "bash", "-c", &script];
    let ran = ran(mallow(&arguments).output().unwrap());
    assert_eq!(ran.code, None);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !done.exists() {
        assert!(std::time::Instant::now() < deadline, "the command does not go on");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let reader = Reader::new(std::fs::File::open(&file).unwrap());
    match reader {
        Ok(reader) => {
            let errors = reader.merged().filter(|record| record.is_err()).count();
            assert!(errors <= 1);
        }
        Err(error) => assert!(error.to_string().contains("not a mallow trace"), "{error}"),
    }
}

#[test]
fn full_disk_is_said_and_does_not_stop_the_command() {
    let ran = run(&["record", "-o", "/dev/full", "--", "sh", "-c", "ls > /dev/null; exit 3"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains("No space left on device"), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
}

#[test]
fn refusals() {
    let folder = tempfile::tempdir().unwrap();
    let source = "int main(void) { return 0; }\n";
    let fixed = compile("cc", folder.path(), source, &["-static"]).unwrap();
    let fixed = fixed.to_str().unwrap();
    refuses(&["record", "-o", "/tmp/x", "--", fixed], 4, &["statically linked"]);
    refuses(&["record", "-o", "/nonexistent/x", "--", "ls"], 2, &["cannot be written", "-o"]);
    refuses(&["record", "--sample", "1M", "--", "ls"], 2, &["--stacks"]);
    refuses(&["record", "--", "no-such-command"], 127, &["not found"]);
    if is_root() {
        refuses(&["record", "-p", "4000000"], 4, &["There is no process 4000000"]);
    }
}

#[test]
fn ten_threads_of_python_come_out() {
    let python = "/usr/bin/python3";
    if !Path::new(python).exists() {
        eprintln!("skipped: no {python}");
        return;
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kallsyms_threads.py");
    let trace = record(&[], &[python, example.to_str().unwrap()]);
    assert_eq!(trace.code, Some(0), "{}", trace.stderr);
    let mut threads = BTreeMap::new();
    let mut sizes = BTreeMap::new();
    for (thread, call) in trace.calls().filter(|(_, call)| !call.op.is_free()) {
        *threads.entry(thread).or_insert(0u32) += u32::from(call.size == 8225);
        *sizes.entry(call.size).or_insert(0u32) += 1;
    }
    // The first thread counts the lines, two start five each, and those read.
    assert_eq!(threads.len(), 13, "{threads:?}");
    let readers = threads.values().filter(|&&count| count > 100).count();
    assert_eq!(readers, 11, "{threads:?}");
    let (dominant, count) = sizes.iter().max_by_key(|(_, count)| **count).unwrap();
    let share = f64::from(*count) / f64::from(sizes.values().sum::<u32>());
    assert_eq!(*dominant, 8225, "{count}");
    assert!((0.2..0.6).contains(&share), "{share}");
}

#[test]
fn real_programs_are_recorded() {
    let commands: [&[&str]; 6] = [
        &["git", "--version"],
        &["java", "-Xmx64m", "-version"],
        &["node", "-e", "console.log([1, 2].map(String))"],
        &["ruby", "-e", "puts (1..1000).map(&:to_s).join.size"],
        &["sqlite3", ":memory:", "create table t(a); insert into t values (1); select a from t;"],
        &["gcc", "--version"],
    ];
    for command in commands {
        let exists =
            Command::new("sh").arg("-c").arg(format!("command -v {}", command[0])).output();
        if !exists.unwrap().status.success() {
            eprintln!("skipped: no {}", command[0]);
            continue;
        }
        let trace = record(&["--stacks", "fp"], command);
        assert_eq!(trace.code, Some(0), "{command:?}: {}", trace.stderr);
        assert!(trace.calls().count() > 10, "{command:?}");
    }
}

#[test]
fn running_process_is_recorded_by_probes() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::Stdio;
    if !is_root() || !Path::new("/sys/bus/event_source/devices/uprobe").exists() {
        eprintln!("skipped: no root, or a kernel without uprobes");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = lives(folder.path());
    let mut target = Command::new(&program)
        .arg("wait")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, mut output) =
        (target.stdin.take().unwrap(), BufReader::new(target.stdout.take().unwrap()));
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let file = folder.path().join("t.trace");
    let pid = target.id().to_string();
    let mut recorder = mallow(&["record", "-o", file.to_str().unwrap(), "-p", &pid])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It says when it has begun.
    let mut notes = BufReader::new(recorder.stderr.take().unwrap());
    let mut note = String::new();
    notes.read_line(&mut note).unwrap();
    if !note.contains("until Ctrl-C") {
        // In a container even root may lack the right.
        assert!(note.contains("CAP_PERFMON") || note.contains("The kernel refuses"), "{note}");
        eprintln!("skipped: {note}");
        target.kill().unwrap();
        target.wait().unwrap();
        recorder.wait().unwrap();
        return;
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    input.write_all(b"go\n").unwrap();
    output.read_line(&mut line).unwrap();
    input.write_all(b"end\n").unwrap();
    assert_eq!(target.wait().unwrap().code(), Some(3));
    let ended = recorder.wait().unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut notes, &mut rest).unwrap();
    assert!(ended.success(), "{note}{rest}");
    let trace = Trace { code: Some(0), stderr: rest, records: Trace::read(&file) };
    assert_eq!((trace.count(7010), trace.count(7001)), (50, 2000), "{}", trace.stderr);
    let of = |op: Op| trace.calls().find(|(_, call)| call.op == op).unwrap().1;
    assert_eq!((of(Op::Calloc).size, of(Op::Realloc).size), (7011, 7012));
    assert_eq!(of(Op::Realloc).old, of(Op::Calloc).address);
    assert!(trace.stderr.contains("none were dropped"), "{}", trace.stderr);
}
