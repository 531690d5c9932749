// SPDX-License-Identifier: MIT
//! `mallow record`: every allocation of a command, written to a trace.
//!
//! `mallow_capture` does it, for a command and for a running process.

mod args;
mod summary;

use mallow_capture::{Request, StackKind, Stdin, Stdout, attach};
use mallow_launch::go::{self, Kept};
use mallow_os::Ending;

use crate::error::{Error, Result};
use crate::output::{self, Notes};
pub use args::RecordArgs;
use args::WhenFull;

/// With `--stacks full` and nothing else said. Where that costs too much, there will be fewer.
const FULL_DISTANCE: u64 = 64 << 10;

/// Of a command that forbids itself system calls.
const CONFINED: &str = "The command was killed by SIGSYS: its seccomp filter does not allow a system call that \
it made. The recorder in it makes some of its own (openat, read, prctl, nanosleep and others; see the limits in \
docs/record.md). Let the filter allow these, or record the running command with mallow record -p, which puts \
nothing into it.";

const NOT_KEPT: &str = "The programs of the tests cannot be kept beside the trace";

pub fn main(args: &RecordArgs, notes: Notes) -> Result<u8> {
    args.html.iter().try_for_each(|path| output::check_writable(path))?;
    if let Some(pid) = args.pid {
        return record_process(pid, args, notes);
    }
    if args.sample.is_some() && args.stack_kind() == StackKind::None {
        return Err(Error::Usage(
            "--sample says which allocations have a stack. Leave --stacks none out.".into(),
        ));
    }
    let programs = programs(args)?;
    let request = request(args, programs.as_ref());
    let captured = mallow_capture::record(&request, &|sentence| notes.note(sentence));
    if let Some(programs) = &programs {
        programs.tidy(captured.is_ok()).map_err(Error::io(NOT_KEPT))?;
    }
    let captured = captured?;
    summary::publish(&captured.recorded, args, notes)?;
    if captured.ended == Some(Ending::Signal(nix::libc::SIGSYS)) {
        notes.note(CONFINED);
    }
    if let Some(programs) = programs {
        notes.note(&format!(
            "The programs of the tests are in {}: mallow report reads names from them.",
            programs.folder.display()
        ));
    }
    if captured.ended.is_none() {
        notes.note(&format!("The command goes on as process {}.", captured.pid));
    }
    Ok(captured.code())
}

fn record_process(pid: u32, args: &RecordArgs, notes: Notes) -> Result<u8> {
    let has_stacks = match (args.stack_kind(), args.sample) {
        (StackKind::None, None) => false,
        (StackKind::Full, None) => true,
        (StackKind::Fp, None) => {
            notes.note(
                "Of a running process there are no stacks by frame pointers; they are unwound, as by \
                 --stacks full.",
            );
            true
        }
        (_, Some(_)) => {
            return Err(Error::Usage(format!(
                "Of a running process one allocation in {} has a stack. Leave --sample out.",
                attach::STACK_PERIOD
            )));
        }
    };
    let request = attach::Request { pid, trace: &args.output, has_stacks, duration: args.duration };
    let recorded = attach::record(&request, &|sentence| notes.note(sentence))?;
    summary::publish(&recorded, args, notes)?;
    Ok(0)
}

/// What `go test` would remove.
fn programs(args: &RecordArgs) -> Result<Option<Kept>> {
    let kept = || Kept::beside(&args.command[0], &args.output).map_err(Error::io(NOT_KEPT));
    go::is_test(&args.command).then(kept).transpose()
}

fn request<'a>(args: &'a RecordArgs, programs: Option<&'a Kept>) -> Request<'a> {
    Request {
        command: &args.command,
        allocator: args.allocator.as_deref(),
        trace: &args.output,
        stacks: args.stack_kind(),
        stack_distance: stack_distance(args),
        drops: args.when_full == WhenFull::Drop,
        duration: args.duration,
        stdin: Stdin::Own,
        stdout: if args.json { Stdout::ToStderr } else { Stdout::Own },
        variables: programs.map_or(&[], |programs| &programs.variables),
        through: programs.is_some(),
    }
}

/// Mean number of bytes between allocations that have a stack; 0 for all.
fn stack_distance(args: &RecordArgs) -> u64 {
    match (args.stack_kind(), args.sample) {
        (StackKind::None, _) | (StackKind::Fp, None) => 0,
        (StackKind::Full, None) => FULL_DISTANCE,
        (_, Some(distance)) => distance,
    }
}
