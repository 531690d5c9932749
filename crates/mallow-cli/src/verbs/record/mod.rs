//! `mallow record`: every allocation of a command, written to a trace.
//!
//! `launch` starts the command with the recorder in front of its allocator. `collector` reads what
//! the recorder writes, with `images` (processes and their modules), `stacks`, and `memory`.
//! `attach` records a running process by probes of the kernel instead.

mod args;
mod attach;
mod calls;
mod collector;
mod images;
mod launch;
mod memory;
mod modules;
mod pace;
mod parse;
mod python;
mod regions;
mod site;
mod stacks;
mod summary;
mod unwind;

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use mallow_trace::{Event, Record};

use crate::error::{Error, Result};
use crate::output::{self, Notes};
use crate::recording::Recording;
pub use args::RecordArgs;
use args::StackKind;

/// With `--stacks full` and nothing else said. Where that costs too much, there will be fewer.
const FULL_DISTANCE: u64 = 64 << 10;

pub fn main(args: &RecordArgs, notes: Notes) -> Result<u8> {
    args.html.iter().try_for_each(|path| output::check_writable(path))?;
    if let Some(pid) = args.pid {
        return attach::record(pid, args, notes);
    }
    if args.sample.is_some() && args.stack_kind() == StackKind::None {
        return Err(Error::Usage(
            "--sample says which allocations have a stack. Leave --stacks none out.".into(),
        ));
    }
    launch::record(args, notes)
}

/// Mean number of bytes between allocations that have a stack; 0 for all.
fn stack_distance(args: &RecordArgs) -> u64 {
    if args.pid.is_some() {
        // Each stack says for how many calls it stands.
        return u64::from(args.stack_kind() != StackKind::None);
    }
    match (args.stack_kind(), args.sample) {
        (StackKind::None, _) | (StackKind::Fp, None) => 0,
        (StackKind::Full, None) => FULL_DISTANCE,
        (_, Some(distance)) => distance,
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

/// The trace ends too early. The command's own code says more, unless it is that all went well.
fn cut_off(trace: &Path, code: u8, error: mallow_trace::Error) -> Error {
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

fn cannot_write(error: mallow_trace::Error) -> Error {
    match error {
        mallow_trace::Error::Io(error) => Error::io("The trace cannot be written")(error),
        other => Error::Internal(other.to_string()),
    }
}
