// SPDX-License-Identifier: MIT
//! What `mallow record` writes is exactly what the program did.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::recording::{LIVES, Trace, lives, record};
use crate::common::{compile, mallow, ran, run};
use mallow_stats::figures::counted;
use mallow_trace::{Call, Ending, Event, Op, Record, Start};

const ENTRY_POINTS: &str = include_str!("programs/entry_points.c");
const OWN_MALLOC: &str = include_str!("programs/own_malloc.c");

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
    let report = crate::common::json(&run(&["list", "--json"]));
    let of_glibc = |a: &&serde_json::Value| a["libc"] == "glibc" || a["libc"].is_null();
    let names = report["allocators"].as_array().unwrap().iter().filter(of_glibc);
    names.map(|a| a["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_entry_point_is_counted_exactly_over_every_allocator() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-w", "-O1", "-fno-builtin", "-Wl,--no-as-needed", "-lstdc++"];
    let program = compile("cc", folder.path(), ENTRY_POINTS, &flags).unwrap();
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
    check_entry_points(&[], &compile("cc", folder.path(), ENTRY_POINTS, &flags).unwrap());
    if let Some(program) = compile("musl-gcc", folder.path(), ENTRY_POINTS, &flags) {
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

/// Of quick calls of a lone thread not each reads the clock.
#[test]
fn what_passes_between_threads_keeps_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let program = lives(folder.path());
    let trace = record(&[], &[program.to_str().unwrap(), "hand-over"]);
    assert_eq!(trace.code, Some(0), "{}", trace.stderr);
    assert_eq!(trace.count(7014), 2000);
    trace.check_addresses();
}

#[test]
fn a_pause_after_quick_calls_has_its_length() {
    let folder = tempfile::tempdir().unwrap();
    let program = lives(folder.path());
    let trace = record(&[], &[program.to_str().unwrap(), "pause"]);
    assert_eq!(trace.count(7013), 8, "{}", trace.stderr);
    let (mut block, mut lives) = (None, Vec::new());
    for record in &trace.records {
        match (record.event.clone(), block) {
            (Event::Call(call), _) if call.size == 7013 => {
                block = Some((record.time, call.address));
            }
            (Event::Call(call), Some((begin, address))) if call.address == address => {
                lives.push(record.time - begin);
                block = None;
            }
            _ => {}
        }
    }
    assert!(lives.len() == 8 && lives.iter().all(|&life| life >= 100_000_000), "{lives:?}");
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

/// A daemon goes on when the command has ended, and has allocated nothing by then. Nobody waits for its end: it has
/// none of the pipes.
#[test]
fn what_goes_on_behind_the_command_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.trace");
    let file = file.to_str().unwrap();
    for _ in 0..3 {
        let script = "sleep 30 >/dev/null 2>&1 & exit 0";
        let ran = run(&["record", "-o", file, "--", "sh", "-c", script]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stderr.contains("1 process of the command still runs"), "{}", ran.stderr);
    }
    // One has no recorder while its loader is at work, which is to be told from none, as here.
    let source = "#include <spawn.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
        extern char **environ;\nint main(int count, char **arguments) {\n\
        char *none[] = {\"none\", NULL};\n\
        if (count < 2) return close(1) != 0 || close(2) != 0 || sleep(30) != 0;\nfree(malloc(1));\n\
        return posix_spawn(&count, arguments[1], NULL, NULL, none, environ); }\n";
    let of_sleeper = tempfile::tempdir().unwrap();
    let Some(sleeper) = compile("cc", of_sleeper.path(), source, &["-static"]) else { return };
    let spawner = compile("cc", folder.path(), source, &[]).unwrap();
    let (spawner, sleeper) = (spawner.to_str().unwrap(), sleeper.to_str().unwrap());
    let ran = run(&["record", "-o", file, "--", spawner, sleeper]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("1 process of the command still runs"), "{}", ran.stderr);
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
    let counter = compile("cc", folder.path(), source, &["-O1", "-shared", "-fPIC"]).unwrap();
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
    let Some(program) = compile("musl-gcc", folder.path(), LIVES, &flags) else { return };
    check_lives(&[], &program);
    check_lives(&["-a", "mallow"], &program);
    check_lives(&["--stacks", "full", "--sample", "all"], &program);
}

/// A library whose function `plugin` allocates and frees 7,008 bytes fifty times.
fn plugin(folder: &Path) -> PathBuf {
    let source = "#include <stdlib.h>\nvoid plugin(void) { for (int i = 0; i < 50; i++) { void *volatile \
                  p = malloc(7008); free(p); } }\n";
    compile("cc", folder, source, &["-shared", "-fPIC", "-fno-omit-frame-pointer"]).unwrap()
}

#[test]
fn loaded_libraries_are_found_in_stacks() {
    let folder = tempfile::tempdir().unwrap();
    let program = lives(folder.path());
    let plugin_folder = tempfile::tempdir().unwrap();
    let plugin = plugin(plugin_folder.path());
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

/// As PHP opens its extensions: they would ask the libc for memory, and not the recorder.
#[test]
fn modules_that_ask_the_libc_first_are_recorded_too() {
    let folder = tempfile::tempdir().unwrap();
    let plugin_folder = tempfile::tempdir().unwrap();
    let program = lives(folder.path());
    let plugin = plugin(plugin_folder.path());
    let trace = record(&[], &[program.to_str().unwrap(), "deepbind", plugin.to_str().unwrap()]);
    assert_eq!(trace.code, Some(0), "{}", trace.stderr);
    assert_eq!(trace.count(7008), 50);
}

/// As GCL's, which Maxima is made with: it came before the recorder, whose start called it too early. Then the
/// first calls of what is the recorder's may come from several threads at once.
#[test]
fn child_whose_own_malloc_works_from_main_on_runs_as_without() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-rdynamic", "-fno-builtin", "-ldl", "-lpthread"];
    let Some(program) = compile("cc", folder.path(), OWN_MALLOC, &flags) else { return };
    let trace = folder.path().join("t");
    let script = format!("for i in 1 2 3 4 5 6 7 8; do {}; echo $?; done", program.display());
    let out = run(&["record", "-o", trace.to_str().unwrap(), "--", "sh", "-c", &script]);
    assert_eq!(out.stdout, "7\n".repeat(8), "{}", out.stderr);
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
        // The oldest C that there is.
        let flags = [&flags[..], &[include.as_str(), "-std=c89"]].concat();
        let Some(program) = compile(compiler, folder.path(), source, &flags) else { continue };
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

/// By the C++ library's operator new, and by an allocator's own.
#[test]
fn what_follows_an_exception_of_new_is_recorded_however_deep() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <new>\n#include <cstdlib>\n\
        __attribute__((noinline)) void run(int depth) { volatile char room[512]; room[0] = 1;\n\
        if (depth > 0) { run(depth - 1); room[1] = 2; return; }\n\
        for (int i = 0; i < 100; i++) { void *volatile p = std::malloc(7016); std::free(p);\n\
        p = ::operator new(7017); ::operator delete(p); } }\n\
        int main() { void *volatile p = ::operator new(1ull << 60, std::nothrow);\n\
        for (int i = 0; i < 3; i++) {\n\
        try { p = ::operator new[](1ull << 60); } catch (const std::bad_alloc &) { run(1); }\n\
        run(20); }\n\
        std::align_val_t far = std::align_val_t(64);\n\
        try { p = ::operator new(1ull << 60, far); } catch (const std::bad_alloc &) { run(1); }\n\
        try { p = ::operator new[](1ull << 60, far); } catch (const std::bad_alloc &) { run(1); }\n\
        return p != nullptr; }\n";
    let flags = ["-w", "-std=c++17", "-x", "c++"];
    let Some(program) = compile("c++", folder.path(), source, &flags) else { return };
    for options in [&[][..], &["-a", "mallow"]] {
        let trace = record(options, &[program.to_str().unwrap()]);
        assert_eq!(trace.code, Some(0), "{options:?}: {}", trace.stderr);
        let failed: Vec<Op> =
            trace.calls().filter(|(_, call)| call.failed).map(|(_, call)| call.op).collect();
        let plain = [Op::NewNothrow, Op::NewArray, Op::NewArray, Op::NewArray];
        let aligned = [Op::NewAligned, Op::NewArrayAligned];
        assert_eq!(failed, [&plain[..], &aligned[..]].concat(), "{options:?}");
        assert_eq!((trace.count(7016), trace.count(7017)), (800, 800), "{options:?}");
        // The memory of the exceptions, too, is there before it is freed.
        trace.check_addresses();
    }
}

#[test]
fn what_is_dropped_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 1000000; i++) { void \
        *volatile p = malloc(7014); free(p); } return 0; }\n";
    let program = compile("cc", folder.path(), source, &["-O1"]).unwrap();
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

/// A daemon goes on when the command has ended: what it does from then on is nothing that was lost, and
/// what is recorded of it is of its thread.
#[test]
fn what_a_daemon_does_after_the_command_is_not_called_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
        int main(int count, char **words) {\nint command = getpid();\n\
        if (daemon(0, 0) != 0) return 1;\nwhile (count > 1 && kill(command, 0) == 0) {}\n\
        for (int i = 0; i < 3000000; i++) { void *volatile p = malloc(7015); free(p); }\n\
        return words == 0; }\n";
    let program = compile("cc", folder.path(), source, &["-O1"]).unwrap();
    let program = program.to_str().unwrap();
    for command in [&[program][..], &[program, "begin when the command is buried"]] {
        let trace = record(&[], command);
        assert!(trace.stderr.contains("1 process of the command still runs"), "{}", trace.stderr);
        assert!(trace.stderr.contains("none were dropped"), "{}", trace.stderr);
        let is_thread = |record: &&Record| matches!(record.event, Event::Thread(_));
        let threads = counted(trace.records.iter().filter(is_thread).count() as u64, "thread");
        let processes = counted(trace.processes().len() as u64, "process");
        let all = format!("of {threads} in {processes} recorded");
        assert!(trace.stderr.contains(&all), "{all}: {}", trace.stderr);
    }
    let baseline = folder.path().join("baseline.json");
    let baseline = baseline.to_str().unwrap();
    let checked =
        ["check", "--update", "-b", baseline, "-r", "1", "--stacks", "none", "--", program];
    let checked = run(&checked);
    assert!(checked.stderr.contains("outlive it"), "{}", checked.stderr);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}

