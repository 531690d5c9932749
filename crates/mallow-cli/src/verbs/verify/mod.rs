// SPDX-License-Identifier: MIT
//! `mallow verify`: who serves malloc, free and operator new in a process and its children.

mod args;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::output::{Notes, Page, Table};
pub use args::VerifyArgs;
use mallow_measure::observe::{self, Limits, Observation};
use mallow_measure::service::STOPS_WITHIN;
use mallow_process::binding::{Binding, Evidence, Failure, Inspector, ObjectReport, Report};
use mallow_process::descendants;

/// Between looking at a started command and ending it.
const GRACE: Duration = Duration::from_millis(300);

#[derive(Serialize)]
struct Output<'a> {
    schema: &'static str,
    expected: Option<&'a str>,
    /// `null` without --expect.
    satisfied: Option<bool>,
    processes: Vec<ProcessOutput<'a>>,
}

#[derive(Serialize)]
struct ProcessOutput<'a> {
    pid: u32,
    name: String,
    /// The file of the program.
    #[serde(serialize_with = "mallow_process::lossy::path")]
    program: PathBuf,
    is_main: bool,
    served_by: Option<String>,
    report: Option<&'a Report>,
    problem: Option<&'static str>,
}

pub fn main(args: &VerifyArgs, notes: Notes) -> Result<u8> {
    args.output.check()?;
    let mut processes = match args.pid {
        Some(pid) => look_at(pid, !args.no_children)?,
        None => start_and_look(args, notes)?,
    };
    if args.no_children {
        processes.retain(|process| process.is_main);
    }
    let reports = processes.iter().filter_map(|process| process.outcome.as_ref().ok());
    let unread: BTreeSet<String> = reports.filter_map(Report::unread_note).collect();
    unread.iter().for_each(|sentence| notes.note(sentence));
    let unmet = args.expect.as_deref().map(|name| unmet(name, &processes));
    let rows = table(&processes);
    args.output.write(
        &report(args, unmet.as_deref(), &processes),
        || Page::of_table("mallow verify", &sentence(args, unmet.as_deref()), &rows),
        |format, screen| rows.render(format, screen),
    )?;
    match (&args.expect, unmet) {
        (Some(_), Some(unmet)) if !unmet.is_empty() => {
            Err(Error::Unmet(sentence(args, Some(&unmet))))
        }
        _ => Ok(0),
    }
}

fn look_at(pid: u32, children: bool) -> Result<Vec<Observation>> {
    let mut inspector = Inspector::default();
    let mut pids = Vec::new();
    if children {
        descendants(pid, &mut pids);
    } else {
        pids.push(pid);
    }
    let mut processes = Vec::new();
    for each in pids {
        let observation = Observation::of(each, each == pid, &mut inspector);
        match observation.outcome {
            Err(failure) if each == pid => return Err(Error::Process { pid, failure }),
            // A child that has ended meanwhile is not there to verify.
            Err(Failure::Vanished) => {}
            _ => processes.push(observation),
        }
    }
    Ok(processes)
}

fn start_and_look(args: &VerifyArgs, notes: Notes) -> Result<Vec<Observation>> {
    let note = |sentence: &str| notes.note(sentence);
    let prepared =
        mallow_launch::prepare(&args.command, args.allocator.as_deref(), &[], &note)?.checked()?;
    prepared.modules_note().iter().for_each(|sentence| note(sentence));
    let mut command = prepared.command();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let limits = Limits {
        look_after: args.after,
        kill_after: Some(args.after + GRACE + STOPS_WITHIN),
        grace: STOPS_WITHIN,
        memory: None,
    };
    let observed = observe::observe(command, None, limits, &AtomicBool::new(false))?;
    let mut processes = observed.processes;
    match processes.first() {
        Some(Observation { pid, is_main: true, outcome: Err(_), .. }) => {
            let pid = *pid;
            let failure = processes.swap_remove(0).outcome.err().unwrap_or(Failure::Vanished);
            Err(Error::Process { pid, failure })
        }
        Some(first) if first.is_main => Ok(processes),
        _ => Err(Error::Permission(
            "The command ended before it could be looked at. Allow ptrace (in a container: \
             --cap-add SYS_PTRACE), or verify a command that runs longer."
                .into(),
        )),
    }
}

