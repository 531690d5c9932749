// SPDX-License-Identifier: MIT
//! What is sent to the tool alone, as by a terminal that hangs up or by a service manager: the command gets the
//! same signal, what was found is told, and nothing stays behind.

use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::common::{Ran, mallow, ran};

/// The verb, with a command that says when it is there, and how it was ended. It ignores all but the first signal.
fn told(verb: &[&str], signals: &[Signal]) -> (Ran, TempDir) {
    let ignored = signals[1..].iter().map(|signal| format!("trap '' {};", &signal.as_str()[3..]));
    let script = format!(
        "for s in HUP INT TERM QUIT; do trap \"kill -9 \\$!; echo $s > told; exit 9\" $s; done; {} sleep 1000 & \
         echo > there; wait",
        ignored.collect::<String>()
    );
    let signals: Vec<_> = signals.iter().map(|signal| ("there", *signal)).collect();
    sent(verb, &script, &signals)
}

/// The verb, with a script; each signal is sent once the script has made the file of that name.
fn sent(verb: &[&str], script: &str, signals: &[(&str, Signal)]) -> (Ran, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = mallow(&[verb, &["--", "sh", "-c", script]].concat());
    std::fs::create_dir(folder.path().join("temporary")).unwrap();
    command.current_dir(folder.path()).env("TMPDIR", folder.path().join("temporary"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Under nohup, or in the background of a script, these are ignored here.
    let as_usual = || {
        for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
            // SAFETY: the default action is no code of ours.
            unsafe { nix::sys::signal::signal(signal, nix::sys::signal::SigHandler::SigDfl) }?;
        }
        Ok(())
    };
    // SAFETY: nothing is called between fork and exec but sigaction.
    unsafe { command.pre_exec(as_usual) };
    // No terminal sends Ctrl-C to this group.
    let mut child = command.process_group(0).spawn().unwrap();
    for (file, signal) in signals {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !folder.path().join(file).exists() {
            assert!(Instant::now() < deadline, "{verb:?}: the command does not come to {file}");
            std::thread::sleep(Duration::from_millis(5));
        }
        kill(Pid::from_raw(child.id().cast_signed()), *signal).unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(120);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "{verb:?}: it does not end by {signals:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    let left = std::fs::read_dir(folder.path().join("temporary")).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{verb:?}, {signals:?}: {left:?}");
    (ran(child.wait_with_output().unwrap()), folder)
}

fn of(folder: &TempDir, file: &str) -> String {
    std::fs::read_to_string(folder.path().join(file)).unwrap_or_default()
}

#[test]
fn a_hang_up_ends_a_measurement_with_its_result() {
    let (ran, folder) = told(&["watch", "--save", "kept.json"], &[Signal::SIGHUP]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(of(&folder, "kept.json").contains("mallow.watch/"), "{}", of(&folder, "kept.json"));
    assert_eq!(of(&folder, "told"), "TERM\n", "watch ends what it started");
    let (ran, _) = told(&["compare", "-a", "glibc"], &[Signal::SIGHUP]);
    assert_eq!(ran.code, Some(129), "{}", ran.stderr);
    assert!(ran.stderr.contains("The measurement was interrupted"), "{}", ran.stderr);
}

#[test]
fn guard_passes_on_what_it_is_sent() {
    for (signal, name) in [
        (Signal::SIGHUP, "HUP\n"),
        (Signal::SIGINT, "INT\n"),
        (Signal::SIGTERM, "TERM\n"),
        (Signal::SIGQUIT, "QUIT\n"),
    ] {
        let (ran, folder) = told(&["guard", "-o", "found"], &[signal]);
        assert_eq!((ran.code, of(&folder, "told").as_str()), (Some(9), name), "{}", ran.stderr);
        assert!(folder.path().join("found").exists());
    }
}

#[test]
fn record_and_advise_pass_it_on_too() {
    for (signal, name) in [(Signal::SIGINT, "INT\n"), (Signal::SIGHUP, "HUP\n")] {
        for verb in ["record", "advise"] {
            let (ran, folder) = told(&[verb], &[signal]);
            assert_eq!((ran.code, of(&folder, "told").as_str()), (Some(9), name), "{}", ran.stderr);
        }
    }
}

/// As systemd ends a service with `SendSIGHUP=yes`.
#[test]
fn a_signal_is_passed_on_though_another_follows() {
    for verb in [&["guard", "-o", "found"][..], &["record"], &["advise"]] {
        let (ran, folder) = told(verb, &[Signal::SIGTERM, Signal::SIGHUP]);
        assert_eq!((ran.code, of(&folder, "told").as_str()), (Some(9), "TERM\n"), "{}", ran.stderr);
    }
}

/// As users type Ctrl-C once more when nothing happens.
#[test]
fn a_second_signal_is_the_commands_to_answer_too() {
    let ignores = "trap '' INT; trap 'kill -9 $!; echo TERM > told; exit 9' TERM; sleep 1000 & \
                   echo > there; wait";
    let goes_on = "n=0; trap 'n=$((n + 1)); echo INT > told; echo > seen$n' INT; echo > there; \
                   while [ $n -lt 3 ]; do sleep 0.02; done; exit 9";
    let there = [("there", Signal::SIGINT), ("there", Signal::SIGTERM)];
    let each = [("there", Signal::SIGINT), ("seen1", Signal::SIGINT), ("seen2", Signal::SIGINT)];
    let cases = [(ignores, &there[..], "TERM\n"), (goes_on, &each[..], "INT\n")];
    for verb in [&["guard", "-o", "found"][..], &["record"], &["advise"]] {
        for (script, signals, last) in cases {
            let (ran, folder) = sent(verb, script, signals);
            assert_eq!((ran.code, of(&folder, "told").as_str()), (Some(9), last), "{}", ran.stderr);
            assert_eq!(folder.path().join("found").exists(), verb[0] == "guard");
        }
    }
}

/// Nobody reads what is told of a command that has ended.
#[test]
fn what_comes_after_the_commands_end_ends_the_tool() {
    let folder = tempfile::tempdir().unwrap();
    for verb in ["guard", "advise", "record"] {
        let (_reader, mut writer) = std::io::pipe().unwrap();
        fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        while writer.write(&[b' '; 4096]).is_ok() {}
        fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
        // A report, and the sentence that nothing could be seen.
        let mut command = mallow(&[verb, "--json", "--", "true"]);
        command
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(writer.try_clone().unwrap())
            .stderr(writer);
        let mut child = command.process_group(0).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "{verb}: it does not end");
            std::thread::sleep(Duration::from_millis(500));
            let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
        };
        assert_eq!(status.signal(), Some(Signal::SIGTERM as i32), "{verb}: {status}");
    }
}

