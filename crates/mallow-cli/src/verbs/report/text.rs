// SPDX-License-Identifier: MIT
//! The report as text for a terminal, or as Markdown.

use std::fmt::Write as _;

use mallow_report::{Bucket, HeapProfile, Metric, Profile, Sample, Sizes, Summary};
use mallow_stats::figures::counted;

use super::words::{amount, change, count, file_name, innermost, nanoseconds, place, share};
use super::{Report, tasks};
use crate::output::Format;
use crate::output::{self, Screen, Table, clean};

#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub format: Format,
    pub screen: Screen,
    /// Rows of a table.
    pub top: usize,
    /// Frames of a stack.
    pub depth: usize,
    pub by: Metric,
}

const BAR_WIDTH: usize = 40;
const TIMELINE_ROWS: usize = 16;

pub fn report(report: &Report, profile: &Profile, style: Style) -> String {
    let summary = report.summary;
    let mut text = style.screen.fill(&heading(summary, style.format));
    text += &section("Calls by function", &functions(summary, style), style);
    text += &section(
        "Processes and threads",
        &tasks::table(summary).render(style.format, style.screen),
        style,
    );
    text += &section("Sizes of new blocks", &sizes(summary, style), style);
    text += &section("Sizes asked of realloc", &frequent_sizes(&summary.resized, style), style);
    text += &section("Lifetimes of freed blocks", &lifetimes(summary, style), style);
    text += &section("Over time", &timeline(summary, style), style);
    text += &stacks(profile, style);
    text += &difference(report, style);
    text + &notes(&summary.notes, style)
}

fn notes(notes: &[String], style: Style) -> String {
    let list: Vec<String> = notes.iter().map(|note| format!("- {note}\n")).collect();
    section("Notes", &style.screen.fill(&list.concat()), style)
}

fn section(title: &str, body: &str, style: Style) -> String {
    match (body.is_empty(), style.format) {
        (true, _) => String::new(),
        (_, Format::Md) => format!("\n## {title}\n\n{body}"),
        _ => format!("\n{title}\n{body}"),
    }
}

fn heading(summary: &Summary, format: Format) -> String {
    let (recording, totals) = (&summary.recording, &summary.totals);
    let command = recording.command.join(" ");
    let command = if format == Format::Md { clean::markdown(&command) } else { command };
    let mut text = format!("{command}\n");
    let allocator = file_name(&recording.allocator);
    let on = if allocator.is_empty() { String::new() } else { format!(" on {allocator}") };
    // glibc's own malloc on glibc is said once.
    let is_other = !recording.libc.is_empty() && recording.libc != allocator;
    let libc = if is_other { format!(", {}", recording.libc) } else { String::new() };
    // A process that ends before it is looked at may have had more than all others.
    let is_known = summary.processes.iter().all(|process| process.peak_rss_bytes.is_some());
    let least = if is_known { "" } else { "at least " };
    let _ = writeln!(text, "recorded for {}{on}{libc}", nanoseconds(recording.duration_ns));
    let _ = writeln!(
        text,
        "\n{} of {} in all; peak {} after {}{}",
        counted(totals.allocated.blocks, "allocation"),
        output::bytes(totals.allocated.bytes as f64),
        amount(totals.peak),
        nanoseconds(totals.peak_time_ns),
        totals
            .peak_rss_bytes
            .map(|rss| format!(", peak RSS {least}{}", output::bytes(rss as f64)))
            .unwrap_or_default(),
    );
    let _ = writeln!(
        text,
        "{} temporary ({}), {} freed by another thread, never freed {}, failed {}",
        count(totals.temporary.blocks),
        share(totals.temporary.blocks, totals.allocated.blocks),
        count(totals.foreign_frees),
        amount(totals.leaked),
        count(totals.failed),
    );
    text
}

fn functions(summary: &Summary, style: Style) -> String {
    let mut table = Table::new(&[
        ("function", false),
        ("calls", true),
        ("share", true),
        ("bytes asked for", true),
        ("failed", true),
    ]);
    for function in &summary.functions {
        table.rows.push(vec![
            function.name.into(),
            count(function.calls),
            share(function.calls, summary.totals.calls),
            if function.bytes > 0 { output::bytes(function.bytes as f64) } else { String::new() },
            if function.failed > 0 { count(function.failed) } else { String::new() },
        ]);
    }
    table.render(style.format, style.screen)
}

