// SPDX-License-Identifier: MIT
//! The command line of `mallow enable`.

use std::ffi::OsString;

use clap::{ArgGroup, Args};

use crate::enabling::{ChangeArgs, PlaceArgs};
use crate::output::OutputArgs;

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("where").required(true).args([
    "global", "unit", "wrappers", "ld_so_preload",
    "docker", "compose", "kubernetes", "procfile", "supervisor",
])))]
pub struct EnableArgs {
    /// The allocator: a name from `mallow list`, NAME=/path/lib.so, or a path; for wrappers also a
    /// list of them, or all that are installed
    #[arg(short, long = "allocator", value_name = "NAME", value_delimiter = ',')]
    pub allocators: Vec<String>,

    #[command(flatten)]
    pub place: PlaceArgs,

    /// Print the lines for a Dockerfile
    #[arg(long)]
    pub docker: bool,

    /// Print the lines for a compose file
    #[arg(long)]
    pub compose: bool,

    /// Print a patch for a deployment
    #[arg(long)]
    pub kubernetes: bool,

    /// Print the line for a Procfile
    #[arg(long)]
    pub procfile: bool,

    /// Print the lines for supervisord
    #[arg(long)]
    pub supervisor: bool,

    /// First compare the allocator with the C library's own on the command behind --, and enable it
    /// only if the runs prove it better
    #[arg(long, requires = "command", conflicts_with_all = [
        "wrappers", "root", "docker", "compose", "kubernetes", "procfile", "supervisor",
    ])]
    pub if_better: bool,

    /// With --if-better: exactly this many runs of each [default: 10, and more until it is clear]
    #[arg(long, value_name = "N", requires = "if_better",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: Option<u32>,

    /// Name the library by its full path: setuid programs, which take no preload, then say nothing of it
    #[arg(long, conflicts_with_all = [
        "wrappers", "ld_so_preload", "docker", "compose", "kubernetes", "procfile", "supervisor",
    ])]
    pub full_path: bool,

    #[command(flatten)]
    pub change: ChangeArgs,

    #[command(flatten)]
    pub output: OutputArgs,

    /// With --if-better: the command to compare on, and its arguments
    #[arg(last = true, requires = "if_better", value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
