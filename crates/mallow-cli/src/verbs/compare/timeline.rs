// SPDX-License-Identifier: MIT
//! Memory over time (`compare --timeline`): how much at the average, the peak and the end, and how
//! it went in a typical run.

use crate::comparing::report::{Entry, Level, Timeline};
use crate::output::Format;
use crate::output::chart;
use crate::output::wording;
use crate::output::{self, Screen, Table};
use mallow_measure::statistics::Verdict;

/// Of those that have one.
pub fn known(entries: &[Entry]) -> Vec<(&Entry, &Timeline)> {
    entries.iter().filter_map(|entry| Some((entry, entry.timeline.as_ref()?))).collect()
}

const SPARK_WIDTH: usize = 40;

pub fn text(entries: &[Entry], format: Format, screen: Screen) -> String {
    let known = known(entries);
    if known.is_empty() {
        return String::new();
    }
    let mut columns = vec![("RSS over time", false)];
    for level in ["average", "peak", "end"] {
        columns.extend([(level, true), ("against baseline", false)]);
    }
    if screen.unicode {
        columns.push(("a typical run", false));
    }
    let mut table = Table::new(&columns);
    let points = || known.iter().flat_map(|(_, line)| &line.points);
    let end = points().map(|point| point.0).fold(1e-9, f64::max);
    let top = points().map(|point| point.1).fold(1.0, f64::max);
    for (entry, line) in &known {
        let mut row = vec![entry.who.name()];
        for level in line.levels() {
            row.extend([output::bytes(level.metric.median), level.in_words(entry)]);
        }
        if screen.unicode {
            row.push(chart::sparkline(&line.points, end, top, SPARK_WIDTH));
        }
        table.rows.push(row);
    }
    format!("\n{}\n{}", table.render(format, screen), screen.fill(&sentence(&known)))
}

impl Level {
    fn in_words(&self, entry: &Entry) -> String {
        match &self.versus {
            _ if entry.who.is_baseline => "baseline".into(),
            Some(versus) => wording::verdict(versus, "memory"),
            None => "not compared".into(),
        }
    }
}

/// Such as "Over time jemalloc uses 24.0 % less memory than glibc: ...".
pub fn sentence(known: &[(&Entry, &Timeline)]) -> String {
    let less = known.iter().filter_map(|(entry, line)| {
        let versus = line.average.versus.filter(|versus| versus.verdict == Verdict::Less)?;
        Some((versus.comparison.ratio, entry, line))
    });
    let best = less.min_by(|a, b| a.0.total_cmp(&b.0));
    let base = known.iter().find(|(entry, _)| entry.who.is_baseline);
    let (Some((ratio, entry, line)), Some((base, _))) = (best, base) else {
        return "Over time nothing was shown to use less memory on average than the baseline.\n"
            .into();
    };
    format!(
        "Over time {} uses {:.1} % less memory on average than {}; peak: {}, end: {}.\n",
        entry.who.name(),
        100.0 * (1.0 - ratio),
        base.who.name(),
        line.peak.in_words(entry),
        line.end.in_words(entry)
    )
}
