//! Reads a recorded trace, with progress, as far as it can be read.

use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use mallow_trace::{Error as TraceError, Header, Reader, Record};

use crate::error::{Error, Result};
use crate::output::Notes;

const READ_AHEAD: usize = 1 << 20;
/// Records between two looks at the progress.
const PROGRESS_EVERY: u64 = 1 << 16;

pub struct Recording {
    path: PathBuf,
    length: u64,
    reader: Reader<BufReader<File>>,
}

impl Recording {
    pub fn open(path: &Path) -> Result<Recording> {
        let file = File::open(path).map_err(|error| cannot_open(path, error))?;
        let metadata = file.metadata().map_err(|error| cannot_open(path, error))?;
        if metadata.is_dir() {
            return Err(Error::Usage(format!(
                "{} is a folder. Give the trace itself.",
                path.display()
            )));
        }
        let reader = Reader::new(BufReader::with_capacity(READ_AHEAD, file))
            .map_err(|error| damaged(path, error))?;
        Ok(Recording { path: path.to_owned(), length: metadata.len(), reader })
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
        let mut merged = self.reader.merged();
        let bar = notes.progress(self.length >> 20);
        bar.set_message("MiB read");
        let (mut first, mut more, mut count) = (None, 0u64, 0u64);
        while let Some(record) = merged.next() {
            match record {
                Ok(record) => take(&record)?,
                Err(error @ TraceError::Io(_)) => return Err(damaged(&self.path, error)),
                Err(error) if first.is_none() => first = Some(error),
                Err(_) => more += 1,
            }
            count += 1;
            if count.is_multiple_of(PROGRESS_EVERY) {
                bar.set_position(merged.reader().position() >> 20);
            }
        }
        bar.finish_and_clear();
        Ok(first.map(|first| sentence(&self.path, &first, more)))
    }
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
