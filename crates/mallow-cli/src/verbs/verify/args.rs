// SPDX-License-Identifier: MIT
//! The command line of `mallow verify`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use crate::output::OutputArgs;
use crate::parse;

#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// The process to look at
    #[arg(value_name = "PID", required_unless_present = "command", conflicts_with = "command")]
    pub pid: Option<u32>,

    /// Fail with exit code 3 unless this allocator serves the process and all its children
    #[arg(long, value_name = "NAME")]
    pub expect: Option<String>,

    /// Look at the process alone
    #[arg(long)]
    pub no_children: bool,

    /// Start the command under this allocator first
    #[arg(short, long, value_name = "NAME", requires = "command")]
    pub allocator: Option<String>,

    /// Look at a started command after this time, unless it ends before
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse::duration)]
    pub after: Duration,

    #[command(flatten)]
    pub output: OutputArgs,

    /// A command to start and look at; it is ended afterwards
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