/// What is not served by `name`, for messages.
fn unmet(name: &str, processes: &[Observation]) -> Vec<String> {
    let accept = |binding: &Binding| binding.allocator == name;
    let mut unmet = Vec::new();
    for process in processes {
        let label = label(process);
        match &process.outcome {
            Ok(report) => {
                let others = report.others(&accept);
                unmet.extend(others.into_iter().map(|other| format!("{label} {other}")));
            }
            Err(failure) => unmet.push(format!("{label} {}", problem(failure))),
        }
    }
    unmet
}

/// What the page says first.
fn sentence(args: &VerifyArgs, unmet: Option<&[String]>) -> String {
    match (&args.expect, unmet) {
        (Some(name), Some([])) => format!("Everything is served by {name}."),
        (Some(name), Some(unmet)) => {
            format!("Not everything is served by {name}: {}.", summarise(unmet))
        }
        _ => "Who serves malloc, free and operator new.".into(),
    }
}

fn summarise(unmet: &[String]) -> String {
    let shown: Vec<&str> = unmet.iter().take(3).map(String::as_str).collect();
    match unmet.len() - shown.len() {
        0 => shown.join("; "),
        more => format!("{}; and {more} more", shown.join("; ")),
    }
}

fn label(process: &Observation) -> String {
    if process.is_main {
        format!("process {}", process.pid)
    } else {
        format!("child {}", process.pid)
    }
}

fn problem(failure: &Failure) -> &'static str {
    match failure {
        Failure::Vanished => "vanished",
        Failure::NoPermission => "no permission",
        Failure::Damaged(_) => "cannot be examined",
    }
}

fn report<'a>(
    args: &'a VerifyArgs,
    unmet: Option<&[String]>,
    processes: &'a [Observation],
) -> Output<'a> {
    Output {
        schema: "mallow.verify/1",
        expected: args.expect.as_deref(),
        satisfied: unmet.map(<[String]>::is_empty),
        processes: processes
            .iter()
            .map(|process| ProcessOutput {
                pid: process.pid,
                name: process.name(),
                program: process.program.clone(),
                is_main: process.is_main,
                served_by: process.outcome.as_ref().ok().map(Report::summary),
                report: process.outcome.as_ref().ok(),
                problem: process.outcome.as_ref().err().map(problem),
            })
            .collect(),
    }
}

fn table(processes: &[Observation]) -> Table {
    let mut table = Table::new(&[
        ("process", false),
        ("object", false),
        ("malloc", false),
        ("free", false),
        ("operator new", false),
        ("known from", false),
    ]);
    // Children of one program mostly look alike: a line says how many.
    let mut groups: Vec<(String, Vec<Vec<String>>, Vec<u32>)> = Vec::new();
    for process in processes {
        let name = process.name();
        let rows = process_rows(process);
        match groups.iter_mut().find(|(other, same, _)| *other == name && *same == rows) {
            Some((_, _, pids)) => pids.push(process.pid),
            None => groups.push((name, rows, vec![process.pid])),
        }
    }
    for (name, rows, pids) in groups {
        let mut who = match pids.as_slice() {
            [pid] => format!("{pid} {name}"),
            [first, .., last] => format!("{first}..{last} {name} ({} of them)", pids.len()),
            [] => name,
        };
        for mut row in rows {
            row.insert(0, std::mem::take(&mut who));
            row.resize(table.columns.len(), String::new());
            table.rows.push(row);
        }
    }
    table
}

