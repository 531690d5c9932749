//! What the runs mean: medians, comparisons with the baseline, one verdict in words.

use std::collections::BTreeMap;

use super::machine::Machine;
use super::plan::Plan;
use super::report::{
    ConditionReport, Describe, Entry, Failure, Metric, Report, RunReport, Settings, Versus,
};
use super::rounds::{Cell, Measured, Run};
use super::timeline::{Level, Timeline};
use crate::cli::CompareArgs;
use crate::measure::{Outcome, Sample};
use crate::stats::{self, Comparison, Verdict};
use crate::timeline::Figures;

/// All claims of a report together are wrong with at most this probability ...
const FAMILY_ALPHA: f64 = 0.05;
/// ... so each of them, for time, CPU and peak memory, gets its part of it,
const METRICS_JUDGED: usize = 3;
/// and with --timeline average, peak and end of memory over time too.
const LEVELS_JUDGED: usize = 3;
/// Of the intervals that are only shown.
const SHOWN_CONFIDENCE: f64 = 0.95;

/// How many comparisons share the error probability.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    comparisons: usize,
}

impl Family {
    pub fn of(plan: &Plan, args: &CompareArgs) -> Family {
        let others = plan.contenders.len().saturating_sub(1);
        let judged = METRICS_JUDGED + if args.timeline { LEVELS_JUDGED } else { 0 };
        Family { comparisons: (others * plan.conditions.len() * judged).max(1) }
    }

    pub fn confidence(self) -> f64 {
        1.0 - FAMILY_ALPHA / self.comparisons as f64
    }

    pub fn fewest_rounds(self) -> u32 {
        stats::fewest_pairs(self.confidence()) as u32
    }
}

/// Whether every comparison of time is as exact as the margin asks for. Looks at the width only, not
/// at the result, so that stopping here favours no verdict.
pub fn is_narrow(cells: &[Cell], family: Family, margin: f64) -> bool {
    cells.iter().filter(|cell| cell.contender != 0).all(|cell| {
        let Some(baseline) = baseline_of(cells, cell.condition) else { return true };
        match compare(baseline, cell, family, |sample| sample.wall_s) {
            Some(Comparison { interval: Some(interval), .. }) => {
                interval.high / interval.low <= 1.0 + margin
            }
            Some(_) => false,
            None => true,
        }
    })
}

fn baseline_of(cells: &[Cell], condition: usize) -> Option<&Cell> {
    cells.iter().find(|cell| cell.condition == condition && cell.contender == 0)
}

fn finished(cell: &Cell) -> impl Iterator<Item = &Run> {
    cell.runs.iter().filter(|run| run.sample.outcome == Outcome::Finished)
}

/// Over the rounds in which both finished.
fn compare(
    baseline: &Cell,
    other: &Cell,
    family: Family,
    metric: impl Fn(&Sample) -> f64,
) -> Option<Comparison> {
    let by_round: BTreeMap<u32, f64> =
        finished(baseline).map(|run| (run.round, metric(&run.sample))).collect();
    let pairs: Vec<(f64, f64)> = finished(other)
        .filter_map(|run| Some((*by_round.get(&run.round)?, metric(&run.sample))))
        .filter(|(base, other)| *base > 0.0 && *other > 0.0)
        .collect();
    stats::compare_pairs(&pairs, family.confidence())
}

pub fn analyse(plan: &Plan, args: &CompareArgs, measured: &Measured) -> Report {
    let judge = Judge { family: Family::of(plan, args), margin: args.margin / 100.0 };
    let conditions: Vec<ConditionReport> = (0..plan.conditions.len())
        .map(|condition| analyse_condition(plan, args, measured, condition, judge))
        .collect();
    Report {
        schema: "mallow.compare/1",
        version: env!("CARGO_PKG_VERSION"),
        command: plan.command_line.clone(),
        machine: Machine::read(),
        settings: Settings {
            runs: args.runs,
            rounds_made: measured.rounds,
            warmup: args.warmup,
            margin_percent: args.margin,
            confidence: judge.family.confidence(),
            seed: measured.seed,
            took_s: measured.took.as_secs_f64(),
        },
        verdict: conditions
            .iter()
            .map(|condition| sentence(condition, args.margin))
            .collect::<Vec<_>>()
            .join(" "),
        conditions,
    }
}

/// Compares the runs of two allocators.
#[derive(Clone, Copy)]
struct Judge {
    family: Family,
    margin: f64,
}

