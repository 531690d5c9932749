// SPDX-License-Identifier: MIT
//! The command line of `mallow record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use mallow_capture::StackKind;

use crate::parse::{self, Stacks};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WhenFull {
    /// The thread waits for the collector, and no call is lost
    Wait,
    /// The thread goes on, and what is lost is counted
    Drop,
}

#[derive(Args, Debug)]
pub struct RecordArgs {
    /// The trace to write
    #[arg(short, long, value_name = "FILE", default_value = "mallow.trace")]
    pub output: PathBuf,

    /// Print the summary as JSON; what the command prints then goes to standard error
    #[arg(long)]
    pub json: bool,

    /// Also write the summary to PAGE, as one HTML file that needs nothing else
    #[arg(long, value_name = "PAGE")]
    pub html: Option<PathBuf>,

    /// Stacks of allocations [default: full]
    #[arg(long, value_enum)]
    pub stacks: Option<Stacks>,

    /// Mean number of bytes between allocations with a stack, or `all` [default: all for fp; for
    /// full 64K, and more while stacks take more than 3 % of the time]
    #[arg(long, value_name = "SIZE", value_parser = parse_sample)]
    pub sample: Option<u64>,

    /// Record the command under this allocator instead of its own
    #[arg(short, long, value_name = "NAME", requires = "command")]
    pub allocator: Option<String>,

    /// What a thread does that allocates faster than can be written
    #[arg(long, value_enum, default_value = "wait")]
    pub when_full: WhenFull,

    /// Record this running process by kernel probes, until Ctrl-C; needs root
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,

    /// Stop recording after this time; a command goes on
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    pub duration: Option<Duration>,

    /// The command and its arguments
    #[arg(last = true, required_unless_present = "pid", value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl RecordArgs {
    pub fn stack_kind(&self) -> StackKind {
        self.stacks.unwrap_or(Stacks::Full).into()
    }
}

/// 0 stands for all.
fn parse_sample(text: &str) -> Result<u64, String> {
    if text == "all" { Ok(0) } else { parse::size(text) }
}
