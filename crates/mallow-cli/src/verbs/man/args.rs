// SPDX-License-Identifier: MIT
//! The command line of `mallow man`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
pub struct ManArgs {
    /// The verb; the page of mallow itself without one
    pub verb: Option<String>,

    /// Write every page into DIR
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    pub all: Option<PathBuf>,

    /// All verbs and options as one page of Markdown
    #[arg(long, conflicts_with_all = ["verb", "all"])]
    pub markdown: bool,

    /// Write the page to FILE instead of standard output
    #[arg(short = 'o', long = "output", value_name = "FILE", conflicts_with = "all")]
    pub file: Option<PathBuf>,
}
