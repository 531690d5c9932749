// SPDX-License-Identifier: MIT
//! Every verb against the table of exit codes: what goes wrong decides the code, not the verb.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fs::{File, read_to_string};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::program::{Program, Running};
use crate::common::{Ran, is_root, mallow, ran, run, verbs, without_rights};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::Pid;
use tempfile::TempDir;

/// What keeps a test from waiting for ever; nothing that works takes a part of it.
const FOR_EVER: Duration = Duration::from_secs(300);

/// Larger than any process number.
const NOBODY: &str = "4194304";

struct Setting {
    folder: TempDir,
    trace: String,
    program: Program,
}

impl Setting {
    fn new() -> Setting {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace").to_str().unwrap().to_owned();
        let recorded = run(&["record", "-q", "-o", &trace, "--", "ls", "/"]);
        assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
        let program = Program::start(Command::new("sh").args(["-c", "echo {}; exec sleep 1000"]));
        Setting { folder, trace, program }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Each verb that writes a result, so that it succeeds.
    fn successes(&self) -> Vec<Vec<String>> {
        let pid = self.program.pid();
        let baseline = self.path("baseline");
        let lines: [&[&str]; 22] = [
            &["run", "--dry-run", "--", "true"],
            &["enable", "--procfile"],
            &["disable", "--all", "--dry-run"],
            &["help", "MLW2101"],
            &["guard", "-q", "--json", "--", "true"],
            &["check", "-q", "--update", "-b", &baseline, "-r", "1", "--", "true"],
            &["list"],
            &["status"],
            &["config"],
            &["verify", &pid],
            &["verify", "--after", "100ms", "--", "sleep", "5"],
            &["compare", "-q", "-a", "glibc,mallow", "-r", "1", "-w", "0", "--", "true"],
            &["explain", &pid],
            &["watch", "-q", "-i", "50ms", "-d", "150ms", &pid],
            &["top", "--once", "--pid", &pid],
            &["stats", &pid],
            &["advise", &pid],
            &["advise", "--rules"],
            &["replay", "-q", "-a", "glibc,mallow", "-r", "1", &self.trace, "-m", "free"],
            &["tune", "-q", "-a", "mallow", "--", "sh", "-c", "test -z \"$MALLOW_CONF\""],
            &["report", &self.trace],
            &["report", "--json", &self.trace],
        ];
        lines.iter().map(|words| words.iter().map(|word| (*word).to_owned()).collect()).collect()
    }

    /// The same, and the verbs that print something else.
    fn printing(&self) -> Vec<Vec<String>> {
        let mut lines = self.successes();
        let others: [&[&str]; 7] = [
            &["help", "run"],
            &["help"],
            &["--help"],
            &["compare", "-h"],
            &["--version"],
            &["man", "run"],
            &["completions", "zsh"],
        ];
        lines.extend(others.map(|words| words.iter().map(|word| (*word).to_owned()).collect()));
        lines
    }

    /// The verbs with a result, with `-o FILE` in front of a command.
    fn writing_to(&self, file: &str) -> Vec<Vec<String>> {
        let mut lines = self.successes();
        for line in &mut lines {
            line.splice(1..1, ["-o".to_owned(), file.to_owned()]);
        }
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        for line in &self.successes() {
            let page = ["--html".to_owned(), file.to_owned()];
            lines.push([&line[..1], &page, &line[1..]].concat());
        }
        lines.push(words(&["record", "-o", file, "--", "true"]));
        lines.push(words(&["record", "-o", "/dev/null", "--html", file, "--", "true"]));
        lines.push(words(&["completions", "bash", "-o", file]));
        lines.push(words(&["man", "run", "-o", file]));
        lines.push(words(&["help", "run", "-o", file]));
        lines.push(words(&["report", "--pprof", file, &self.trace]));
        let pid = self.program.pid();
        lines.push(words(&["watch", "-q", "-d", "100ms", "--save", file, &pid]));
        lines.push(words(&["serve", "--textfile", file, "--pid", &pid]));
        lines
    }
}

fn started(words: &[String]) -> Command {
    mallow(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

#[track_caller]
fn ends_with(words: &[String], found: Option<i32>, code: i32, stderr: &str) {
    assert_eq!(found, Some(code), "mallow {}: {stderr}", words.join(" "));
}

/// One sentence, and no talk of internal errors or panics.
#[track_caller]
fn refused(words: &[&str], code: i32) {
    let Ran { code: found, stdout, stderr } = run(words);
    assert_eq!(found, Some(code), "mallow {}: {stderr}", words.join(" "));
    assert_eq!(stdout, "", "mallow {}", words.join(" "));
    assert_eq!(stderr.lines().count(), 1, "mallow {}: {stderr}", words.join(" "));
    assert!(!stderr.contains("should not happen") && !stderr.contains("panicked"), "{stderr}");
}

/// A verb stands in one of the lines, or among those of which this cannot come, each with the reason.
#[track_caller]
fn every_verb_is_in(lines: &[&[&str]], cannot: &[(&str, &str)]) {
    let mut found: BTreeSet<String> = lines.iter().map(|words| words[0].to_owned()).collect();
    for (verb, _) in cannot {
        assert!(found.insert((*verb).to_owned()), "{verb} can");
    }
    assert_eq!(found, verbs().into_iter().collect());
}

#[test]
fn bad_flags_are_2() {
    for verb in verbs() {
        let ran = run(&[&verb, "--no-such-flag"]);
        assert_eq!(ran.code, Some(2), "{verb}: {}", ran.stderr);
        assert!(ran.stderr.contains("--no-such-flag"), "{verb}: {}", ran.stderr);
    }
    refused(&["help", "nonsense"], 2);
}

#[test]
fn missing_files_are_2_and_missing_commands_127() {
    let setting = Setting::new();
    let none = setting.path("none");
    refused(&["replay", &none], 2);
    refused(&["tune", &none], 2);
    refused(&["report", &none], 2);
    refused(&["report", "--diff", &none, &setting.trace], 2);
    refused(&["check", "-b", &none, "--", "true"], 2);
    refused(&["explain", &none], 2);
    refused(&["stats", &none], 2);
    refused(&["advise", &none], 2);
    refused(&["watch", "--compare", &none, &none], 2);
    refused(&["run", "-a", &none, "--", "true"], 2);
    refused(&["enable", "--global", "-a", &none], 2);
    for verb in ["enable", "disable"] {
        refused(&[verb, "--global", "--root", &none], 2);
    }
    // A folder is not there to write to.
    let file = setting.path("no/folder");
    for words in setting.writing_to(&file) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        refused(&words, 2);
    }
    for verb in ["run", "compare", "verify", "record", "watch", "advise", "tune", "guard"] {
        refused(&[verb, "--", &none], 127);
    }
}

/// As of `run`, also where it fails before there is anything to see.
#[test]
fn a_command_that_fails_decides_the_code() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (trace, baseline) = (file("trace"), file("baseline"));
    let verbs: [&[&str]; 8] = [
        &["run"],
        &["guard"],
        &["record", "-q", "-o", &trace],
        &["watch", "-q"],
        &["advise", "-q"],
        &["check", "-q", "--update", "-b", &baseline],
        &["compare", "-q", "-a", "glibc,mallow"],
        &["tune", "-q"],
    ];
    for (script, code, how) in [
        ("exit 1", 1, "ended with exit code 1"),
        ("exit 255", 255, "ended with exit code 255"),
        ("kill -9 $$", 137, "was killed by SIGKILL"),
    ] {
        for verb in verbs {
            let ran = run(&[verb, &["--", "sh", "-c", script]].concat());
            // What `run` starts takes its place.
            let is_killed = verb == ["run"] && code == 137;
            assert_eq!(
                ran.code,
                Some(code).filter(|_| !is_killed),
                "{verb:?} {script}: {}",
                ran.stderr
            );
            if ran.stdout.is_empty() && !matches!(verb[0], "run" | "record" | "guard") {
                assert!(ran.stderr.contains(how), "{verb:?} {script}: {}", ran.stderr);
            }
        }
    }
    assert!(!Path::new(&baseline).exists(), "nothing was measured");
    // So soon that nothing is seen of it, most times.
    for _ in 0..5 {
        let ran = run(&["watch", "-q", "--", "false"]);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    }
}

/// What has no end is no file of ours, and is not read until memory ends.
#[test]
fn endless_files_are_7() {
    for words in [
        &["check", "-b", "/dev/zero", "--", "true"][..],
        &["watch", "--compare", "/dev/zero", "/dev/zero"],
        &["stats", "/dev/zero"],
        &["advise", "/dev/zero"],
        &["report", "/dev/zero"],
        &["replay", "/dev/zero"],
        &["tune", "/dev/zero"],
        &["tune", "--state", "/dev/zero", "--", "true"],
    ] {
        refused(words, 7);
    }
    refused(&["man", "--all", "/dev/full"], 2);
}

#[test]
fn missing_processes_are_7() {
    for words in [
        &["verify", NOBODY][..],
        &["explain", NOBODY],
        &["watch", NOBODY],
        &["top", "--pid", NOBODY],
        &["stats", NOBODY],
        &["advise", NOBODY],
        &["serve", "--pid", NOBODY],
    ] {
        refused(words, 7);
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    refused(&["record", "-p", NOBODY, "-o", trace.to_str().unwrap()], 7);
    assert!(!trace.exists(), "nothing was recorded");
}

#[test]
fn full_disks_are_5() {
    let setting = Setting::new();
    for words in setting.writing_to("/dev/full") {
        let ran = ran(started(&words).output().unwrap());
        ends_with(&words, ran.code, 5, &ran.stderr);
        assert!(ran.stderr.contains("No space left"), "{words:?}: {}", ran.stderr);
    }
    for words in setting.printing() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = started(&words).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let ran = ran(output);
        ends_with(&words, ran.code, 5, &ran.stderr);
    }
}

/// A reader that has seen enough is no error, and neither is one that reads no notes.
#[test]
fn broken_pipes_are_0() {
    let setting = Setting::new();
    for words in setting.printing() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = ran(started(&words).stdout(writer).stderr(Stdio::piped()).output().unwrap());
        ends_with(&words, ran.code, 0, &ran.stderr);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = started(&words).stdout(Stdio::null()).stderr(writer).status().unwrap();
        ends_with(&words, status.code(), 0, "stderr was closed");
    }
}

