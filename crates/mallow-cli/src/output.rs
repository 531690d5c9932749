//! Where results and notes go: results to stdout or a file, notes and progress to stderr.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table as Drawn, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::{Format, OutputArgs};
use crate::error::{Error, Result};

/// Sentences for the user, on stderr unless `--quiet`.
#[derive(Clone, Copy, Debug)]
pub struct Notes {
    pub quiet: bool,
}

impl Notes {
    pub fn note(self, sentence: &str) {
        if !self.quiet {
            eprintln!("mallow: {sentence}");
        }
    }

    /// A bar on stderr; hidden off a terminal, in CI, for a dumb terminal and when quiet.
    pub fn progress(self, length: u64) -> ProgressBar {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let hidden = self.quiet
            || dumb
            || std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
            || !std::io::stderr().is_terminal();
        let target =
            if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let template = if colour_wanted() {
            "{bar:30.cyan} {pos}/{len} {msg}"
        } else {
            "{bar:30} {pos}/{len} {msg}"
        };
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::with_draw_target(Some(length), target).with_style(style)
    }
}

fn colour_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Unicode only on a terminal, and only where the locale has it.
pub fn unicode_wanted(output: &OutputArgs) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .unwrap_or_default()
        .to_ascii_lowercase();
    let utf8 = locale.contains("utf-8") || locale.contains("utf8");
    output.file.is_none() && std::io::stdout().is_terminal() && utf8
}

/// Writes a whole result. A reader that has gone away (`| head`) is not an error.
pub fn write_result(output: &OutputArgs, text: &str) -> Result<()> {
    match &output.file {
        Some(path) => write_file(path, text),
        None => {
            let written = std::io::stdout().write_all(text.as_bytes());
            match written.and_then(|()| std::io::stdout().flush()) {
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    Err(Error::Io { what: "The result cannot be written".into(), source: error })
                }
                _ => Ok(()),
            }
        }
    }
}

pub fn write_file(path: &Path, text: &str) -> Result<()> {
    File::create(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(Error::io(format!("The result cannot be written to {}", path.display())))
}

/// Fails before any work is done if the file cannot be written.
pub fn check_writable(path: &Path) -> Result<()> {
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .map(drop)
        .map_err(Error::io(format!("The result cannot be written to {}", path.display())))
}

/// A table of text that can be drawn, or written as CSV or Markdown.
#[derive(Clone, Debug)]
pub struct Table {
    /// The heading, and whether the column holds numbers.
    pub columns: Vec<(&'static str, bool)>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[(&'static str, bool)]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub fn render(&self, format: Format, unicode: bool) -> String {
        match format {
            Format::Csv => self.csv(),
            Format::Md => self.markdown(),
            _ => self.draw(unicode),
        }
    }

    fn draw(&self, unicode: bool) -> String {
        let mut table = Drawn::new();
        table.load_preset(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(self.columns.iter().map(|(name, _)| *name));
        for row in &self.rows {
            table.add_row(row);
        }
        for (index, (_, number)) in self.columns.iter().enumerate() {
            if let Some(column) = table.column_mut(index).filter(|_| *number) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let drawn = table.to_string();
        let mut lines: Vec<String> = drawn.lines().map(|line| line.trim_end().to_owned()).collect();
        if unicode {
            let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
            lines.insert(1, format!(" {}", "─".repeat(width.saturating_sub(1))));
        }
        lines.join("\n") + "\n"
    }

    fn csv(&self) -> String {
        let line = |cells: Vec<&str>| -> String {
            let quoted: Vec<String> = cells.into_iter().map(csv_cell).collect();
            quoted.join(",") + "\n"
        };
        let mut text = line(self.columns.iter().map(|(name, _)| *name).collect());
        for row in &self.rows {
            text += &line(row.iter().map(String::as_str).collect());
        }
        text
    }

    fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.columns.iter().map(|(name, _)| (*name).to_owned()).collect());
        text += &line(
            self.columns
                .iter()
                .map(|(_, number)| if *number { "---:" } else { "---" }.to_owned())
                .collect(),
        );
        for row in &self.rows {
            text += &line(row.iter().map(|cell| cell.replace('|', "\\|")).collect());
        }
        text
    }
}

fn csv_cell(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// `1.234 s`, `56.7 ms`, `890 us`.
pub fn seconds(value: f64) -> String {
    let micro = value * 1e6;
    if value == 0.0 {
        "0 s".into()
    } else if micro < 999.5 {
        format!("{} us", three_digits(micro))
    } else if micro < 999_500.0 {
        format!("{} ms", three_digits(micro / 1e3))
    } else {
        format!("{} s", three_digits(value))
    }
}

/// `512 KiB`, `12.3 MiB`, `1.50 GiB`.
pub fn bytes(value: f64) -> String {
    let units = [("GiB", f64::from(1 << 30)), ("MiB", f64::from(1 << 20)), ("KiB", 1024.0)];
    for (unit, scale) in units {
        if value >= scale {
            return format!("{} {unit}", three_digits(value / scale));
        }
    }
    format!("{value:.0} B")
}

fn three_digits(value: f64) -> String {
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$}")
}

/// `+3.1 %` for a ratio of 1.031.
pub fn percent_change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent.abs() < 0.05 { "0.0 %".into() } else { format!("{percent:+.1} %") }
}

pub fn duration(time: Duration) -> String {
    seconds(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits() {
        assert_eq!(seconds(1.2345), "1.23 s");
        assert_eq!(seconds(0.056_78), "56.8 ms");
        assert_eq!(seconds(0.000_89), "890 us");
        assert_eq!(bytes(1536.0 * 1024.0), "1.50 MiB");
        assert_eq!(bytes(100.0), "100 B");
        assert_eq!(percent_change(1.0311), "+3.1 %");
        assert_eq!(percent_change(0.9), "-10.0 %");
    }

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let mut table = Table::new(&[("a", false), ("b", true)]);
        table.rows.push(vec!["x, \"y\"|".into(), "1".into()]);
        assert_eq!(table.csv(), "a,b\n\"x, \"\"y\"\"|\",1\n");
        assert_eq!(table.markdown(), "| a | b |\n| --- | ---: |\n| x, \"y\"\\| | 1 |\n");
    }
}
