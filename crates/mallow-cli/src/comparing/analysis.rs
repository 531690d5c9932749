// SPDX-License-Identifier: MIT
//! What the runs mean: medians, comparisons with the baseline, one verdict in words.

use super::Wish;
use super::cells::{Cell, Measured, finished, judge, pairs_of};
use super::plan::{Condition, Plan};
use super::report::{
    ConditionReport, Entry, Failure, Level, Report, RunReport, Settings, Timeline, Value,
};
use crate::output::wording::{self, Contestant};
use mallow_measure::machine::Machine;
use mallow_measure::run::{Outcome, Sample};
use mallow_measure::statistics::Verdict;
use mallow_measure::timeline::Figures;
use mallow_measure::values::Pattern;
use mallow_measure::verdict::{Judge, Metric, Versus};

pub fn analyse(plan: &Plan, wish: &Wish, measured: &Measured) -> Report {
    let judge = judge(plan, wish);
    let conditions: Vec<ConditionReport> =
        (0..plan.tables()).map(|table| analyse_table(plan, wish, measured, table, judge)).collect();
    Report {
        schema: "mallow.compare/1",
        version: env!("CARGO_PKG_VERSION"),
        command: plan.command_line.clone(),
        machine: Machine::read(),
        settings: Settings {
            runs: wish.runs,
            rounds_made: measured.rounds,
            runs_needed: judge.fewest_rounds(),
            warmup: wish.warmup,
            margin_percent: wish.margin,
            confidence: judge.confidence(),
            seed: measured.seed,
            took_s: measured.took.as_secs_f64(),
        },
        verdict: conditions
            .iter()
            .map(|condition| sentence(condition, wish.margin, judge.fewest_rounds()))
            .collect::<Vec<_>>()
            .join(" "),
        conditions,
    }
}

/// `None` for the baseline itself.
fn versus(
    judge: Judge,
    baseline: &Cell,
    other: &Cell,
    metric: impl Fn(&Sample) -> f64,
) -> Option<Versus> {
    (other.place.row != 0).then(|| judge.versus(&pairs_of(baseline, other, metric)))?
}

