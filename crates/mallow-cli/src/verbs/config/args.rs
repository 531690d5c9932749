// SPDX-License-Identifier: MIT
//! The command line of `mallow config`.

use clap::Args;

use crate::output::OutputArgs;

#[derive(Args, Debug)]
pub struct ConfigArgs {
    /// Only the settings of this verb, or this setting, such as compare.runs
    #[arg(value_name = "VERB|SETTING")]
    pub only: Option<String>,

    #[command(flatten)]
    pub output: OutputArgs,
}
