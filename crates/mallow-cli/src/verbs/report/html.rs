// SPDX-License-Identifier: MIT
//! The report as one HTML file that needs nothing else: its script draws from the data in it.

use mallow_report::Profile;
use mallow_report::flame::{self, Node};
use maud::{Markup, html};
use serde::Serialize;

use super::Report;
use crate::error::{Error, Result};
use crate::output::chart::{Chart, Line};
use crate::output::html::{Page, Script};

const SCRIPTS: [&str; 2] = [include_str!("page.js"), include_str!("flame.js")];

#[derive(Serialize)]
struct Data<'a> {
    #[serde(flatten)]
    report: &'a Report<'a>,
    flame: Node,
}

pub fn page(report: &Report, profile: &Profile, other: Option<&Profile>) -> Result<String> {
    let data = Data { report, flame: flame::tree(profile, other) };
    let data = serde_json::to_value(&data).map_err(|error| Error::Internal(error.to_string()))?;
    let title = format!("mallow report: {}", report.summary.recording.command.join(" "));
    let script = Script { name: "mallow report", code: &SCRIPTS, data: &data };
    let version = env!("CARGO_PKG_VERSION");
    let body = html! {
        div #report {
            noscript { "This report is drawn by a script inside this file; please allow it." }
        }
        (over_time(report))
    };
    Ok(Page { title: &title, body, version, script: Some(script) }.render())
}

/// The chart, for the script to put into its place; nothing where nothing happened.
fn over_time(report: &Report) -> Markup {
    let timeline = &report.summary.timeline;
    if timeline.steps.is_empty() || report.summary.totals.calls == 0 {
        return html! {};
    }
    let seconds = |ns: u64| ns as f64 / 1e9;
    let step = seconds(timeline.step_ns);
    let middle = |index: usize| (index as f64 + 0.5) * step;
    let steps = || timeline.steps.iter().enumerate();
    let live = steps().map(|(index, step)| (middle(index), step.live_bytes as f64)).collect();
    let rss = |(index, step): (usize, &mallow_report::Step)| {
        Some((middle(index), step.rss_bytes? as f64))
    };
    let rss: Vec<(f64, f64)> = steps().filter_map(rss).collect();
    let mut lines = vec![Line { name: "live bytes".into(), points: live }];
    if !rss.is_empty() {
        lines.push(Line { name: "resident memory (RSS)".into(), points: rss });
    }
    let rates: Vec<f64> = steps().map(|(_, s)| s.allocations as f64 / step).collect();
    let marks = report.summary.markers.iter();
    let mut marks: Vec<(f64, String)> =
        marks.map(|mark| (seconds(mark.time_ns), mark.text.clone())).collect();
    // The time of all steps, which the bars share.
    marks.retain(|mark| mark.0 <= middle(timeline.steps.len()));
    let chart = Chart {
        title: "Live bytes, resident memory and allocations over time",
        lines: &lines,
        is_filled: true,
        rates: Some(("allocations a second", &rates)),
        marks: &marks,
        end: Some(step * timeline.steps.len() as f64),
    };
    html! { template #over-time { (chart.figure()) } }
}
