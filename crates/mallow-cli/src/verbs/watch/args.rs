// SPDX-License-Identifier: MIT
//! The command line of `mallow watch`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::output::OutputArgs;
use crate::parse;

#[derive(Args, Debug)]
pub struct WatchArgs {
    /// The process to watch, with its children
    #[arg(value_name = "PID", required_unless_present_any = ["command", "compare"],
          conflicts_with = "command")]
    pub pid: Option<u32>,

    /// Time between two samples
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = parse::duration)]
    pub interval: Duration,

    /// End after this time [default: with the process, or by Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = parse::duration)]
    pub duration: Option<Duration>,

    /// Start the command under this allocator
    #[arg(short, long, value_name = "NAME", requires = "command")]
    pub allocator: Option<String>,

    /// Keep the run in FILE, for --compare
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,

    /// Also write all samples to FILE, as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    /// The difference between two runs that --save (or --json) wrote
    #[arg(long, value_names = ["A", "B"], num_args = 2,
          conflicts_with_all = ["pid", "command", "save", "csv"])]
    pub compare: Vec<PathBuf>,

    #[command(flatten)]
    pub output: OutputArgs,

    /// A command to start and watch; what it writes is hidden while a chart is shown
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
