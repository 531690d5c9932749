// SPDX-License-Identifier: MIT
//! Reads a recorded trace, with progress, as far as it can be read, and names its stacks.

mod ahead;

use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use mallow_report::{Analysis, Detail, Limits, Profile, Summary};
use mallow_trace::{Error as TraceError, Header, Reader, Record};

use crate::error::{Error, Result};
use crate::input::{self, Peeked};
use crate::output::Notes;

const READ_AHEAD: usize = 1 << 20;

pub use mallow_capture::symbols::{Sources, Symbols};

/// A trace, read and named.
pub struct Analysed {
    pub summary: Summary,
    pub profile: Profile,
    /// What is wrong with the file, in one sentence; what could be read was.
    pub damage: Option<String>,
}

/// Reads a trace and names its stacks; programs and debug files are also looked for in `folders`.
pub fn analyse(
    recording: Recording,
    folders: &[PathBuf],
    detail: Detail,
    limits: Limits,
    notes: Notes,
) -> Result<Analysed> {
    let sources = Sources { folders, debug_files: true };
    analyse_some(recording, sources, detail, limits, notes, |_| true, || Ok(()))
}

/// The same of those records alone that are wanted, as long as `go_on` has no reason to stop.
pub fn analyse_some(
    recording: Recording,
    sources: Sources,
    detail: Detail,
    limits: Limits,
    notes: Notes,
    mut is_wanted: impl FnMut(&Record) -> bool,
    go_on: impl Fn() -> Result<()>,
) -> Result<Analysed> {
    let mut analysis = Analysis::new(recording.header());
    let damage = recording.read(notes, |record| {
        if is_wanted(record) {
            analysis.add(record);
        }
        go_on()
    })?;
    let findings = analysis.finish();
    let mut names = Symbols::new(&findings, sources);
    let bar = notes.progress(findings.places());
    bar.set_message("places named");
    let mut stopped = Ok(());
    let profile = mallow_report::name_stacks(&findings, &mut names, &mut || {
        bar.inc(1);
        stopped = go_on();
        stopped.is_ok()
    });
    bar.finish_and_clear();
    stopped?;
    let gaps = mallow_report::gaps(&findings, &profile);
    let profile = profile.with(detail);
    let mut summary = findings.summary(&profile, limits);
    summary.notes.extend(gaps);
    summary.notes.extend(names.complaints());
    summary.notes.extend(damage.clone());
    Ok(Analysed { summary, profile, damage })
}

pub struct Recording {
    path: PathBuf,
    length: u64,
    reader: Reader<BufReader<Peeked>>,
}

impl Recording {
    /// A trace, or standard input.
    pub fn open(path: &Path) -> Result<Recording> {
        let (_, file) = peek(path)?;
        Recording::of(path, file)
    }

    /// The same of what `peek` opened.
    pub fn of(path: &Path, file: Peeked) -> Result<Recording> {
        let length = file.get_ref().1.metadata().map_or(0, |data| data.len());
        let reader = Reader::new(BufReader::with_capacity(READ_AHEAD, file))
            .map_err(|error| damaged(path, error))?;
        Ok(Recording { path: path.to_owned(), length, reader })
    }

    pub fn header(&self) -> &Header {
        self.reader.header()
    }

    /// Hands over every record that can be read, in the order of time. What of the file is damaged
    /// comes back as a sentence; the rest is read all the same.
    pub fn read(
        self,
        notes: Notes,
        mut take: impl FnMut(&Record) -> Result<()>,
    ) -> Result<Option<String>> {
        let bar = notes.progress(self.length >> 20);
        bar.set_message("MiB read");
        let (mut first, mut more) = (None, 0u64);
        ahead::read(self.reader, |batch| {
            for record in batch.records {
                match record {
                    Ok(record) => take(&record)?,
                    Err(error @ TraceError::Io(_)) => return Err(damaged(&self.path, error)),
                    Err(error) if first.is_none() => first = Some(error),
                    Err(_) => more += 1,
                }
            }
            bar.set_position(batch.position >> 20);
            Ok(())
        })?;
        bar.finish_and_clear();
        Ok(first.map(|first| sentence(&self.path, &first, more)))
    }
}