/// As another user, from a copy of the tool that this user may run.
#[test]
fn missing_rights_are_5() {
    let setting = Setting::new();
    std::fs::set_permissions(&setting.trace, PermissionsExt::from_mode(0o000)).unwrap();
    let pid = if is_root() { setting.program.pid() } else { "1".into() };
    let file = if is_root() { setting.path("result") } else { "/result".into() };
    let lines: [&[&str]; 27] = [
        &["check", "-o", &file, "--", "true"],
        &["verify", &pid],
        &["explain", &pid],
        &["serve", "--pid", &pid],
        &["serve", "--listen", "127.0.0.1:0", "--token-file", &setting.trace],
        &["stats", &pid],
        &["stats", &setting.trace],
        &["advise", &pid],
        &["record", "-p", &pid, "-o", "/dev/null"],
        &["report", &setting.trace],
        &["replay", &setting.trace],
        &["tune", &setting.trace],
        &["tune", "-o", &file, "--", "true"],
        &["watch", "--compare", &setting.trace, &setting.trace],
        &["list", "-o", &file],
        &["compare", "-o", &file, "--", "true"],
        &["record", "-o", &file, "--", "true"],
        &["guard", "-o", &file, "--", "true"],
        &["run", "--dry-run", "-o", &file, "--", "true"],
        &["enable", "--procfile", "-o", &file],
        &["disable", "--all", "--dry-run", "-o", &file],
        &["status", "-o", &file],
        &["config", "-o", &file],
        &["top", "--once", "-o", &file],
        &["help", "run", "-o", &file],
        &["man", "run", "-o", &file],
        &["completions", "bash", "-o", &file],
    ];
    every_verb_is_in(&lines, &[]);
    for words in lines {
        let mut command = without_rights(setting.folder.path());
        let ran = ran(command.args(words).output().unwrap());
        assert_eq!(ran.code, Some(5), "{words:?}: {}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{words:?}: {}", ran.stderr);
    }
}

