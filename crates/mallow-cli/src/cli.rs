// SPDX-License-Identifier: MIT
//! The command line: the one definition that help, manual, completions and configuration come from.

use std::ffi::OsString;

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::guide;
use crate::output::colour::When;
use crate::output::{self, Notes};
use crate::verbs;
use crate::verbs::advise::AdviseArgs;
use crate::verbs::check::CheckArgs;
use crate::verbs::compare::CompareArgs;
use crate::verbs::completions::CompletionsArgs;
use crate::verbs::config::ConfigArgs;
use crate::verbs::disable::DisableArgs;
use crate::verbs::enable::EnableArgs;
use crate::verbs::explain::ExplainArgs;
use crate::verbs::guard::GuardArgs;
use crate::verbs::help::HelpArgs;
use crate::verbs::list::ListArgs;
use crate::verbs::man::ManArgs;
use crate::verbs::record::RecordArgs;
use crate::verbs::replay::ReplayArgs;
use crate::verbs::report::ReportArgs;
use crate::verbs::run::RunArgs;
use crate::verbs::serve::ServeArgs;
use crate::verbs::stats::StatsArgs;
use crate::verbs::status::StatusArgs;
use crate::verbs::top::TopArgs;
use crate::verbs::tune::TuneArgs;
use crate::verbs::verify::VerifyArgs;
use crate::verbs::watch::WatchArgs;

const EXIT_CODES: &str = "Exit codes: 0 or the command's own; 2 usage or a missing file; \
3 expectation not met; 4 the target cannot be served; 5 no permission or no space; 6 inconclusive; \
7 damaged input or no such process; 70 internal error; 125, 126, 127 as env; \
128+n after signal n.";

/// A line of help has as many columns at the most.
const WIDEST: usize = 100;
/// Of a terminal that tells no width `COLUMNS` does; fewer than these are none.
const NARROWEST: usize = 40;

/// Run, compare and verify memory allocators.
#[derive(Parser, Debug)]
#[command(name = "mallow", version, disable_help_subcommand = true, after_help = EXIT_CODES, max_term_width = WIDEST)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,

    /// Print no progress and no notes
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// When to use colours; auto is on a terminal, unless NO_COLOR is set
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto", global = true)]
    pub color: When,
}

/// In the order in which one needs them.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Show the allocators that can be used here, and how to install the others
    List(ListArgs),
    /// Run a command under an allocator
    Run(RunArgs),
    /// Measure a command under several allocators and say which is better, or that none is
    Compare(Box<CompareArgs>),
    /// Say who serves malloc, free and operator new in a process
    Verify(VerifyArgs),
    /// Say where the memory of a process is, and why, without stopping it
    Explain(ExplainArgs),
    /// Show memory and faults of a process over time, and the difference between two runs
    Watch(WatchArgs),
    /// Show the processes of the machine by their heaps: live, free, how fast they grow, room left
    Top(TopArgs),
    /// Show what an allocator counts, of a process or from a dump, whichever allocator it is
    Stats(StatsArgs),
    /// Say which settings of an allocator to change, and why, or that there is nothing to do
    Advise(AdviseArgs),
    /// Record every allocation of a command, or of a running process
    Record(RecordArgs),
    /// Say what a recorded trace holds: calls, sizes, threads, stacks, peak, leaks, over time
    Report(Box<ReportArgs>),
    /// Carry out the calls of a recorded run on several allocators
    Replay(Box<ReplayArgs>),
    /// Search the settings of an allocator that suit a program, with proof, or say that none is better
    Tune(Box<TuneArgs>),
    /// Hold the allocations of a command against a baseline, for continuous integration
    Check(Box<CheckArgs>),
    /// Serve the heaps of running processes as metrics for Prometheus, and their profiles
    Serve(ServeArgs),
    /// Run a command under an allocator that finds misuse of memory, and say what was wrong
    Guard(Box<GuardArgs>),
    /// Turn an allocator on for login shells, a service, or by wrappers; or print the lines for others
    Enable(Box<EnableArgs>),
    /// Undo what enable did: every file is again what it was
    Disable(DisableArgs),
    /// Show what is enabled, since when, and which processes have it
    Status(StatusArgs),
    /// Show which settings hold, and where each comes from
    Config(ConfigArgs),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Print a page of the manual
    Man(ManArgs),
    /// Explain a verb, or a finding such as MLW2101
    Help(HelpArgs),
}

