// SPDX-License-Identifier: MIT
//! What a report says, as plain data: the text, the page, CSV and JSON are printed from it.

use std::collections::BTreeMap;

use mallow_trace::{Ending, Op, Source, Start};
use serde::Serialize;

use crate::analysis::Findings;
use crate::buckets::{Bucket, Buckets};
use crate::held::Amount;
use crate::profile::{Costs, Frame, Metric, Profile};
use crate::tasks::{Activity, ProcessState, SizeCounts, ThreadState};
use crate::timeline::Step;

/// Changes when a field changes its meaning or goes away.
pub const SCHEMA: &str = "mallow.report/1";

const TIMELINE_STEPS: usize = 512;

#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub schema: &'static str,
    pub recording: Recording,
    pub totals: Totals,
    pub functions: Vec<Function>,
    pub processes: Vec<Process>,
    /// Of new blocks.
    pub sizes: Sizes,
    /// That reallocs asked for.
    pub resized: Sizes,
    pub lifetimes: Lifetimes,
    pub timeline: Timeline,
    pub stacks: Vec<Stack>,
    pub markers: Vec<Marker>,
    /// What limits how far the numbers can be trusted, in sentences.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Recording {
    pub command: Vec<String>,
    /// The program that allocated most.
    pub program: String,
    /// Its name, or for the command's own allocator the file that it is in.
    pub allocator: String,
    pub libc: String,
    pub cpu: String,
    pub started_unix_ns: u64,
    pub duration_ns: u64,
    /// `preload` or `uprobes`, and whether calls have stacks: `none`, `fp` or `full`.
    pub source: mallow_trace::Source,
    pub stacks: mallow_trace::Stacks,
    /// Mean distance in bytes between allocations with a stack; 0 when all have one.
    pub stack_distance: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    pub calls: u64,
    pub failed: u64,
    pub allocated: Amount,
    pub freed: u64,
    /// The most that was live at a time, over all processes.
    pub peak: Amount,
    pub peak_time_ns: u64,
    pub peak_rss_bytes: Option<u64>,
    pub leaked: Amount,
    pub temporary: Amount,
    /// Frees by another thread than the one that allocated.
    pub foreign_frees: u64,
    /// Frees of blocks that were not seen allocated.
    pub unknown_frees: u64,
    /// Blocks that must have been freed, since their address was given out again.
    pub lost_frees: u64,
    /// Calls that the recorder could not keep.
    pub dropped: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Function {
    pub name: &'static str,
    pub calls: u64,
    pub failed: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Process {
    pub id: u32,
    pub pid: u32,
    /// The `id` of the process that started it.
    pub parent: Option<u32>,
    /// `first`, `fork` or `exec`.
    pub start: &'static str,
    pub executable: String,
    pub command: Vec<String>,
    pub allocator: String,
    pub started_ns: u64,
    pub ended_ns: Option<u64>,
    pub ending: Option<String>,
    pub peak: Amount,
    pub peak_time_ns: u64,
    pub peak_rss_bytes: Option<u64>,
    pub leaked: Amount,
    pub unknown_frees: u64,
    pub threads: Vec<Thread>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Thread {
    pub id: u32,
    pub tid: u32,
    pub name: String,
    pub started_ns: u64,
    pub ended_ns: Option<u64>,
    pub functions: Vec<Function>,
    pub allocated: Amount,
    /// Allocated by this thread and live at the overall peak.
    pub peak: Amount,
    pub leaked: Amount,
    pub temporary: Amount,
    pub foreign_frees: u64,
    pub dropped: u64,
    pub sizes: Sizes,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Sizes {
    /// The most frequent sizes asked for.
    pub frequent: Vec<SizeCount>,
    /// 0 when the counts are exact; else none is too low by more than this.
    pub missing_at_most: u64,
    pub buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct SizeCount {
    pub size: u64,
    pub calls: u64,
    /// Of all calls that are counted here, from 0 to 1.
    pub share: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Lifetimes {
    /// Upper ends of buckets a quarter of a doubling wide.
    pub median_ns: Option<u64>,
    pub p90_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    /// `low` and `high` are nanoseconds.
    pub buckets: Vec<Bucket>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Timeline {
    pub step_ns: u64,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Stack {
    /// Innermost first.
    pub frames: Vec<Frame>,
    #[serde(flatten)]
    pub costs: Costs,
}

#[derive(Clone, Debug, Serialize)]
pub struct Marker {
    pub time_ns: u64,
    pub text: String,
}

/// How much of the findings goes into a summary.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Stacks by each metric.
    pub stacks: usize,
    /// Frequent sizes of all threads together, and of each thread.
    pub sizes: usize,
    pub sizes_of_thread: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { stacks: 50, sizes: 50, sizes_of_thread: 20 }
    }
}

impl Findings {
    pub fn summary(&self, profile: &Profile, limits: Limits) -> Summary {
        let (step_ns, steps) = self.timeline.steps(TIMELINE_STEPS);
        Summary {
            schema: SCHEMA,
            recording: self.recording(),
            totals: self.totals(),
            functions: functions(&self.all),
            processes: self.process_summaries(limits),
            sizes: sizes(&self.all.sizes, limits.sizes),
            resized: sizes(&self.resized, limits.sizes),
            lifetimes: lifetimes(&self.lifetimes),
            timeline: Timeline { step_ns, steps },
            stacks: top_stacks(profile, limits.stacks),
            markers: self
                .markers
                .iter()
                .map(|(time_ns, text)| Marker { time_ns: *time_ns, text: text.clone() })
                .collect(),
            notes: self.notes(),
        }
    }

    fn recording(&self) -> Recording {
        let header = &self.header;
        Recording {
            command: header.command.clone(),
            program: self
                .main_process()
                .map(|process| process.definition.executable.clone())
                .unwrap_or_default(),
            allocator: match self.main_process() {
                Some(process) if header.allocator.is_empty() => {
                    process.definition.allocator.clone()
                }
                _ => header.allocator.clone(),
            },
            libc: header.libc.clone(),
            cpu: header.cpu.clone(),
            started_unix_ns: header.started_unix_ns,
            duration_ns: self.end_ns,
            source: header.source,
            stacks: header.stacks,
            stack_distance: header.stack_distance,
        }
    }

    /// The process that allocated most: what a command comes to behind its wrappers.
    fn main_process(&self) -> Option<&ProcessState> {
        let mut blocks = vec![0; self.processes.len()];
        for thread in &self.threads {
            blocks[thread.process as usize] += thread.activity.allocated.blocks;
        }
        let main = (0..blocks.len()).max_by_key(|process| blocks[*process])?;
        self.processes.get(main)
    }

    fn totals(&self) -> Totals {
        let ops = &self.all.ops;
        let threads = || self.threads.iter();
        let peak_rss = self.processes.iter().map(|process| process.peak_rss).max();
        let sampled = self.timeline.steps(1).1.first().and_then(|step| step.rss_bytes);
        Totals {
            calls: ops.iter().map(|op| op.calls).sum(),
            failed: ops.iter().map(|op| op.failed).sum(),
            allocated: self.all.allocated,
            freed: self.lifetimes.total().blocks,
            peak: self.peak.highest,
            peak_time_ns: self.peak.time_ns,
            peak_rss_bytes: sampled.max(peak_rss).filter(|rss| *rss > 0),
            leaked: self.leaked,
            temporary: self.temporary,
            foreign_frees: threads().map(|thread| thread.foreign_frees).sum(),
            unknown_frees: self.processes.iter().map(|process| process.unknown_frees).sum(),
            lost_frees: self.lost_frees,
            dropped: threads().map(|thread| thread.dropped).fold(0, u64::saturating_add),
        }
    }

    fn process_summaries(&self, limits: Limits) -> Vec<Process> {
        let mut threads: BTreeMap<u32, Vec<Thread>> = BTreeMap::new();
        for thread in &self.threads {
            let of_process = threads.entry(thread.process).or_default();
            of_process.push(self.thread_summary(thread, limits.sizes_of_thread));
        }
        let summaries = self.processes.iter().enumerate().map(|(index, process)| {
            let threads = threads.remove(&(index as u32)).unwrap_or_default();
            process_summary(process, threads)
        });
        summaries.collect()
    }

    fn thread_summary(&self, thread: &ThreadState, number: usize) -> Thread {
        Thread {
            id: thread.number,
            tid: thread.tid,
            name: thread.name.clone(),
            started_ns: thread.started_ns,
            ended_ns: thread.ended_ns,
            functions: functions(&thread.activity),
            allocated: thread.activity.allocated,
            peak: thread.held.at_peak(&self.peak),
            leaked: thread.leaked,
            temporary: thread.temporary,
            foreign_frees: thread.foreign_frees,
            dropped: thread.dropped,
            sizes: sizes(&thread.activity.sizes, number),
        }
    }

    /// How far the estimates by stack are from the exact total, where that shows.
    fn note_of_stacks(&self) -> Option<String> {
        if self.header.stack_distance == 0 {
            return None;
        }
        let stacks = self.stacks.costs(&self.peak);
        let sum = stacks.map(|(_, costs)| costs.allocated.bytes).fold(0, u64::saturating_add);
        note_of_sum(sum, self.all.allocated.bytes)
    }

    fn notes(&self) -> Vec<String> {
        let totals = self.totals();
        let mut notes = Vec::new();
        if totals.dropped > 0 {
            notes.push(format!(
                "Calls that were not recorded, because the collector could not keep up: {}. All counts \
                 are too low by as much, and what was freed in them looks leaked.",
                totals.dropped
            ));
        }
        if self.header.source == Source::Uprobes {
            notes.push(
                "The recording began in a running process: what was live then is not counted, and \
                 what was live at its end counts as never freed."
                    .into(),
            );
        }
        if self.header.stack_distance > 0 && self.header.source == Source::Uprobes {
            notes.push(
                "Stacks were sampled, so their numbers are estimates; all other numbers are exact."
                    .into(),
            );
        } else if self.header.stack_distance > 0 {
            notes.push(format!(
                "Stacks were sampled about every {} bytes, or more rarely where they would have cost \
                 too much, so their numbers are estimates; all other numbers are exact.",
                self.header.stack_distance
            ));
        }
        notes.extend(self.note_of_stacks());
        if self.pools.blocks > 0 {
            notes.push(format!(
                "The C++ library's own pool for exceptions ({} bytes) does not count as never freed.",
                self.pools.bytes
            ));
        }
        notes.extend(self.notes_of_processes());
        notes
    }

    /// How what they hold is counted.
    fn notes_of_processes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let inherited: u64 = self
            .processes
            .iter()
            .filter(|process| process.was_forked())
            .map(|process| process.unknown_frees)
            .sum();
        if inherited > 0 {
            notes.push(format!(
                "{inherited} blocks were freed by forked processes that had them from their parents."
            ));
        }
        let count = |wanted: &dyn Fn(Option<Ending>) -> bool| {
            (0..self.processes.len()).filter(|process| wanted(self.ending(*process))).count()
        };
        let killed = count(&|ending| matches!(ending, Some(Ending::Signal(_))));
        let running = count(&|ending| ending.is_none());
        if killed > 0 {
            notes.push(format!(
                "{killed} of {} processes were ended by a signal; what was live in them counts as \
                 never freed.",
                self.processes.len()
            ));
        }
        if running > 0 {
            notes.push(format!(
                "The recording does not hold the end of {running} of {} processes; what was live in \
                 them when it ended counts as never freed.",
                self.processes.len()
            ));
        }
        notes
    }
}

fn functions(activity: &Activity) -> Vec<Function> {
    let used = Op::ALL.iter().zip(&activity.ops).filter(|(_, count)| count.calls > 0);
    used.map(|(op, count)| Function {
        name: op.name(),
        calls: count.calls,
        failed: count.failed,
        bytes: count.bytes,
    })
    .collect()
}

fn sizes(counts: &SizeCounts, number: usize) -> Sizes {
    let all = counts.buckets.total().blocks.max(1) as f64;
    let frequent = counts.frequent.top(number).into_iter();
    Sizes {
        frequent: frequent
            .map(|(size, calls)| SizeCount { size, calls, share: calls as f64 / all })
            .collect(),
        missing_at_most: counts.frequent.missing_at_most,
        buckets: counts.buckets.filled(),
    }
}

fn lifetimes(buckets: &Buckets) -> Lifetimes {
    Lifetimes {
        median_ns: buckets.quantile(0.5),
        p90_ns: buckets.quantile(0.9),
        p99_ns: buckets.quantile(0.99),
        buckets: buckets.filled(),
    }
}

fn process_summary(process: &ProcessState, threads: Vec<Thread>) -> Process {
    let definition = &process.definition;
    Process {
        id: definition.id,
        pid: definition.pid,
        parent: Some(definition.parent).filter(|parent| *parent > 0),
        start: match definition.start {
            Start::First => "first",
            Start::Fork => "fork",
            Start::Exec => "exec",
        },
        executable: definition.executable.clone(),
        command: definition.command.clone(),
        allocator: definition.allocator.clone(),
        started_ns: process.started_ns,
        ended_ns: process.ended.map(|(time, _)| time),
        ending: process.ended.map(|(_, ending)| match ending {
            Ending::Unknown => "unknown".into(),
            Ending::Code(code) => format!("exit {code}"),
            Ending::Signal(signal) => format!("signal {signal}"),
            Ending::Exec => "exec".into(),
        }),
        peak: process.peak,
        peak_time_ns: process.peak_time_ns,
        peak_rss_bytes: Some(process.peak_rss).filter(|rss| *rss > 0),
        leaked: process.leaked,
        unknown_frees: process.unknown_frees,
        threads,
    }
}

/// The first so many stacks by each metric, ordered by bytes.
fn top_stacks(profile: &Profile, number: usize) -> Vec<Stack> {
    let mut chosen = BTreeMap::new();
    for metric in Metric::ALL {
        for sample in profile.top(metric, number) {
            chosen.insert(&sample.frames, sample);
        }
    }
    let mut stacks: Vec<Stack> = chosen
        .into_values()
        .map(|sample| Stack {
            frames: sample.frames.iter().map(|f| profile.frames[*f as usize].clone()).collect(),
            costs: sample.costs,
        })
        .collect();
    stacks.sort_by_key(|stack| std::cmp::Reverse(stack.costs.allocated.bytes));
    stacks
}

impl Thread {
    fn calls(&self, is_counted: impl Fn(Op) -> bool) -> u64 {
        let counted = |function: &&Function| {
            Op::ALL.iter().any(|op| op.name() == function.name && is_counted(*op))
        };
        self.functions.iter().filter(counted).map(|function| function.calls).sum()
    }

    /// Calls that return a new block.
    pub fn allocations(&self) -> u64 {
        self.calls(|op| !op.is_free() && !op.is_realloc())
    }

    pub fn reallocs(&self) -> u64 {
        self.calls(Op::is_realloc)
    }

    pub fn frees(&self) -> u64 {
        self.calls(Op::is_free)
    }
}

/// Of sampled stacks, if they are more than 2 % off; `None` without any.
fn note_of_sum(sum: u64, total: u64) -> Option<String> {
    let is_notable = sum > 0 && total.abs_diff(sum) > total / 50;
    is_notable.then(|| {
        let percent = sum as f64 / total.max(1) as f64 * 100.0;
        format!("What the stacks allocated adds up to {percent:.0} % of the exact total here.")
    })
}

#[cfg(test)]
mod tests {
    use super::note_of_sum;

    #[test]
    fn stacks_that_are_off_are_said_to_be() {
        let said = |sum, total| note_of_sum(sum, total).unwrap_or_default();
        assert!(said(1_150, 1_000).contains("115 %") && said(740, 1_000).contains("74 %"));
        assert_eq!((said(1_020, 1_000), said(0, 1_000)), (String::new(), String::new()));
    }
}
