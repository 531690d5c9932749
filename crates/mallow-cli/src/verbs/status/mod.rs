// SPDX-License-Identifier: MIT
//! `mallow status`: what is enabled, where, since when, and which processes have it.

mod args;
mod processes;

use std::path::PathBuf;

use serde::Serialize;

use crate::error::Result;
use crate::output::{Format, Page, Screen, Table};
use mallow_enabling::{Place, Record, State, System, elsewhere};
use mallow_launch::installed;

pub use args::StatusArgs;
use processes::{Found, Process};

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    enabled: Vec<Enabled>,
    /// Those that have a library of the list in them, whether or not it serves their malloc.
    processes: Vec<Process>,
    /// How many may not be looked at by this user.
    not_examined: usize,
    /// Whether it is the system that runs, so that there are processes to look at.
    is_running: bool,
}

#[derive(Serialize)]
struct Enabled {
    /// As in "unit nginx.service".
    place: String,
    allocator: String,
    /// What LD_PRELOAD gets.
    preload: String,
    #[serde(serialize_with = "mallow_process::lossy::path")]
    library: PathBuf,
    #[serde(serialize_with = "mallow_process::lossy::path")]
    file: PathBuf,
    /// Not known of what `mallow enable` did not write.
    since: Option<String>,
    #[serde(skip)]
    since_short: String,
    state: State,
}

pub fn main(args: &StatusArgs) -> Result<u8> {
    args.output.check()?;
    let report = gather(&System::new(args.root.as_deref())?)?;
    let rows = table(&report);
    args.output.write(
        &report,
        || Page::of_table("mallow status", &sentence(&report), &rows),
        |format, screen| text(&report, &rows, format, screen),
    )?;
    Ok(0)
}

fn gather(system: &System) -> Result<Report> {
    let mut enabled = Vec::new();
    let mut is_global = false;
    for file in system.records() {
        let record = Record::read(system, &file)?;
        is_global |= record
            .entries()
            .iter()
            .any(|entry| entry.place == Place::Global && record.state(entry) == State::InPlace);
        enabled.extend(record.entries().iter().map(|entry| Enabled {
            place: entry.place.describe(),
            allocator: entry.allocator.clone(),
            preload: entry.word.clone(),
            library: entry.library.clone(),
            file: system.at(&entry.file),
            since: Some(entry.since.iso()),
            since_short: entry.since.short(),
            state: record.state(entry),
        }));
    }
    let known: Vec<PathBuf> = enabled.iter().map(|each| each.file.clone()).collect();
    for other in elsewhere::find(system, &known) {
        let library = installed::find(&system.root, other.allocator).ok().map(|found| found.path);
        enabled.push(Enabled {
            place: other.place.describe(),
            allocator: other.allocator.into(),
            state: match library {
                _ if is_global && other.place == Place::Global && !other.is_last => {
                    State::Superseded
                }
                Some(_) => State::Elsewhere,
                None => State::LibraryMissing,
            },
            library: library.unwrap_or_else(|| other.word.clone().into()),
            preload: other.word,
            file: other.file,
            since: None,
            since_short: String::new(),
        });
    }
    let libraries: Vec<PathBuf> = enabled.iter().map(|each| each.library.clone()).collect();
    let found = match system.is_running() && !libraries.is_empty() {
        true => processes::find(&libraries),
        false => Found::default(),
    };
    Ok(Report {
        schema: "mallow.status/1",
        enabled,
        processes: found.processes,
        not_examined: found.not_examined,
        is_running: system.is_running(),
    })
}

