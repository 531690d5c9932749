// SPDX-License-Identifier: MIT
//! The command line of `mallow run`.

use clap::Args;
use mallow_launch::options;

use crate::output::OutputArgs;
use crate::parse::CommandArgs;

/// The output of a command that runs is its own.
#[derive(Args, Debug)]
#[command(mut_arg("format", |arg| arg.requires("dry_run")))]
#[command(mut_arg("json", |arg| arg.requires("dry_run")))]
#[command(mut_arg("file", |arg| arg.requires("dry_run")))]
#[command(mut_arg("html", |arg| arg.requires("dry_run")))]
pub struct RunArgs {
    /// The allocator: a name from `mallow list`, NAME=/path/lib.so, or a path
    #[arg(short, long, value_name = "NAME", default_value = "mallow")]
    pub allocator: String,

    /// Mallow's secure build
    #[arg(long, conflicts_with_all = ["debug", "allocator"])]
    pub secure: bool,

    /// Mallow's debug build
    #[arg(long, conflicts_with = "allocator")]
    pub debug: bool,

    /// An option of the allocator, such as dirty_decay_ms:0; may be repeated
    #[arg(long = "opt", value_name = "K:V", value_parser = options::parse_pair)]
    pub options: Vec<(String, String)>,

    /// Print the environment that the command would get, and do not run it
    #[arg(long)]
    pub dry_run: bool,

    #[command(flatten)]
    pub output: OutputArgs,

    #[command(flatten)]
    pub command: CommandArgs,
}
