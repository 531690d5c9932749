// SPDX-License-Identifier: MIT
//! The command line of `mallow status`.

use std::path::PathBuf;

use clap::Args;

use crate::output::OutputArgs;

#[derive(Args, Debug)]
pub struct StatusArgs {
    /// The folder of a system that does not run, such as an image that is being made
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,

    #[command(flatten)]
    pub output: OutputArgs,
}
