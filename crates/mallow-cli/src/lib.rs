// SPDX-License-Identifier: MIT
//! The `mallow` command, a library so that its parts can be tested.
//!
//! `cli` says which verbs there are; each is a folder of `verbs` with its arguments, its flow and
//! its report, and knows no other verb. What they share stands beside them: `output` (tables,
//! pages, words), `error` (exit codes), `config` (settings), `guide` (examples),
//! `recording` (reading traces), `replaying` (carrying them out),
//! `statistics` (of a process or a dump), `enabling` (options), `passing` (standard error), `signals`,
//! `parse`.

#![forbid(unsafe_code)]
// They panic where nobody reads: see output.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(test, allow(clippy::unwrap_used))]

use std::ffi::OsString;

use cli::Cli;
use config::{Config, Places};
use mallow_os::threads;
use nix::sys::resource::{Resource, getrlimit};

mod cli;
mod comparing;
mod config;
mod enabling;
mod error;
mod guide;
mod input;
mod output;
mod parse;
mod passing;
mod recording;
mod replaying;
mod signals;
mod statistics;
mod verbs;

#[global_allocator]
static MALLOC: mallow_os::Malloc = mallow_os::Malloc;

/// Runs the command line of this process and says the exit code.
pub fn main() -> u8 {
    mallow_os::tell_panics_without_memory();
    // As all other threads have it. The first one has what `ulimit -s` says.
    const STACK: usize = 2 << 20;
    if getrlimit(Resource::RLIMIT_STACK).is_ok_and(|(most, _)| most >= STACK as u64) {
        return run();
    }
    match threads::spawn_with_stack("main", STACK, run) {
        Ok(runs) => runs.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        Err(error) => outcome(Err(error.into())),
    }
}

fn run() -> u8 {
    signals::let_long_files_fail();
    let words: Vec<OsString> = std::env::args_os().collect();
    let definition = cli::definition().color(output::colour::of_words(&words));
    // Once without the configuration, so that nothing in it can hide the help or a mistake here.
    let cli = match Cli::parse(config::with_negations(definition.clone()), &words) {
        Ok((cli, _)) => cli,
        Err(answer) => return say(&answer),
    };
    if !cli.is_configured() {
        return outcome(cli.run(&Config::default()));
    }
    let places = Places::of_this_process();
    let mut config = match Config::load(&definition, &places, std::env::vars_os(), cli.notes()) {
        Ok(config) => config,
        Err(error) => return outcome(Err(error)),
    };
    match Cli::parse(config.apply(definition), &words) {
        Ok((cli, matches)) => {
            output::colour::choose(cli.color);
            config.note_flags(&matches);
            outcome(cli.run(&config))
        }
        Err(answer) => say(&answer),
    }
}

fn say(answer: &cli::Answer) -> u8 {
    let printed = output::printed(answer.print());
    if answer.use_stderr() { 2 } else { outcome(printed.map(|()| 0)) }
}

fn outcome(result: error::Result<u8>) -> u8 {
    match result {
        Ok(code) => code,
        Err(error) => {
            output::tell(&error.to_string());
            error.exit_code()
        }
    }
}
