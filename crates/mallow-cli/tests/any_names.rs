// SPDX-License-Identifier: MIT
//! Programs and folders whose names are no text: any bytes, or letters of which the kernel keeps a half, since it cuts
//! the name of a process after 15 bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::common::system::System;
use crate::common::{json, mallow, ran};

/// A copy of sleep whose name has letters of two bytes each, the eighth of which is cut.
fn sleeper() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join(OsStr::from_bytes(b"a\xff"));
    std::fs::create_dir(&odd).unwrap();
    let sleep = odd.join("\u{441}\u{43f}\u{44f}\u{449}\u{438}\u{439}\u{43a}\u{43e}\u{442}");
    std::fs::copy("/bin/sleep", &sleep).unwrap();
    (folder, sleep)
}

#[test]
fn processes_of_any_name_are_looked_at() {
    let (_folder, sleep) = sleeper();
    let mut target = Command::new(&sleep).arg("60").spawn().unwrap();
    while std::fs::read_link(format!("/proc/{}/exe", target.id())).unwrap() != sleep {}
    let name = std::fs::read(format!("/proc/{}/comm", target.id())).unwrap();
    assert!(std::str::from_utf8(&name).is_err(), "{name:?}");
    let pid = target.id().to_string();
    let looks: [&[&str]; 5] = [
        &["watch", "-d", "200ms", "--json", &pid],
        &["verify", "--json", &pid],
        &["explain", "--json", &pid],
        &["top", "--once", "--json", "-p", &pid],
        &["status", "--json"],
    ];
    let looks = looks.map(|look| ran(mallow(look).output().unwrap()));
    target.kill().unwrap();
    target.wait().unwrap();
    for look in &looks {
        assert_eq!(look.code, Some(0), "{}", look.stderr);
    }
    assert!(looks[0].stdout.contains("\"rss\""), "{}", looks[0].stdout);
    let program = json(&looks[1])["processes"][0]["program"].as_str().unwrap().to_owned();
    assert!(program.contains("\u{fffd}/\u{441}\u{43f}"), "{program}");
}

#[test]
fn commands_of_any_name_are_recorded_with_their_memory() {
    let (folder, sleep) = sleeper();
    let trace = folder.path().join(OsStr::from_bytes(b"\xfe.trace"));
    let mut command = mallow(&["record", "--json", "-o"]);
    command.arg(&trace).arg("--").arg(&sleep).arg("0.3");
    let recorded = ran(command.output().unwrap());
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    assert!(recorded.stdout.contains("\u{fffd}.trace"), "{}", recorded.stdout);
    for other in [None, Some(&trace)] {
        let mut command = mallow(&["report", "--json"]);
        command.args(other.map(|_| "--diff")).args(other).arg(&trace);
        let report = ran(command.output().unwrap());
        assert_eq!(report.code, Some(0), "{}", report.stderr);
        let peak = json(&report)["processes"][0]["peak_rss_bytes"].as_u64();
        assert!(other.is_some() || peak > Some(500_000), "{}", report.stdout);
    }
}

/// A system that does not run may lie anywhere. What the record of it has to hold is text.
#[test]
fn systems_in_folders_of_any_name_are_enabled_and_shown() {
    let system = System::new();
    let odd = system.folder.path().join(OsStr::from_bytes(b"a\xff"));
    std::fs::create_dir(&odd).unwrap();
    for name in ["etc", "usr", "var"] {
        std::fs::rename(system.path(name), odd.join(name)).unwrap();
    }
    std::fs::remove_dir(odd.join("etc/profile.d")).unwrap();
    let run = |words: &[&str], more: &[&OsStr]| {
        let mut command = mallow(words);
        command.args(more).arg("--root").arg(&odd).env("HOME", "/home/somebody");
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
        ran(command.output().unwrap())
    };
    for words in [
        &["enable", "--global", "--json"][..],
        &["status", "--json"],
        &["disable", "--all", "--json"],
    ] {
        let ran = run(words, &[]);
        assert_eq!(ran.code, Some(0), "{words:?}: {}", ran.stderr);
        assert!(ran.stdout.contains("/a\u{fffd}/etc/profile.d/mallow.sh"), "{}", ran.stdout);
    }
    let refused =
        run(&["enable", "-a", "mallow", "--wrappers"], &[OsStr::from_bytes(b"/opt/b\xff")]);
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(refused.stderr.contains("/opt/b\u{fffd}/mallow.sh is no UTF-8"), "{}", refused.stderr);
    for name in ["etc/profile.d", "var/lib/mallow", "home", "opt"] {
        assert!(!odd.join(name).exists(), "{name}");
    }
}
