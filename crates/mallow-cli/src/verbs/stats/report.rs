// SPDX-License-Identifier: MIT
//! What `stats` found out, as data.

use serde::Serialize;

use mallow_stats::{Stats, Totals};

pub const SCHEMA: &str = "mallow.stats/1";

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub schema: &'static str,
    pub version: &'static str,
    /// The process, or the file of the dump.
    pub source: String,
    pub pid: Option<u32>,
    /// The last reading.
    pub stats: Stats,
    /// All readings, where there is more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// Since the first reading.
    pub time_s: f64,
    #[serde(flatten)]
    pub totals: Totals,
}

impl Report {
    pub fn of_process(pid: u32, command: &str, stats: Stats) -> Report {
        const LONGEST: usize = 60;
        let mut shown: String = command.chars().take(LONGEST).collect();
        if shown.len() < command.len() {
            shown += " ...";
        }
        let source = format!("process {pid} ({})", shown.replace(char::is_whitespace, " "));
        Report::new(source, Some(pid), stats)
    }

    pub fn new(source: String, pid: Option<u32>, stats: Stats) -> Report {
        let version = env!("CARGO_PKG_VERSION");
        Report { schema: SCHEMA, version, source, pid, stats, samples: Vec::new() }
    }
}
