// SPDX-License-Identifier: MIT
//! From a command and an allocator's name to a program that can be started under it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::allocator::{self, Allocator};
use crate::error::{Error, Result};
use crate::preflight;
use crate::preload::{self, Changes};
use crate::settings;
use crate::target::Target;

/// A command, and what puts the allocator in front of it.
#[derive(Debug)]
pub struct Prepared {
    pub target: Target,
    /// `None`: the program keeps its own.
    pub allocator: Option<Allocator>,
    pub changes: Changes,
    words: Vec<OsString>,
}

/// Finds the allocator and writes the environment. `note` gets what the user should know though it
/// is no reason to stop. Whether the loader will follow is what [`Prepared::checked`] asks.
pub fn prepare(
    words: &[OsString],
    allocator: Option<&str>,
    options: &[(String, String)],
    note: &dyn Fn(&str),
) -> Result<Prepared> {
    let target = Target::resolve(words.first().ok_or_else(Error::no_command)?)?;
    let mut changes = Changes::new();
    let mut found = None;
    if let Some(name) = allocator {
        let allocator = allocator::find(name, target.libc())?;
        changes = environment(&target, &allocator, options, note)?;
        found = Some(allocator);
    }
    Ok(Prepared { target, allocator: found, changes, words: words.to_vec() })
}

/// What puts an allocator that was found in front of a program that it can serve.
pub fn environment(
    target: &Target,
    allocator: &Allocator,
    options: &[(String, String)],
    note: &dyn Fn(&str),
) -> Result<Changes> {
    let changes = preload::changes(allocator, options)?;
    settings::check(allocator, target, options, note)?;
    target.check(allocator)?.iter().for_each(|sentence| note(sentence));
    Ok(changes)
}

impl Prepared {
    /// Fails unless the loader would load the allocator and bind `malloc` to it.
    pub fn checked(self) -> Result<Prepared> {
        if let Some(allocator) = &self.allocator {
            preflight::check(&self.target, allocator, &self.changes)?;
        }
        Ok(self)
    }

    /// See [`Target::modules_note`].
    pub fn modules_note(&self) -> Option<String> {
        self.target.modules_note(self.allocator.as_ref()?)
    }

    /// The command, in the environment that was prepared.
    pub fn command(&self) -> Command {
        let (program, argv) = self.target.argv(&self.words);
        let mut command = Command::new(program);
        if let Some((argv0, arguments)) = argv.split_first() {
            command.arg0(argv0).args(arguments);
        }
        preload::apply(&mut command, &self.changes);
        command
    }
}
