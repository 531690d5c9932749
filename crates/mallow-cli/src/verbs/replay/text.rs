// SPDX-License-Identifier: MIT
//! The result of `replay` as tables.

use mallow_launch::words;
use mallow_measure::verdict::{Metric, Versus};
use mallow_replay::fidelity::Fidelity;
use mallow_stats::figures::counted;
use maud::html;

use super::report::{Entry, Latencies, Report};
use crate::output::html::{self, Page};
use crate::output::{self, Format, Screen, Table};
use crate::output::{clean, wording};

impl Report {
    pub fn text(&self, format: Format, screen: Screen) -> String {
        if format == Format::Csv {
            return self.csv().render(Format::Csv, Screen::PLAIN);
        }
        let coverage = &self.process.coverage;
        let mut text = format!(
            "{}\n{}\n{} of {}, {} at most at once, recorded in {}\n",
            words::line(&self.command),
            wording::machine(&self.machine),
            counted(coverage.calls, "call"),
            counted(self.process.lanes.into(), "thread"),
            output::bytes(self.process.peak_live_bytes as f64),
            output::seconds(self.process.duration_ns as f64 / 1e9)
        );
        text += &format!("Fidelity: {}.\n\n", fidelity_line(&self.fidelity));
        text = screen.fill(&text);
        let (memory, speed) = (self.memory_table(), self.speed_table());
        if self.settings.mode != "free" {
            text += &memory.render(format, screen);
            text.push('\n');
        }
        if self.settings.mode != "lockstep" {
            text += &speed.render(format, screen);
            text.push('\n');
        }
        for entry in &self.entries {
            if let Some(failure) = &entry.failure {
                text += &format!("{}: {failure}.\n", entry.who.allocator);
            }
        }
        if let Some(verdict) = &self.verdict {
            text += &screen.fill(&format!("{verdict}\n"));
        }
        text
    }

    /// The same tables as a page.
    pub fn page(&self) -> String {
        let title = format!("mallow replay: {}", words::line(&self.command));
        let verdict = self.verdict.as_deref().unwrap_or("Nothing can be said of the others.");
        let fidelity = fidelity_line(&self.fidelity);
        let failed = self.entries.iter().filter_map(|entry| Some((entry, entry.failure.as_ref()?)));
        let body = html! {
            (html::head("mallow replay", Some(&words::line(&self.command)), verdict))
            p.quiet { "Fidelity: " (clean::line(&fidelity)) "." }
            @if self.settings.mode != "free" {
                h2 { "Memory" }
                (html::table(&self.memory_table()))
            }
            @if self.settings.mode != "lockstep" {
                h2 { "Speed" }
                (html::table(&self.speed_table()))
            }
            @for (entry, failure) in failed {
                p.worse { (clean::line(&format!("{}: {failure}.", entry.who.allocator))) }
            }
            p.quiet { (clean::line(&wording::machine(&self.machine))) }
        };
        Page { title: &title, body, version: self.version, script: None }.render()
    }

    fn memory_table(&self) -> Table {
        let mut table = Table::new(&[
            ("allocator", false),
            ("peak RSS", true),
            ("average RSS", true),
            ("final RSS", true),
            ("faults", true),
            ("memory calls", true),
            ("peak against baseline", false),
        ]);
        for entry in &self.entries {
            table.rows.push(vec![
                entry.who.allocator.clone(),
                spread(&entry.peak_rss, output::bytes),
                wording::median(&entry.average_rss, output::bytes),
                wording::median(&entry.final_rss, output::bytes),
                wording::median(&entry.faults, |count| format!("{count:.0}")),
                entry.memory_calls.map_or("-".into(), |count| count.to_string()),
                entry.versus(&entry.memory, "memory"),
            ]);
            table.set_tone(6, wording::tone(&entry.memory));
        }
        table
    }

