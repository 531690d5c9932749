// SPDX-License-Identifier: MIT
//! The command line of `mallow help`.

use clap::Args;

use crate::output::OutputArgs;

#[derive(Args, Debug)]
pub struct HelpArgs {
    /// A verb, the id of a finding, or `findings` for a list of them
    pub topic: Option<String>,

    #[command(flatten)]
    pub output: OutputArgs,
}
