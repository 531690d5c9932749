// SPDX-License-Identifier: MIT
//! The result of `replay` as data.

use mallow_replay::fidelity::Fidelity;
use mallow_replay::{Latency, Run, Summary};
use serde::Serialize;

use mallow_measure::machine::Machine;
use mallow_measure::verdict::{Metric, Versus};

use crate::output::wording::Contestant;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub schema: &'static str,
    pub version: &'static str,
    pub file: String,
    /// The recorded command.
    pub command: Vec<String>,
    pub machine: Machine,
    /// The one that was replayed.
    pub process: Summary,
    pub processes: Vec<Summary>,
    pub settings: Settings,
    pub fidelity: Fidelity,
    /// What of the trace could not be read.
    pub damage: Option<String>,
    /// Why there is no ranking.
    pub objection: Option<String>,
    /// That is only because the recorded run was too short.
    #[serde(skip)]
    pub is_unmeasured: bool,
    pub verdict: Option<String>,
    /// The baseline first.
    pub entries: Vec<Entry>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    pub mode: String,
    pub touch: String,
    pub rounds: u32,
    /// With fewer there is no verdict on time.
    pub rounds_needed: u32,
    pub margin_percent: f64,
    /// Of each interval of a comparison, so that all of them together hold with 95 %.
    pub confidence: f64,
    pub seed: u64,
    /// Turning the trace into a plan.
    pub compile_s: f64,
    pub took_s: f64,
}

/// Sizes are in bytes, times in seconds. Memory is that of lockstep, speed that of free mode.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Entry {
    #[serde(flatten)]
    pub who: Contestant,
    pub failure: Option<String>,
    pub wall_s: Option<Metric>,
    pub cpu_s: Option<Metric>,
    pub calls_per_s: Option<Metric>,
    pub allocate: Option<Latencies>,
    pub free: Option<Latencies>,
    /// How long the lockstep runs took.
    pub lockstep_s: Option<Metric>,
    pub peak_rss: Option<Metric>,
    pub average_rss: Option<Metric>,
    pub final_rss: Option<Metric>,
    pub faults: Option<Metric>,
    /// Calls into the kernel that map, unmap, protect or advise.
    pub memory_calls: Option<u64>,
    /// Calls that returned no memory although they did when recorded.
    pub failed_calls: Option<u64>,
    pub time: Option<Versus>,
    pub memory: Option<Versus>,
}

/// Medians of the rounds' percentiles, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latencies {
    pub p50_ns: Metric,
    pub p99_ns: Metric,
    pub p999_ns: Metric,
}

pub fn metric(runs: &[(u32, Run)], value: impl Fn(&Run) -> Option<f64>) -> Option<Metric> {
    let values: Vec<f64> = runs.iter().filter_map(|(_, run)| value(run)).collect();
    Metric::of(&values)
}

impl Latencies {
    pub fn of(runs: &[(u32, Run)], which: fn(&Run) -> Option<Latency>) -> Option<Latencies> {
        let of = |value: fn(Latency) -> f64| {
            metric(runs, |run| which(run).filter(|latency| latency.timed > 0).map(value))
        };
        Some(Latencies {
            p50_ns: of(|latency| latency.p50_ns)?,
            p99_ns: of(|latency| latency.p99_ns)?,
            p999_ns: of(|latency| latency.p999_ns)?,
        })
    }
}
