// SPDX-License-Identifier: MIT
//! The result of `compare` as data.

use std::collections::BTreeMap;

use serde::Serialize;

use mallow_measure::machine::Machine;
use mallow_measure::run::{Outcome, Sample};
use mallow_measure::statistics::Verdict;
use mallow_measure::verdict::{Metric, Versus};

use crate::output::wording::Contestant;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub schema: &'static str,
    pub version: &'static str,
    pub command: String,
    pub machine: Machine,
    pub settings: Settings,
    pub verdict: String,
    pub conditions: Vec<ConditionReport>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// `null`: as many as it took.
    pub runs: Option<u32>,
    pub rounds_made: u32,
    /// With fewer runs of each there is no verdict.
    pub runs_needed: u32,
    pub warmup: u32,
    pub margin_percent: f64,
    /// Of each interval of a comparison, so that all of them together hold with 95 %.
    pub confidence: f64,
    pub seed: u64,
    pub took_s: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct ConditionReport {
    pub name: String,
    pub cpus: Option<usize>,
    pub environment: BTreeMap<String, String>,
    /// The baseline first. With one allocator the conditions themselves are compared, as entries of one report.
    pub entries: Vec<Entry>,
}

/// Sizes are in bytes, times in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    #[serde(flatten)]
    pub who: Contestant,
    pub runs_finished: usize,
    pub failures: Vec<Failure>,
    pub wall_s: Option<Metric>,
    pub user_s: Option<Metric>,
    pub system_s: Option<Metric>,
    /// `None` where a run of the command had no more than the copy of this tool that it was started from.
    pub peak_rss: Option<Metric>,
    /// What it was at most then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_rss_below: Option<f64>,
    pub average_rss: Option<Metric>,
    pub minor_faults: Option<Metric>,
    pub major_faults: Option<Metric>,
    /// Wall time against the baseline.
    pub time: Option<Versus>,
    /// User and system time together against the baseline.
    pub cpu: Option<Versus>,
    /// Peak RSS against the baseline.
    pub memory: Option<Versus>,
    /// What the command or the load printed, in the order of --value; there is no verdict on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Value>,
    /// With --timeline, of runs that were long enough to sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    pub runs: Vec<RunReport>,
}

/// `None` where no finished run printed it.
#[derive(Clone, Debug, Serialize)]
pub struct Value {
    pub name: String,
    pub metric: Option<Metric>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    pub outcome: Outcome,
    pub count: usize,
    pub text: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    pub round: u32,
    pub place: u32,
    #[serde(flatten)]
    pub sample: Sample,
}

/// RSS of all processes together, in bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    pub average: Level,
    pub peak: Level,
    pub end: Level,
    /// Seconds and bytes, of one run.
    pub points: Vec<(f64, f64)>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Level {
    #[serde(flatten)]
    pub metric: Metric,
    /// Against the baseline; `null` for itself.
    pub versus: Option<Versus>,
}

impl Timeline {
    pub fn levels(&self) -> [&Level; 3] {
        [&self.average, &self.peak, &self.end]
    }
}

const CRASHES: [&str; 3] = ["SIGSEGV", "SIGABRT", "SIGBUS"];
/// A frequent reason that no message of the program names.
const OF_MODULES: &str = "; a program that opens modules with RTLD_DEEPBIND, as PHP does, ends so under \
                          preloaded allocators other than mallow";

fn may_be_of_modules(who: &Contestant, failure: &Failure) -> bool {
    let crashed = |signal| CRASHES.contains(&mallow_os::signal_name(signal).as_str());
    let is_other = who.path.is_some() && !who.allocator.starts_with("mallow");
    is_other && matches!(failure.outcome, Outcome::Killed { signal } if crashed(signal))
}

impl Entry {
    /// Whether time or CPU has no verdict, or memory an open one: that of a small command is not judged, however many
    /// the runs.
    pub fn is_inconclusive(&self) -> bool {
        let is_open = |versus: &Versus| versus.verdict == Verdict::Inconclusive;
        self.time.as_ref().is_none_or(is_open)
            || self.cpu.as_ref().is_none_or(is_open)
            || self.memory.as_ref().is_some_and(is_open)
    }
}

impl Report {
    /// What went wrong, a line for each way.
    pub fn failures(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for condition in &self.conditions {
            for entry in &condition.entries {
                for failure in &entry.failures {
                    let who = &entry.who;
                    lines.push(format!(
                        "{}: {} of {} runs {}{}\n",
                        who.name(),
                        failure.count,
                        entry.runs.len(),
                        failure.outcome.describe_runs(failure.count),
                        if may_be_of_modules(who, failure) { OF_MODULES } else { "" }
                    ));
                }
            }
        }
        lines
    }

    /// The first failure in words, and its exit code.
    pub fn first_failure(&self) -> Option<(String, u8)> {
        let line = self.failures().into_iter().next()?;
        let entries = self.conditions.iter().flat_map(|condition| &condition.entries);
        let failure = entries.flat_map(|entry| &entry.failures).next()?;
        Some((line.trim().to_owned(), failure.outcome.code()))
    }

    pub fn has_inconclusive(&self) -> bool {
        let mut entries = self.conditions.iter().flat_map(|condition| &condition.entries);
        entries.any(|entry| !entry.who.is_baseline && entry.is_inconclusive())
    }
}
