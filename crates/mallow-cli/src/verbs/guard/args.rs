// SPDX-License-Identifier: MIT
//! The command line of `mallow guard`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mallow_launch::options;

use crate::output::OutputArgs;
use crate::parse::CommandArgs;

/// What watches over the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Mallow's debug build: every overflow, double free and write after free, with the stacks
    Debug,
    /// Mallow's secure build: cheaper, for production
    Secure,
    /// Mallow's fast build, for production: one block in 5,000 lies between guards
    Sample,
    /// The debugging library of the C library itself, whose messages are explained
    Glibc,
}

#[derive(Args, Debug)]
pub struct GuardArgs {
    /// What watches over the command
    #[arg(long, value_enum, default_value = "debug")]
    pub mode: Mode,

    /// Also report what the command never freed and nothing points to when it ends
    #[arg(long)]
    pub leaks: bool,

    /// Leave out leaks that a line of FILE names, as in leak:function (LeakSanitizer's syntax)
    #[arg(long, value_name = "FILE", requires = "leaks")]
    pub suppressions: Option<PathBuf>,

    /// A folder with programs, debug files or perf maps, to find names in; may be repeated
    #[arg(long, value_name = "DIR")]
    pub symbols: Vec<PathBuf>,

    /// An option of the allocator, such as junk:true; may be repeated
    #[arg(long = "opt", value_name = "K:V", value_parser = options::parse_pair)]
    pub options: Vec<(String, String)>,

    #[command(flatten)]
    pub output: OutputArgs,

    #[command(flatten)]
    pub command: CommandArgs,
}
