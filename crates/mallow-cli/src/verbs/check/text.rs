// SPDX-License-Identifier: MIT
//! The result for people.

use mallow_report::baseline::{Change, Judged, Metric, Range, Verdict};

use super::report::Report;
use crate::output::colour::Tone;
use crate::output::{self, Format, Page, Screen, Table};

/// So many stacks of each metric are shown.
const MOST_STACKS: usize = 10;

pub fn text(report: &Report, format: Format, screen: Screen) -> String {
    if format == Format::Csv {
        return all(report).render(format, screen);
    }
    let mut text =
        screen.fill(&sentence(report)) + "\n\n" + &metrics(report).render(format, screen);
    if !report.changes.is_empty() {
        text += "\nStacks that changed, the function that allocates first:\n\n";
        text += &changes(report, MOST_STACKS).render(format, screen);
    }
    text
}

pub fn page(report: &Report) -> String {
    Page::of_table("mallow check", &sentence(report), &all(report))
}

/// What came out, in one sentence.
pub fn sentence(report: &Report) -> String {
    let named = |verdict| {
        let of_verdict = report.metrics.iter().filter(|judged| judged.verdict == verdict);
        of_verdict.map(|judged| judged.metric.name()).collect::<Vec<_>>().join(", ")
    };
    let baseline = &report.baseline;
    match report.verdict {
        _ if report.created => format!("{baseline} is written; there was none to compare with."),
        Verdict::Ok => format!("Ok: as {baseline} says."),
        Verdict::Improved => format!("Improved against {baseline}: {}.", named(Verdict::Improved)),
        Verdict::Regressed => {
            format!("Regressed against {baseline}: {}.", named(Verdict::Regressed))
        }
        Verdict::Inconclusive => format!(
            "Inconclusive: {} differ too much between equal runs{}. Try more of them (--runs) or a \
             larger --tolerance.",
            named(Verdict::Inconclusive),
            if report.environment_differs { " or environments" } else { "" }
        ),
    }
}

fn metrics(report: &Report) -> Table {
    let columns = [
        ("metric", false),
        ("before", true),
        ("after", true),
        ("change", true),
        ("tolerance", true),
        ("verdict", false),
    ];
    let mut table = Table::new(&columns);
    for judged in &report.metrics {
        table.rows.push(vec![
            judged.metric.name().into(),
            range(judged.metric, judged.before),
            range(judged.metric, judged.after),
            change(judged),
            tolerance(judged.metric, judged.tolerance_percent),
            judged.verdict.word().into(),
        ]);
        table.set_tone(5, tone(judged.verdict));
    }
    table
}

fn changes(report: &Report, most: usize) -> Table {
    let columns = [("metric", false), ("before", true), ("after", true), ("stack", false)];
    let mut table = Table::new(&columns);
    for metric in Metric::BY_STACK {
        let of_metric = report.changes.iter().filter(|change| change.metric == metric);
        let number = of_metric.clone().count();
        for change in of_metric.take(most) {
            table.rows.push(row(change));
        }
        if number > most {
            let more = format!("and {} more; --json has all", number - most);
            table.rows.push(vec![metric.name().into(), String::new(), String::new(), more]);
        }
    }
    table
}

fn row(change: &Change) -> Vec<String> {
    vec![
        change.metric.name().into(),
        quantity(change.metric, change.before),
        range(change.metric, change.after),
        change.stack.clone(),
    ]
}

/// Metrics, then stacks, in figures without units.
fn all(report: &Report) -> Table {
    let columns = [
        ("metric", false),
        ("stack", false),
        ("before low", true),
        ("before high", true),
        ("after low", true),
        ("after high", true),
        ("tolerance percent", true),
        ("verdict", false),
    ];
    let mut table = Table::new(&columns);
    let figures = |before: Range, after: Range| {
        [before.low, before.high, after.low, after.high].map(|figure| figure.to_string())
    };
    for judged in &report.metrics {
        let mut row = vec![judged.metric.name().to_owned(), String::new()];
        row.extend(figures(judged.before, judged.after));
        row.extend([judged.tolerance_percent.to_string(), judged.verdict.word().into()]);
        table.rows.push(row);
        table.set_tone(7, tone(judged.verdict));
    }
    for change in &report.changes {
        let mut row = vec![change.metric.name().to_owned(), change.stack.clone()];
        let before = Range { low: change.before, high: change.before };
        row.extend(figures(before, change.after));
        let word = if change.is_more() { "more" } else { "less" };
        row.extend([String::new(), word.into()]);
        table.rows.push(row);
    }
    table
}

fn tone(verdict: Verdict) -> Option<Tone> {
    match verdict {
        Verdict::Ok => None,
        Verdict::Improved => Some(Tone::Better),
        Verdict::Regressed => Some(Tone::Worse),
        Verdict::Inconclusive => Some(Tone::Unsure),
    }
}

/// `10 %, at least 1.00 MiB`
pub fn tolerance(metric: Metric, percent: f64) -> String {
    match metric.slack() {
        0.0 => format!("{percent} %"),
        slack => format!("{percent} %, at least {}", output::bytes(slack)),
    }
}

pub fn change(judged: &Judged) -> String {
    match judged.change() {
        None => "none".into(),
        Some((0, _)) => "new".into(),
        Some((before, after)) => {
            output::percent_change_beside(judged.tolerance_percent, before, after)
        }
    }
}

/// Exact figures where a small change must be seen.
pub fn quantity(metric: Metric, value: u64) -> String {
    match metric {
        Metric::Peak | Metric::Rss => output::bytes(value as f64),
        _ => value.to_string(),
    }
}

pub fn range(metric: Metric, range: Range) -> String {
    let (low, high) = (quantity(metric, range.low), quantity(metric, range.high));
    if low == high { low } else { format!("{low} to {high}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tolerance_says_what_is_always_allowed() {
        assert_eq!(tolerance(Metric::Peak, 5.0), "5 %");
        assert_eq!(tolerance(Metric::Rss, 10.0), "10 %, at least 1.00 MiB");
    }
}