#[test]
fn program_that_allocates_nothing_is_recorded_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cc", folder.path(), "int main(void) { return 3; }\n", &[]).unwrap();
    let trace = record(&[], &[program.to_str().unwrap()]);
    assert_eq!((trace.code, trace.calls().count()), (Some(3), 0), "{}", trace.stderr);
    assert!(trace.stderr.contains("0 calls"), "{}", trace.stderr);
}

/// Has much for a moment, and ends in the next one: between two looks at its memory.
const SHORT: &str = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
    int main(void) { free(malloc(100)); usleep(40000);\n\
    char *block = malloc(100 << 20); memset(block, 1, 100 << 20); _exit(0); }\n";

#[test]
fn the_peak_of_a_short_recording_is_the_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cc", folder.path(), SHORT, &["-O1", "-fno-builtin"]).unwrap();
    let trace = record(&["--stacks", "none"], &[program.to_str().unwrap()]);
    assert_eq!(trace.code, Some(0), "{}", trace.stderr);
    let peak = trace.memory().map(|memory| memory.peak_rss).max();
    assert!(peak.is_some_and(|peak| peak >= 100 << 20), "{peak:?}");
}

/// The memory of their rings stays in the program, and is not its own.
#[test]
fn rings_of_threads_that_have_ended_are_no_memory_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <pthread.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
        static pthread_barrier_t all;\n\
        static void *work(void *n) { free(malloc(7018)); pthread_barrier_wait(&all);\n\
        for (int i = 0; i < 10000; i++) free(malloc(7018)); return n; }\n\
        int main(void) { pthread_t threads[64]; pthread_barrier_init(&all, NULL, 64);\n\
        for (int i = 0; i < 64; i++) pthread_create(&threads[i], NULL, work, NULL);\n\
        for (int i = 0; i < 64; i++) pthread_join(threads[i], NULL);\n\
        usleep(500000); free(malloc(7019)); return 0; }\n";
    let flags = ["-O1", "-fno-builtin", "-pthread"];
    let program = compile("cc", folder.path(), source, &flags).unwrap();
    let trace = record(&["--stacks", "none"], &[program.to_str().unwrap()]);
    assert_eq!((trace.code, trace.count(7018)), (Some(0), 64 * 10_001), "{}", trace.stderr);
    // 64 of 264 KiB.
    let last = trace.memory().next_back().unwrap();
    assert!(last.rss > 0 && last.rss.max(last.peak_rss) < 8 << 20, "{last:?}");
}