impl Judge {
    /// `None` for the baseline itself.
    fn versus(
        self,
        baseline: &Cell,
        other: &Cell,
        metric: impl Fn(&Sample) -> f64,
    ) -> Option<Versus> {
        if other.contender == 0 {
            return None;
        }
        let comparison = compare(baseline, other, self.family, metric)?;
        Some(Versus { verdict: stats::verdict(&comparison, self.margin), comparison })
    }
}

fn analyse_condition(
    plan: &Plan,
    args: &CompareArgs,
    measured: &Measured,
    condition: usize,
    judge: Judge,
) -> ConditionReport {
    let settings = &plan.conditions[condition];
    let cells: Vec<&Cell> =
        measured.cells.iter().filter(|cell| cell.condition == condition).collect();
    let entries = cells.iter().map(|cell| {
        let mut entry = entry(plan, cells[0], cell, judge);
        if args.timeline {
            entry.timeline = timeline(cells[0], cell, judge);
        }
        entry
    });
    ConditionReport {
        name: settings.name.clone(),
        cpus: settings.cpu_count,
        environment: settings.environment.iter().cloned().collect(),
        entries: entries.collect(),
    }
}

fn entry(plan: &Plan, baseline: &Cell, cell: &Cell, judge: Judge) -> Entry {
    let allocator = &plan.contenders[cell.contender].allocator;
    let versus = |metric: fn(&Sample) -> f64| judge.versus(baseline, cell, metric);
    let metric = |value: fn(&Sample) -> Option<f64>| metric(cell, value);
    let runs = cell.runs.iter();
    Entry {
        allocator: allocator.name.clone(),
        version: allocator.version.clone(),
        path: allocator.path.as_ref().map(|path| path.display().to_string()),
        is_baseline: cell.contender == 0,
        runs_finished: finished(cell).count(),
        failures: failures(cell),
        wall_s: metric(|sample| Some(sample.wall_s)),
        user_s: metric(|sample| Some(sample.user_s)),
        system_s: metric(|sample| Some(sample.system_s)),
        peak_rss: metric(|sample| Some(sample.peak_rss)),
        average_rss: metric(|sample| sample.average_rss),
        minor_faults: metric(|sample| Some(sample.minor_faults)),
        major_faults: metric(|sample| Some(sample.major_faults)),
        time: versus(|sample| sample.wall_s),
        cpu: versus(|sample| sample.user_s + sample.system_s),
        memory: versus(|sample| sample.peak_rss),
        timeline: None,
        runs: runs
            .map(|run| RunReport { round: run.round, place: run.place, sample: run.sample.clone() })
            .collect(),
    }
}

fn metric(cell: &Cell, value: impl Fn(&Sample) -> Option<f64>) -> Option<Metric> {
    let values: Vec<f64> = finished(cell).filter_map(|run| value(&run.sample)).collect();
    summarise(&values)
}

/// Memory over time; of the points, those of the run whose average is in the middle.
fn timeline(baseline: &Cell, cell: &Cell, judge: Judge) -> Option<Timeline> {
    let level = |of: fn(Figures) -> f64| {
        let value = |sample: &Sample| sample.timeline.as_ref().map(|line| of(line.figures));
        let versus = judge.versus(baseline, cell, |sample| value(sample).unwrap_or(0.0));
        Some(Level { metric: metric(cell, value)?, versus })
    };
    let mut lines: Vec<_> = finished(cell).filter_map(|run| run.sample.timeline.as_ref()).collect();
    lines.sort_by(|a, b| a.figures.average.total_cmp(&b.figures.average));
    Some(Timeline {
        average: level(|figures| figures.average)?,
        peak: level(|figures| figures.peak)?,
        end: level(|figures| figures.end)?,
        points: lines.get(lines.len() / 2)?.points.clone(),
    })
}

/// Medians and their spread; none of nothing.
pub fn summarise(values: &[f64]) -> Option<Metric> {
    Some(Metric {
        median: stats::median(values)?,
        interval: stats::median_interval(values, SHOWN_CONFIDENCE),
        mean: values.iter().sum::<f64>() / values.len() as f64,
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    })
}

fn failures(cell: &Cell) -> Vec<Failure> {
    let mut failures: Vec<Failure> = Vec::new();
    for run in &cell.runs {
        let outcome = run.sample.outcome;
        if outcome == Outcome::Finished {
            continue;
        }
        match failures.iter_mut().find(|failure| failure.outcome == outcome) {
            Some(failure) => failure.count += 1,
            None => failures.push(Failure { outcome, count: 1, text: outcome.describe() }),
        }
    }
    failures
}

