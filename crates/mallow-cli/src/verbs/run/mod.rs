// SPDX-License-Identifier: MIT
//! `mallow run`: become the command, with an allocator in front of it.

mod args;
mod report;

use std::os::unix::process::CommandExt;

use crate::error::{Error, Result};
use crate::output::Notes;
pub use args::RunArgs;
use mallow_os::threads::why_not_started;
use report::Report;

pub fn main(args: &RunArgs, notes: Notes) -> Result<u8> {
    args.output.check()?;
    let name = match (args.secure, args.debug) {
        (true, _) => "mallow-secure",
        (_, true) => "mallow-debug",
        _ => args.allocator.as_str(),
    };
    let note = |sentence: &str| notes.note(sentence);
    let prepared =
        mallow_launch::prepare(&args.command.words, Some(name), &args.options, &note)?.checked()?;
    prepared.modules_note().iter().for_each(|sentence| note(sentence));
    if args.dry_run {
        let report = Report::new(name, &prepared.changes, &args.command.words);
        args.output.write(
            &report,
            || report.page(),
            |format, screen| report.text(format, screen),
        )?;
        return Ok(0);
    }
    // Only returns when the kernel refused; else this process is the command, and its exit code
    // and its signals are its own.
    let error = prepared.command().exec();
    let target = prepared.target;
    Err(match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => {
            let path = target.argv(&args.command.words).0;
            mallow_launch::Error::NotExecutable { path, reason: error.to_string() }.into()
        }
        _ => Error::NotStarted { command: target.command, reason: why_not_started(&error) },
    })
}
