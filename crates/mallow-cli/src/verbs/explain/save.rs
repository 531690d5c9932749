// SPDX-License-Identifier: MIT
//! A picture of a process kept in a folder: the files of `/proc` as they were, and the report,
//! whose heap cannot be read again later.

use std::fs;
use std::path::Path;

use crate::error::{Error, Result};
use crate::output;
use crate::output::{Format, Screen};
use mallow_advice::explain::{self, Report, SCHEMA};
use mallow_process::binding::Failure;
use mallow_process::heap::Heap;
use mallow_process::mappings::{self, Context};
use mallow_process::process::{Process, SAVED};

use super::text;

const REPORT: &str = "report.json";

pub fn store(folder: &Path, report: &Report, process: Option<&Process>) -> Result<()> {
    let failed = |source| Error::Io {
        what: format!("The folder {} cannot be written", folder.display()),
        source,
    };
    fs::create_dir_all(folder).map_err(failed)?;
    let write = |name: &str, text: &str| fs::write(folder.join(name), text);
    for name in SAVED {
        if let Some(text) = process.and_then(|process| process.files.get(name)) {
            write(name, text).map_err(failed)?;
        }
    }
    write(REPORT, &output::json(report)?).map_err(failed)?;
    write("report.txt", &text::text(report, Format::Table, true, Screen::PLAIN)).map_err(failed)
}

pub fn load(folder: &Path) -> Result<Report> {
    if !folder.is_dir() {
        return Err(Error::Usage(format!(
            "{} is neither the number of a process nor a folder that explain --save wrote.",
            folder.display()
        )));
    }
    let path = folder.join(REPORT);
    match fs::read_to_string(&path) {
        Ok(text) => parse(&path, &text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => from_files(folder),
        Err(error) => Err(Error::io(format!("{} cannot be read", path.display()))(error)),
    }
}

fn parse(path: &Path, text: &str) -> Result<Report> {
    let damaged = |reason: String| {
        Error::Damaged(format!("{} is not what explain --save wrote: {reason}.", path.display()))
    };
    crate::parse::of_schema(text, SCHEMA).map_err(damaged)
}

/// Copies of the files of `/proc` alone, such as somebody may send: all but the heap.
fn from_files(folder: &Path) -> Result<Report> {
    let process = Process::saved(folder).map_err(|failure| {
        let reason = match failure {
            Failure::Damaged(reason) => reason,
            _ => "it has no mappings".into(),
        };
        Error::Damaged(format!("{} holds no process: {reason}.", folder.display()))
    })?;
    let context = Context {
        process: &process,
        heap: &Heap::Unknown,
        allocator: "",
        memory: None,
        page: None,
        spaces: &[],
    };
    let mappings = mappings::name(&context);
    let mut report = explain::assemble(&process, mappings, "unknown".into());
    report.notes.push("Only the kernel's figures were saved, not the heap.".into());
    explain::conclude(&mut report);
    Ok(report)
}
