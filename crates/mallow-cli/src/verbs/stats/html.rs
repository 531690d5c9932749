// SPDX-License-Identifier: MIT
//! The report as one page that needs nothing else.

use maud::html;

use super::report::Report;
use super::text::{self, Sections, size};
use crate::output::chart::{self, Line};
use crate::output::html::{self, Page};

pub fn page(report: &Report) -> String {
    let title = format!("mallow stats: {}", report.source);
    let sections = Sections { arenas: true, classes: true, locks: true, options: true, all: false };
    let tables = text::tables(&report.stats, sections, size);
    let body = html! {
        (html::head(&title, None, &text::sentence(report)))
        (html::notes(&report.stats.missing))
        @if report.samples.len() > 1 { (chart::svg("Memory over time", &lines(report))) }
        (html::table(&text::totals_table(&report.stats.totals, size)))
        @for (title, table) in tables.iter().filter(|(_, table)| !table.rows.is_empty()) {
            (html::details(title, table, false))
        }
    };
    Page { title: &title, body, version: report.version, script: None }.render()
}

fn lines(report: &Report) -> Vec<Line> {
    let line = |name: &str, of: fn(&mallow_stats::Totals) -> Option<u64>| Line {
        name: name.into(),
        points: report
            .samples
            .iter()
            .filter_map(|sample| Some((sample.time_s, of(&sample.totals)? as f64)))
            .collect(),
    };
    vec![
        line("resident", |totals| totals.resident),
        line("allocated", |totals| totals.allocated),
        line("dirty", |totals| totals.dirty),
    ]
}
