// SPDX-License-Identifier: MIT
//! `mallow completions`: what a shell needs to complete verbs, options and their values.

mod args;
mod words;

use clap::Command;
use clap_complete::Shell;

use crate::error::{Error, Result};
use crate::output;
pub use args::CompletionsArgs;
use args::ShellName;

pub fn main(args: &CompletionsArgs, command: Command) -> Result<u8> {
    output::put(args.file.as_deref(), &script(args.shell, command)?)?;
    Ok(0)
}

fn script(shell: ShellName, command: Command) -> Result<String> {
    let generator = match shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
    };
    let mut command = words::with_topics(command);
    let mut script = Vec::new();
    clap_complete::generate(generator, &mut command, "mallow", &mut script);
    let script = String::from_utf8(script).map_err(|error| Error::Internal(error.to_string()))?;
    words::add(shell, script, &command)
}
