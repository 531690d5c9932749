// SPDX-License-Identifier: MIT
//! Recordings of programs: every call of malloc's family, with its stack, written as a trace.
//!
//! [`record`] starts a command with the recorder in front of its allocator (`launch`), and
//! `collector` reads what the recorder writes, with `images` (processes and their modules),
//! `stacks` and `memory`. [`attach::record`] records a running process by probes of the kernel
//! instead: `site` says where they go, `calls` what their hits mean. [`symbols`] names the places
//! of a recorded program afterwards.
//!
//! Nothing is printed here: what the user should know goes to a function that the caller gives.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod attach;
mod calls;
mod collector;
mod error;
mod images;
mod launch;
mod memory;
pub mod modules;
mod outsiders;
mod pace;
mod parse;
pub mod perf_map;
mod regions;
mod script;
mod site;
mod stacks;
pub mod symbols;
mod trampoline;
mod unwind;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mallow_recorder::Clock;
use mallow_trace::{Event, Header, Reader};
use serde::Serialize;

pub use error::{Error, Result};
pub use launch::{Captured, Request, Stdin, Stdout, check, record};
/// How the stacks of allocations are taken, if at all.
pub use mallow_trace::Stacks as StackKind;

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

fn create(path: &Path) -> Result<File> {
    File::create(path).map_err(Error::io(format!(
        "The trace {} cannot be written (give another file with -o)",
        path.display()
    )))
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
