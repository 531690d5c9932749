// SPDX-License-Identifier: MIT
//! What is sent to the tool alone, as by a terminal that hangs up or by a service manager: the command gets the
//! same signal, what was found is told, and nothing stays behind.

use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::common::{Ran, mallow, ran};

/// The verb, with a command that says when it is there, and how it was ended.
fn told(verb: &[&str], signal: Signal) -> (Ran, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let script = "for s in HUP INT TERM QUIT; do trap \"kill \\$!; echo $s > told; exit 9\" $s; done; sleep 60 & \
                  echo > there; wait";
    let mut command = mallow(&[verb, &["--", "sh", "-c", script]].concat());
    std::fs::create_dir(folder.path().join("temporary")).unwrap();
    command.current_dir(folder.path()).env("TMPDIR", folder.path().join("temporary"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // No terminal sends Ctrl-C to this group.
    let mut child = command.process_group(0).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !folder.path().join("there").exists() {
        assert!(Instant::now() < deadline, "{verb:?}: the command does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "{verb:?}: it does not end by {signal}");
        std::thread::sleep(Duration::from_millis(5));
    }
    let left = std::fs::read_dir(folder.path().join("temporary")).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{verb:?}, {signal}: {left:?}");
    (ran(child.wait_with_output().unwrap()), folder)
}

fn of(folder: &TempDir, file: &str) -> String {
    std::fs::read_to_string(folder.path().join(file)).unwrap_or_default()
}

#[test]
fn a_hang_up_ends_a_measurement_with_its_result() {
    let (ran, folder) = told(&["watch", "--save", "kept.json"], Signal::SIGHUP);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(of(&folder, "kept.json").contains("mallow.watch/"), "{}", of(&folder, "kept.json"));
    assert_eq!(of(&folder, "told"), "TERM\n", "watch ends what it started");
    let (ran, _) = told(&["compare", "-a", "glibc"], Signal::SIGHUP);
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
        let (ran, folder) = told(&["guard", "-o", "found"], signal);
        assert_eq!((ran.code, of(&folder, "told").as_str()), (Some(9), name), "{}", ran.stderr);
        assert!(folder.path().join("found").exists());
    }
}

#[test]
fn record_and_advise_pass_it_on_too() {
    for (signal, name) in [(Signal::SIGINT, "INT\n"), (Signal::SIGHUP, "HUP\n")] {
        for verb in ["record", "advise"] {
            let (ran, folder) = told(&[verb], signal);
            assert_eq!((ran.code, of(&folder, "told").as_str()), (Some(9), name), "{}", ran.stderr);
        }
    }
}