fn sizes(summary: &Summary, style: Style) -> String {
    let mut text = frequent_sizes(&summary.sizes, style);
    if text.is_empty() {
        return text;
    }
    text += "\n";
    text += &histogram(&doublings(&summary.sizes.buckets), &|n| output::bytes(n as f64), style);
    text
}

fn frequent_sizes(sizes: &Sizes, style: Style) -> String {
    let mut table =
        Table::new(&[("size", true), ("calls", true), ("share", true), ("bytes", true)]);
    for size in sizes.frequent.iter().take(style.top) {
        table.rows.push(vec![
            size.size.to_string(),
            count(size.calls),
            format!("{:.2} %", size.share * 100.0),
            output::bytes(size.size as f64 * size.calls as f64),
        ]);
    }
    if table.rows.is_empty() {
        return String::new();
    }
    let mut text = table.render(style.format, style.screen);
    if sizes.missing_at_most > 0 {
        let most = count(sizes.missing_at_most);
        let _ = writeln!(text, "Too many sizes to count all; no count is low by more than {most}.");
    }
    text
}

fn lifetimes(summary: &Summary, style: Style) -> String {
    let lifetimes = &summary.lifetimes;
    let Some(median) = lifetimes.median_ns else { return String::new() };
    let at = |ns: Option<u64>| nanoseconds(ns.unwrap_or(0));
    let buckets = coarser(&doublings(&lifetimes.buckets), 3);
    let quantiles = format!(
        "half of them up to {}, 90 % up to {}, 99 % up to {}\n\n",
        nanoseconds(median),
        at(lifetimes.p90_ns),
        at(lifetimes.p99_ns)
    );
    style.screen.fill(&quantiles) + &histogram(&buckets, &nanoseconds, style)
}

/// Four buckets make one.
fn doublings(buckets: &[Bucket]) -> Vec<Bucket> {
    let mut joined: Vec<Bucket> = Vec::new();
    for bucket in buckets {
        let low = if bucket.low == 0 { 0 } else { 1 << bucket.low.ilog2() };
        match joined.last_mut() {
            Some(last) if last.low == low => {
                last.calls += bucket.calls;
                last.bytes += bucket.bytes;
            }
            _ => joined.push(Bucket { low, high: (low * 2).max(1) - 1, ..*bucket }),
        }
    }
    joined
}

/// As many doublings as `shift` make one bucket.
fn coarser(buckets: &[Bucket], shift: u32) -> Vec<Bucket> {
    let mut joined: Vec<Bucket> = Vec::new();
    for bucket in buckets {
        let step = if bucket.low == 0 { 0 } else { bucket.low.ilog2() / shift * shift };
        let low = 1u64 << step;
        match joined.last_mut() {
            Some(last) if last.low == low => {
                last.calls += bucket.calls;
                last.bytes += bucket.bytes;
            }
            _ => joined.push(Bucket { low, high: low.saturating_mul(1 << shift) - 1, ..*bucket }),
        }
    }
    joined
}

fn histogram(buckets: &[Bucket], show: &dyn Fn(u64) -> String, style: Style) -> String {
    let mut table = Table::new(&[
        ("from", true),
        ("below", true),
        ("blocks", true),
        ("share", true),
        ("bytes", true),
        ("", false),
    ]);
    let all: u64 = buckets.iter().map(|bucket| bucket.calls).sum();
    let most = buckets.iter().map(|bucket| bucket.calls).max().unwrap_or(1);
    for bucket in buckets {
        table.rows.push(vec![
            show(bucket.low),
            show(bucket.high.saturating_add(1)),
            count(bucket.calls),
            share(bucket.calls, all),
            output::bytes(bucket.bytes as f64),
            bar(bucket.calls, most, style),
        ]);
    }
    table.render(style.format, style.screen)
}

fn bar(value: u64, most: u64, style: Style) -> String {
    let length = (value as f64 / most.max(1) as f64 * BAR_WIDTH as f64).round() as usize;
    let length = if value > 0 { length.max(1) } else { 0 };
    if style.screen.unicode { "█".repeat(length) } else { "#".repeat(length) }
}

