//! The command line of `mallow help`.

use clap::Args;

#[derive(Args, Debug)]
pub struct HelpArgs {
    /// A verb, or the id of a finding
    pub topic: Option<String>,
}
