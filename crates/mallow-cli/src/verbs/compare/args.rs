// SPDX-License-Identifier: MIT
//! The command line of `mallow compare`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use mallow_launch::options;
use mallow_measure::values::Pattern;

use crate::comparing::{ServiceArgs, VerdictArgs, WARMUP, Wish};
use crate::output::OutputArgs;
use crate::parse;

#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Allocators to compare, separated by commas; the default is all that are installed
    #[arg(short, long = "allocators", value_name = "LIST", value_delimiter = ',')]
    pub allocators: Vec<String>,

    /// The one that the others are compared with [default: the C library's own, else the first]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,

    /// Add Mallow's secure build to the default allocators
    #[arg(long)]
    pub secure: bool,

    /// Add Mallow's debug build to the default allocators
    #[arg(long)]
    pub debug: bool,

    /// An option for the Mallow builds in the comparison; may be repeated
    #[arg(long = "opt", value_name = "K:V", value_parser = options::parse_pair)]
    pub options: Vec<(String, String)>,

    /// Exactly this many runs of each [default: 10, and more until the intervals are narrow]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: Option<u32>,

    /// Runs of each that are not counted; the first also checks that the preload took effect
    #[arg(short, long, value_name = "N", default_value_t = WARMUP)]
    pub warmup: u32,

    /// Time after which no more than 10 runs of each are made
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse::duration)]
    pub budget: Duration,

    /// Shell command to run before each run; not timed
    #[arg(short, long, value_name = "CMD")]
    pub prepare: Option<String>,

    /// Shell command to run once before everything
    #[arg(short, long, value_name = "CMD")]
    pub setup: Option<String>,

    /// Shell command to run once after everything
    #[arg(short, long, value_name = "CMD")]
    pub cleanup: Option<String>,

    /// End a run, with all its processes, after this time; a server has as long to become ready
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    pub timeout: Option<Duration>,

    /// End a run whose resident memory passes SIZE (such as 400M)
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    pub mem_limit: Option<u64>,

    /// Repeat the comparison on so many CPUs, such as 1,2,4
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cpus: Vec<usize>,

    /// Repeat the comparison with each value of a variable; may be repeated
    #[arg(long, value_name = "ENV=A,B", value_parser = parse_matrix)]
    pub matrix: Vec<(String, Vec<String>)>,

    #[command(flatten)]
    pub verdict: VerdictArgs,

    /// Count runs that end with an error code as finished
    #[arg(short, long)]
    pub ignore_failure: bool,

    /// Fail with exit code 6 unless every comparison has a verdict
    #[arg(long)]
    pub strict: bool,

    /// Show memory over time as well: average, peak and end, and how it went
    #[arg(long)]
    pub timeline: bool,

    /// Let the command write to the terminal
    #[arg(long)]
    pub show_output: bool,

    /// Also write the result as JSON to FILE
    #[arg(long, value_name = "FILE")]
    pub export_json: Option<PathBuf>,

    #[command(flatten)]
    pub service: ServiceArgs,

    /// Show a number that the load, or else the command, prints: the first group of REGEX, in the
    /// last line that matches; may be repeated
    #[arg(long = "value", value_name = "NAME=REGEX", value_parser = parse_value,
        conflicts_with = "show_output")]
    pub values: Vec<Pattern>,

    #[command(flatten)]
    pub output: OutputArgs,

    /// The command and its arguments
    #[arg(last = true, required_unless_present = "server", value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl CompareArgs {
    /// What is to be measured, without what becomes of the result.
    pub fn wish(&self) -> Wish {
        Wish {
            allocators: self.allocators.clone(),
            baseline: self.baseline.clone(),
            secure: self.secure,
            debug: self.debug,
            options: self.options.clone(),
            runs: self.runs,
            warmup: self.warmup,
            budget: self.budget,
            prepare: self.prepare.clone(),
            timeout: self.timeout,
            mem_limit: self.mem_limit,
            cpus: self.cpus.clone(),
            matrix: self.matrix.clone(),
            margin: self.verdict.margin,
            ignore_failure: self.ignore_failure,
            timeline: self.timeline,
            show_output: self.show_output,
            seed: self.verdict.seed,
            service: self.service.clone(),
            values: self.values.clone(),
            command: self.command.clone(),
        }
    }
}

fn parse_matrix(text: &str) -> Result<(String, Vec<String>), String> {
    match text.split_once('=') {
        Some((name, values)) if !name.is_empty() => {
            Ok((name.to_owned(), values.split(',').map(str::to_owned).collect()))
        }
        _ => Err("a matrix is written NAME=value,value".into()),
    }
}

fn parse_value(text: &str) -> Result<Pattern, String> {
    match text.split_once('=') {
        Some((name, regex)) if !name.is_empty() => {
            Pattern::new(name, regex).map_err(|error| error.to_string())
        }
        _ => Err("a value is written NAME=REGEX".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_values_are_values() {
        let matrix = parse_matrix("A=x,,y").expect("well-formed");
        assert_eq!(matrix, ("A".into(), vec!["x".into(), String::new(), "y".into()]));
        assert!(parse_matrix("=x").is_err() && parse_matrix("A").is_err());
    }
}