/// The window is closed while something is shown in it: with a hang-up, and under nohup, where nobody tells.
#[test]
fn what_is_shown_ends_with_its_window() {
    let script = "import os, pty, signal, sys, time\n\
        signal.alarm(100)\n\
        if sys.argv[1] == 'ignored': signal.signal(signal.SIGHUP, signal.SIG_IGN)\n\
        pid, terminal = pty.fork()\n\
        if pid == 0:\n    os.environ['TERM'] = 'xterm'\n    os.environ.pop('CI', None)\n    \
        os.execv(sys.argv[2], sys.argv[2:])\n\
        seen = b''\n\
        while b'1049h' not in seen: seen += os.read(terminal, 4096)\n\
        time.sleep(0.5)\n\
        os.close(terminal)\n\
        for i in range(300):\n    \
        ended, status = os.waitpid(pid, os.WNOHANG)\n    \
        if ended: sys.exit(os.waitstatus_to_exitcode(status) % 256)\n    \
        time.sleep(0.1)\n\
        os.kill(pid, signal.SIGKILL)\n\
        sys.exit('still there')\n";
    let folder = tempfile::tempdir().unwrap();
    for how in ["told", "ignored"] {
        let kept = folder.path().join(how);
        let kept = kept.to_str().unwrap();
        let watch = ["watch", "--save", kept, "--", "sleep", "100"];
        for words in [&watch[..], &["top"]] {
            let mut python = std::process::Command::new("python3");
            python.args(["-c", script, how]).arg(mallow(&[]).get_program()).args(words);
            let Ok(output) = python.output() else {
                println!("skipped: python3 is not installed");
                return;
            };
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{how}, {words:?}: {stderr}");
        }
        assert!(std::fs::read_to_string(kept).unwrap().contains("mallow.watch/"));
    }
}
