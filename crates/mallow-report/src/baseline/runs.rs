// SPDX-License-Identifier: MIT
//! What several runs of a command came to, by stack.

use std::collections::{BTreeMap, BTreeSet};

use super::identity;
use super::metric::{Metric, Range};
use crate::{Frame, Profile, Summary};

/// What one stack did in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub allocations: u64,
    pub bytes: u64,
    pub leaks: u64,
}

impl Counts {
    /// Peak and RSS are of no stack.
    pub fn of(self, metric: Metric) -> u64 {
        match metric {
            Metric::Allocations => self.allocations,
            Metric::Bytes => self.bytes,
            Metric::Leaks => self.leaks,
            Metric::Peak | Metric::Rss => 0,
        }
    }
}

/// Where in the source a stack allocates.
#[derive(Clone, Debug)]
pub struct Place {
    pub file: String,
    pub line: u32,
}

/// One recorded run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub allocations: u64,
    pub bytes: u64,
    pub peak: u64,
    pub leaks: u64,
    pub stacks: BTreeMap<String, Counts>,
}

/// What is held against a baseline.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    pub runs: Vec<Run>,
    /// One run more, in a larger environment, where the baseline's was another than ours.
    pub elsewhere: Option<Run>,
    /// Of the same command without the recorder.
    pub rss: Vec<u64>,
    /// Of the last run.
    pub places: BTreeMap<String, Vec<Place>>,
    pub libc: String,
    pub allocator: String,
    pub processes: BTreeSet<String>,
    pub notes: BTreeSet<String>,
}

impl Measured {
    /// A run more, of which `depth` frames name a stack.
    pub fn add(&mut self, summary: &Summary, profile: &Profile, depth: usize) {
        let (totals, recording) = (&summary.totals, &summary.recording);
        self.libc.clone_from(&recording.libc);
        let allocator = recording.allocator.rsplit('/').next().unwrap_or_default();
        self.allocator = allocator.to_owned();
        let mut run = Run {
            allocations: totals.allocated.blocks,
            bytes: totals.allocated.bytes,
            peak: totals.peak.bytes,
            leaks: totals.leaked.bytes,
            stacks: BTreeMap::new(),
        };
        self.places.clear();
        for sample in &profile.samples {
            let frames = || sample.frames.iter().map(|frame| &profile.frames[*frame as usize]);
            let name = identity::of_stack(frames(), depth);
            let places = frames().filter_map(place).collect();
            self.places.entry(name.clone()).or_insert(places);
            let counts = run.stacks.entry(name).or_default();
            counts.allocations += sample.costs.allocated.blocks;
            counts.bytes += sample.costs.allocated.bytes;
            counts.leaks += sample.costs.leaked.bytes;
        }
        self.runs.push(run);
    }

    /// The same of the run in a larger environment.
    pub fn add_elsewhere(&mut self, summary: &Summary, profile: &Profile, depth: usize) {
        self.add(summary, profile, depth);
        self.elsewhere = self.runs.pop();
    }

    /// Of all stacks together, those that flap included.
    pub fn total(&self, metric: Metric) -> Range {
        if metric == Metric::Rss {
            return Range::of(self.rss.iter().copied());
        }
        Range::of(self.runs.iter().map(|run| run.total(metric)))
    }

    /// How far a larger environment moves the sum.
    pub fn moved_by_environment(&self, metric: Metric) -> u64 {
        let Some(run) = self.elsewhere.as_ref().filter(|_| metric != Metric::Rss) else { return 0 };
        self.total(metric).distance(run.total(metric))
    }

    pub fn is_moved_by_environment(&self, stack: &str, metric: Metric) -> bool {
        let elsewhere = self.elsewhere.as_ref().map(|run| run.value(stack, metric));
        elsewhere.is_some_and(|value| self.of_stack(stack, metric).distance(value) > 0)
    }

    pub fn stacks(&self) -> BTreeSet<&str> {
        self.runs.iter().flat_map(|run| run.stacks.keys().map(String::as_str)).collect()
    }

    pub fn of_stack(&self, stack: &str, metric: Metric) -> Range {
        Range::of(self.runs.iter().map(|run| run.value(stack, metric)))
    }
}

impl Run {
    /// RSS is of runs that are not recorded.
    fn total(&self, metric: Metric) -> u64 {
        match metric {
            Metric::Allocations => self.allocations,
            Metric::Bytes => self.bytes,
            Metric::Leaks => self.leaks,
            Metric::Peak => self.peak,
            Metric::Rss => 0,
        }
    }

    /// 0 where there is no such stack.
    pub fn value(&self, stack: &str, metric: Metric) -> u64 {
        self.stacks.get(stack).map_or(0, |counts| counts.of(metric))
    }
}

fn place(frame: &Frame) -> Option<Place> {
    Some(Place { file: frame.file.clone()?, line: frame.line? })
}