/// Verbs that wait neither for a command nor for whoever writes a file.
const AT_ONCE: [(&str, &str); 8] = [
    ("list", "looks for files"),
    ("disable", "writes files"),
    ("status", "reads files"),
    ("config", "reads files"),
    ("completions", "prints what it holds"),
    ("man", "prints what it holds"),
    ("help", "prints what it holds"),
    ("enable", "writes files; a comparison before it is that of compare"),
];

/// Ctrl-C: what was measured is reported where there is something to report, and the code is that
/// of the signal, or of the command that got it too.
#[test]
fn interruptions_are_130() {
    // A shell starts what it puts into the background with SIGINT ignored, and that is inherited.
    let status = read_to_string("/proc/self/status").unwrap();
    if signals(&status, "SigIgn:") & 2 != 0 {
        println!("skipped: SIGINT is ignored here");
        return;
    }
    let setting = Setting::new();
    let started_file = PathBuf::from(setting.path("begun"));
    let script = format!("touch {}; sleep 100", started_file.display());
    let trace = setting.path("other");
    let pid = setting.program.pid();
    let baseline = setting.path("baseline");
    let running: [&[&str]; 9] = [
        &["check", "-q", "--update", "-b", &baseline, "--", "sh", "-c", &script],
        &["run", "--", "sh", "-c", &script],
        &["tune", "-q", "-a", "glibc", "--", "sh", "-c", &script],
        &["compare", "-q", "-a", "glibc", "-r", "3", "--", "sh", "-c", &script],
        &["compare", "-q", "-a", "glibc", "--setup", &script, "--", "true"],
        &["compare", "-q", "-a", "glibc", "--prepare", &script, "--", "true"],
        &["tune", "-q", "-a", "glibc", "--prepare", &script, "--", "true"],
        &["record", "-q", "-o", &trace, "--", "sh", "-c", &script],
        &["verify", "--after", "50s", "--", "sh", "-c", &script],
    ];
    for words in running {
        let _ = std::fs::remove_file(&started_file);
        let found = interrupted(words, &|_| started_file.exists());
        assert_eq!(found, 130, "mallow {}", words.join(" "));
    }
    // These ask the command to end as well: it is one that SIGINT has ended by then.
    let asking: [&[&str]; 2] =
        [&["guard", "-q", "--", "sleep", "100"], &["advise", "-q", "--", "sleep", "100"]];
    for words in asking {
        let sleeps = |pid| children(pid).any(|child| name(child) == "sleep\n");
        assert_eq!(interrupted(words, &sleeps), 130, "{words:?}");
    }
    // Whose players run: so many rounds do not end by themselves.
    let replayed = ["replay", "-q", "-a", "glibc", "-m", "free", "-r", "10000", &setting.trace];
    assert_eq!(interrupted(&replayed, &|pid| children(pid).next().is_some()), 130);
    // Who reads what nobody goes on to write.
    let folder = setting.path("pictures");
    std::fs::create_dir(&folder).unwrap();
    let pipe = format!("{folder}/report.json");
    nix::unistd::mkfifo(Path::new(&pipe), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let reading: [&[&str]; 6] = [
        &["report", &pipe],
        &["replay", "-q", &pipe],
        &["stats", &pipe],
        &["advise", &pipe],
        &["explain", &folder],
        &["watch", "--compare", &pipe, &pipe],
    ];
    for words in reading {
        let writer = OnceCell::new();
        assert_eq!(interrupted(words, &|_| is_read(&pipe, &writer)), 130, "{words:?}");
    }
    // What is looked at goes on: Ctrl-C ends the look as it should.
    let saved = setting.path("saved");
    let following: [&[&str]; 4] = [
        &["watch", "-q", "-i", "20ms", "--json", "-o", &saved, &pid],
        &["stats", "-i", "20ms", &pid],
        &["top", "-i", "20ms", "--json", "--pid", &pid],
        &["serve", "--textfile", &trace, "-i", "20ms", "--pid", &pid],
    ];
    for words in following {
        assert_eq!(interrupted(words, &handles_interrupts), 0, "{words:?}");
    }
    assert!(read_to_string(&saved).unwrap().contains("interrupted"));
    let lines = [&running[..], &asking, &[&replayed[..]], &reading, &following].concat();
    every_verb_is_in(&lines, &AT_ONCE);
}

/// Whether a process has opened the pipe to read it. From then on there is one who might write.
fn is_read(pipe: &str, writer: &OnceCell<File>) -> bool {
    let opened = File::options().write(true).custom_flags(nix::libc::O_NONBLOCK).open(pipe);
    opened.is_ok_and(|file| writer.set(file).is_ok())
}

/// What any of its threads started.
fn children(pid: u32) -> impl Iterator<Item = u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| read_to_string(thread.path().join("children")).ok());
    let pids = lists.collect::<String>();
    pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>().into_iter()
}

