// SPDX-License-Identifier: MIT
//! The list for whoever has no screen: a table, or JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use mallow_process::processes::{Collector, Memory, Row};
use mallow_stats::figures::counted;
use serde::Serialize;

use super::args::Units;
use super::columns;
use super::view::Place;
use crate::error::{Error, Result};
use crate::output::{self, Format, Screen, Table};

#[derive(Serialize)]
pub struct Report<'a> {
    schema: &'static str,
    version: &'static str,
    /// In seconds since 1970.
    at_s: f64,
    /// Processes of which nothing at all may be seen.
    hidden: usize,
    memory_total: u64,
    memory_available: u64,
    processes: Vec<&'a Row>,
}

impl<'a> Report<'a> {
    pub fn new(collector: &Collector, rows: &'a [Row], places: &[Place]) -> Report<'a> {
        let at = SystemTime::now().duration_since(UNIX_EPOCH);
        let Memory { total, available } = collector.memory;
        Report {
            schema: "mallow.top/1",
            version: env!("CARGO_PKG_VERSION"),
            at_s: at.map_or(0.0, |at| at.as_secs_f64()),
            hidden: collector.hidden,
            memory_total: total,
            memory_available: available,
            processes: places.iter().map(|place| &rows[place.row]).collect(),
        }
    }

    /// On one line, where one follows another.
    pub fn line(&self) -> Result<String> {
        let text = serde_json::to_string(self);
        text.map(|text| text + "\n").map_err(|error| Error::Internal(error.to_string()))
    }
}

/// How many there are, and what of the machine's memory is in use.
pub fn summary(collector: &Collector, rows: &[Row], shown: usize) -> String {
    let of_mallow = |row: &&Row| row.allocator.as_deref().is_some_and(|a| a.starts_with("mallow"));
    let mallow = rows.iter().filter(of_mallow).count();
    let mut text = if shown == rows.len() {
        counted(shown as u64, "process")
    } else {
        format!("{shown} of {}", counted(rows.len() as u64, "process"))
    };
    text += &format!(", {mallow} with Mallow");
    if collector.hidden > 0 {
        text += &format!(", {} hidden by /proc's hidepid", collector.hidden);
    }
    let Memory { total, available } = collector.memory;
    if total > 0 {
        let size = |bytes: u64| output::bytes(bytes as f64);
        text += &format!("; {} of {} used", size(total.saturating_sub(available)), size(total));
    }
    text
}

const COLUMNS: [(&str, bool); 11] = [
    ("PID", true),
    ("user", false),
    ("allocator", false),
    ("RSS", true),
    ("live", true),
    ("free", true),
    ("read", true),
    ("rate", true),
    ("room", true),
    ("name", false),
    ("why no heap", false),
];

pub fn table(rows: &[Row], places: &[Place], units: Units, format: Format) -> Table {
    let is_plain = format == Format::Csv;
    let units = if is_plain { Units::Bytes } else { units };
    let size = |value: Option<u64>| match value {
        Some(value) if units == Units::Auto => output::bytes(value as f64),
        Some(value) => columns::size(value, units),
        None if is_plain => String::new(),
        None => "-".into(),
    };
    let mut table = Table::new(&COLUMNS);
    for place in places {
        let row = &rows[place.row];
        let rate = match row.rss_per_s {
            Some(rate) if is_plain => format!("{rate:.0}"),
            Some(rate) => columns::rate(rate, units),
            None => size(None),
        };
        let age = match row.heap_age_s {
            Some(age) if is_plain => format!("{age:.1}"),
            age => age.map_or(String::new(), columns::age),
        };
        table.rows.push(vec![
            row.pid.to_string(),
            row.user.clone(),
            row.allocator.clone().unwrap_or_default(),
            size(Some(row.rss)),
            size(row.live),
            size(row.free),
            age,
            rate,
            size(row.limit.map(|limit| limit.room)),
            format!("{}{}", place.branch, row.name),
            row.why_no_heap.map_or("", |why| why.short()).to_owned(),
        ]);
    }
    table
}

pub fn text(summary: &str, table: &Table, format: Format, screen: Screen) -> String {
    match format {
        Format::Csv => table.render(format, screen),
        _ => format!("{}\n\n{}", screen.fill(summary), table.render(format, screen)),
    }
}
