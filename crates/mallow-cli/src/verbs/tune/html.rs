// SPDX-License-Identifier: MIT
//! The result of `tune` as one HTML file that needs nothing else: no script, no network.

use maud::{Markup, html};

use super::report::{Entry, Figures, Report, Standing};
use crate::output::chart::place;
use crate::output::clean;
use crate::output::html::{self, Page};
use crate::output::scale::{Quantity, Scale};
use crate::output::{self, Table};

// The picture, in SVG units.
const LEFT: f64 = 80.0;
const TOP: f64 = 14.0;
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 360.0;
const BOTTOM: f64 = 44.0;
const RIGHT: f64 = 40.0;
/// Names stand on the left of points beyond this part of the width.
const TURN: f64 = 0.62;
/// Names closer than this would lie on each other.
const LINE: f64 = 14.0;

pub fn page(report: &Report) -> String {
    let title = format!("mallow tune: {}", report.command);
    let body = html! {
        (html::head("mallow tune", Some(&report.command), &report.verdict))
        @if let (Some(line), Some(try_it)) = (&report.line, &report.try_it) {
            p { "Set " code { (clean::line(line)) } }
            p { "Try it: " code { (clean::line(try_it)) } }
        }
        @if let Some(note) = report.ground_note() { p.quiet { (note) } }
        (picture(report))
        h2 { "Settings" }
        (html::table(&report.table()))
        (reasons(report))
        (method(report))
    };
    Page { title: &title, body, version: report.version, script: None }.render()
}

struct Point<'a> {
    name: &'a str,
    time: f64,
    memory: f64,
    class: &'static str,
    is_on_front: bool,
    is_proven: bool,
    /// The memory is an upper limit of what it was.
    is_bound: bool,
}

/// What was confirmed stands where it was measured; what was searched only, where its ratios put it.
fn points(report: &Report) -> Vec<Point<'_>> {
    let medians = |figures: &Figures| (figures.wall_s.median, figures.peak_rss.median);
    let Some(base) = report.entries.first().and_then(|entry| entry.confirmed.as_ref()).map(medians)
    else {
        return Vec::new();
    };
    let point = |(index, entry): (usize, &'_ Entry)| {
        let found = entry.confirmed.as_ref().map(medians);
        let searched = entry.searched.map(|s| (base.0 * s.time_ratio, base.1 * s.memory_ratio));
        let (time, memory) = found.or(searched)?;
        let class = match entry.standing {
            Standing::Defaults => "point base",
            _ if report.chosen == Some(index) => "point chosen",
            _ if found.is_some() => "point",
            _ => "point faint",
        };
        Some((time, memory, class, found.is_some()))
    };
    let entries = report.entries.iter().enumerate();
    entries
        .filter_map(|(index, entry)| {
            let (time, memory, class, is_proven) = point((index, entry))?;
            let (name, is_on_front) = (entry.settings.as_str(), entry.is_on_front);
            let is_bound = entry.is_peak_of_start();
            Some(Point { name, time, memory, class, is_on_front, is_proven, is_bound })
        })
        .collect()
}

/// Time to the right, memory upwards: the best is at the lower left.
fn picture(report: &Report) -> Markup {
    let points = points(report);
    let axes = Scale::over(points.iter().map(|point| &point.time))
        .zip(Scale::over(points.iter().map(|point| &point.memory)));
    let Some((times, memories)) = axes else { return html! {} };
    let x = |time: f64| LEFT + WIDTH * times.part(time);
    let y = |memory: f64| TOP + HEIGHT * (1.0 - memories.part(memory));
    let mut front: Vec<&Point> = points.iter().filter(|point| point.is_on_front).collect();
    front.sort_by(|a, b| a.time.total_cmp(&b.time));
    let line: Vec<String> =
        front.iter().map(|p| format!("{:.1},{:.1}", x(p.time), y(p.memory))).collect();
    let labels = labels(&points, &x, &y);
    let view = format!("0 0 {} {}", LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM);
    let title = "Time and peak RSS: medians, lower left is better";
    html! {
        figure {
            figcaption { (title) }
            svg viewBox=(view) role="img" aria-label=(title) {
                @for tick in times.ticks(Quantity::Seconds) {
                    line.grid x1=(place(x(tick))) x2=(place(x(tick))) y1=(TOP)
                        y2=(TOP + HEIGHT) {}
                    text.tick x=(place(x(tick))) y=(place(TOP + HEIGHT + 18.0)) {
                        (Quantity::Seconds.show(tick))
                    }
                }
                @for tick in memories.ticks(Quantity::Bytes) {
                    line.grid x1=(LEFT) x2=(place(LEFT + WIDTH)) y1=(place(y(tick)))
                        y2=(place(y(tick))) {}
                    text.axis x=(place(LEFT - 8.0)) y=(place(y(tick) + 4.0)) {
                        (Quantity::Bytes.show(tick))
                    }
                }
                polyline.front points=(line.join(" ")) {}
                @for (point, label) in points.iter().zip(&labels) {
                    g class=(point.class) {
                        title {
                            (clean::line(point.name)) ": " (output::seconds(point.time)) ", "
                            @if point.is_bound { "less than " }
                            (output::bytes(point.memory))
                            @if !point.is_proven { ", searched only" }
                        }
                        circle cx=(place(x(point.time))) cy=(place(y(point.memory))) r="5" {}
                        @if let Some((x, y, anchor)) = label {
                            text x=(place(*x)) y=(place(*y)) text-anchor=(anchor) {
                                (clean::line(point.name))
                            }
                        }
                    }
                }
            }
            p.quiet {
                "Filled: confirmed. Hollow: searched only, no proof. The line joins what no other \
                 beats in both."
            }
        }
    }
}