/// So many bytes tell what kind of file one is.
const HEAD: u64 = 16;

/// Opens what may be a trace, or standard input; its first bytes, and all of it.
pub fn peek(path: &Path) -> Result<(Vec<u8>, Peeked)> {
    let file = input::open(path).map_err(|error| cannot_open(path, error))?;
    let metadata = file.metadata().map_err(|error| cannot_open(path, error))?;
    if metadata.is_dir() {
        return Err(Error::Usage(format!(
            "{} is a folder. Give the trace itself.",
            path.display()
        )));
    }
    input::peek(file, HEAD).map_err(|error| damaged(path, TraceError::Io(error)))
}

fn cannot_open(path: &Path, error: std::io::Error) -> Error {
    if error.kind() == ErrorKind::NotFound {
        return Error::Usage(format!(
            "There is no file {}. A trace is written by: mallow record -o FILE -- COMMAND.",
            path.display()
        ));
    }
    Error::io(format!("The trace {} cannot be opened", path.display()))(error)
}

fn damaged(path: &Path, error: TraceError) -> Error {
    match error {
        TraceError::Io(source) => {
            let source = input::nothing_now(source);
            Error::io(format!("The trace {} cannot be read", path.display()))(source)
        }
        other => Error::Damaged(format!("{}: {other}", path.display())),
    }
}

fn sentence(path: &Path, first: &TraceError, more: u64) -> String {
    let path = path.display();
    match more {
        0 => format!("{path}: {first}"),
        1 => format!("{path}: {first} There is one more damaged place."),
        more => format!("{path}: {first} There are {more} more damaged places."),
    }
}

#[cfg(test)]
pub mod tests {
    use mallow_trace::{COLLECTOR, Call, Event, Frame, Process, Stack, Thread, Writer};

    use super::*;

    /// A process, its thread, some calls with a stack each.
    pub fn trace(calls: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = Writer::new(file.reopen().unwrap(), &Header::default()).unwrap();
        let mut add = |thread, event| writer.write(&Record { time: 0, thread, event }).unwrap();
        add(COLLECTOR, Event::Process(Box::new(Process { id: 1, ..Process::default() })));
        add(1, Event::Thread(Thread { process: 1, ..Thread::default() }));
        for id in 1..=calls {
            let frames = vec![Frame { module: 1, address: u64::from(id) }];
            add(COLLECTOR, Event::Stack(Stack { id, frames, ..Stack::default() }));
            let address = u64::from(id) << 10;
            add(1, Event::Call(Call { size: 10, address, stack: id, ..Call::default() }));
        }
        writer.finish().unwrap();
        file
    }

    #[test]
    fn an_analysis_ends_as_soon_as_there_is_a_reason() {
        const CALLS: u32 = 1000;
        const RECORDS: u32 = 2 + 2 * CALLS;
        let trace = trace(CALLS);
        // While records are read, and while places are named.
        for most in [10, RECORDS + 10] {
            let asked = std::cell::Cell::new(0);
            let go_on = || {
                asked.set(asked.get() + 1);
                if asked.get() < most { Ok(()) } else { Err(Error::Inconclusive("over".into())) }
            };
            let sources = Sources { folders: &[], debug_files: false };
            let (limits, quiet) = (Limits::default(), Notes { quiet: true });
            let recording = Recording::open(trace.path()).unwrap();
            let analysed =
                analyse_some(recording, sources, Detail::User, limits, quiet, |_| true, go_on);
            assert!(matches!(analysed, Err(Error::Inconclusive(_))), "{most}");
            assert_eq!(asked.get(), most);
        }
    }
}
