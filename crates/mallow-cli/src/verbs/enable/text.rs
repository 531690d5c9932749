// SPDX-License-Identifier: MIT
//! What `enable` did, or would do, as text and as a page.

use std::fmt::Write as _;

use maud::html;

use super::report::{File, Report};
use crate::output::{Format, Page, Screen, Table, clean, html};
use mallow_enabling::{Outcome, Place};

pub fn text(report: &Report, format: Format, screen: Screen) -> String {
    match (format, &report.snippet) {
        (Format::Csv, _) => table(report).render(format, screen),
        (Format::Md, Some(snippet)) => format!("```\n{}```\n", snippet.text),
        (Format::Md, None) => {
            format!("{}\n{}\n", table(report).render(format, screen), sentences(report).join("\n"))
        }
        (_, Some(snippet)) => snippet.text.clone(),
        (_, None) => drawn(report, screen),
    }
}

pub fn page(report: &Report) -> String {
    let sentences = sentences(report);
    let sentence = match &report.snippet {
        Some(snippet) => format!("Lines for {}, to paste.", snippet.allocator),
        None => sentences[0].clone(),
    };
    let files = report.files.iter().map(|file| &file.text);
    let shown = report.snippet.iter().map(|snippet| &snippet.text).chain(files);
    let body = html! {
        (html::head("mallow enable", None, &sentence))
        (html::table(&table(report)))
        (html::notes(sentences.get(1..).unwrap_or_default()))
        @for text in shown { pre { (clean::text(text)) } }
    };
    let version = env!("CARGO_PKG_VERSION");
    Page { title: "mallow enable", body, version, script: None }.render()
}

fn table(report: &Report) -> Table {
    let columns = ["for", "allocator", "preload", "file", "outcome"];
    let mut table = Table::new(&columns.map(|name| (name, false)));
    let mut row = |cells: [&str; 5]| table.rows.push(cells.map(str::to_owned).to_vec());
    if let Some(snippet) = &report.snippet {
        row([snippet.form, &snippet.allocator, &snippet.preload, "", "to paste"]);
    }
    if let Some(other) = &report.already {
        let file = other.file.display().to_string();
        row([&other.place, &other.allocator, "", &file, "enabled already"]);
    }
    for file in &report.files {
        let path = file.file.display().to_string();
        let outcome = match &file.outcome {
            outcome if report.is_dry_run => foreseen(outcome),
            Outcome::Unchanged => "unchanged".into(),
            Outcome::Replaced(other) => format!("written, {other} replaced"),
            Outcome::Kept => "written, what it was is kept".into(),
            Outcome::Written | Outcome::Refused => "written".into(),
        };
        row([&file.place.describe(), &file.allocator, &file.preload, &path, &outcome]);
    }
    table
}

/// What is to be said beside the table; one at least, unless there are lines to paste.
fn sentences(report: &Report) -> Vec<String> {
    let mut sentences = Vec::new();
    if report.snippet.is_some() {
        return sentences;
    }
    if let Some(other) = &report.already {
        sentences.push(format!(
            "{} is enabled already for {}, not by mallow enable:\n  {}\nTo undo it, {}.",
            other.allocator,
            other.place,
            other.file.display(),
            other.remedy
        ));
    } else if report.is_dry_run {
        sentences.push("Nothing was written: this is a dry run.".into());
    } else {
        sentences.extend(report.files.iter().map(done));
        sentences.extend(report.also.iter().chain(&report.next).cloned());
        sentences.extend(report.undo.iter().map(|command| format!("To undo it: {command}")));
    }
    sentences
}

/// What the files would hold stays as it is, in whatever width.
fn drawn(report: &Report, screen: Screen) -> String {
    let mut text = String::new();
    for file in report.files.iter().filter(|_| report.is_dry_run) {
        let what = format!("{} {}:", file.file.display(), foreseen(&file.outcome));
        let _ = write!(text, "{}\n\n", screen.fill(&what));
        for line in file.text.lines() {
            let _ = writeln!(text, "{}", format!("  {line}").trim_end());
        }
        text.push('\n');
    }
    text + &screen.fill(&sentences(report).join("\n")) + "\n"
}

fn foreseen(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Unchanged => "is as wanted, and would not be written".into(),
        Outcome::Refused => "could not be written".into(),
        Outcome::Written => "would be written".into(),
        Outcome::Replaced(other) => format!("would be written, {other} replaced"),
        Outcome::Kept => "would be written, and what it is now kept for mallow disable".into(),
    }
}

fn done(file: &File) -> String {
    let (name, path) = (&file.allocator, file.file.display());
    let is_wrapper = matches!(file.place, Place::Wrapper { .. });
    let how = match &file.outcome {
        Outcome::Unchanged => return format!("{name} is enabled already:\n  {path}"),
        _ if is_wrapper => return format!("{path}: runs a command under {name}"),
        Outcome::Replaced(other) => format!(", {other} is replaced"),
        Outcome::Kept => ", what the file was before is kept".into(),
        Outcome::Written | Outcome::Refused => String::new(),
    };
    format!("{name} is enabled for {}{how}:\n  {path}", file.place.describe())
}
