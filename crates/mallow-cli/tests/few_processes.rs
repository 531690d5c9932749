// SPDX-License-Identifier: MIT
//! A user may have so many processes, threads among them. Those that a verb needs are there, or one sentence says
//! what to allow.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Ran, is_root, ran, run, without_rights};

/// More are never needed here.
const MOST: u32 = 6;

/// The tool as a user that nobody else is.
fn limited(user: &str, folder: &Path, most: u32, words: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", user, "--clear-groups", "prlimit"]);
    command.arg(format!("--nproc={most}"));
    command.arg(without_rights(folder).get_args().last().unwrap());
    command.args(words).env("HOME", "/nonexistent");
    command
}

fn is_skipped() -> bool {
    if !is_root() {
        eprintln!("skipped: the limit counts all processes of this user");
    }
    !is_root()
}

#[test]
fn too_few_processes_are_5_or_125() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace").to_str().unwrap().to_owned();
    assert_eq!(run(&["record", "-q", "-o", &trace, "--", "ls", "/"]).code, Some(0));
    std::fs::set_permissions(&trace, PermissionsExt::from_mode(0o644)).unwrap();
    let of_all = folder.path().join("of_all");
    std::fs::create_dir(&of_all).unwrap();
    std::fs::set_permissions(&of_all, PermissionsExt::from_mode(0o777)).unwrap();
    let baseline = of_all.join("baseline").display().to_string();
    let compare = ["compare", "-q", "-a", "glibc", "-r", "1", "-w", "0"];
    let values = [&compare[..], &["--value", "x=([0-9])", "--", "echo", "1"]].concat();
    let server = ["--server", "sh -c 'echo ready; exec sleep 9'", "--ready", "ready"];
    let service = [&compare[..], &server, &["--load", "true"]].concat();
    let lines: [&[&str]; 12] = [
        &["guard", "-q", "--mode", "glibc", "--", "true"],
        &["advise", "--", "sleep", "3"],
        &["replay", "-q", "-a", "glibc,mallow", "-r", "1", &trace],
        &["report", &trace],
        &["verify", "--", "sleep", "0.1"],
        &["watch", "-q", "-i", "20ms", "-d", "60ms", "--", "sleep", "1"],
        &values,
        &service,
        &["record", "-q", "-o", "/dev/null", "--", "true"],
        &["top", "--count", "1"],
        &["check", "-q", "--update", "-b", &baseline, "-r", "1", "--", "true"],
        &["run", "--", "true"],
    ];
    for words in lines {
        let is_enough = |most| {
            let Ran { code, stderr, .. } =
                ran(limited("54321", folder.path(), most, words).output().unwrap());
            if code == Some(0) {
                return true;
            }
            assert!(matches!(code, Some(5 | 125)), "{most} {words:?}: {stderr}");
            assert_eq!(stderr.lines().count(), 1, "{most} {words:?}: {stderr}");
            assert!(stderr.contains("ulimit -u"), "{most} {words:?}: {stderr}");
            false
        };
        assert!((1..=MOST).any(is_enough), "{words:?} never succeeded");
    }
}

#[test]
fn a_server_begins_with_all_threads_that_it_cannot_do_without() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let is_served = |most: &u32| {
        let mut server =
            limited("54322", folder.path(), *most, &["serve", "--listen", "127.0.0.1:0"]);
        let mut server = server.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let is_served = line.contains("served");
        assert!(is_served || line.contains("ulimit -u"), "{most}: {line}");
        if is_served {
            server.kill().unwrap();
        }
        let code = server.wait().unwrap().code();
        assert!(is_served || code == Some(5), "{most}: {code:?}");
        is_served
    };
    // The first, one that answers, one that collects, and one that waits for files.
    assert_eq!((1..=MOST).find(is_served), Some(4));
}
