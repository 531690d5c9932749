// SPDX-License-Identifier: MIT
//! Numbers that a program prints itself, such as a load's throughput, read from its output.

use std::io::{PipeReader, Read};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mallow_os::threads;
use regex_lite::Regex;

use crate::error::{Error, Result};

/// What is longer is not looked at beyond this; a program may print without end.
const LONGEST_LINE: usize = 64 << 10;
/// What a program leaves running may hold its output open for ever.
const READ_WITHIN: Duration = Duration::from_secs(1);

/// A number to look for: its name, and an expression whose first group is the number.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub name: String,
    regex: Regex,
}

impl Pattern {
    /// Of NAME and REGEX; the expression needs a group.
    pub fn new(name: &str, regex: &str) -> Result<Pattern> {
        let regex = Regex::new(regex).map_err(|error| Error::BadValue(error.to_string()))?;
        if regex.captures_len() < 2 {
            return Err(Error::BadValue("it has no group such as ([0-9.]+)".into()));
        }
        Ok(Pattern { name: name.to_owned(), regex })
    }

    fn find(&self, line: &str) -> Option<f64> {
        let number: f64 = self.regex.captures(line)?.get(1)?.as_str().parse().ok()?;
        number.is_finite().then_some(number)
    }
}

/// The output of one command, read while it runs.
pub struct Reading {
    found: Arc<Mutex<Vec<Option<f64>>>>,
    ended: Receiver<()>,
}

impl Reading {
    /// Takes the output and error output of a command that is about to start. Without patterns it
    /// leaves them as they are.
    pub fn of(command: &mut Command, patterns: &[Pattern]) -> Result<Reading> {
        let found = Arc::new(Mutex::new(vec![None; patterns.len()]));
        let (sender, ended) = channel();
        if !patterns.is_empty() {
            let failed = Error::not_started(&command.get_program().to_string_lossy());
            let (reader, writer) = std::io::pipe().map_err(&failed)?;
            command.stdout(writer.try_clone().map_err(&failed)?).stderr(writer);
            let (patterns, found) = (patterns.to_vec(), Arc::clone(&found));
            threads::spawn("values", move || {
                each_line(reader, |line| note(&patterns, &found, line));
                let _ = sender.send(());
            })?;
        }
        Ok(Reading { found, ended })
    }

    /// What was found, in the order of the patterns; of several matches the last. To be asked when
    /// the command has ended and its `Command` is dropped.
    pub fn finish(self) -> Vec<Option<f64>> {
        let _ = self.ended.recv_timeout(READ_WITHIN);
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn note(patterns: &[Pattern], found: &Mutex<Vec<Option<f64>>>, line: &str) {
    for (index, pattern) in patterns.iter().enumerate() {
        if let Some(number) = pattern.find(line) {
            found.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(number);
        }
    }
}

/// Calls `take` with each line until the writers have closed, in bounded memory.
pub(crate) fn each_line(mut reader: PipeReader, mut take: impl FnMut(&str)) {
    let mut line = Vec::new();
    let mut chunk = [0u8; 8192];
    while let Ok(length @ 1..) = reader.read(&mut chunk) {
        for part in chunk[..length].split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            line.extend_from_slice(&text[..text.len().min(LONGEST_LINE - line.len())]);
            if text.len() < part.len() {
                take(&String::from_utf8_lossy(&line));
                line.clear();
            }
        }
    }
    if !line.is_empty() {
        take(&String::from_utf8_lossy(&line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_shell(script: &str, patterns: &[Pattern]) -> Vec<Option<f64>> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let reading = Reading::of(&mut command, patterns).unwrap();
        let status = command.status().unwrap();
        assert!(status.success());
        drop(command);
        reading.finish()
    }

    #[test]
    fn the_last_number_counts_of_both_outputs() {
        let patterns = [
            Pattern::new("tps", r"^tps: ([0-9.]+)").unwrap(),
            Pattern::new("p99", r"99th: *([0-9.]+)").unwrap(),
            Pattern::new("none", r"errors: ([0-9]+)").unwrap(),
        ];
        let script = "echo tps: 1; echo '  99th:   2.50 ms' >&2; printf 'errors: x\ntps: 7.5'";
        assert_eq!(of_shell(script, &patterns), [Some(7.5), Some(2.5), None]);
        assert!(of_shell("true", &[]).is_empty());
    }

    #[test]
    fn output_without_lines_takes_no_memory_and_no_time() {
        let patterns = [Pattern::new("n", r"^n=([0-9]+)").unwrap()];
        let script = "head -c 20000000 /dev/zero; echo; echo n=3; sleep 1000 & echo n=4";
        assert_eq!(of_shell(script, &patterns), [Some(4.0)]);
    }

    #[test]
    fn an_expression_without_a_group_is_refused() {
        assert!(Pattern::new("x", "[0-9]+").is_err());
        assert!(Pattern::new("x", "([0-9]").is_err());
    }
}