/// The main program, the libraries that differ from it, those that are alike in one row, and how many do not.
fn process_rows(process: &Observation) -> Vec<Vec<String>> {
    let alone = |text: String| vec![vec!["main program".into(), text]];
    match &process.outcome {
        Ok(Report::Dynamic { main, libraries, .. }) => {
            let mut rows = vec![row("main program", main)];
            let served_by = main.bindings.get("malloc").map(|binding| &binding.allocator);
            let like_main = |library: &&ObjectReport| {
                library.bindings.values().all(|binding| Some(&binding.allocator) == served_by)
            };
            let (same, different): (Vec<_>, Vec<_>) = libraries.iter().partition(like_main);
            rows.extend(alike(&different));
            rows.extend(summed(&same));
            rows
        }
        Ok(report) => alone(report.summary()),
        Err(failure) => alone(problem(failure).to_owned()),
    }
}

/// A row for the libraries that have the same allocators, named by the first.
fn alike(libraries: &[&ObjectReport]) -> Vec<Vec<String>> {
    let mut groups: Vec<(Vec<String>, usize)> = Vec::new();
    for library in libraries {
        let file = library.path.file_name().unwrap_or_default().to_string_lossy();
        let row = row(&file, library);
        match groups.iter_mut().find(|(first, _)| first[1..] == row[1..]) {
            Some((_, more)) => *more += 1,
            None => groups.push((row, 0)),
        }
    }
    let named = |(mut row, more): (Vec<String>, usize)| {
        if more > 0 {
            row[0] = format!("{} and {more} more", row[0]);
        }
        row
    };
    groups.into_iter().map(named).collect()
}

/// One row for all of them: by name if there is one, else by how many there are.
fn summed(libraries: &[&ObjectReport]) -> Option<Vec<String>> {
    let (first, others) = libraries.split_first()?;
    if others.is_empty() {
        return alike(libraries).pop();
    }
    let mut all = (*first).clone();
    for library in others {
        all.bindings.extend(library.bindings.clone());
    }
    Some(row(&format!("{} libraries", libraries.len()), &all))
}

fn row(object: &str, report: &ObjectReport) -> Vec<String> {
    let name = |function: &str| {
        report.bindings.get(function).map_or("-".to_owned(), |binding| binding.allocator.clone())
    };
    let mut evidence: Vec<&str> = report
        .bindings
        .values()
        .map(|binding| match binding.evidence {
            Evidence::Bound => "memory",
            Evidence::SearchOrder => "search order",
        })
        .collect();
    evidence.sort_unstable();
    evidence.dedup();
    vec![object.to_owned(), name("malloc"), name("free"), name("operator new"), evidence.join(", ")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_process::binding::Binding;

    fn library(name: &str, functions: &[(&'static str, &str)]) -> ObjectReport {
        let bound = |&(function, allocator): &(&'static str, &str)| {
            let binding = Binding {
                allocator: allocator.into(),
                path: allocator.into(),
                through: None,
                evidence: Evidence::Bound,
            };
            (function, binding)
        };
        ObjectReport { path: name.into(), bindings: functions.iter().map(bound).collect() }
    }

    #[test]
    fn libraries_that_are_alike_take_one_row() {
        let cxx = [("malloc", "mallow"), ("operator new", "libstdc++")];
        let libraries = [
            library("/lib/first.so", &cxx),
            library("/lib/other.so", &[("malloc", "jemalloc")]),
            library("/lib/second.so", &cxx),
            library("/lib/third.so", &cxx),
        ];
        let rows = alike(&libraries.iter().collect::<Vec<_>>());
        assert_eq!(
            rows,
            [
                ["first.so and 2 more", "mallow", "-", "libstdc++", "memory"],
                ["other.so", "jemalloc", "-", "-", "memory"],
            ]
        );
    }

    #[test]
    fn a_library_alone_has_its_name() {
        let [libc, libm] =
            ["/lib/libc.so.6", "/lib/libm.so.6"].map(|name| library(name, &[("malloc", "glibc")]));
        let object = |libraries: &[&ObjectReport]| summed(libraries).map(|row| row[0].clone());
        assert_eq!(object(&[&libc]).as_deref(), Some("libc.so.6"));
        assert_eq!(object(&[&libc, &libm]).as_deref(), Some("2 libraries"));
        assert_eq!(object(&[]), None);
    }
}
