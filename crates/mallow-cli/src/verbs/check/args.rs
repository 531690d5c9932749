// SPDX-License-Identifier: MIT
//! The command line of `mallow check`.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use mallow_report::baseline::Tolerance;

use crate::output::{self, Destination, OutputArgs};
use crate::parse::{CommandArgs, Stacks};

/// The forms of all verbs, and those of this verb alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Shared(output::Format),
    Junit,
    Sarif,
    Github,
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Format] {
        &[
            Format::Shared(output::Format::Table),
            Format::Shared(output::Format::Json),
            Format::Shared(output::Format::Csv),
            Format::Shared(output::Format::Md),
            Format::Shared(output::Format::Html),
            Format::Junit,
            Format::Sarif,
            Format::Github,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Format::Shared(format) => return format.to_possible_value(),
            Format::Junit => ("junit", "A test suite with a test for each metric"),
            Format::Sarif => ("sarif", "For code scanning"),
            Format::Github => {
                ("github", "The table, and annotations in the log of a GitHub workflow")
            }
        };
        Some(PossibleValue::new(name).help(help))
    }
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

    #[command(flatten)]
    pub command: CommandArgs,
}

impl CheckArgs {
    pub fn chosen_format(&self) -> Format {
        if self.to.json { Format::Shared(output::Format::Json) } else { self.format }
    }

    /// The options that all verbs share. Formats of this verb alone are text there.
    pub fn output(&self) -> OutputArgs {
        let format = match self.chosen_format() {
            Format::Shared(format) => format,
            Format::Junit | Format::Sarif | Format::Github => output::Format::Table,
        };
        OutputArgs { format, to: Destination { json: false, ..self.to.clone() } }
    }
}
