// SPDX-License-Identifier: MIT
//! `mallow run`: become the command, with an allocator in front of it.

mod args;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;

use mallow_launch::preload;
use mallow_launch::words::quoted;

use crate::error::{Error, Result};
use crate::output::{self, Notes};
pub use args::RunArgs;

pub fn main(args: &RunArgs, notes: Notes) -> Result<u8> {
    let name = match (args.secure, args.debug) {
        (true, _) => "mallow-secure",
        (_, true) => "mallow-debug",
        _ => args.allocator.as_str(),
    };
    let note = |sentence: &str| notes.note(sentence);
    let prepared =
        mallow_launch::prepare(&args.command, Some(name), &args.options, &note)?.checked()?;
    prepared.modules_note().iter().for_each(|sentence| note(sentence));
    if args.dry_run {
        output::print(&environment(&prepared.changes, &args.command))?;
        return Ok(0);
    }
    // Only returns when the kernel refused; else this process is the command, and its exit code
    // and its signals are its own.
    let error = prepared.command().exec();
    let target = prepared.target;
    Err(match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => {
            let path = target.argv(&args.command).0;
            mallow_launch::Error::NotExecutable { path, reason: error.to_string() }.into()
        }
        _ => Error::NotStarted { command: target.command, reason: error.to_string() },
    })
}

/// A line that a shell understands.
fn environment(changes: &preload::Changes, command: &[OsString]) -> String {
    let mut words = Vec::new();
    let (set, unset): (Vec<_>, Vec<_>) = changes.iter().partition(|(_, value)| value.is_some());
    if !unset.is_empty() {
        words.push("env".to_owned());
        words.extend(unset.iter().flat_map(|(name, _)| ["-u".to_owned(), name.clone()]));
    }
    for (name, value) in set {
        words.push(format!("{name}={}", quoted(&value.clone().unwrap_or_default())));
    }
    words.extend(command.iter().map(|word| quoted(word)));
    words.join(" ") + "\n"
}
