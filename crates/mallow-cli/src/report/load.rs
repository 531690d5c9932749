//! Reads a trace, with progress, as far as it can be read.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use mallow_report::{Analysis, Findings};
use mallow_trace::Reader;

use crate::error::{Error, Result};
use crate::output::Notes;

const READ_AHEAD: usize = 1 << 20;
/// Records between two looks at the progress.
const PROGRESS_EVERY: u64 = 1 << 16;

pub struct Loaded {
    pub findings: Findings,
    /// What is wrong with the file, in one sentence; the rest of it was read.
    pub damage: Option<String>,
}

pub fn load(path: &Path, notes: Notes) -> Result<Loaded> {
    let shown = path.display();
    let file =
        File::open(path).map_err(Error::io(format!("The trace {shown} cannot be opened")))?;
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let damaged = |error| match error {
        mallow_trace::Error::Io(source) => {
            Error::Io { what: format!("The trace {shown} cannot be read"), source }
        }
        other => Error::Damaged(format!("{shown}: {other}")),
    };
    let reader = Reader::new(BufReader::with_capacity(READ_AHEAD, file)).map_err(damaged)?;
    let mut analysis = Analysis::new(reader.header());
    let mut merged = reader.merged();
    let bar = notes.progress(length >> 20);
    bar.set_message("MiB read");
    let mut damages = Vec::new();
    let mut more_damages = 0u64;
    let mut count = 0u64;
    while let Some(record) = merged.next() {
        match record {
            Ok(record) => analysis.add(&record),
            Err(error @ mallow_trace::Error::Io(_)) => return Err(damaged(error)),
            Err(error) if damages.is_empty() => damages.push(error),
            Err(_) => more_damages += 1,
        }
        count += 1;
        if count.is_multiple_of(PROGRESS_EVERY) {
            bar.set_position(merged.reader().position() >> 20);
        }
    }
    bar.finish_and_clear();
    let damage = damages.pop().map(|first| sentence(&shown.to_string(), &first, more_damages));
    Ok(Loaded { findings: analysis.finish(), damage })
}

fn sentence(path: &str, first: &mallow_trace::Error, more: u64) -> String {
    match more {
        0 => format!("{path}: {first}"),
        1 => format!("{path}: {first} There is one more damaged place."),
        more => format!("{path}: {first} There are {more} more damaged places."),
    }
}
