//! The `mallow` command. `cli` is the table of contents.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use mallow_cli::cli::{Cli, Verb};
use mallow_cli::commands;
use mallow_cli::output::Notes;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let notes = Notes { quiet: cli.quiet };
    let outcome = match cli.verb {
        Verb::List(args) => commands::list::main(&args),
        Verb::Run(args) => commands::run::main(&args, notes),
        Verb::Verify(args) => commands::verify::main(&args, notes),
        Verb::Compare(args) => mallow_cli::compare::main(&args, notes),
        Verb::Record(args) => mallow_cli::record::main(&args, notes),
        Verb::Explain(args) => mallow_cli::explain::main(&args, notes),
        Verb::Watch(args) => mallow_cli::watch::main(&args, notes),
        Verb::Help(args) => commands::help::main(&args),
        Verb::Replay(args) => mallow_cli::replay::main(&args, notes),
        Verb::Report(args) => mallow_cli::report::main(&args, notes),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("mallow: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