/// The command line as it is without configuration.
pub fn definition() -> Command {
    let command = guide::add(Cli::command());
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    // clap would write a word a line.
    match columns.is_some_and(|columns: usize| columns < NARROWEST) {
        true => command.term_width(output::terminal_columns().unwrap_or(WIDEST).min(WIDEST)),
        false => command,
    }
}

/// What clap says instead of a result: help, or what is wrong.
pub type Answer = clap::Error;

impl Cli {
    pub fn parse(
        command: Command,
        words: &[OsString],
    ) -> std::result::Result<(Cli, ArgMatches), Answer> {
        let matches = command.try_get_matches_from(words)?;
        Ok((Cli::from_arg_matches(&matches)?, matches))
    }

    pub fn notes(&self) -> Notes {
        Notes { quiet: self.quiet }
    }

    /// Whether the configuration matters: it must not keep anybody from reading the help.
    pub fn is_configured(&self) -> bool {
        !matches!(self.verb, Verb::Completions(_) | Verb::Man(_) | Verb::Help(_))
    }

    /// Carries the command out and says the exit code.
    pub fn run(self, config: &Config) -> Result<u8> {
        let notes = self.notes();
        if self.verb.reads_processes() && !mallow_process::can_be_read() {
            return Err(Error::Unsupported(mallow_process::NO_PROC.into()));
        }
        if self.verb.follows_processes() && !mallow_process::is_own() {
            return Err(Error::Unsupported(mallow_process::FOREIGN_PROC.into()));
        }
        match self.verb {
            Verb::List(args) => verbs::list::main(&args),
            Verb::Run(args) => verbs::run::main(&args, notes),
            Verb::Compare(args) => verbs::compare::main(&args, notes),
            Verb::Verify(args) => verbs::verify::main(&args, notes),
            Verb::Explain(args) => verbs::explain::main(&args, notes),
            Verb::Watch(args) => verbs::watch::main(&args, notes),
            Verb::Top(args) => verbs::top::main(&args, notes),
            Verb::Stats(args) => verbs::stats::main(&args, notes),
            Verb::Advise(args) => verbs::advise::main(&args, notes),
            Verb::Record(args) => verbs::record::main(&args, notes),
            Verb::Report(args) => verbs::report::main(&args, notes),
            Verb::Replay(args) => verbs::replay::main(&args, notes),
            Verb::Tune(args) => verbs::tune::main(&args, notes),
            Verb::Check(args) => verbs::check::main(&args, notes),
            Verb::Serve(args) => verbs::serve::main(&args, notes),
            Verb::Guard(args) => verbs::guard::main(&args, notes),
            Verb::Enable(args) => verbs::enable::main(&args, notes),
            Verb::Disable(args) => verbs::disable::main(&args),
            Verb::Status(args) => verbs::status::main(&args),
            Verb::Config(args) => verbs::config::main(&args, config),
            Verb::Completions(args) => verbs::completions::main(&args, definition()),
            Verb::Man(args) => verbs::man::main(&args, definition()),
            Verb::Help(args) => verbs::help::main(&args, definition()),
        }
    }
}

impl Verb {
    /// Whatever it is given. Others may be given a file instead of a process.
    fn reads_processes(&self) -> bool {
        match self {
            Verb::Verify(_) | Verb::Top(_) | Verb::Record(_) | Verb::Check(_) => true,
            Verb::Serve(_) | Verb::Replay(_) | Verb::Compare(_) | Verb::Tune(_) => true,
            Verb::Watch(args) => args.compare.is_empty(),
            Verb::Advise(args) => !args.command.is_empty(),
            _ => false,
        }
    }

    /// From their start, or by a handle: they are known by the numbers of this PID namespace, while what is only
    /// read has those of /proc, as ps does.
    fn follows_processes(&self) -> bool {
        match self {
            Verb::Top(_) | Verb::Serve(_) => false,
            Verb::Verify(args) => !args.command.is_empty(),
            _ => self.reads_processes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_is_consistent() {
        definition().debug_assert();
    }
}
