//! `mallow record`: every allocation of a command, written to a trace.
//!
//! A command is recorded by `capture`; `attach` records a running process by probes of the kernel.

mod args;
mod attach;
mod calls;
mod site;
mod summary;

use crate::capture::{self, Request, StackKind, Stdout};
use crate::error::{Error, Result};
use crate::output::{self, Notes};
pub use args::RecordArgs;
use args::WhenFull;

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
    let captured = capture::record(&request(args), notes)?;
    captured.recorded.publish(args, notes)?;
    if captured.ended.is_none() {
        notes.note(&format!("The command goes on as process {}.", captured.pid));
    }
    Ok(captured.code())
}

fn request(args: &RecordArgs) -> Request<'_> {
    Request {
        command: &args.command,
        allocator: args.allocator.as_deref(),
        trace: &args.output,
        stacks: args.stack_kind(),
        stack_distance: stack_distance(args),
        drops: args.when_full == WhenFull::Drop,
        duration: args.duration,
        stdout: if args.json { Stdout::ToStderr } else { Stdout::Own },
    }
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
