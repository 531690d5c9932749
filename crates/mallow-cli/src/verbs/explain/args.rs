// SPDX-License-Identifier: MIT
//! The command line of `mallow explain`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::output::OutputArgs;

#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// The number of a process, or a folder that --save wrote
    #[arg(value_name = "PID|DIR")]
    pub target: OsString,

    /// List every mapping, arena and size class
    #[arg(long)]
    pub all: bool,

    /// Ask a Java machine for its own count (jcmd, with -XX:NativeMemoryTracking); it notices that
    #[arg(long)]
    pub ask: bool,

    /// Keep everything in DIR, to be read again later or elsewhere
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,

    #[command(flatten)]
    pub output: OutputArgs,
}