#[test]
fn a_filter_that_kills_for_a_call_of_the_recorder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let source = include_str!("programs/confined.c");
    let program = compile("cc", folder.path(), source, &["-O1", "-pthread"]).unwrap();
    let alone = Command::new(&program).status().unwrap().code();
    if alone == Some(77) {
        eprintln!("skipped: no filters here");
        return;
    }
    assert_eq!(alone, Some(0));
    let trace = record(&[], &[program.to_str().unwrap()]);
    assert_eq!(trace.code, Some(128 + 31));
    assert!(trace.stderr.contains("killed by SIGSYS: its seccomp filter"), "{}", trace.stderr);
}

/// Where nothing can be recorded, an older trace of that name stays what it was.
#[test]
fn a_trace_is_not_lost_to_a_recording_that_does_not_begin() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("kept.trace");
    std::fs::write(&trace, "an older one").unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 100; exec \"$0\" record -o \"$1\" -- true"]);
    let recorded = ran(shell.arg(mallow(&[]).get_program()).arg(&trace).output().unwrap());
    assert_eq!(recorded.code, Some(5), "{}", recorded.stderr);
    assert!(recorded.stderr.contains("ulimit -f"), "{}", recorded.stderr);
    assert_eq!(std::fs::read_to_string(&trace).unwrap(), "an older one");
}

/// A program that goes on after the recording starts others, when the number of the recorder may be another's.
#[test]
fn a_file_that_is_not_the_recorders_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (empty, alike) = (folder.path().join("empty"), folder.path().join("alike"));
    let bytes = [b"MRM1".as_slice(), &[0; 1 << 16]].concat();
    std::fs::write(&empty, "").unwrap();
    std::fs::write(&alike, &bytes).unwrap();
    // By a descriptor, as the recorder's own is named.
    let script = "for file; do exec 9<> \"$file\"; \
        for name in /proc/$$/fd/9 \"$file\"; do MALLOW_RECORD=$name ls / > /dev/null || exit $?; done; done";
    let files = [empty.to_str().unwrap(), alike.to_str().unwrap()];
    let trace = record(&[], &[&["bash", "-c", script, "bash"][..], &files].concat());
    assert_eq!(trace.code, Some(0), "{}", trace.stderr);
    assert_eq!(std::fs::read(&empty).unwrap(), b"");
    assert!(std::fs::read(&alike).unwrap() == bytes);
}
