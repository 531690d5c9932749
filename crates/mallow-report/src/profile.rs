// SPDX-License-Identifier: MIT
//! Stacks with names: what the table of top stacks, flame graphs, pprof and folded stacks come from.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::held::Amount;

/// Where in the source or in a module one frame is. Functions that were inlined are frames too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Frame {
    pub function: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inlined: bool,
}

/// What one stack cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Costs {
    /// Allocations, realloc included, and the bytes that they asked for.
    pub allocated: Amount,
    /// Live at the moment of the peak.
    pub peak: Amount,
    /// Never freed until the process, or the recording, ended.
    pub leaked: Amount,
    /// Freed right after, with no other allocation of the thread in between.
    pub temporary: Amount,
    /// Blocks that were freed, and how long they lived in all.
    pub freed: u64,
    pub lifetime_ns: u64,
    /// How many allocations all this is estimated from; 0: each was counted, or
    /// nobody knows.
    #[serde(skip_serializing_if = "is_zero")]
    pub samples: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Costs {
    pub fn merge(&mut self, other: &Costs) {
        self.allocated.merge(other.allocated);
        self.peak.merge(other.peak);
        self.leaked.merge(other.leaked);
        self.temporary.merge(other.temporary);
        self.freed = self.freed.saturating_add(other.freed);
        self.lifetime_ns = self.lifetime_ns.saturating_add(other.lifetime_ns);
        self.samples = self.samples.saturating_add(other.samples);
    }

    pub fn mean_lifetime_ns(&self) -> Option<u64> {
        self.lifetime_ns.checked_div(self.freed)
    }
}

/// What stacks are ranked and drawn by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    Bytes,
    Calls,
    Peak,
    Leaked,
    Temporary,
}

impl Metric {
    pub const ALL: [Metric; 5] =
        [Metric::Bytes, Metric::Calls, Metric::Peak, Metric::Leaked, Metric::Temporary];

    pub fn name(self) -> &'static str {
        match self {
            Metric::Bytes => "bytes",
            Metric::Calls => "calls",
            Metric::Peak => "peak",
            Metric::Leaked => "leaked",
            Metric::Temporary => "temporary",
        }
    }

    pub fn unit(self) -> &'static str {
        match self {
            Metric::Calls | Metric::Temporary => "calls",
            _ => "bytes",
        }
    }

    pub fn of(self, costs: &Costs) -> u64 {
        match self {
            Metric::Bytes => costs.allocated.bytes,
            Metric::Calls => costs.allocated.blocks,
            Metric::Peak => costs.peak.bytes,
            Metric::Leaked => costs.leaked.bytes,
            Metric::Temporary => costs.temporary.blocks,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Sample {
    /// Indices into `Profile::frames`, innermost first.
    pub frames: Vec<u32>,
    pub costs: Costs,
}

/// All stacks with their names; stacks of equal names are one.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    pub frames: Vec<Frame>,
    pub samples: Vec<Sample>,
    known_frames: HashMap<Frame, u32>,
    known_stacks: HashMap<Vec<u32>, usize>,
}

impl Profile {
    pub fn intern(&mut self, frame: Frame) -> u32 {
        let next = self.frames.len() as u32;
        *self.known_frames.entry(frame).or_insert_with_key(|frame| {
            self.frames.push(frame.clone());
            next
        })
    }

    /// Innermost frame first.
    pub fn add(&mut self, frames: Vec<u32>, costs: &Costs) {
        let next = self.samples.len();
        let index = *self.known_stacks.entry(frames).or_insert_with_key(|frames| {
            self.samples.push(Sample { frames: frames.clone(), costs: Costs::default() });
            next
        });
        self.samples[index].costs.merge(costs);
    }

    pub fn total(&self) -> Costs {
        let mut total = Costs::default();
        self.samples.iter().for_each(|sample| total.merge(&sample.costs));
        total
    }

    /// The stacks that cost most, without those that cost nothing.
    pub fn top(&self, metric: Metric, number: usize) -> Vec<&Sample> {
        let mut samples: Vec<&Sample> =
            self.samples.iter().filter(|sample| metric.of(&sample.costs) > 0).collect();
        samples.sort_by_key(|sample| std::cmp::Reverse(metric.of(&sample.costs)));
        samples.truncate(number);
        samples
    }

    /// Stacks by function names alone, outermost first and joined by semicolons, sorted: the form
    /// that flame graph tools read, and what two traces are compared by.
    pub fn by_function(&self) -> Vec<(String, Costs)> {
        let mut stacks: HashMap<String, Costs> = HashMap::new();
        for sample in &self.samples {
            let names: Vec<String> = sample
                .frames
                .iter()
                .rev()
                .map(|frame| self.frames[*frame as usize].function.replace([';', '\n'], ":"))
                .collect();
            stacks.entry(names.join(";")).or_default().merge(&sample.costs);
        }
        let mut stacks: Vec<(String, Costs)> = stacks.into_iter().collect();
        stacks.sort_by(|a, b| a.0.cmp(&b.0));
        stacks
    }

    /// One line a stack of either trace: `outermost;...;innermost before after`, as tools for
    /// differential flame graphs read it.
    pub fn folded_difference(&self, before: &Profile, metric: Metric) -> String {
        let mut stacks: BTreeMap<String, [u64; 2]> = BTreeMap::new();
        for (index, profile) in [before, self].into_iter().enumerate() {
            for (stack, costs) in profile.by_function() {
                stacks.entry(stack).or_default()[index] = metric.of(&costs);
            }
        }
        let lines = stacks.into_iter().filter(|(_, values)| *values != [0, 0]);
        lines.map(|(stack, [a, b])| format!("{} {a} {b}\n", stack_or_none(&stack))).collect()
    }

    /// One line a stack: `outermost;...;innermost value`.
    pub fn folded(&self, metric: Metric) -> String {
        let stacks = self.by_function().into_iter();
        let costly = stacks.map(|(stack, costs)| (stack, metric.of(&costs))).filter(|s| s.1 > 0);
        costly.map(|(stack, value)| format!("{} {value}\n", stack_or_none(&stack))).collect()
    }
}

fn stack_or_none(stack: &str) -> &str {
    if stack.is_empty() { "(no stack)" } else { stack }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> Profile {
        let mut profile = Profile::default();
        let frame = |function: &str| Frame { function: function.into(), ..Frame::default() };
        let [main, read, line] =
            ["main", "read_file", "new_line<a;b>"].map(|name| profile.intern(frame(name)));
        let costs =
            |calls, bytes| Costs { allocated: Amount { blocks: calls, bytes }, ..Costs::default() };
        profile.add(vec![line, read, main], &costs(10, 1000));
        profile.add(vec![read, main], &costs(1, 8225));
        profile.add(vec![line, read, main], &costs(5, 500));
        profile
    }

    #[test]
    fn equal_stacks_are_one() {
        let profile = sample();
        assert_eq!(profile.samples.len(), 2);
        assert_eq!(
            profile.top(Metric::Calls, 1)[0].costs.allocated,
            Amount { blocks: 15, bytes: 1500 }
        );
        assert_eq!(profile.top(Metric::Bytes, 9)[0].costs.allocated.bytes, 8225);
        assert!(profile.top(Metric::Leaked, 9).is_empty());
    }

    #[test]
    fn folded_lines_are_outermost_first_and_keep_the_separator_for_themselves() {
        assert_eq!(
            sample().folded(Metric::Calls),
            "main;read_file 1\nmain;read_file;new_line<a:b> 15\n"
        );
    }
}
