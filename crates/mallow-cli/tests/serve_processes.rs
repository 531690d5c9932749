// SPDX-License-Identifier: MIT
//! `mallow serve` beside processes that start anew, and that end.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::common::mallow;
use crate::serve::{Server, value};

/// A reading is kept for half a second.
const STALE: Duration = Duration::from_millis(600);

/// A shell that says when it is there, and goes on with what follows when it is told to.
struct Shell(Child);

impl Shell {
    fn start(words: &[&str], script: &str) -> Shell {
        let tool = mallow(&[]).get_program().to_owned();
        let mut command = std::process::Command::new("sh");
        let words = if words.is_empty() { String::new() } else { words.join(" ") + " " };
        command.args(["-c", &format!("exec {words}sh -c '{script}'")]).env("MALLOW", tool);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut shell = Shell(child);
        shell.hear();
        shell
    }

    fn hear(&mut self) {
        let mut line = String::new();
        BufReader::with_capacity(1, self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "here\n");
    }

    fn goes_on(&mut self) {
        writeln!(self.0.stdin.as_mut().unwrap()).unwrap();
        self.hear();
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The file that it runs stays the same; where things are in memory does not, or who serves malloc.
#[test]
fn a_process_that_starts_its_own_program_anew_is_looked_at_again() {
    let end = "echo here; read x";
    let preloaded = "$MALLOW run -q --";
    for (before, then) in [("", preloaded), (preloaded, ""), (preloaded, preloaded)] {
        let words: Vec<&str> = before.split(' ').filter(|word| !word.is_empty()).collect();
        let unset = if then.is_empty() { "unset LD_PRELOAD;" } else { "" };
        let script = format!("echo here; read x; {unset} exec {then} sh -c \"{end}\"");
        let mut shell = Shell::start(&words, &script);
        let server = Server::start(&["--pid", &shell.pid()]);
        let heap =
            || value(&server.metrics(), "mallow_heap_metadata_bytes", &shell.0.id().to_string());
        for _ in 0..3 {
            assert_eq!(heap().is_some(), !before.is_empty(), "{before}");
            std::thread::sleep(STALE);
        }
        shell.goes_on();
        let heap = value(&server.metrics(), "mallow_heap_metadata_bytes", &shell.pid());
        assert_eq!(heap.is_some(), !then.is_empty(), "{before} to {then}: {}", server.metrics());
    }
}

#[test]
fn of_a_process_that_has_ended_there_is_no_profile() {
    let shell = Shell::start(&[], "echo here; read x");
    let server = Server::start(&["--pid", &shell.pid()]);
    assert!(server.get("/metrics", "").starts_with("HTTP/1.1 200 "));
    drop(shell);
    std::thread::sleep(STALE);
    let answer = server.get("/debug/pprof/heap", "");
    assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("has ended"), "{answer}");
}
