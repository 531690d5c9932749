// SPDX-License-Identifier: MIT
//! `mallow record` on real programs and running processes, and where something ends badly.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::recording::{Trace, lives, record};
use crate::common::{compile, is_root, mallow, ran, refuses, run};
use mallow_trace::{Event, Op, Reader, Record, Start};

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
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
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
    // At once, and at the end.
    assert_eq!(ran.stderr.lines().count(), 2, "{}", ran.stderr);
    let ran = run(&["record", "-o", "/dev/full", "--", "true"]);
    assert_eq!(ran.code, Some(5), "{}", ran.stderr);
}

/// The command waits until it is said, half a minute at most.
#[test]
fn full_disk_is_said_while_the_command_runs() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = "n=0; until grep -q 'The command goes on' $LOG || [ $((n += 1)) -gt 300 ]; do sleep 0.1; done; \
        echo over >&2";
    let mut command = mallow(&["record", "-o", "/dev/full", "--", "sh", "-c", script]);
    command.env("LOG", &log).stderr(std::fs::File::create(&log).unwrap());
    assert_eq!(command.status().unwrap().code(), Some(5));
    let log = std::fs::read_to_string(&log).unwrap();
    let place = |text: &str| log.find(text).unwrap_or_else(|| panic!("no {text} in {log}"));
    assert!(place("No space left on device") < place("over"), "{log}");
    assert!(place("over") < place("nothing can be read of it"), "{log}");
}

/// A pipe has nothing that could be counted afterwards: to open it again would wait for ever.
#[test]
fn a_pipe_that_nobody_reads_any_more_ends_the_recording_and_not_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 2000000; i++) { \
        void *volatile p = malloc(9); free(p); } return 0; }\n";
    let program = compile("cc", folder.path(), source, &["-O1"]).unwrap();
    let script = "mkfifo $PIPE && { head -c 9 $PIPE > /dev/null & } && \
        exec timeout -s KILL 100 $MALLOW record --stacks none -o $PIPE -- $PROGRAM";
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("MALLOW", mallow(&[]).get_program());
    command.env("PIPE", folder.path().join("pipe")).env("PROGRAM", program);
    let ran = ran(command.output().unwrap());
    assert_eq!(ran.code, Some(5), "{}", ran.stderr);
    assert!(ran.stderr.contains("The command goes on"), "{}", ran.stderr);
    assert!(ran.stderr.contains("Broken pipe"), "{}", ran.stderr);
}

/// What is said to be in the trace is in it.
#[test]
fn disk_that_fills_while_recording_leaves_the_count_that_is_true() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\nint main(void) { srand(1); for (int i = 0; i < 1000000; i++) { \
        void *volatile p = malloc(rand() % 4000); free(p); } return 0; }\n";
    let program = compile("cc", folder.path(), source, &["-O1"]).unwrap();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    // A small disk of its own, and a copy of what it held in the end.
    let script = "mount -t tmpfs -o size=2m none $DISK || exit 99; $MALLOW record --stacks none -o \
        $DISK/t -- $PROGRAM; code=$?; cp $DISK/t $DISK.t; exit $code";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).env("MALLOW", mallow(&[]).get_program());
    let output = command.env("DISK", &disk).env("PROGRAM", &program).output();
    let Ok(output) = output else {
        eprintln!("skipped: no unshare");
        return;
    };
    let ran = ran(output);
    if !is_root() || ran.code == Some(99) || ran.stderr.starts_with("unshare:") {
        eprintln!("skipped: a disk cannot be mounted here: {}", ran.stderr);
        return;
    }
    assert_eq!(ran.code, Some(5), "{}", ran.stderr);
    assert!(ran.stderr.contains("No space left on device"), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("The command goes on").count(), 1, "{}", ran.stderr);
    let said = ran.stderr.split("cut off: ").nth(1).unwrap();
    let said: usize = said.split(' ').next().unwrap().parse().unwrap();
    let file = std::fs::File::open(disk.with_extension("t")).unwrap();
    let records = Reader::new(std::io::BufReader::new(file)).unwrap().merged();
    let is_call = |record: &Record| matches!(record.event, Event::Call(_));
    let found = records.filter_map(Result::ok).filter(is_call).count();
    assert_eq!(said, found);
    assert!((100_000..2_000_000).contains(&said), "{said}");
}

