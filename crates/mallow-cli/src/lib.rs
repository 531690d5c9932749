//! The `mallow` command, a library so that its parts can be tested.
//!
//! `cli` says which verbs there are; each is a folder of `verbs` with its arguments, its flow and
//! its report, and knows no other verb. What they share stands beside them: `output` (tables,
//! pages, words), `error` (exit codes), `findings`, `recording` (reading traces), `signals`,
//! `parse`.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

use clap::Parser;

mod cli;
mod error;
mod findings;
mod output;
mod parse;
mod recording;
mod signals;
mod verbs;

/// Runs the command line of this process and says the exit code.
pub fn main() -> u8 {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { 2 } else { 0 };
        }
    };
    match cli.run() {
        Ok(code) => code,
        Err(error) => {
            output::tell(&error.to_string());
            error.exit_code()
        }
    }
}
