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
mod parse;
mod regions;
mod site;
mod stacks;
mod summary;
mod unwind;

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::output::{self, Notes};
pub use args::RecordArgs;
use args::StackKind;

/// With `--stacks full` and nothing else said.
const FULL_DISTANCE: u64 = 64 << 10;

pub fn main(args: &RecordArgs, notes: Notes) -> Result<u8> {
    args.html.iter().try_for_each(|path| output::check_writable(path))?;
    if let Some(pid) = args.pid {
        return attach::record(pid, args, notes);
    }
    if args.sample.is_some() && args.stacks == StackKind::None {
        return Err(Error::Usage(
            "--sample says which allocations have a stack. Add --stacks fp or --stacks full."
                .into(),
        ));
    }
    launch::record(args, notes)
}

/// Mean number of bytes between allocations that have a stack; 0 for all.
fn stack_distance(args: &RecordArgs) -> u64 {
    match (args.stacks, args.sample) {
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

fn cannot_write(error: mallow_trace::Error) -> Error {
    match error {
        mallow_trace::Error::Io(error) => Error::io("The trace cannot be written")(error),
        other => Error::Internal(other.to_string()),
    }
}
