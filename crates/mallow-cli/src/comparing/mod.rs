// SPDX-License-Identifier: MIT
//! The measurement that `compare` and `enable --if-better` share: a command under several allocators,
//! in rounds of random order. `plan` says what is run, `rounds` runs it, `analysis` says what it
//! means, `report` is the result, `worth` whether one allocator proved better.

pub mod analysis;
mod cells;
mod plan;
pub mod report;
pub mod rounds;
mod worth;

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use mallow_measure::values::Pattern;

use crate::parse;

pub use plan::Plan;
pub use worth::{Worth, worth};

/// Uncounted runs of each, if the user names no number.
pub const WARMUP: u32 = 1;
/// Smallest difference that matters, in percent, if the user names none.
pub const MARGIN: f64 = 2.0;
const BUDGET: Duration = Duration::from_secs(60);

/// When runs count as different: the options that verbs share.
#[derive(Args, Clone, Debug)]
pub struct VerdictArgs {
    /// Smallest difference that matters, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = MARGIN, value_parser = parse::margin)]
    pub margin: f64,

    /// Seed of the random order of the runs
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// A service that is measured under load: the options that verbs share.
#[derive(Args, Clone, Debug, Default)]
pub struct ServiceArgs {
    /// A service to start for each run; the command (or --load) is then its client
    #[arg(long, value_name = "CMD", requires = "ready")]
    pub server: Option<String>,

    /// The service is ready when it takes connections at this address (127.0.0.1:80, localhost:80, :80, 80,
    /// tcp://NAME:80, unix:PATH), or, of anything else, when a line of its output matches this expression
    #[arg(long, value_name = "ADDRESS|REGEX", requires = "server")]
    pub ready: Option<String>,

    /// Shell command that puts load on the service; its time is what is measured
    #[arg(long, value_name = "CMD", requires = "server", conflicts_with = "command")]
    pub load: Option<String>,
}

/// What is to be compared, and how exactly. The fields are those of the options of `mallow compare`.
#[derive(Clone, Debug)]
pub struct Wish {
    /// None named: all that are installed.
    pub allocators: Vec<String>,
    pub baseline: Option<String>,
    pub secure: bool,
    pub debug: bool,
    pub options: Vec<(String, String)>,
    pub runs: Option<u32>,
    pub warmup: u32,
    pub budget: Duration,
    pub prepare: Option<String>,
    pub timeout: Option<Duration>,
    pub mem_limit: Option<u64>,
    pub cpus: Vec<usize>,
    pub matrix: Vec<(String, Vec<String>)>,
    pub margin: f64,
    pub ignore_failure: bool,
    pub timeline: bool,
    pub show_output: bool,
    pub seed: Option<u64>,
    pub service: ServiceArgs,
    pub values: Vec<Pattern>,
    pub command: Vec<OsString>,
}

impl Default for Wish {
    fn default() -> Wish {
        Wish {
            allocators: Vec::new(),
            baseline: None,
            secure: false,
            debug: false,
            options: Vec::new(),
            runs: None,
            warmup: WARMUP,
            budget: BUDGET,
            prepare: None,
            timeout: None,
            mem_limit: None,
            cpus: Vec::new(),
            matrix: Vec::new(),
            margin: MARGIN,
            ignore_failure: false,
            timeline: false,
            show_output: false,
            seed: None,
            service: ServiceArgs::default(),
            values: Vec::new(),
            command: Vec::new(),
        }
    }
}
