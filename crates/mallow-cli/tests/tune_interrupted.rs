// SPDX-License-Identifier: MIT
//! Ctrl-C ends `mallow tune` at once, whatever it does then: with the code of the signal, a sentence, and without
//! anything that stays behind, neither a process nor a file. Sent to the tool alone, so that it has to
//! end what it started.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::common::{Ran, compile, mallow, ran, run};

struct Setting {
    folder: TempDir,
    /// Of all that is started here.
    temporary: PathBuf,
}

impl Setting {
    fn new() -> Setting {
        let folder = tempfile::tempdir().unwrap();
        let temporary = folder.path().join("temporary");
        std::fs::create_dir(&temporary).unwrap();
        Setting { folder, temporary }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// The processes that were started here, by the folder in their environment.
    fn processes(&self) -> Vec<String> {
        let folders = std::fs::read_dir("/proc").unwrap().flatten();
        let is_own = |pid: &PathBuf| {
            let environment = std::fs::read(pid.join("environ")).unwrap_or_default();
            let variable = [b"TMPDIR=", self.temporary.as_os_str().as_bytes()].concat();
            environment.split(|byte| *byte == 0).any(|one| one == variable)
        };
        let own = folders.map(|folder| folder.path()).filter(is_own);
        own.filter_map(|pid| std::fs::read_to_string(pid.join("comm")).ok()).collect()
    }

    /// `mallow tune` with a Ctrl-C once this holds, given its number.
    fn interrupted(&self, words: &[&str], is_time: &dyn Fn(u32) -> bool) -> Ran {
        let mut command = mallow(&[&["tune", "-q"], words].concat());
        command.env("TMPDIR", &self.temporary).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(120);
        while !is_time(child.id()) {
            if Instant::now() > deadline {
                child.kill().unwrap();
                panic!("{words:?}: the moment does not come");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
        // What it would wait for takes hours.
        let deadline = Instant::now() + Duration::from_secs(60);
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                child.kill().unwrap();
                panic!("{words:?}: it goes on");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let ended = ran(child.wait_with_output().unwrap());
        // What was killed is gone as soon as it was waited for.
        let deadline = Instant::now() + Duration::from_secs(120);
        while !self.processes().is_empty() {
            assert!(Instant::now() < deadline, "{words:?}: {:?} stay", self.processes());
            std::thread::sleep(Duration::from_millis(10));
        }
        let left: Vec<_> = std::fs::read_dir(&self.temporary).unwrap().flatten().collect();
        assert!(left.is_empty(), "{words:?}: {left:?} stay");
        assert_eq!(ended.code, Some(130), "{words:?}: {}", ended.stderr);
        ended
    }
}

fn says(ran: &Ran, sentence: &str) {
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains(sentence), "{}", ran.stderr);
}

const NOTHING: &str = "The search was interrupted before anything was tried.";

/// The first run is alone, the second is the recorded one.
#[test]
fn while_the_command_is_recorded() {
    let setting = Setting::new();
    let [count, begun] = ["count", "begun"].map(|name| setting.path(name));
    let script = format!(
        "echo x >> {count}; [ $(wc -l < {count}) = 2 ] && {{ : > {begun}; sleep 9999; }}; :"
    );
    let words = ["-a", "glibc", "--search", "replay", "--", "sh", "-c", &script];
    let has_trace = || std::fs::read_dir(&setting.temporary).unwrap().next().is_some();
    let ran = setting.interrupted(&words, &|_| Path::new(&begun).exists() && has_trace());
    says(&ran, NOTHING);
    assert_eq!(ran.stdout, "");
}

/// Of a program that allocates and frees a million times or so.
fn trace(setting: &Setting) -> Option<String> {
    let source = include_str!("programs/churn.c");
    let flags = ["-O1", "-pthread", "-DTURNS=100000"];
    let program = compile("cc", setting.folder.path(), source, &flags)?;
    let trace = setting.path("trace");
    let program = program.to_str().unwrap();
    let ran = run(&["record", "-q", "--stacks", "none", "-o", &trace, "--", program]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    Some(trace)
}

/// Whether the tool has opened the file.
fn reads(pid: u32, file: &str) -> bool {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    links.filter_map(|link| std::fs::read_link(link.path()).ok()).any(|path| path == *file)
}

#[test]
fn while_a_recording_is_read() {
    let setting = Setting::new();
    let Some(trace) = trace(&setting) else { return };
    let ran = setting.interrupted(&["-a", "glibc", &trace], &|pid| reads(pid, &trace));
    says(&ran, NOTHING);
    assert_eq!(ran.stdout, "");
}

/// The first replay, or, where that was too quick to be caught, one of the search.
#[test]
fn while_it_is_replayed() {
    let setting = Setting::new();
    let Some(trace) = trace(&setting) else { return };
    let plays = |_| setting.processes().iter().any(|name| name.starts_with("mallow-player"));
    let ran = setting.interrupted(&["-a", "glibc", &trace], &plays);
    says(&ran, "The search was interrupted");
}

/// What was run is told, and how to go on.
#[test]
fn while_settings_are_tried() {
    let setting = Setting::new();
    let [count, state] = ["count", "state"].map(|name| setting.path(name));
    let script = format!("echo x >> {count}; [ $(wc -l < {count}) -gt 9 ] && sleep 9999; :");
    let lines = |_| std::fs::read_to_string(&count).is_ok_and(|text| text.lines().count() > 9);
    let options = ["-a", "glibc", "--search", "command", "--budget", "10m", "--state", &state];
    let ran = setting.interrupted(&[&options[..], &["--", "sh", "-c", &script]].concat(), &lines);
    says(&ran, "The search was interrupted; what was not run has no verdict.");
    assert!(ran.stderr.contains(&format!("Go on with: --state {state}.")), "{}", ran.stderr);
    assert!(ran.stdout.contains("No verdict"), "{}", ran.stdout);
    let known: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&state).unwrap()).unwrap();
    assert!(!known["trials"].as_array().unwrap().is_empty(), "{known}");
}