fn timeline(summary: &Summary, style: Style) -> String {
    let timeline = &summary.timeline;
    if timeline.steps.is_empty() || summary.totals.calls == 0 {
        return String::new();
    }
    let mut table = Table::new(&[
        ("at", true),
        ("live", true),
        ("RSS", true),
        ("allocations/s", true),
        ("", false),
    ]);
    let width = timeline.steps.len().div_ceil(TIMELINE_ROWS);
    let most = timeline.steps.iter().map(|step| step.live_bytes).max().unwrap_or(1);
    for (row, steps) in timeline.steps.chunks(width).enumerate() {
        let live = steps.iter().map(|step| step.live_bytes).max().unwrap_or(0);
        let rss = steps.iter().filter_map(|step| step.rss_bytes).max();
        let calls: u64 = steps.iter().map(|step| step.allocations).sum();
        let begin = ((row * width) as u64).saturating_mul(timeline.step_ns);
        let end = begin
            .saturating_add((steps.len() as u64).saturating_mul(timeline.step_ns))
            .min(summary.recording.duration_ns.max(begin.saturating_add(1)));
        let seconds = (end - begin) as f64 / 1e9;
        table.rows.push(vec![
            nanoseconds(begin),
            output::bytes(live as f64),
            rss.map(|rss| output::bytes(rss as f64)).unwrap_or_default(),
            count((calls as f64 / seconds) as u64),
            bar(live, most, style),
        ]);
    }
    table.render(style.format, style.screen)
}

fn stacks(profile: &Profile, style: Style) -> String {
    if profile.samples.iter().all(|sample| sample.frames.is_empty()) {
        return section(
            "Stacks",
            "The trace has none; record with --stacks fp, or --stacks full.\n",
            style,
        );
    }
    let mut metrics = vec![style.by];
    metrics.extend([Metric::Peak, Metric::Leaked].into_iter().filter(|m| *m != style.by));
    let mut text = String::new();
    for metric in metrics {
        let top = profile.top(metric, style.top);
        let total = metric.of(&profile.total());
        let body: Vec<String> =
            top.iter().map(|sample| stack(sample, profile, metric, total, style)).collect();
        let title = match metric {
            Metric::Bytes => "Stacks by bytes asked for",
            Metric::Calls => "Stacks by allocations",
            Metric::Peak => "Stacks by bytes live at the peak",
            Metric::Leaked => "Stacks by bytes never freed",
            Metric::Temporary => "Stacks by temporary allocations",
        };
        text += &section(title, &body.join("\n"), style);
    }
    text
}

/// The report of a heap profile.
pub fn heap(heap: &HeapProfile, profile: &Profile, notes: &[String], style: Style) -> String {
    let total = profile.total();
    let mut text = format!(
        "{} held in {}, by samples of one in {}\n",
        output::bytes(total.leaked.bytes as f64),
        counted(total.leaked.blocks, "block"),
        output::bytes(heap.distance as f64),
    );
    if heap.has_all() {
        let _ = writeln!(
            text,
            "{} ever asked for, in {}",
            output::bytes(total.allocated.bytes as f64),
            counted(total.allocated.blocks, "block"),
        );
    }
    let title = match style.by {
        Metric::Bytes => "Stacks by bytes asked for",
        Metric::Calls => "Stacks by allocations",
        _ => "Stacks by bytes held",
    };
    let whole = style.by.of(&total);
    let top = profile.top(style.by, style.top);
    let body: Vec<String> = top
        .iter()
        .map(|sample| {
            let costs = &sample.costs;
            let mut line = format!(
                "{} held in {}",
                output::bytes(costs.leaked.bytes as f64),
                counted(costs.leaked.blocks, "block")
            );
            if heap.has_all() {
                let asked = output::bytes(costs.allocated.bytes as f64);
                let _ = write!(line, "; {asked} asked for in {}", count(costs.allocated.blocks));
            }
            let _ = writeln!(line, " ({})", share(style.by.of(costs), whole));
            with_frames(line, sample, profile, style)
        })
        .collect();
    text += &section(title, &body.join("\n"), style);
    text + &self::notes(notes, style)
}