type Label = Option<(f64, f64, &'static str)>;

/// Where the names stand: beside their points, and not on each other; those of what was only searched
/// are told by the pointer alone.
fn labels(points: &[Point], x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) -> Vec<Label> {
    let mut taken: Vec<f64> = Vec::new();
    let label = |point: &Point| {
        if !point.is_proven {
            return None;
        }
        let (at, mut line) = (x(point.time), y(point.memory) + 4.0);
        while taken.iter().any(|other| (other - line).abs() < LINE) {
            line += LINE;
        }
        taken.push(line);
        let is_right = at > LEFT + WIDTH * TURN;
        let (at, anchor) = if is_right { (at - 10.0, "end") } else { (at + 10.0, "start") };
        Some((at, line, anchor))
    };
    points.iter().map(label).collect()
}

fn reasons(report: &Report) -> Markup {
    let mut table =
        Table::new(&[("settings", false), ("why they may help", false), ("set by", false)]);
    for entry in report.entries.iter().filter(|entry| entry.standing != Standing::Defaults) {
        let set = entry.environment.iter().map(|(name, value)| format!("{name}={value}"));
        let set = set.collect::<Vec<_>>().join(" ");
        table.rows.push(vec![entry.settings.clone(), entry.why.clone(), set]);
    }
    html::details("What was tried, and why", &table, false)
}

fn method(report: &Report) -> Markup {
    let settings = &report.settings;
    html! {
        section {
            h2 { "How this was found" }
            p { (clean::line(&report.headline())) ". " (report.machine.cpu) "." }
            p {
                "All settings ran a few rounds beside the defaults, and the better half by time and \
                 memory went on with twice as many, until three were left; these were joined in \
                 pairs too. The search proves nothing: of many settings some look better by chance. \
                 So the best ran again beside the defaults, in random order (seed " (settings.seed)
                "), and only those fresh runs are judged: by a paired rank test, with differences of \
                 at least " (settings.margin_percent) " %. Each interval holds with "
                (format!("{:.2}", settings.confidence * 100.0))
                " %, so that all of them together hold with 95 %."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::{entry, settings};
    use super::super::report::{End, Ground};
    use super::*;
    use mallow_measure::statistics::Verdict::{Less, More};

    #[test]
    fn names_are_escaped_and_points_drawn() {
        let versus = super::super::report::tests::versus;
        let entries = vec![
            entry("defaults", None, None),
            entry("<a>:1", versus(Less, 0.8), versus(More, 1.5)),
        ];
        let report = Report {
            schema: "mallow.tune/1",
            version: "1",
            allocator: "x".into(),
            allocator_version: None,
            command: "</title><b>".into(),
            trace: None,
            searched_on: Ground::Command,
            confirmed_on: Ground::Replay,
            machine: mallow_measure::machine::Machine::read(),
            settings: settings(),
            constraints: Vec::new(),
            entries,
            chosen: Some(1),
            line: Some("A=1".into()),
            try_it: Some("A=1 ls".into()),
            verdict: "v".into(),
            end: End::Found,
        };
        let page = page(&report);
        assert!(page.contains("&lt;a&gt;:1") && !page.contains("<a>") && !page.contains("<b>"));
        assert_eq!(page.matches("<circle").count(), 2);
        assert!(page.contains("recorded calls alone"), "{page}");
    }
}
