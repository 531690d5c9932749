// SPDX-License-Identifier: MIT
//! The command line of `mallow report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mallow_report::{Detail, Metric};

use crate::output::OutputArgs;

#[derive(Args, Debug)]
pub struct ReportArgs {
    /// A trace, as `mallow record` writes it, or a heap profile (heap_v2); `-` for standard input
    #[arg(value_name = "FILE")]
    pub trace: PathBuf,

    /// Say what changed since another trace; in flame graphs too
    #[arg(long, value_name = "OTHER")]
    pub diff: Option<PathBuf>,

    /// Which stacks come first
    #[arg(long, value_enum, value_name = "METRIC", default_value = "bytes")]
    pub by: By,

    /// So many rows in each table
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub top: u32,

    /// So many frames of each stack
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub depth: u32,

    /// Which frames of each stack are shown
    #[arg(long, value_enum, value_name = "WHICH", default_value = "user")]
    pub frames: Frames,

    /// Also look for programs, debug files and perf-PID.map files in DIR; may be repeated
    #[arg(long, value_name = "DIR")]
    pub symbols: Vec<PathBuf>,

    /// Also write the stacks for pprof, compressed; `-` for standard output, instead of the report
    #[arg(long, value_name = "PROFILE")]
    pub pprof: Option<PathBuf>,

    /// Print folded stacks, as flame graph tools read them, instead of the report
    #[arg(long, value_enum, value_name = "METRIC", num_args = 0..=1, require_equals = true,
          default_missing_value = "bytes", conflicts_with_all = ["format", "json", "csv"])]
    pub folded: Option<By>,

    /// Print one table in full as CSV instead of the report
    #[arg(long, value_enum, value_name = "TABLE", num_args = 0..=1, require_equals = true,
          default_missing_value = "stacks", conflicts_with_all = ["format", "json"])]
    pub csv: Option<TableName>,

    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Bytes asked for
    Bytes,
    /// Calls
    Calls,
    /// Bytes live at the moment of the peak
    Peak,
    /// Bytes never freed
    Leaked,
    /// Blocks freed right after, with no other allocation of the thread in between
    Temporary,
}

impl By {
    pub fn metric(self) -> Metric {
        match self {
            By::Bytes => Metric::Bytes,
            By::Calls => Metric::Calls,
            By::Peak => Metric::Peak,
            By::Leaked => Metric::Leaked,
            By::Temporary => Metric::Temporary,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Frames {
    /// From the first that is not of a standard library (std, alloc, core, libstdc++) on
    User,
    /// The same, and functions that were inlined into their callers
    Inlined,
    /// Every one
    All,
}

impl Frames {
    pub fn detail(self) -> Detail {
        match self {
            Frames::User => Detail::User,
            Frames::Inlined => Detail::Inlined,
            Frames::All => Detail::All,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableName {
    Functions,
    Threads,
    Sizes,
    Stacks,
    Lifetimes,
    Timeline,
}