fn stack(sample: &Sample, profile: &Profile, metric: Metric, total: u64, style: Style) -> String {
    let costs = &sample.costs;
    let value = metric.of(costs);
    let value_text = match metric.unit() {
        "bytes" => output::bytes(value as f64),
        _ => count(value),
    };
    let text = format!(
        "{value_text} ({}) in {} allocations{}; at the peak {}, never freed {}, temporary {}{}\n",
        share(value, total),
        count(costs.allocated.blocks),
        estimated_from(costs.samples),
        output::bytes(costs.peak.bytes as f64),
        output::bytes(costs.leaked.bytes as f64),
        share(costs.temporary.blocks, costs.allocated.blocks),
        costs
            .mean_lifetime_ns()
            .map(|ns| format!(", mean lifetime {}", nanoseconds(ns)))
            .unwrap_or_default(),
    );
    with_frames(style.screen.fill(&text), sample, profile, style)
}

/// Few samples make a rough estimate: one may stand for megabytes.
fn estimated_from(samples: u64) -> String {
    match samples {
        0 => String::new(),
        1 => ", by 1 sample".into(),
        more => format!(", by {} samples", count(more)),
    }
}

/// A line about a stack, and the stack.
fn with_frames(mut text: String, sample: &Sample, profile: &Profile, style: Style) -> String {
    if style.format == Format::Md {
        text = format!("- {text}\n```\n");
    }
    for frame in sample.frames.iter().take(style.depth) {
        let _ = writeln!(text, "    {}", place(&profile.frames[*frame as usize]));
    }
    let more = sample.frames.len().saturating_sub(style.depth);
    if more > 0 {
        let _ = writeln!(text, "    ... {more} more frames (--depth)");
    }
    if sample.frames.is_empty() {
        text += "    (no stack)\n";
    }
    if style.format == Format::Md { text + "```\n" } else { text }
}

fn difference(report: &Report, style: Style) -> String {
    let Some(difference) = &report.difference else { return String::new() };
    let show = |value: u64, unit: &str| match unit {
        "bytes" => output::bytes(value as f64),
        _ => count(value),
    };
    let mut table = Table::new(&[("", false), ("before", true), ("after", true), ("change", true)]);
    for total in &difference.totals {
        table.rows.push(vec![
            total.name.into(),
            show(total.before, total.unit),
            show(total.after, total.unit),
            change(total.before, total.after),
        ]);
    }
    let title = format!("Against {}", difference.other.display());
    let mut text = section(&title, &table.render(style.format, style.screen), style);
    for changed in difference.stacks.iter().filter(|stacks| stacks.metric == style.by) {
        let mut table =
            Table::new(&[("before", true), ("after", true), ("change", true), ("stack", false)]);
        for stack in changed.changes.iter().take(style.top) {
            table.rows.push(vec![
                show(stack.before, changed.metric.unit()),
                show(stack.after, changed.metric.unit()),
                change(stack.before, stack.after),
                innermost(&stack.stack, style.depth),
            ]);
        }
        let title = format!("Stacks that changed most, by {}", changed.metric.name());
        text += &section(&title, &table.render(style.format, style.screen), style);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_joined_without_loss() {
        let bucket = |low, high| Bucket { low, high, calls: 1, bytes: 1 };
        let fine = [bucket(0, 0), bucket(8, 9), bucket(10, 11), bucket(16, 19)];
        let joined = doublings(&fine);
        let ranges: Vec<(u64, u64, u64)> =
            joined.iter().map(|b| (b.low, b.high, b.calls)).collect();
        assert_eq!(ranges, [(0, 0, 1), (8, 15, 2), (16, 31, 1)]);
        assert_eq!(coarser(&joined, 3).iter().map(|b| b.calls).sum::<u64>(), 4);
    }

    #[test]
    fn notes_fit_the_screen() {
        let style = |width| Style {
            format: Format::Table,
            screen: Screen { unicode: false, width },
            top: 1,
            depth: 1,
            by: Metric::Bytes,
        };
        let all = ["many words ".repeat(20).trim_end().to_owned(), "a second note".to_owned()];
        let narrow = notes(&all, style(Some(60)));
        assert!(narrow.lines().all(|line| line.len() <= 60), "{narrow}");
        let whole = notes(&all, style(None));
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&narrow), words(&whole));
        assert_eq!(whole.lines().count(), 4, "{whole}");
        assert_eq!(notes(&[], style(Some(60))), "");
    }

    #[test]
    fn an_estimate_says_how_many_samples_it_has() {
        let all = [0, 1, 2500].map(estimated_from);
        assert_eq!(all, ["", ", by 1 sample", ", by 2,500 samples"]);
    }
}
