// SPDX-License-Identifier: MIT
//! From the trace file to the plan of one process.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use mallow_replay::{Compiler, Plan, Selection, Summary};
use mallow_trace::Header;

use crate::error::{Error, Result};
use crate::output::{self, Notes};
use crate::recording::Recording;

const PLAN: &str = "The plan cannot be written (it needs 16 bytes a call in TMPDIR)";

pub struct Input {
    pub header: Header,
    pub summary: Summary,
    pub plan: Plan<File>,
    /// All processes that the trace holds calls of.
    pub processes: Vec<Summary>,
    /// What of the file could not be read, as a sentence.
    pub damage: Option<String>,
    pub compile_s: f64,
}

/// `process`: the number of the process to take, or its program's name. As long as `go_on` has no reason
/// to stop.
pub fn read(
    trace: &Path,
    process: Option<&str>,
    notes: Notes,
    go_on: impl Fn() -> Result<()>,
) -> Result<Input> {
    let start = Instant::now();
    let recording = Recording::open(trace)?;
    let header = recording.header().clone();
    let mut compiler = Compiler::new(&header, selection(process), tempfile::tempfile);
    let damage = recording.read(notes, |record| {
        compiler.push(record).map_err(Error::io(PLAN))?;
        go_on()
    })?;
    let finished = compiler.finish().map_err(Error::io(PLAN))?;
    let Some((summary, plan)) = finished.chosen else {
        return Err(nothing_to_replay(process, damage));
    };
    let input = Input {
        header,
        summary,
        plan,
        processes: finished.processes,
        damage,
        compile_s: start.elapsed().as_secs_f64(),
    };
    input.announce(process, notes);
    Ok(input)
}

fn selection(process: Option<&str>) -> Selection {
    match process {
        None => Selection::Largest,
        Some(who) => who.parse().map_or_else(|_| Selection::Name(who.to_owned()), Selection::Pid),
    }
}

fn nothing_to_replay(process: Option<&str>, damage: Option<String>) -> Error {
    match (damage, process) {
        (Some(damage), _) => Error::Damaged(format!("{damage} There is no call left to replay.")),
        (None, Some(who)) => Error::Usage(format!(
            "The trace holds no call of a process {who}. Leave out --process to see the largest."
        )),
        (None, None) => Error::Inconclusive(
            "The trace holds no call of an allocation function, so there is nothing to replay."
                .into(),
        ),
    }
}

impl Input {
    /// The allocator that served the recorded process.
    pub fn recorded_allocator(&self) -> String {
        let path = Path::new(&self.summary.allocator);
        mallow_process::allocators::name_from_file(path).unwrap_or_else(|| {
            match &self.header.allocator {
                name if name.is_empty() => "glibc".into(),
                name => name.clone(),
            }
        })
    }

    pub fn process_name(&self) -> String {
        let first = self.summary.command.first().map_or("the process", String::as_str);
        let base = first.rsplit('/').next().unwrap_or(first);
        format!("{base} ({})", self.summary.pid)
    }

    fn announce(&self, process: Option<&str>, notes: Notes) {
        if process.is_none() && self.processes.len() > 1 {
            notes.note(&format!(
                "The trace holds {} processes; {}, which had the most allocated at once ({}), is \
                 replayed. Choose another with --process.",
                self.processes.len(),
                self.process_name(),
                output::bytes(self.summary.peak_live_bytes as f64)
            ));
        }
        if self.summary.is_fork {
            notes.note(
                "This process was forked: the blocks that it had from its parent are not replayed.",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::trace;

    #[test]
    fn reading_ends_as_soon_as_there_is_a_reason() {
        let (trace, quiet) = (trace(1000), Notes { quiet: true });
        let asked = std::cell::Cell::new(0);
        let go_on = || {
            asked.set(asked.get() + 1);
            if asked.get() < 10 { Ok(()) } else { Err(Error::Unmet("over".into())) }
        };
        let input = read(trace.path(), None, quiet, go_on);
        assert!(matches!(input, Err(Error::Unmet(_))));
        assert_eq!(asked.get(), 10);
        assert!(read(trace.path(), None, quiet, || Ok(())).is_ok());
    }
}
