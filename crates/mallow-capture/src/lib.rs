// SPDX-License-Identifier: MIT
//! Recordings of programs: every call of malloc's family, with its stack, written as a trace.
//!
//! [`record`] starts a command with the recorder in front of its allocator (`launch`), and
//! `collector` reads what the recorder writes, with `images` (processes and their modules),
//! `stacks` and `memory`; [`parse`] takes apart what a program's ring holds, which the program may
//! have damaged, and [`script`] what it says of Python and Ruby. [`attach::record`] records a
//! running process by probes of the kernel instead: `site` says where they go, `calls` what their
//! hits mean, `blocks` what a result that is read late may be. [`symbols`] names the places of a
//! recorded program afterwards.
//!
//! Nothing is printed here: what the user should know goes to a function that the caller gives.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod attach;
mod blocks;
mod calls;
mod collector;
mod error;
mod images;
mod launch;
mod memory;
pub mod modules;
mod outsiders;
mod pace;
pub mod parse;
pub mod perf_map;
mod regions;
pub mod script;
mod site;
mod stacks;
pub mod symbols;
mod trampoline;
mod unwind;

use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mallow_recorder::Clock;
use mallow_trace::{Event, Header, Reader, Writer};
use serde::Serialize;

pub use error::{Error, Result};
pub use launch::{Captured, Request, Stdin, Stdout, check, record};
/// How the stacks of allocations are taken, if at all.
pub use mallow_trace::Stacks as StackKind;
pub use outsiders::WHY_OUTSIDE;

/// What a recording came to.
#[derive(Debug, Serialize)]
pub struct Recorded {
    pub calls: u64,
    pub dropped: u64,
    pub threads: u32,
    pub processes: usize,
    /// Threads that found no ring, for too many ran at a time.
    pub lost_threads: u32,
    /// Rings into which the program wrote by mistake.
    pub damaged_rings: u32,
    /// Processes of the command that go on, and are not recorded further.
    pub still_running: usize,
    /// Names of its processes that were started without the recorder, as far as they were seen.
    pub outsiders: Vec<String>,
    /// Processes that it had started before the recording of a live one began, and that are not recorded.
    pub started_before: usize,
}

/// What any trace says of its machine, its clock and its stacks.
fn header(clock: Clock, stacks: StackKind, stack_distance: u64) -> Header {
    let machine = mallow_measure::machine::Machine::read();
    let started = SystemTime::now().duration_since(UNIX_EPOCH);
    Header {
        mallow: env!("CARGO_PKG_VERSION").into(),
        architecture: std::env::consts::ARCH.into(),
        cpu: machine.cpu,
        cpu_count: machine.usable_cpus as u32,
        page_size: mallow_process::page_size() as u32,
        kernel: machine.kernel,
        started_unix_ns: started.map_or(0, |time| time.as_nanos() as u64),
        clock: clock.name().into(),
        stacks,
        stack_distance,
        ..Header::default()
    }
}

/// The collector looks at the rings this often when nobody rings for it.
const IDLE: Duration = Duration::from_millis(5);

/// The file of a trace whose recording may still fail to begin. What was there stays until it does, and a new file does not
/// stay without it.
struct Place<'a> {
    file: File,
    new: Option<New<'a>>,
}

struct New<'a>(&'a Path);

impl Drop for New<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}

impl<'a> Place<'a> {
    fn open(path: &'a Path) -> Result<Place<'a>> {
        let mut options = File::options();
        let made = options.write(true).create_new(true).open(path);
        let (file, new) = match made {
            Ok(file) => (Ok(file), Some(New(path))),
            // Perhaps as a link that leads to nothing.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                (options.create_new(false).create(true).truncate(false).open(path), None)
            }
            Err(error) => (Err(error), None),
        };
        let file = file.map_err(Error::io(format!(
            "The trace {} cannot be written (give another file with -o)",
            path.display()
        )))?;
        Ok(Place { file, new })
    }

    /// Its recording begins now.
    fn begin(self, header: &Header) -> Result<Writer<BufWriter<File>>> {
        let Place { file, new } = self;
        std::mem::forget(new);
        // Before the first byte, which a buffer may let through. Pipes and devices have nothing to cut off.
        if file.metadata().is_ok_and(|found| found.is_file()) {
            file.set_len(0).map_err(|error| cannot_write(error.into()))?;
        }
        Writer::new(BufWriter::with_capacity(1 << 20, file), header).map_err(cannot_write)
    }
}

/// The trace ends too early.
fn cut_off(trace: &Path, code: u8, why: Error) -> Error {
    let kept = match calls_in(trace) {
        Some(calls) => format!("{calls} calls are in {}", trace.display()),
        None => "nothing can be read of it".into(),
    };
    Error::CutOff { why: Box::new(why), kept, code }
}

/// As many as can be read again, which nothing can of a pipe.
fn calls_in(trace: &Path) -> Option<u64> {
    std::fs::metadata(trace).ok().filter(|found| found.is_file())?;
    let file = BufReader::with_capacity(1 << 20, File::open(trace).ok()?);
    let mut calls = 0;
    for record in Reader::new(file).ok()?.merged() {
        match record {
            Ok(record) => calls += u64::from(matches!(record.event, Event::Call(_))),
            Err(mallow_trace::Error::Io(_)) => return None,
            Err(_) => {}
        }
    }
    Some(calls)
}

fn cannot_write(error: mallow_trace::Error) -> Error {
    match error {
        mallow_trace::Error::Io(error) => Error::io("The trace cannot be written")(error),
        other => Error::Trace(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_trace_stays_until_its_recording_begins() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        let older = [b'x'; 1 << 16];
        std::fs::write(&old, older).unwrap();
        drop(Place::open(&old).unwrap());
        drop(Place::open(&new).unwrap());
        assert!(std::fs::read(&old).unwrap() == older && !new.exists());
        for path in [&old, &new] {
            drop(Place::open(path).unwrap().begin(&Header::default()).unwrap());
            let bytes = std::fs::read(path).unwrap();
            assert!(bytes.len() < older.len() && Reader::new(bytes.as_slice()).is_ok());
        }
        assert!(Place::open(Path::new("/dev/null")).unwrap().begin(&Header::default()).is_ok());
    }
}
