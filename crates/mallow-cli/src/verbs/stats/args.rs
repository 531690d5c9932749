// SPDX-License-Identifier: MIT
//! The command line of `mallow stats`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use crate::output::OutputArgs;
use crate::parse;

#[derive(Args, Debug)]
pub struct StatsArgs {
    /// The number of a process, the file of a dump, a core file of a process under Mallow, or - for standard
    /// input
    #[arg(value_name = "PID|FILE|-", allow_hyphen_values = false)]
    pub target: OsString,

    /// List the arenas
    #[arg(long)]
    pub arenas: bool,

    /// List the size classes
    #[arg(long)]
    pub classes: bool,

    /// List the locks, those that threads waited for first
    #[arg(long)]
    pub locks: bool,

    /// List the options that hold
    #[arg(long)]
    pub options: bool,

    /// List all of these, with what was never used
    #[arg(long)]
    pub all: bool,

    /// Read a process again after this time, until it ends
    #[arg(short, long, value_name = "TIME", value_parser = parse::duration)]
    pub interval: Option<Duration>,

    /// End after so many readings [default with --interval: with the process, or by Ctrl-C]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    #[command(flatten)]
    pub output: OutputArgs,
}
