// SPDX-License-Identifier: MIT
//! The command line of `mallow replay`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mallow_launch::options;

use crate::comparing::VerdictArgs;
use crate::output::OutputArgs;
use crate::parse;
use crate::replaying::Touch;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReplayMode {
    /// Lockstep for memory, free for speed
    Both,
    /// All calls in their recorded order, at the recorded times as allocators see them
    Lockstep,
    /// Each thread as fast as it can
    Free,
}

#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// A trace written by `mallow record`; `-` for standard input
    #[arg(value_name = "FILE")]
    pub trace: PathBuf,

    /// Allocators to replay on, separated by commas; the default is all that are installed
    #[arg(short, long = "allocators", value_name = "LIST", value_delimiter = ',')]
    pub allocators: Vec<String>,

    /// The one that the others are compared with [default: the C library's own, else the first]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,

    /// An option for the Mallow builds; may be repeated
    #[arg(long = "opt", value_name = "K:V", value_parser = options::parse_pair)]
    pub options: Vec<(String, String)>,

    /// Which order the calls are made in
    #[arg(short, long, value_enum, default_value = "both")]
    pub mode: ReplayMode,

    /// What is written to the blocks
    #[arg(short, long, value_enum, default_value = "pages")]
    pub touch: Touch,

    /// The process to replay: its number or its program's name [default: the one that had most
    /// bytes allocated at once]
    #[arg(short, long, value_name = "PID|NAME")]
    pub process: Option<String>,

    /// Exactly this many rounds [default: 10, fewer when the budget is used up; 1 for lockstep]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: Option<u32>,

    /// Time after which no new round begins [default: a tenth of a run under each allocator; up to
    /// 10s if that is less, but no more than those runs take]
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    pub budget: Option<Duration>,

    #[command(flatten)]
    pub verdict: VerdictArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}
