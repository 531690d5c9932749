//! The report as one page that needs nothing else.

use std::fmt::Write as _;

use super::report::Report;
use super::text::{self, Sections, size};
use crate::output::chart::{self, Line};
use crate::output::html::{self, Page, escape};

pub fn page(report: &Report) -> String {
    let title = format!("mallow stats: {}", report.source);
    let mut body = html::head(&title, None, &text::sentence(report));
    for sentence in &report.stats.missing {
        let _ = writeln!(body, "<p class=\"quiet\">{}</p>", escape(sentence));
    }
    if report.samples.len() > 1 {
        body += &chart::svg("Memory over time", &lines(report));
    }
    body += &html::table(&text::totals_table(&report.stats.totals, size));
    let sections = Sections { arenas: true, classes: true, locks: true, options: true, all: false };
    for (title, table) in text::tables(&report.stats, sections, size) {
        if !table.rows.is_empty() {
            let _ = writeln!(
                body,
                "<details><summary>{title}</summary>{}</details>",
                html::table(&table).trim_end()
            );
        }
    }
    Page { title: &title, body: &body, version: report.version, script: None }.render()
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