/// The result of one condition in words.
fn sentence(condition: &ConditionReport, margin: f64) -> String {
    let prefix = if condition.name.is_empty() {
        String::new()
    } else {
        format!("With {}: ", condition.name)
    };
    prefix + &judgement(&condition.entries, margin)
}

fn judgement(entries: &[Entry], margin: f64) -> String {
    let Some((baseline, others)) = entries.split_first() else { return "Nothing ran.".into() };
    let base = &baseline.allocator;
    if baseline.runs_finished == 0 {
        return format!("No run under {base} finished, so there is nothing to compare with.");
    }
    if others.is_empty() {
        return format!("Only {base} was measured; name others with -a to compare.");
    }
    let judged = |side: fn(&Entry) -> &Option<Versus>, wanted: Verdict| -> Vec<&Entry> {
        let mut found: Vec<&Entry> = others
            .iter()
            .filter(|entry| side(entry).as_ref().is_some_and(|v| v.verdict == wanted))
            .collect();
        let ratio = |entry: &Entry| side(entry).as_ref().map_or(1.0, |v| v.comparison.ratio);
        found.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        found
    };
    let failed: Vec<&str> = others
        .iter()
        .filter(|entry| entry.runs_finished == 0)
        .map(|entry| entry.allocator.as_str())
        .collect();
    let failed = match failed.as_slice() {
        [] => String::new(),
        names => format!(" The command did not finish under {}.", names.join(", ")),
    };
    let faster = judged(|entry| &entry.time, Verdict::Less);
    if !faster.is_empty() {
        return faster_sentence(&faster, base) + &failed;
    }
    let thrifty = judged(|entry| &entry.cpu, Verdict::Less);
    let not_slower =
        |entry: &&&Entry| entry.time.as_ref().is_some_and(|v| v.verdict != Verdict::More);
    if let Some(best) = thrifty.iter().find(not_slower) {
        return format!(
            "{} uses less CPU than {base}: {}; peak memory {}. Nothing was shown to be faster.{failed}",
            best.allocator,
            best.cpu.describe(),
            best.memory.map_or("not compared".into(), |memory| memory.in_words("memory"))
        );
    }
    let smaller = judged(|entry| &entry.memory, Verdict::Less);
    let frugal = smaller.iter().find(|entry| {
        entry.time.as_ref().is_some_and(|versus| versus.verdict == Verdict::NoDifference)
    });
    if let Some(best) = frugal {
        return format!(
            "{} needs less memory than {base} ({}) in the same time; nothing is faster.{failed}",
            best.allocator,
            best.memory.describe()
        );
    }
    let unclear = judged(|entry| &entry.time, Verdict::Inconclusive).len()
        + others.iter().filter(|e| e.time.is_none() && e.runs_finished > 0).count();
    let compared = others.iter().filter(|entry| entry.runs_finished > 0).count();
    no_change_sentence(unclear, compared, base, margin) + &failed
}

fn no_change_sentence(unclear: usize, compared: usize, base: &str, margin: f64) -> String {
    if unclear == 0 {
        format!("No change needed: nothing is faster than {base} by {margin} % or more.")
    } else if unclear == compared {
        format!(
            "Inconclusive: the runs vary too much, or are too few, to tell the allocators from \
             {base} by {margin} %. Make more runs (--runs, --budget), or quiet the machine."
        )
    } else {
        format!(
            "No change needed as far as can be told: nothing was shown to be faster than {base}, \
             and {unclear} of {compared} comparisons are inconclusive."
        )
    }
}

fn faster_sentence(faster: &[&Entry], base: &str) -> String {
    let more_memory =
        |entry: &Entry| entry.memory.as_ref().is_some_and(|v| v.verdict == Verdict::More);
    let best = faster[0];
    let time = best.time.describe();
    let mut text = format!("{} is faster than {base}: {time}", best.allocator);
    match &best.memory {
        Some(memory) => text += &format!("; peak memory {}.", memory.in_words("memory")),
        None => text.push('.'),
    }
    if more_memory(best)
        && let Some(frugal) = faster.iter().find(|entry| !more_memory(entry))
    {
        text += &format!(
            " {} is faster too ({}) and needs no more memory.",
            frugal.allocator,
            frugal.time.describe()
        );
    }
    text
}