/// As the kernel has it, with the end of its line.
fn name(pid: u32) -> String {
    read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default()
}

/// A line of a shell's that makes the file, and a process that goes on for as long as it is there.
fn lasts_with(file: &str) -> String {
    format!("touch {file}; (while [ -e {file} ]; do sleep 1; done)")
}

/// Sent to the tool alone, and not to what it started, whose end it does not wait for.
#[test]
fn a_signal_that_the_command_does_not_get_ends_a_measurement_at_once() {
    let setting = Setting::new();
    let begun = setting.path("begun");
    let script = format!("{}; :", lasts_with(&begun));
    let baseline = setting.path("baseline");
    for verb in [
        &["check", "-q", "--update", "-b", &baseline][..],
        &["compare", "-q", "-a", "glibc", "-r", "3"],
        &["tune", "-q", "-a", "glibc"],
    ] {
        for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
            let _ = std::fs::remove_file(&begun);
            let words = [verb, &["--", "sh", "-c", &script]].concat();
            let found = ended_by(signal, false, &words, &|_| Path::new(&begun).exists());
            assert_eq!(found, code, "{signal}: mallow {}", words.join(" "));
        }
    }
}

/// The first run is alone; the second one is recorded.
#[test]
fn an_interrupted_recording_ends_the_search() {
    let setting = Setting::new();
    let [count, begun, result] = ["count", "begun", "result"].map(|name| setting.path(name));
    let lasts = lasts_with(&begun);
    let script = format!("echo x >> {count}; [ $(wc -l < {count}) = 2 ] && {{ {lasts}; }}; :");
    let words = ["tune", "-q", "-a", "glibc", "--search", "replay", "--json", "-o", &result];
    let words = [&words[..], &["--", "sh", "-c", &script]].concat();
    let has_begun = |_| Path::new(&begun).exists();
    assert_eq!(ended_by(Signal::SIGTERM, false, &words, &has_begun), 143);
    assert_eq!(read_to_string(result).unwrap(), "", "nothing was tried");
}

