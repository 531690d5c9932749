//! Where a result goes, and in which form: the options that all verbs share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Json,
    Csv,
    Md,
    Html,
}

#[derive(Args, Debug)]
pub struct OutputArgs {
    /// How to print the result
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,

    /// Write the result to FILE instead of standard output
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub file: Option<PathBuf>,
}

impl OutputArgs {
    pub fn chosen_format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}
