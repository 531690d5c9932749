//! Records a command: what it allocates becomes a trace.
//!
//! `launch` starts the command with the recorder in front of its allocator. `collector` reads what
//! the recorder writes, with `images` (processes and their modules), `stacks`, and `memory`.

mod collector;
pub mod images;
mod launch;
pub mod memory;
pub mod modules;
mod pace;
mod parse;
mod python;
mod regions;
pub mod stacks;
pub mod unwind;

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use mallow_recorder::Clock;
use mallow_trace::{Event, Header, Record, Stacks};

use crate::error::{Error, Result};
use crate::output::Notes;
use crate::recording::Recording;
pub use launch::{Recorded, Request, Stdout, record};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackKind {
    /// No stacks
    None,
    /// By frame pointers: quick, and whole where programs and libraries are built with them
    Fp,
    /// By unwind tables, from copies of the stack: whole, and sampled
    Full,
}

/// What any trace says of its machine, its clock and its stacks.
pub fn header(clock: Clock, stacks: StackKind, stack_distance: u64) -> Header {
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
        stacks: match stacks {
            StackKind::None => Stacks::None,
            StackKind::Fp => Stacks::Fp,
            StackKind::Full => Stacks::Full,
        },
        stack_distance,
        ..Header::default()
    }
}

/// The collector looks at the rings this often when nobody rings for it.
const IDLE: Duration = Duration::from_millis(5);

pub fn create(path: &Path) -> Result<File> {
    File::create(path).map_err(Error::io(format!(
        "The trace {} cannot be written (give another file with -o)",
        path.display()
    )))
}

/// The trace ends too early. The command's own code says more, unless it is that all went well.
pub fn cut_off(trace: &Path, code: u8, error: mallow_trace::Error) -> Error {
    let error = cannot_write(error);
    let code = if code == 0 { error.exit_code() } else { code };
    let kept = match calls_in(trace) {
        Some(calls) => format!("{calls} calls are in {}", trace.display()),
        None => "nothing can be read of it".into(),
    };
    Error::Child { message: format!("{error}. The trace is cut off: {kept}."), code }
}

/// As many as can be read again.
fn calls_in(trace: &Path) -> Option<u64> {
    let mut calls = 0;
    let count = |record: &Record| {
        calls += u64::from(matches!(record.event, Event::Call(_)));
        Ok(())
    };
    Recording::open(trace).ok()?.read(Notes { quiet: true }, count).ok()?;
    Some(calls)
}

pub fn cannot_write(error: mallow_trace::Error) -> Error {
    match error {
        mallow_trace::Error::Io(error) => Error::io("The trace cannot be written")(error),
        other => Error::Internal(other.to_string()),
    }
}
