// SPDX-License-Identifier: MIT
//! `mallow serve` beside processes that start anew, and that end.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::common::chance::one_succeeds;
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

/// The file that it runs stays the same; where things are in memory does not, or who serves malloc. The server leaves a
/// heap alone whose reading took too long, as on a busy machine: then another server looks at another process.
#[test]
fn a_process_that_starts_its_own_program_anew_is_looked_at_again() {
    let preloaded = "$MALLOW run -q --";
    for (before, then) in [("", preloaded), (preloaded, ""), (preloaded, preloaded)] {
        one_succeeds(0..3, |_| is_looked_at_again(before, then));
    }
}

/// A shell is started behind the words `before`, and becomes one behind the words `then`.
fn is_looked_at_again(before: &str, then: &str) -> Result<(), String> {
    let words: Vec<&str> = before.split(' ').filter(|word| !word.is_empty()).collect();
    let unset = if then.is_empty() { "unset LD_PRELOAD;" } else { "" };
    let script = format!("echo here; read x; {unset} exec {then} sh -c \"echo here; read x\"");
    let mut shell = Shell::start(&words, &script);
    let pid = shell.pid();
    let server = Server::start(&["--pid", &pid]);
    let tells_of = |words: &str| {
        let metrics = server.metrics();
        let is_there = value(&metrics, "mallow_heap_metadata_bytes", &pid).is_some();
        let is_right = is_there != words.is_empty();
        is_right.then_some(()).ok_or_else(|| format!("{before} to {then}: {metrics}"))
    };
    for _ in 0..3 {
        tells_of(before)?;
        std::thread::sleep(STALE);
    }
    shell.goes_on();
    tells_of(then)
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
