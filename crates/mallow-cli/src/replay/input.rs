//! From the trace file to the plan of one process.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::Instant;

use mallow_replay::{Compiler, Plan, Selection, Summary};
use mallow_trace::{Error as TraceError, Header, Reader};

use crate::cli::ReplayArgs;
use crate::error::{Error, Result};
use crate::output::{self, Notes};

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

pub fn read(args: &ReplayArgs, notes: Notes) -> Result<Input> {
    let start = Instant::now();
    let path = &args.trace;
    let file = open(path)?;
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let reader = Reader::new(BufReader::with_capacity(1 << 20, file))
        .map_err(|error| damaged(path, &error))?;
    let header = reader.header().clone();
    let mut compiler = Compiler::new(&header, selection(args), tempfile::tempfile);
    let mut merged = reader.merged();
    let bar = notes.progress(length);
    bar.set_message("reading the trace");
    let mut damage = None;
    let mut count = 0u64;
    while let Some(record) = merged.next() {
        match record {
            Ok(record) => compiler.push(&record).map_err(plan_error)?,
            // The first says where it begins; the rest of the file is still read.
            Err(error) => {
                damage.get_or_insert_with(|| format!("{}: {error}", path.display()));
            }
        }
        count += 1;
        if count.is_multiple_of(1 << 16) {
            bar.set_position(merged.reader().position());
        }
    }
    bar.finish_and_clear();
    let finished = compiler.finish().map_err(plan_error)?;
    let Some((summary, plan)) = finished.chosen else {
        return Err(nothing_to_replay(args, damage));
    };
    let input = Input {
        header,
        summary,
        plan,
        processes: finished.processes,
        damage,
        compile_s: start.elapsed().as_secs_f64(),
    };
    input.announce(args, notes);
    Ok(input)
}

fn open(path: &Path) -> Result<File> {
    match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Error::Usage(format!(
            "There is no file {}. A trace is written by: mallow record -o FILE -- COMMAND.",
            path.display()
        ))),
        Err(error) => Err(Error::Io {
            what: format!("The trace {} cannot be opened", path.display()),
            source: error,
        }),
        Ok(file) if file.metadata().is_ok_and(|metadata| metadata.is_dir()) => {
            Err(Error::Usage(format!("{} is a folder. Give the trace itself.", path.display())))
        }
        Ok(file) => Ok(file),
    }
}

fn damaged(path: &Path, error: &TraceError) -> Error {
    Error::Damaged(format!("{}: {error}", path.display()))
}

fn plan_error(source: std::io::Error) -> Error {
    Error::Io {
        what: "The plan cannot be written (it needs 16 bytes a call in TMPDIR)".into(),
        source,
    }
}

fn selection(args: &ReplayArgs) -> Selection {
    match &args.process {
        None => Selection::Largest,
        Some(who) => who.parse().map_or_else(|_| Selection::Name(who.clone()), Selection::Pid),
    }
}

fn nothing_to_replay(args: &ReplayArgs, damage: Option<String>) -> Error {
    match (damage, &args.process) {
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

    fn announce(&self, args: &ReplayArgs, notes: Notes) {
        if args.process.is_none() && self.processes.len() > 1 {
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