/// Ctrl-C reaches the command that prepares a run, too: what is finished is reported.
#[test]
fn an_interrupted_preparation_loses_no_runs() {
    let setting = Setting::new();
    let [count, waits, result] = ["count", "waits", "result"].map(|name| setting.path(name));
    // Before the sixth run: after the probe, the warm-up's place, and some rounds.
    let script = format!(
        "echo x >> {count}; [ $(wc -l < {count}) = 6 ] && {{ : > {waits}; exec sleep 100; }}; true"
    );
    let words = ["compare", "-q", "-a", "glibc", "-r", "500", "--export-json", &result];
    let words = [&words[..], &["--prepare", &script, "--", "true"]].concat();
    assert_eq!(interrupted(&words, &|_| Path::new(&waits).exists()), 130);
    let report: serde_json::Value = serde_json::from_str(&read_to_string(result).unwrap()).unwrap();
    assert_eq!(report["conditions"][0]["entries"][0]["runs_finished"], 4, "{report}");
}

/// From here on the tool decides itself what SIGINT does: it handles SIGTERM next.
fn handles_interrupts(pid: u32) -> bool {
    let status = read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    signals(&status, "SigCgt:") & 1 << (Signal::SIGTERM as i32 - 1) != 0
}

/// The signals of a line of /proc/PID/status, a bit each.
fn signals(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).unwrap())
}

