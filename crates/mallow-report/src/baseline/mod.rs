// SPDX-License-Identifier: MIT
//! What a command allocated once, as a text that is kept with its source, and what it allocates now
//! held against that.
//!
//! The text has one line for each stack, sorted, and nothing that differs from one run to the next.
//! `identity` names stacks so that a rebuild changes no name, `runs` is what is measured, `environment`
//! what the command was given, `metric` what counts, and `judge` compares.

mod environment;
mod identity;
mod judge;
mod metric;
mod runs;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use environment::Environment;
pub use judge::{Change, Judged, Verdict, judge, overall};
pub use metric::{Metric, Range, Tolerance};
pub use runs::{Counts, Measured, Place, Run};

pub const SCHEMA: &str = "mallow.baseline/1";

/// All but the stacks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Head {
    pub schema: String,
    pub command: Vec<String>,
    pub platform: Platform,
    /// That of the command; older files do not say.
    #[serde(default)]
    pub environment: Option<Environment>,
    /// File names of the programs that are counted.
    pub processes: Vec<String>,
    /// How stacks were taken, and how many frames name one.
    pub stack_kind: String,
    pub depth: u32,
    /// In percent, where it is another than the default.
    #[serde(default)]
    pub tolerance: BTreeMap<Metric, f64>,
    pub metrics: BTreeMap<Metric, Range>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    pub architecture: String,
    pub libc: String,
    /// The file that serves malloc, or the name of the allocator.
    pub allocator: String,
}

/// What a stack does in every run; nothing where it differs from run to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    pub stack: String,
    pub allocations: Option<u64>,
    pub bytes: Option<u64>,
    pub leaks: Option<u64>,
}

impl Known {
    pub fn of(&self, metric: Metric) -> Option<u64> {
        match metric {
            Metric::Allocations => self.allocations,
            Metric::Bytes => self.bytes,
            Metric::Leaks => self.leaks,
            Metric::Peak | Metric::Rss => None,
        }
    }
}

#[derive(Deserialize)]
struct File {
    #[serde(flatten)]
    head: Head,
    stacks: Vec<Known>,
}

/// As JSON it is read by any reader whose schema it has, and written by [`Baseline::text`].
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "File")]
pub struct Baseline {
    pub head: Head,
    pub stacks: BTreeMap<String, Known>,
}

impl TryFrom<File> for Baseline {
    type Error = String;

    fn try_from(file: File) -> Result<Baseline, String> {
        let is_sane = |percent: &f64| (0.0..=10_000.0).contains(percent);
        if !file.head.tolerance.values().all(is_sane) {
            return Err("a tolerance is no percentage from 0 to 10000".into());
        }
        let missing = Metric::ALL.iter().find(|metric| !file.head.metrics.contains_key(metric));
        if let Some(metric) = missing {
            return Err(format!("the metric {} is missing", metric.name()));
        }
        let turned = file.head.metrics.iter().find(|(_, range)| range.low > range.high);
        if let Some((metric, _)) = turned {
            return Err(format!("the least of its {} is more than the most", metric.name()));
        }
        let stacks = file.stacks.into_iter().map(|known| (known.stack.clone(), known));
        Ok(Baseline { head: file.head, stacks: stacks.collect() })
    }
}

impl Baseline {
    pub fn text(&self) -> serde_json::Result<String> {
        let head = serde_json::to_string_pretty(&self.head)?;
        let lines = self.stacks.values().map(serde_json::to_string);
        let lines = lines.collect::<serde_json::Result<Vec<String>>>()?.join(",\n    ");
        let head = head.trim_end_matches("\n}");
        Ok(format!("{head},\n  \"stacks\": [\n    {lines}\n  ]\n}}\n"))
    }

    /// What of its figures still holds stays, so that the file changes where the program did: peak
    /// and RSS within their tolerances (`is_within`), and which stacks differ from run to run.
    pub fn keep(&mut self, old: &Baseline, is_within: impl Fn(Metric) -> bool) {
        for metric in Metric::ALL {
            let new = self.head.metrics.get(&metric).copied().unwrap_or_default();
            let Some(before) = old.head.metrics.get(&metric).copied() else { continue };
            let flaps = new.exact().is_none() || before.exact().is_none() || metric == Metric::Rss;
            if flaps && is_within(metric) {
                self.head.metrics.insert(metric, before);
            }
        }
        if old.head.depth != self.head.depth || old.head.stack_kind != self.head.stack_kind {
            return;
        }
        for (stack, before) in &old.stacks {
            if Metric::BY_STACK.iter().all(|metric| before.of(*metric).is_some()) {
                continue;
            }
            let known = self.stacks.entry(stack.clone()).or_insert_with(|| before.clone());
            known.allocations = before.allocations.and(known.allocations);
            known.bytes = before.bytes.and(known.bytes);
            known.leaks = before.leaks.and(known.leaks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_check_writes_is_refused() {
        let good = r#"{"schema":"mallow.baseline/1","command":["./a"],"processes":["a"],
            "platform":{"architecture":"x86_64","libc":"glibc","allocator":"libc.so.6"},
            "stack_kind":"full","depth":8,"tolerance":{"bytes":1.5},"metrics":{
            "allocations":{"low":5,"high":5},"bytes":{"low":700,"high":700},
            "peak":{"low":1,"high":900},"leaks":{"low":0,"high":0},"rss":{"low":7,"high":7}},
            "stacks":[{"stack":"main","allocations":5,"bytes":null,"leaks":0}]}"#;
        let read = |text: &str| serde_json::from_str::<Baseline>(text);
        let again = read(&read(good).unwrap().text().unwrap()).unwrap();
        assert_eq!(again.stacks["main"].allocations, Some(5));
        for (known, other, why) in [
            (r#""low":1,"#, r#""low":901,"#, "the least of its peak is more than the most"),
            ("1.5", "-1", "no percentage"),
            (r#""leaks":{"low":0,"high":0},"#, "", "leaks is missing"),
        ] {
            assert!(good.contains(known));
            let error = read(&good.replacen(known, other, 1)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
