//! The result of `compare` as data, as tables and as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::timeline::{self, Timeline};
use crate::output::Format;
use crate::output::wording;
use crate::output::{self, Table};
use mallow_measure::machine::Machine;
use mallow_measure::run::{Outcome, Sample};
use mallow_measure::statistics::{Interval, Verdict};
use mallow_measure::verdict::{Metric, Versus};

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
    /// The baseline first.
    pub entries: Vec<Entry>,
}

/// Sizes are in bytes, times in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    pub allocator: String,
    pub version: Option<String>,
    pub path: Option<String>,
    pub is_baseline: bool,
    pub runs_finished: usize,
    pub failures: Vec<Failure>,
    pub wall_s: Option<Metric>,
    pub user_s: Option<Metric>,
    pub system_s: Option<Metric>,
    pub peak_rss: Option<Metric>,
    pub average_rss: Option<Metric>,
    pub minor_faults: Option<Metric>,
    pub major_faults: Option<Metric>,
    /// Wall time against the baseline.
    pub time: Option<Versus>,
    /// User and system time together against the baseline.
    pub cpu: Option<Versus>,
    /// Peak RSS against the baseline.
    pub memory: Option<Versus>,
    /// With --timeline, of runs that were long enough to sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    pub runs: Vec<RunReport>,
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

impl Report {
    pub fn text(&self, format: Format, unicode: bool) -> String {
        if format == Format::Csv {
            return self.csv().render(Format::Csv, false);
        }
        let code = if format == Format::Md { "`" } else { "" };
        let mut text =
            format!("{code}{}{code}\n{}\n", self.command, wording::machine(&self.machine));
        text += &format!(
            "medians of up to {} runs each, +- 95 % interval of the median, {} in all\n",
            self.settings.rounds_made,
            output::seconds(self.settings.took_s)
        );
        for condition in &self.conditions {
            if !condition.name.is_empty() {
                text += &format!("\n{}\n", condition.name);
            }
            text.push('\n');
            text += &condition.table().render(format, unicode);
            text += &timeline::text(&condition.entries, format, unicode);
        }
        for failure in self.failures() {
            text += &format!("\n{failure}");
        }
        text += &format!("\n{}\n", self.verdict);
        if unicode { text.replace("+-", "±") } else { text }
    }

    fn failures(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for condition in &self.conditions {
            for entry in &condition.entries {
                for failure in &entry.failures {
                    lines.push(format!(
                        "{}: {} of {} runs {}\n",
                        entry.allocator,
                        failure.count,
                        entry.runs.len(),
                        failure.text
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
        self.conditions.iter().flat_map(|condition| &condition.entries).any(|entry| {
            !entry.is_baseline
                && [&entry.time, &entry.cpu, &entry.memory]
                    .iter()
                    .any(|v| v.as_ref().is_none_or(|v| v.verdict == Verdict::Inconclusive))
        })
    }

    /// One line for each allocator and condition; numbers without units.
    fn csv(&self) -> Table {
        let mut table = Table::new(&[
            ("condition", false),
            ("allocator", false),
            ("runs", true),
            ("failed", true),
            ("wall_s", true),
            ("wall_low_s", true),
            ("wall_high_s", true),
            ("user_s", true),
            ("system_s", true),
            ("peak_rss", true),
            ("average_rss", true),
            ("minor_faults", true),
            ("major_faults", true),
            ("time_ratio", true),
            ("time_verdict", false),
            ("cpu_ratio", true),
            ("cpu_verdict", false),
            ("memory_ratio", true),
            ("memory_verdict", false),
        ]);
        for condition in &self.conditions {
            for entry in &condition.entries {
                table.rows.push(entry.csv_row(&condition.name));
            }
        }
        table
    }
}

impl ConditionReport {
    fn table(&self) -> Table {
        let mut table = Table::new(&[
            ("allocator", false),
            ("time", true),
            ("user", true),
            ("system", true),
            ("peak RSS", true),
            ("average RSS", true),
            ("faults", true),
            ("against baseline: time", false),
            ("CPU", false),
            ("memory", false),
        ]);
        for entry in &self.entries {
            table.rows.push(entry.row());
        }
        table
    }
}

impl Entry {
    fn row(&self) -> Vec<String> {
        let time = match &self.wall_s {
            None => "-".into(),
            Some(Metric { median, interval: Some(Interval { low, high }), .. }) => {
                let half = 100.0 * (high - median).max(median - low) / median;
                format!("{} +- {half:.1} %", output::seconds(*median))
            }
            Some(metric) => output::seconds(metric.median),
        };
        let verdict = |versus: &Option<Versus>, metric: &str| match versus {
            _ if self.is_baseline => "baseline".to_owned(),
            Some(versus) => wording::verdict(versus, metric),
            None if self.runs_finished == 0 => "no finished run".into(),
            None => "not compared".into(),
        };
        let faults = match (&self.minor_faults, &self.major_faults) {
            (Some(minor), Some(major)) => format!("{:.0}", minor.median + major.median),
            _ => "-".into(),
        };
        vec![
            self.allocator.clone(),
            time,
            wording::median(&self.user_s, output::seconds),
            wording::median(&self.system_s, output::seconds),
            wording::median(&self.peak_rss, output::bytes),
            wording::median(&self.average_rss, output::bytes),
            faults,
            verdict(&self.time, "time"),
            verdict(&self.cpu, "CPU"),
            verdict(&self.memory, "memory"),
        ]
    }

    fn csv_row(&self, condition: &str) -> Vec<String> {
        let edge = |pick: fn(Interval) -> f64| {
            wording::number(self.wall_s.as_ref().and_then(|metric| metric.interval).map(pick))
        };
        let verdict = |versus: &Option<Versus>| match versus {
            _ if self.is_baseline => "baseline",
            None => "",
            Some(versus) => match versus.verdict {
                Verdict::Less => "less",
                Verdict::More => "more",
                Verdict::NoDifference => "no_difference",
                Verdict::Inconclusive => "inconclusive",
            },
        };
        let failed: usize = self.failures.iter().map(|failure| failure.count).sum();
        vec![
            condition.to_owned(),
            self.allocator.clone(),
            self.runs_finished.to_string(),
            failed.to_string(),
            wording::plain_median(&self.wall_s),
            edge(|interval| interval.low),
            edge(|interval| interval.high),
            wording::plain_median(&self.user_s),
            wording::plain_median(&self.system_s),
            wording::plain_median(&self.peak_rss),
            wording::plain_median(&self.average_rss),
            wording::plain_median(&self.minor_faults),
            wording::plain_median(&self.major_faults),
            wording::plain_ratio(&self.time),
            verdict(&self.time).to_owned(),
            wording::plain_ratio(&self.cpu),
            verdict(&self.cpu).to_owned(),
            wording::plain_ratio(&self.memory),
            verdict(&self.memory).to_owned(),
        ]
    }
}