fn sentence(report: &Report) -> String {
    if report.enabled.is_empty() {
        return "Nothing is enabled: programs have the allocator that they are built with.".into();
    }
    if !report.is_running {
        return "No process was looked at: this is not the system that runs.".into();
    }
    if !mallow_process::can_be_read() {
        return format!("Which processes have it cannot be told. {}", mallow_process::NO_PROC);
    }
    let count = |has_it| report.processes.iter().filter(|process| process.has_it == has_it).count();
    let mut sentence = match count(Some(true)) {
        0 => "No running process has it.".to_owned(),
        1 => "1 running process has it.".into(),
        count => format!("{count} running processes have it."),
    };
    match count(Some(false)) {
        0 => {}
        more => {
            sentence += &format!(
                " In {more} more the library is loaded, but another allocator serves malloc."
            );
        }
    }
    match count(None) {
        0 => {}
        unknown => sentence += &format!(" Of {unknown} more it cannot be told."),
    }
    if report.not_examined > 0 {
        sentence += &not_examined(report.not_examined, nix::unistd::geteuid().is_root());
    }
    sentence
}

/// Root is told to sudo in vain.
fn not_examined(count: usize, is_root: bool) -> String {
    match is_root {
        true => format!(
            " {count} may not be looked at, though mallow runs as root: it lacks the right to trace (in a \
             container: --cap-add SYS_PTRACE)."
        ),
        false => format!(
            " {count} may not be looked at by this user; sudo mallow status shows them too."
        ),
    }
}

fn table(report: &Report) -> Table {
    let columns = [
        ("for", false),
        ("allocator", false),
        ("since (UTC)", false),
        ("state", false),
        ("file", false),
    ];
    let mut table = Table::new(&columns);
    for each in &report.enabled {
        table.rows.push(vec![
            each.place.clone(),
            each.allocator.clone(),
            each.since_short.clone(),
            wording(each.state).into(),
            each.file.display().to_string(),
        ]);
    }
    table
}

fn wording(state: State) -> &'static str {
    match state {
        State::InPlace => "in place",
        State::Changed => "changed since",
        State::Removed => "removed since",
        State::LibraryMissing => "library missing",
        State::LibraryDamaged => "library damaged",
        State::Elsewhere => "not by mallow enable",
        State::Superseded => "replaced by mallow enable",
    }
}

fn text(report: &Report, rows: &Table, format: Format, screen: Screen) -> String {
    if format == Format::Csv {
        return rows.render(format, screen);
    }
    let mut text = String::new();
    if !report.enabled.is_empty() {
        text += rows.render(format, screen).trim_end();
        text += "\n\n";
    }
    text += &screen.fill(&sentence(report));
    text.push('\n');
    if !report.processes.is_empty() {
        let mut table = Table::new(&[("process", true), ("program", false), ("malloc", false)]);
        table.rows.extend(report.processes.iter().map(|process| {
            let served_by = process.served_by.clone().unwrap_or_else(|| "?".into());
            vec![process.pid.to_string(), process.program.display().to_string(), served_by]
        }));
        text.push('\n');
        text += &table.render(format, screen);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_not_told_to_sudo() {
        assert!(not_examined(1, false).contains("sudo mallow status"));
        let text = not_examined(1, true);
        assert!(!text.contains("sudo") && text.contains("SYS_PTRACE"), "{text}");
    }

    #[test]
    fn only_who_is_served_has_it() {
        let enabled = Enabled {
            place: String::new(),
            allocator: "jemalloc".into(),
            preload: String::new(),
            library: PathBuf::new(),
            file: PathBuf::new(),
            since: None,
            since_short: String::new(),
            state: State::InPlace,
        };
        let process = |has_it| Process {
            pid: 1,
            program: PathBuf::new(),
            served_by: Some("mallow".into()),
            has_it,
        };
        let mut report = Report {
            schema: "",
            enabled: vec![enabled],
            processes: vec![process(Some(false))],
            not_examined: 0,
            is_running: true,
        };
        assert_eq!(
            sentence(&report),
            "No running process has it. In 1 more the library is loaded, but another allocator serves malloc."
        );
        report.processes = vec![process(Some(true)), process(None)];
        assert_eq!(sentence(&report), "1 running process has it. Of 1 more it cannot be told.");
    }
}
