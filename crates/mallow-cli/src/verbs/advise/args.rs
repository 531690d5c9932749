// SPDX-License-Identifier: MIT
//! The command line of `mallow advise`.

use std::ffi::OsString;

use clap::Args;

use crate::output::OutputArgs;

#[derive(Args, Debug)]
pub struct AdviseArgs {
    /// The number of a process, the file of a dump, or - for standard input
    #[arg(value_name = "PID|FILE|-", required_unless_present_any = ["command", "rules"],
          conflicts_with_all = ["command", "rules"])]
    pub target: Option<OsString>,

    /// List all rules, and what each looks for
    #[arg(long, conflicts_with = "command")]
    pub rules: bool,

    /// Fail with exit code 3 if there is something to do
    #[arg(long)]
    pub strict: bool,

    /// Start the command under this allocator
    #[arg(short, long, value_name = "NAME", requires = "command")]
    pub allocator: Option<String>,

    #[command(flatten)]
    pub output: OutputArgs,

    /// A command to start and to ask while it runs
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