    fn speed_table(&self) -> Table {
        let mut table = Table::new(&[
            ("allocator", false),
            ("time", true),
            ("calls/s", true),
            ("malloc p50", true),
            ("p99", true),
            ("p99.9", true),
            ("free p50", true),
            ("p99", true),
            ("p99.9", true),
            ("time against baseline", false),
        ]);
        for entry in &self.entries {
            let mut row = vec![
                entry.who.allocator.clone(),
                spread(&entry.wall_s, output::seconds),
                wording::median(&entry.calls_per_s, |rate| format!("{:.2} M", rate / 1e6)),
            ];
            for latencies in [&entry.allocate, &entry.free] {
                let percentile = |pick: fn(&Latencies) -> &Metric| {
                    latencies.as_ref().map_or("-".into(), |all| nanoseconds(pick(all).median))
                };
                row.push(percentile(|all| &all.p50_ns));
                row.push(percentile(|all| &all.p99_ns));
                row.push(percentile(|all| &all.p999_ns));
            }
            row.push(entry.versus(&entry.time, "time"));
            table.rows.push(row);
            table.set_tone(9, wording::tone(&entry.time));
        }
        table
    }

    fn csv(&self) -> Table {
        let mut table = Table::new(&[
            ("allocator", false),
            ("wall_s", true),
            ("calls_per_s", true),
            ("malloc_p50_ns", true),
            ("malloc_p99_ns", true),
            ("malloc_p999_ns", true),
            ("free_p50_ns", true),
            ("free_p99_ns", true),
            ("free_p999_ns", true),
            ("peak_rss", true),
            ("average_rss", true),
            ("final_rss", true),
            ("faults", true),
            ("memory_calls", true),
            ("time_ratio", true),
            ("memory_ratio", true),
        ]);
        for entry in &self.entries {
            let mut row = vec![
                entry.who.allocator.clone(),
                wording::plain_median(&entry.wall_s),
                wording::plain_median(&entry.calls_per_s),
            ];
            for all in [&entry.allocate, &entry.free] {
                let percentile = |pick: fn(&Latencies) -> &Metric| {
                    wording::number(all.as_ref().map(|all| pick(all).median))
                };
                row.push(percentile(|all| &all.p50_ns));
                row.push(percentile(|all| &all.p99_ns));
                row.push(percentile(|all| &all.p999_ns));
            }
            row.extend([
                wording::plain_median(&entry.peak_rss),
                wording::plain_median(&entry.average_rss),
                wording::plain_median(&entry.final_rss),
                wording::plain_median(&entry.faults),
                entry.memory_calls.map_or(String::new(), |count| count.to_string()),
                wording::plain_ratio(&entry.time),
                wording::plain_ratio(&entry.memory),
            ]);
            table.rows.push(row);
        }
        table
    }
}

impl Entry {
    fn versus(&self, versus: &Option<Versus>, metric: &str) -> String {
        match versus {
            Some(versus) => wording::verdict(versus, metric),
            None if self.failure.is_some() => "failed".into(),
            None if self.who.is_baseline => "baseline".into(),
            None => "not ranked".into(),
        }
    }
}

/// The median, and how far the farthest round lies from it.
fn spread(metric: &Option<Metric>, form: fn(f64) -> String) -> String {
    let Some(Metric { median, min, max, .. }) = metric else { return "-".into() };
    let percent = 100.0 * (max - median).max(median - min) / median;
    format!("{} +- {percent:.1} %", form(*median))
}

fn nanoseconds(value: f64) -> String {
    if value < 9_999.5 { format!("{value:.0} ns") } else { output::seconds(value / 1e9) }
}

/// How the replay compares with the recorded run, in a sentence.
fn fidelity_line(fidelity: &Fidelity) -> String {
    let coverage = &fidelity.coverage;
    let memory = match (fidelity.rss_error, fidelity.other_memory) {
        (Some(error), Some(other)) => format!(
            "peak {:.1} % off the recorded run on {} at {} measurements, beside {} that is not heap",
            error * 100.0,
            fidelity.allocator,
            fidelity.samples,
            output::bytes(other.max(0.0))
        ),
        (Some(error), None) => format!(
            "peak {:.1} % off that of the recorded run on {}, which was too short to compare at more \
             moments",
            error * 100.0,
            fidelity.allocator,
        ),
        (None, _) => "memory not compared".into(),
    };
    format!(
        "{memory}; {:.2} % of {} missing ({} dropped, {} frees of unknown blocks, {} frees \
         unseen)",
        fidelity.missing * 100.0,
        counted(coverage.calls + coverage.dropped, "call"),
        coverage.dropped,
        coverage.unmatched_frees,
        coverage.lost_frees
    )
}
