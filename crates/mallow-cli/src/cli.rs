//! The command line: the one definition that help, and later man page and completions, come from.

use clap::{CommandFactory, Parser, Subcommand};

use crate::error::Result;
use crate::output::Notes;
use crate::verbs;
use crate::verbs::compare::CompareArgs;
use crate::verbs::explain::ExplainArgs;
use crate::verbs::help::HelpArgs;
use crate::verbs::list::ListArgs;
use crate::verbs::record::RecordArgs;
use crate::verbs::replay::ReplayArgs;
use crate::verbs::report::ReportArgs;
use crate::verbs::run::RunArgs;
use crate::verbs::verify::VerifyArgs;
use crate::verbs::watch::WatchArgs;

const EXIT_CODES: &str = "Exit codes: 0 or the command's own; 2 usage or a missing file; \
3 expectation not met; 4 the target cannot be served; 5 no permission or no space; 6 inconclusive; \
7 damaged input or no such process; 70 internal error; 125, 126, 127 as env; \
128+n after signal n.";

/// Run, compare and verify memory allocators.
#[derive(Parser, Debug)]
#[command(name = "mallow", version, disable_help_subcommand = true, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,

    /// Print no progress and no notes
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

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
    /// Record every allocation of a command, or of a running process
    Record(RecordArgs),
    /// Say where the memory of a process is, and why, without stopping it
    Explain(ExplainArgs),
    /// Show memory and faults of a process over time, and the difference between two runs
    Watch(WatchArgs),
    /// Explain a verb, or a finding such as MLW2101
    #[command(name = "help")]
    Help(HelpArgs),
    /// Carry out the calls of a recorded run on several allocators
    Replay(Box<ReplayArgs>),
    /// Say what a recorded trace holds: calls, sizes, threads, stacks, peak, leaks, over time
    Report(Box<ReportArgs>),
}

impl Cli {
    /// Carries the command out and says the exit code.
    pub fn run(self) -> Result<u8> {
        let notes = Notes { quiet: self.quiet };
        match self.verb {
            Verb::List(args) => verbs::list::main(&args),
            Verb::Run(args) => verbs::run::main(&args, notes),
            Verb::Compare(args) => verbs::compare::main(&args, notes),
            Verb::Verify(args) => verbs::verify::main(&args, notes),
            Verb::Record(args) => verbs::record::main(&args, notes),
            Verb::Explain(args) => verbs::explain::main(&args, notes),
            Verb::Watch(args) => verbs::watch::main(&args, notes),
            Verb::Help(args) => verbs::help::main(&args, Cli::command()),
            Verb::Replay(args) => verbs::replay::main(&args, notes),
            Verb::Report(args) => verbs::report::main(&args, notes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