/// Each call would leave another part where there is no room for the whole.
#[test]
fn no_part_of_a_library_stays_behind() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("mallow");
    let mut list = Command::new("sh");
    list.args(["-c", "ulimit -f 8 && exec \"$0\" list"]).arg(mallow(&[]).get_program());
    list.env("XDG_CACHE_HOME", folder.path()).output().unwrap();
    let names = |folder: &Path| -> Vec<_> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let folders = names(&cache);
    assert!(!folders.is_empty());
    assert!(folders.iter().all(|folder| names(folder).is_empty()), "{:?}", names(&folders[0]));
}

/// A limit on the size of files, as some batch systems set it, is an error, and does not end the command in silence.
#[test]
fn a_limit_on_the_size_of_files_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let limited = |line: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -f 1; exec $MALLOW {line}")]);
        command.current_dir(folder.path()).env("MALLOW", mallow(&[]).get_program());
        ran(command.output().unwrap())
    };
    let recorded = limited("record -- true");
    assert_eq!(recorded.code, Some(5), "{}", recorded.stderr);
    assert!(recorded.stderr.contains("ulimit -f"), "{}", recorded.stderr);
    let written = limited("explain --html page $$");
    assert_eq!(written.code, Some(5), "{}", written.stderr);
    assert!(written.stderr.contains("File too large"), "{}", written.stderr);
}

#[test]
fn refusals() {
    let folder = tempfile::tempdir().unwrap();
    let source = "int main(void) { return 0; }\n";
    let fixed = compile("cc", folder.path(), source, &["-static"]).unwrap();
    let fixed = fixed.to_str().unwrap();
    refuses(&["record", "-o", "/tmp/x", "--", fixed], 4, &["statically linked"]);
    let nowhere = folder.path().join("none/x");
    let nowhere = nowhere.to_str().unwrap();
    refuses(&["record", "-o", nowhere, "--", "ls"], 2, &["cannot be written", "-o"]);
    refuses(&["record", "--stacks", "none", "--sample", "1M", "--", "ls"], 2, &["--stacks"]);
    refuses(&["record", "--", "no-such-command"], 127, &["not found"]);
    if is_root() {
        refuses(&["record", "-p", "4000000"], 7, &["There is no process 4000000"]);
    }
}

/// The last thing that happens in a process that sleeps is long ago.
#[test]
fn a_recording_of_a_quiet_process_lasts_until_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.trace");
    let mut target = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = target.id().to_string();
    let recorded =
        run(&["record", "-o", file.to_str().unwrap(), "--duration", "1s", "-p", pid.as_str()]);
    target.kill().unwrap();
    target.wait().unwrap();
    if recorded.code != Some(0) {
        // Without root, or in a container where even root lacks the right.
        println!("skipped: {}", recorded.stderr);
        return;
    }
    let last = Trace::read(&file).iter().map(|record| record.time).max();
    assert!(last.is_some_and(|ns| ns >= 900_000_000), "{last:?}: {}", recorded.stderr);
}

/// Its instructions are others.
#[test]
fn a_32_bit_process_is_not_probed() {
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: 32-bit programs are tried on x86_64");
    }
    let folder = tempfile::tempdir().unwrap();
    let source = "void *malloc(unsigned long size) { return (void *)size; }\n\
        void _start(void) { for (;;) { int result = 158;\n\
        __asm__ volatile(\"int $0x80\" : \"+a\"(result) : : \"memory\"); } }\n";
    let flags = ["-m32", "-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector"];
    let program = folder.path().join("narrow");
    std::fs::write(folder.path().join("narrow.c"), source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(flags).arg("-o").arg(&program).arg(folder.path().join("narrow.c"));
    let Some(mut target) = compiler
        .status()
        .is_ok_and(|status| status.success())
        .then(|| Command::new(&program).spawn().ok())
        .flatten()
    else {
        return println!("skipped: no 32-bit programs here");
    };
    let pid = target.id().to_string();
    let ran = run(&["record", "-o", "/dev/null", "--duration", "1s", "-p", &pid]);
    target.kill().unwrap();
    target.wait().unwrap();
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert!(!is_root() || ran.stderr.contains("a 32-bit one"), "{}", ran.stderr);
}

