// SPDX-License-Identifier: MIT
//! The command line of `mallow disable`.

use clap::{ArgGroup, Args};

use crate::enabling::{ChangeArgs, PlaceArgs};
use crate::output::OutputArgs;

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("where").required(true).args([
    "global", "unit", "wrappers", "ld_so_preload", "all",
])))]
pub struct DisableArgs {
    #[command(flatten)]
    pub place: PlaceArgs,

    /// All that mallow status shows
    #[arg(long)]
    pub all: bool,

    #[command(flatten)]
    pub change: ChangeArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}
