// SPDX-License-Identifier: MIT
//! The command line of `mallow check`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mallow_report::baseline::Tolerance;

use crate::output::{self, Destination, OutputArgs};
use crate::parse::Stacks;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Json,
    Csv,
    Md,
    Html,
    /// A test suite with a test for each metric
    Junit,
    /// For code scanning
    Sarif,
    /// The table, and annotations in the log of a GitHub workflow
    Github,
}

#[derive(Args, Debug)]
pub struct CheckArgs {
    /// What the command is held against
    #[arg(short, long, value_name = "BASELINE", default_value = "mallow.baseline.json")]
    pub baseline: PathBuf,

    /// Make what is measured now the baseline
    #[arg(long)]
    pub update: bool,

    /// So many recorded runs, and as many without the recorder for RSS
    #[arg(short, long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,

    /// How much more may be: a percentage for each metric of allocations, bytes, peak, leaks, rss
    /// [default: the baseline's, else allocations=0%,bytes=0%,peak=5%,leaks=0%,rss=10%]
    #[arg(short, long, value_name = "METRIC=PERCENT", value_delimiter = ',')]
    pub tolerance: Vec<Tolerance>,

    /// Count only processes of programs with this file name, where * stands for any letters; may be
    /// repeated [default: the command and all its children]
    #[arg(short, long, value_name = "NAME")]
    pub process: Vec<String>,

    /// Stacks of allocations: all have one
    #[arg(long, value_enum, default_value = "full")]
    pub stacks: Stacks,

    /// So many frames name a stack, from the function that allocates outwards [default: the
    /// baseline's, else 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub depth: Option<u32>,

    /// Run the command under this allocator instead of its own
    #[arg(short, long, value_name = "NAME")]
    pub allocator: Option<String>,

    /// How to print the result
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,

    #[command(flatten)]
    pub to: Destination,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl CheckArgs {
    pub fn chosen_format(&self) -> Format {
        if self.to.json { Format::Json } else { self.format }
    }

    /// The options that all verbs share. Formats of this verb alone are text there.
    pub fn output(&self) -> OutputArgs {
        OutputArgs {
            format: match self.chosen_format() {
                Format::Json => output::Format::Json,
                Format::Csv => output::Format::Csv,
                Format::Md => output::Format::Md,
                Format::Html => output::Format::Html,
                Format::Table | Format::Junit | Format::Sarif | Format::Github => {
                    output::Format::Table
                }
            },
            to: Destination { json: false, ..self.to.clone() },
        }
    }
}