/// Its C library is under no name that it sees now.
#[test]
fn a_process_that_changed_its_root_is_recorded_by_probes() {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::Stdio;
    if !is_root() || !Path::new("/sys/bus/event_source/devices/uprobe").exists() {
        println!("skipped: no root, or a kernel without uprobes");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = "#define _GNU_SOURCE\n#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
        int main(int n, char **v) { if (chroot(v[1]) != 0) return 1; write(1, \"up\\n\", 3);\n\
        raise(SIGSTOP); for (;;) { free(malloc(7021)); usleep(1000); } }\n";
    let flags = ["-O0", "-fno-builtin"];
    let Some(program) = compile("cc", folder.path(), source, &flags) else { return };
    let file = folder.path().join("t.trace");
    let mut target = Command::new(&program);
    // Where its group loses the last process that could go on with it, the kernel does.
    target.arg(folder.path()).stdout(Stdio::piped()).process_group(0);
    let mut target = target.spawn().unwrap();
    let pid = target.id().to_string();
    let mut said = String::new();
    BufReader::new(target.stdout.take().unwrap()).read_line(&mut said).unwrap();
    if said != "up\n" {
        target.wait().unwrap();
        return println!("skipped: no right to change the root");
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ") {
        assert!(Instant::now() < deadline, "it does not stop");
        std::thread::sleep(Duration::from_millis(2));
    }
    let options = ["record", "-o", file.to_str().unwrap(), "--duration", "1s", "-p", &pid];
    let stopped = run(&options);
    Command::new("kill").args(["-CONT", &pid]).status().unwrap();
    let going_on = run(&options);
    target.kill().unwrap();
    target.wait().unwrap();
    if stopped.stderr.contains("CAP_PERFMON") || stopped.stderr.contains("The kernel refuses") {
        println!("skipped: {}", stopped.stderr);
        return;
    }
    assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
    assert!(stopped.stderr.contains(&format!("kill -CONT {pid}")), "{}", stopped.stderr);
    assert_eq!(going_on.code, Some(0), "{}", going_on.stderr);
    assert!(!going_on.stderr.contains("-CONT"), "{}", going_on.stderr);
    let trace = Trace { code: Some(0), stderr: going_on.stderr, records: Trace::read(&file) };
    assert!(trace.count(7021) > 0, "{}", trace.stderr);
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
    let options = ["record", "-o", file.to_str().unwrap(), "-p", &pid];
    let mut recorder = mallow(&options).stderr(Stdio::piped()).spawn().unwrap();
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
    assert!(trace.stderr.contains("1 process that it had started before"), "{}", trace.stderr);

    // A child, and what it becomes.
    let starts: Vec<_> = trace.processes().iter().map(|process| process.start).collect();
    assert_eq!(starts, [Start::First, Start::Fork, Start::Exec]);
    assert_eq!((trace.count(7004), trace.count(7006)), (100, 77));
    trace.check_stories();

    // One allocation in 61 has a stack, which begins in the program and goes on to where it began.
    let of_threads = trace.calls().filter(|(_, call)| call.size == 7001);
    let stacks: Vec<u32> = of_threads.map(|(_, call)| call.stack).filter(|id| *id != 0).collect();
    assert!((16..=40).contains(&stacks.len()), "{}", stacks.len());
    let wanted = stacks[0];
    let stack = trace.records.iter().find_map(|record| match &record.event {
        Event::Stack(stack) if stack.id == wanted => Some(stack.clone()),
        _ => None,
    });
    let frames = stack.unwrap().frames;
    let path = |id: u32| {
        let paths = trace.records.iter().filter_map(|record| match &record.event {
            Event::Module(module) => Some((module.id, module.path.clone())),
            _ => None,
        });
        paths.filter(|(module, _)| *module == id).map(|(_, path)| path).next().unwrap()
    };
    assert_eq!(path(frames[0].module), program.to_str().unwrap());
    assert!(frames.len() >= 3, "{frames:?}");
    assert!(frames.iter().any(|frame| path(frame.module).contains("libc.so.6")), "{frames:?}");
}