fn analyse_table(
    plan: &Plan,
    wish: &Wish,
    measured: &Measured,
    table: usize,
    judge: Judge,
) -> ConditionReport {
    let all = Condition::default();
    let settings = if plan.compares_conditions() { &all } else { &plan.conditions[table] };
    let cells: Vec<&Cell> =
        measured.cells.iter().filter(|cell| cell.place.table == table).collect();
    let entries = cells.iter().map(|cell| {
        let mut entry = entry(plan, cells[0], cell, judge);
        entry.values = values(wish, cell);
        if wish.timeline {
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
    let condition =
        plan.compares_conditions().then(|| plan.conditions[cell.condition].name.clone());
    let versus = |metric: fn(&Sample) -> f64| versus(judge, baseline, cell, metric);
    let metric = |value: fn(&Sample) -> Option<f64>| metric(cell, value);
    let runs = cell.runs.iter();
    Entry {
        who: Contestant { condition, ..Contestant::new(allocator, cell.place.row == 0) },
        runs_finished: finished(cell).count(),
        failures: failures(cell),
        wall_s: metric(|sample| Some(sample.wall_s)),
        user_s: metric(|sample| Some(sample.user_s)),
        system_s: metric(|sample| Some(sample.system_s)),
        peak_rss: if peaks_are_known(cell) { metric(|sample| sample.peak_rss) } else { None },
        peak_rss_below: most_where_unknown(cell),
        average_rss: metric(|sample| sample.average_rss),
        minor_faults: metric(|sample| Some(sample.minor_faults)),
        major_faults: metric(|sample| Some(sample.major_faults)),
        time: versus(|sample| sample.wall_s),
        cpu: versus(|sample| sample.user_s + sample.system_s),
        memory: versus(|sample| sample.most_rss)
            .filter(|versus| versus.holds(peaks_are_known(cell), peaks_are_known(baseline))),
        values: Vec::new(),
        timeline: None,
        runs: runs
            .map(|run| RunReport { round: run.round, place: run.place, sample: run.sample.clone() })
            .collect(),
    }
}

/// Of some runs alone it would be too high.
fn peaks_are_known(cell: &Cell) -> bool {
    finished(cell).all(|run| run.sample.peak_rss.is_some())
}

fn most_where_unknown(cell: &Cell) -> Option<f64> {
    if peaks_are_known(cell) {
        return None;
    }
    finished(cell).map(|run| run.sample.most_rss).max_by(f64::total_cmp)
}

fn metric(cell: &Cell, value: impl Fn(&Sample) -> Option<f64>) -> Option<Metric> {
    let values: Vec<f64> = finished(cell).filter_map(|run| value(&run.sample)).collect();
    Metric::of(&values)
}

fn values(wish: &Wish, cell: &Cell) -> Vec<Value> {
    let value = |(index, pattern): (usize, &Pattern)| Value {
        name: pattern.name.clone(),
        metric: metric(cell, |sample| *sample.values.get(index)?),
    };
    wish.values.iter().enumerate().map(value).collect()
}

/// Memory over time; of the points, those of the run whose average is in the middle.
fn timeline(baseline: &Cell, cell: &Cell, judge: Judge) -> Option<Timeline> {
    let level = |of: fn(Figures) -> f64| {
        let value = |sample: &Sample| sample.timeline.as_ref().map(|line| of(line.figures));
        let versus = versus(judge, baseline, cell, |sample| value(sample).unwrap_or(0.0));
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
fn sentence(condition: &ConditionReport, margin: f64, needed: u32) -> String {
    let prefix = if condition.name.is_empty() {
        String::new()
    } else {
        format!("With {}: ", condition.name)
    };
    prefix + &judgement(&condition.entries, margin, needed)
}

fn judgement(entries: &[Entry], margin: f64, needed: u32) -> String {
    let Some((baseline, others)) = entries.split_first() else { return "Nothing ran.".into() };
    if let Some(sentence) = without_verdict(entries, baseline, others, needed) {
        return sentence;
    }
    let base = &baseline.who.name();
    let judged = |side: fn(&Entry) -> &Option<Versus>, wanted: Verdict| -> Vec<&Entry> {
        let mut found: Vec<&Entry> = others
            .iter()
            .filter(|entry| side(entry).as_ref().is_some_and(|v| v.verdict == wanted))
            .collect();
        let ratio = |entry: &Entry| side(entry).as_ref().map_or(1.0, |v| v.comparison.ratio);
        found.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        found
    };
    let failed = gaps(entries);
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
            best.who.name(),
            wording::difference(&best.cpu),
            best.memory.map_or("not compared".into(), |memory| wording::verdict(&memory, "memory"))
        );
    }
    let smaller = judged(|entry| &entry.memory, Verdict::Less);
    let frugal = smaller.iter().find(|entry| {
        entry.time.as_ref().is_some_and(|versus| versus.verdict == Verdict::NoDifference)
    });
    if let Some(best) = frugal {
        return format!(
            "{} needs less memory than {base} ({}) in the same time; nothing is faster.{failed}",
            best.who.name(),
            wording::difference(&best.memory)
        );
    }
    let unclear = judged(|entry| &entry.time, Verdict::Inconclusive).len()
        + others.iter().filter(|e| e.time.is_none() && e.runs_finished > 0).count();
    let compared = others.iter().filter(|entry| entry.runs_finished > 0).count();
    if unclear > 0 && unclear == compared {
        return format!(
            "Inconclusive: the runs vary too much to tell the time of the others from that of {base} by \
             {margin} %. Make more runs (--runs, --budget), or quiet the machine.{}{failed}",
            others.iter().map(shown_beside_time).collect::<String>()
        );
    }
    no_change_sentence(unclear, compared, base, margin) + &failed
}

/// What is proven of CPU and memory though the time is open; nothing where that is nothing.
fn shown_beside_time(entry: &Entry) -> String {
    let word = |versus: &Option<Versus>| match versus.as_ref().map(|versus| versus.verdict) {
        Some(Verdict::Less) => Some("less"),
        Some(Verdict::More) => Some("more"),
        _ => None,
    };
    let figures = [("CPU", &entry.cpu), ("memory", &entry.memory)];
    let shown: Vec<String> = figures
        .into_iter()
        .filter_map(|(name, versus)| Some(format!("{} {name}", word(versus)?)))
        .collect();
    match shown.is_empty() {
        true => String::new(),
        false => format!(" {} takes {}.", entry.who.name(), shown.join(" and ")),
    }
}

/// Why there is nothing to judge, or not enough.
fn without_verdict(
    entries: &[Entry],
    baseline: &Entry,
    others: &[Entry],
    needed: u32,
) -> Option<String> {
    let base = &baseline.who.name();
    if entries.iter().all(|entry| entry.runs.is_empty()) {
        return Some("Not run, so there is no verdict.".into());
    }
    let has_run = |entry: &&&Entry| !entry.runs.is_empty();
    if baseline.runs_finished == 0 && has_run(&&baseline) {
        return Some(format!("No run under {base} finished, so there is nothing to compare with."));
    }
    if others.is_empty() {
        return Some(format!("Only {base} was measured; name others with -a to compare."));
    }
    let pairs = |entry: &Entry| entry.time.as_ref().map_or(0, |versus| versus.comparison.pairs);
    let most_pairs = others.iter().map(pairs).max().unwrap_or(0);
    let may_be_judged = |entry: &Entry| entry.runs_finished > 0 || entry.runs.is_empty();
    if most_pairs < needed as usize && others.iter().any(may_be_judged) {
        let there =
            if most_pairs == 1 { "there is 1".into() } else { format!("there are {most_pairs}") };
        let failed = gaps(entries);
        return Some(format!(
            "No verdict: it needs at least {needed} runs of each (--runs {needed}), and {there}.{failed}"
        ));
    }
    None
}

/// Under which allocators the command did not finish, or was not run at all.
fn gaps(entries: &[Entry]) -> String {
    let names = |is_wanted: fn(&&Entry) -> bool| -> Vec<String> {
        entries.iter().filter(is_wanted).map(|entry| entry.who.name()).collect()
    };
    let failed = names(|entry| entry.runs_finished == 0 && !entry.runs.is_empty());
    let missed = names(|entry| entry.runs.is_empty());
    let mut text = String::new();
    if !failed.is_empty() {
        text += &format!(" The command did not finish under {}.", failed.join(", "));
    }
    if !missed.is_empty() {
        text += &format!(" Not run: {}.", missed.join(", "));
    }
    text
}

fn no_change_sentence(unclear: usize, compared: usize, base: &str, margin: f64) -> String {
    if unclear == 0 {
        format!("No change needed: nothing is faster than {base} by {margin} % or more.")
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
    let time = wording::difference(&best.time);
    let mut text = format!("{} is faster than {base}: {time}", best.who.name());
    match &best.memory {
        Some(memory) => text += &format!("; peak memory {}.", wording::verdict(memory, "memory")),
        None => text.push('.'),
    }
    if more_memory(best)
        && let Some(frugal) = faster.iter().find(|entry| !more_memory(entry))
    {
        text += &format!(
            " {} is faster too ({}) and needs no more memory.",
            frugal.who.name(),
            wording::difference(&frugal.time)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use mallow_measure::statistics::{Comparison, Interval};

    use super::*;

    fn entry(name: &str, verdicts: Option<[Verdict; 3]>) -> Entry {
        let who = Contestant {
            allocator: name.into(),
            condition: None,
            version: None,
            path: None,
            is_baseline: verdicts.is_none(),
        };
        let versus = |index: usize| {
            let interval = Some(Interval { low: 0.9, high: 1.1 });
            let comparison = Comparison { ratio: 1.0, interval, p_value: 0.5, pairs: 10 };
            Some(Versus { verdict: verdicts?[index], comparison })
        };
        Entry {
            who,
            runs_finished: 10,
            failures: Vec::new(),
            wall_s: None,
            user_s: None,
            system_s: None,
            peak_rss: None,
            peak_rss_below: None,
            average_rss: None,
            minor_faults: None,
            major_faults: None,
            time: versus(0),
            cpu: versus(1),
            memory: versus(2),
            values: Vec::new(),
            timeline: None,
            runs: vec![RunReport { round: 0, place: 0, sample: Sample::cut(Outcome::Finished) }],
        }
    }

    /// It was said that the runs told nothing, below a table that told of more memory.
    #[test]
    fn memory_that_is_not_judged_leaves_nothing_open() {
        use crate::comparing::worth::{Worth, worth};
        use Verdict::{Inconclusive, NoDifference};
        let mut small = entry("a", Some([NoDifference; 3]));
        small.memory = None;
        assert!(!small.is_inconclusive());
        assert_eq!(worth(&small), Worth::NotBetter);
        assert!(entry("a", Some([NoDifference, NoDifference, Inconclusive])).is_inconclusive());
        assert!(entry("a", Some([Inconclusive, NoDifference, NoDifference])).is_inconclusive());
        assert!(entry("a", None).is_inconclusive());
    }

    #[test]
    fn what_is_shown_while_time_is_open_is_said() {
        use Verdict::{Inconclusive, Less, More, NoDifference};
        let of = |verdicts: [Verdict; 3]| {
            judgement(&[entry("glibc", None), entry("mallow", Some(verdicts))], 2.0, 7)
        };
        let text = of([Inconclusive, More, Less]);
        assert!(text.contains("tell the time of the others from that of glibc by 2 %."), "{text}");
        assert!(text.ends_with(" mallow takes more CPU and less memory."), "{text}");
        let text = of([Inconclusive, Inconclusive, NoDifference]);
        assert!(text.ends_with("or quiet the machine."), "{text}");
        assert!(of([NoDifference, More, More]).starts_with("No change needed"));
    }
}
