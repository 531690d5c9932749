// SPDX-License-Identifier: MIT
//! The command line of `mallow tune`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mallow_launch::options;
use mallow_measure::search::limit::Constraint;

use super::constraint;
use crate::comparing::{ServiceArgs, VerdictArgs};
use crate::output::OutputArgs;
use crate::parse;

/// Where settings are searched when there is no trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SearchOn {
    /// On the replay of a recording, if the budget does not allow all settings to be tried on the
    /// command, and its replay stands for it
    Auto,
    /// On the replay of a recording that is made first
    Replay,
    /// On the command itself
    Command,
}

#[derive(Args, Debug)]
pub struct TuneArgs {
    /// A trace written by `mallow record`: settings are searched on its replay, and confirmed on the
    /// command, where there is one
    #[arg(value_name = "TRACE", required_unless_present_any = ["command", "server"])]
    pub trace: Option<PathBuf>,

    /// The allocator whose settings are searched [default: the one of the recording, else the C
    /// library's own]
    #[arg(short, long, value_name = "NAME")]
    pub allocator: Option<String>,

    /// A setting to begin with, for the allocator; may be repeated
    #[arg(long = "opt", value_name = "K:V", value_parser = options::parse_pair)]
    pub options: Vec<(String, String)>,

    /// What has to hold, such as rss<400M, time<2s or cpu<1.5s; may be repeated
    #[arg(long, value_name = "LIMIT", value_parser = constraint::parse)]
    pub constraint: Vec<Constraint>,

    /// Time for all of it; decides how many settings are tried
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse::duration)]
    pub budget: Duration,

    /// Exactly this many rounds of the confirmation [default: 10, and more until the intervals are
    /// narrow]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: Option<u32>,

    /// Where settings are searched; what is found is confirmed on the command
    #[arg(
        long,
        value_enum,
        value_name = "WHERE",
        default_value = "auto",
        conflicts_with = "trace"
    )]
    pub search: SearchOn,

    /// Another recording of the program, on which what was found has to hold too
    #[arg(long, value_name = "FILE")]
    pub second: Option<PathBuf>,

    /// Keep what was measured in FILE, and go on from there if it exists
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,

    /// Shell command to run before each run; not timed
    #[arg(long, value_name = "CMD")]
    pub prepare: Option<String>,

    #[command(flatten)]
    pub service: ServiceArgs,

    /// The process of the trace to replay: its number or its program's name [default: the one that
    /// had most bytes allocated at once]
    #[arg(long, value_name = "PID|NAME", requires = "trace")]
    pub process: Option<String>,

    #[command(flatten)]
    pub verdict: VerdictArgs,

    #[command(flatten)]
    pub output: OutputArgs,

    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
