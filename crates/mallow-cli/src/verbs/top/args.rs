// SPDX-License-Identifier: MIT
//! The command line of `mallow top`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::sort::Sort;
use crate::output::{Format, OutputArgs};
use crate::parse;

/// In which sizes are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Units {
    /// Three digits and the unit that fits
    #[default]
    Auto,
    Bytes,
    Kib,
    Mib,
}

impl Units {
    pub fn next(self) -> Units {
        match self {
            Units::Auto => Units::Bytes,
            Units::Bytes => Units::Kib,
            Units::Kib => Units::Mib,
            Units::Mib => Units::Auto,
        }
    }
}

#[derive(Args, Debug)]
pub struct TopArgs {
    /// Only this process and those that descend from it; may be given again
    #[arg(short, long, value_name = "PID")]
    pub pid: Vec<u32>,

    /// What the list is sorted by
    #[arg(short, long, value_enum, value_name = "COLUMN", default_value = "rss")]
    pub sort: Sort,

    /// Turn the order round
    #[arg(short, long)]
    pub reverse: bool,

    /// Only processes with this text in their number, name, command line, user or allocator
    #[arg(short, long, value_name = "TEXT")]
    pub filter: Option<String>,

    /// Show children below their parents
    #[arg(short, long)]
    pub tree: bool,

    /// Also show threads of the kernel and processes that have ended, which have no memory
    #[arg(long)]
    pub all: bool,

    /// In which sizes are shown
    #[arg(short, long, value_enum, default_value = "auto")]
    pub units: Units,

    /// Time between two refreshes
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = parse::duration)]
    pub interval: Duration,

    /// End after so many refreshes [default: by q or Ctrl-C]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Print one table, with the heaps of all processes that can be read
    #[arg(long, conflicts_with = "count")]
    pub once: bool,

    #[command(flatten)]
    pub output: OutputArgs,
}

impl TopArgs {
    /// What is written to a file, or as a page, is of one moment.
    pub fn is_once(&self) -> bool {
        let is_page = matches!(self.output.chosen_format(), Format::Html | Format::Md);
        self.once || is_page || self.output.to.file.is_some() || self.output.to.html.is_some()
    }
}