/// The code as a shell shows it, after SIGINT to the tool and all that it started in its group.
fn interrupted(words: &[&str], has_begun: &dyn Fn(u32) -> bool) -> i32 {
    ended_by(Signal::SIGINT, true, words, has_begun)
}

fn ended_by(
    signal: Signal,
    is_for_group: bool,
    words: &[&str],
    has_begun: &dyn Fn(u32) -> bool,
) -> i32 {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    let mut command = mallow(words);
    command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = Running(command.spawn().unwrap());
    let deadline = Instant::now() + FOR_EVER;
    while !has_begun(child.id()) {
        assert!(Instant::now() < deadline, "mallow {} does not begin", words.join(" "));
        assert!(child.try_wait().unwrap().is_none(), "mallow {} ended", words.join(" "));
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = child.id().cast_signed();
    kill(Pid::from_raw(if is_for_group { -pid } else { pid }), signal).unwrap();
    let deadline = Instant::now() + FOR_EVER;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "mallow {} goes on", words.join(" "));
        std::thread::sleep(Duration::from_millis(5));
    };
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
}

/// Its own stack does not depend on the limit that its user gives to all programs.
#[test]
fn a_small_stack_is_enough() {
    let mut config = Command::new("sh");
    config.args(["-c", "ulimit -s 64 && exec \"$0\" config"]).arg(mallow(&[]).get_program());
    let ran = ran(config.env("XDG_CONFIG_HOME", "/nonexistent").output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

/// Few open files are enough, or one sentence says that they are not.
#[test]
fn too_few_open_files_are_5_or_125() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace").display().to_string();
    let limited = |most: u32| {
        let script = format!("ulimit -n {most} && exec \"$0\" record -q -o \"$1\" -- true");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(mallow(&[]).get_program()).arg(&trace);
        ran(command.env("XDG_CONFIG_HOME", "/nonexistent").output().unwrap())
    };
    assert!(matches!(limited(4).code, Some(5 | 125)));
    for most in 4..16 {
        let ran = limited(most);
        assert!(matches!(ran.code, Some(0 | 5 | 125)), "{most}: {:?} {}", ran.code, ran.stderr);
        if ran.code != Some(0) {
            assert_eq!(ran.stderr.lines().count(), 1, "{most}: {}", ran.stderr);
            assert!(ran.stderr.contains("ulimit -n"), "{most}: {}", ran.stderr);
        }
    }
    assert_eq!(limited(64).code, Some(0));
}

/// Each limit on the address space is large enough, or one sentence says that it is not.
#[test]
fn too_little_memory_is_5() {
    let limited = |mebibytes: u32, words: &[&str]| {
        let script = format!("ulimit -v {} && exec \"$0\" \"$@\"", mebibytes << 10);
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(mallow(&[]).get_program()).args(words);
        ran(command.env("XDG_CONFIG_HOME", "/nonexistent").output().unwrap())
    };
    // Below it the loader says what is wrong.
    let begin = (1..).find(|&size| limited(size, &["config"]).code == Some(0)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for size in begin..begin + 16 {
        let baseline = folder.path().join(size.to_string()).display().to_string();
        let check = ["check", "-q", "--update", "-b", &baseline, "-r", "1", "--", "true"];
        for words in [&["top", "--count", "1"][..], &check] {
            let ran = limited(size, words);
            // The C library ends the process itself where it has no memory for this.
            let c_library = ran.code.is_none()
                && ran.stderr.starts_with("Fatal glibc error: failed to register TLS destructor");
            if ran.code != Some(0) && !c_library {
                // 125: there was none for the command.
                assert!(matches!(ran.code, Some(5 | 125)), "{size} MiB: {}", ran.stderr);
                assert_eq!(ran.stderr.lines().count(), 1, "{size} MiB: {}", ran.stderr);
                assert!(ran.stderr.starts_with("mallow: "), "{size} MiB: {}", ran.stderr);
            }
        }
    }
}
