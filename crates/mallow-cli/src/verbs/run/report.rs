// SPDX-License-Identifier: MIT
//! What a command would get: as data, as a table, as a line for a shell.

use std::collections::BTreeMap;
use std::ffi::OsString;

use mallow_launch::preload::Changes;
use mallow_launch::words::quoted;
use serde::Serialize;

use crate::output::{Format, Page, Screen, Table};

#[derive(Debug, Serialize)]
pub struct Report {
    schema: &'static str,
    allocator: String,
    /// Variables with their values.
    set: BTreeMap<String, String>,
    /// Variables that are taken away.
    unset: Vec<String>,
    command: Vec<String>,
    /// All of it as a shell understands it.
    line: String,
}

impl Report {
    pub fn new(allocator: &str, changes: &Changes, command: &[OsString]) -> Report {
        let shown = |word: &OsString| word.to_string_lossy().into_owned();
        let unset = changes.iter().filter(|(_, value)| value.is_none());
        let set = changes.iter().filter_map(|(name, value)| Some((name.clone(), value.as_ref()?)));
        Report {
            schema: "mallow.run/1",
            allocator: allocator.to_owned(),
            set: set.map(|(name, value)| (name, shown(value))).collect(),
            unset: unset.map(|(name, _)| name.clone()).collect(),
            command: command.iter().map(shown).collect(),
            line: line(changes, command),
        }
    }

    pub fn text(&self, format: Format, screen: Screen) -> String {
        match format {
            Format::Csv | Format::Md => self.table().render(format, screen),
            _ => self.line.clone() + "\n",
        }
    }

    pub fn page(&self) -> String {
        Page::of_table("mallow run", &self.line, &self.table())
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[("variable", false), ("value", false)]);
        table.rows.extend(self.set.iter().map(|(name, value)| vec![name.clone(), value.clone()]));
        table.rows.extend(self.unset.iter().map(|name| vec![name.clone(), "(unset)".into()]));
        table
    }
}

fn line(changes: &Changes, command: &[OsString]) -> String {
    let mut words = Vec::new();
    let (set, unset): (Vec<_>, Vec<_>) = changes.iter().partition(|(_, value)| value.is_some());
    if !unset.is_empty() {
        words.push("env".to_owned());
        words.extend(unset.iter().flat_map(|(name, _)| ["-u".to_owned(), name.clone()]));
    }
    for (name, value) in set {
        words.push(format!("{name}={}", quoted(&value.clone().unwrap_or_default())));
    }
    words.extend(command.iter().map(|word| quoted(word)));
    words.join(" ")
}
