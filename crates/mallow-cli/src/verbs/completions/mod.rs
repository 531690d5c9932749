//! `mallow completions`: what a shell needs to complete verbs, options and their values.

mod args;

use clap::Command;
use clap_complete::Shell;

use crate::error::{Error, Result};
use crate::output;
pub use args::CompletionsArgs;
use args::ShellName;

pub fn main(args: &CompletionsArgs, mut command: Command) -> Result<u8> {
    let shell = match args.shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "mallow", &mut script);
    let script = String::from_utf8(script).map_err(|error| Error::Internal(error.to_string()))?;
    match &args.file {
        Some(path) => output::write_file(path, &script)?,
        None => output::print(&script)?,
    }
    Ok(0)
}
