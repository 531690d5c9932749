// SPDX-License-Identifier: MIT
//! `mallow config`: which settings hold, and where each comes from.

mod args;

use serde::Serialize;

use crate::config::{Config, Key, Source, Value};
use crate::error::{Error, Result};
use crate::output::{Format, Page, Screen, Table};
pub use args::ConfigArgs;

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    /// The weakest first.
    files: Vec<File>,
    settings: Vec<Setting>,
}

#[derive(Serialize)]
struct File {
    path: String,
    is_read: bool,
}

#[derive(Serialize)]
struct Setting {
    name: String,
    /// Several for a list; `null` where the setting has no value.
    values: Option<Vec<String>>,
    source: &'static str,
    /// The variable that holds the value, or may hold one.
    variable: String,
    file: Option<String>,
    line: Option<usize>,
}

pub fn main(args: &ConfigArgs, config: &Config) -> Result<u8> {
    args.output.check()?;
    let wanted = |key: &Key| match &args.only {
        Some(only) => key.verb.as_ref() == Some(only) || key.name() == *only,
        None => true,
    };
    let settings: Vec<Setting> = config
        .all()
        .filter(|(key, _)| wanted(key))
        .map(|(key, value)| setting(key, value))
        .collect();
    if let (Some(only), true) = (&args.only, settings.is_empty()) {
        return Err(Error::Usage(format!(
            "There is no verb and no setting {only}. mallow config lists all."
        )));
    }
    let files = config.files.iter();
    let files =
        files.map(|(path, is_read)| File { path: shown(path), is_read: *is_read }).collect();
    let report = Report { schema: "mallow.config/1", files, settings };
    args.output.write(&report, || report.page(), |format, screen| report.text(format, screen))?;
    Ok(0)
}

fn shown(path: &std::path::Path) -> String {
    path.display().to_string()
}

fn setting(key: &Key, value: Option<Value>) -> Setting {
    let source = value.as_ref().map(|value| &value.source);
    let (file, line) = match source {
        Some(Source::File { path, line }) => (Some(shown(path)), Some(*line)),
        _ => (None, None),
    };
    let name = match source {
        None => "unset",
        Some(Source::BuiltIn) => "default",
        Some(Source::File { .. }) => "file",
        Some(Source::Variable(_)) => "environment",
        Some(Source::CommandLine) => "command line",
    };
    let values = value.map(|value| value.values);
    Setting { name: key.name(), values, source: name, variable: key.variable(), file, line }
}

impl Setting {
    fn value(&self) -> String {
        self.values.as_ref().map_or("-".into(), |values| values.join(","))
    }

    fn origin(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{file}, line {line}"),
            _ if self.source == "environment" => self.variable.clone(),
            _ => self.source.into(),
        }
    }
}

impl Report {
    fn table(&self) -> Table {
        let mut table = Table::new(&[("setting", false), ("value", false), ("from", false)]);
        for setting in &self.settings {
            table.rows.push(vec![setting.name.clone(), setting.value(), setting.origin()]);
        }
        table
    }

    /// The files, in the order in which they are read.
    fn sentence(&self) -> String {
        let file = |file: &File| {
            format!("{} ({})", file.path, if file.is_read { "read" } else { "not there" })
        };
        let files: Vec<String> = self.files.iter().map(file).collect();
        format!(
            "Files, the strongest last: {}. Variables are stronger, flags the strongest.",
            files.join(", ")
        )
    }

    fn text(&self, format: Format, screen: Screen) -> String {
        let table = self.table().render(format, screen);
        match format {
            Format::Csv => table,
            _ => format!("{table}\n{}\n", screen.fill(&self.sentence())),
        }
    }

    fn page(&self) -> String {
        Page::of_table("mallow config", &self.sentence(), &self.table())
    }
}
