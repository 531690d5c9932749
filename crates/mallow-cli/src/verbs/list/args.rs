// SPDX-License-Identifier: MIT
//! The command line of `mallow list`.

use clap::Args;

use crate::output::OutputArgs;

#[derive(Args, Debug)]
pub struct ListArgs {
    #[command(flatten)]
    pub output: OutputArgs,
}
