// SPDX-License-Identifier: MIT
//! `mallow explain`: where the memory of a process is, without stopping it or changing anything.
//!
//! The picture comes from `mallow_process`, the report and its conclusions from `mallow_advice`;
//! `text` and `html` show them, `save` keeps them.

mod args;
mod ask;
mod html;
mod save;
mod text;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use crate::error::{Error, Result};
use crate::output::{Format, Notes};
pub use args::ExplainArgs;
use mallow_advice::explain::{self, Report};
use mallow_process::heap::Heap;
use mallow_process::picture;
use mallow_process::process::Keep;

pub fn main(args: &ExplainArgs, notes: Notes) -> Result<u8> {
    args.output.check()?;
    let keep = if args.save.is_some() { Keep::Files } else { Keep::Figures };
    let (report, files) = match number(&args.target) {
        Some(pid) => {
            let taken =
                picture::take(pid, keep).map_err(|failure| Error::Process { pid, failure })?;
            let (process, mut report) = explain::report(taken);
            if args.ask {
                report.native = ask::native(pid, report.runtime)?;
            }
            (report, process.files)
        }
        None if args.ask => {
            return Err(Error::Usage("--ask needs the number of a process that runs.".into()));
        }
        None => (save::load(Path::new(&args.target))?, BTreeMap::new()),
    };
    args.output.write_in_pieces(
        &report,
        || html::page(&report),
        |format, screen| match format {
            Format::Csv => text::mapping_table(&report.mappings).render(format, screen),
            _ => text::text(&report, format, args.all, screen),
        },
    )?;
    if let Some(folder) = &args.save {
        save::store(folder, &report, files)?;
        let shown = folder.display();
        // A bare number is a process's.
        let before = if number(folder.as_os_str()).is_some() { "./" } else { "" };
        notes.note(&format!("Saved in {shown}; mallow explain {before}{shown} reads it."));
    }
    outcome(&report)
}

/// What is taken for a process.
fn number(word: &OsStr) -> Option<u32> {
    word.to_str().and_then(|word| word.parse().ok())
}

/// What was printed stands; what could not be known ends with its exit code.
fn outcome(report: &Report) -> Result<u8> {
    if report.is_without_memory {
        return Err(Error::Permission(explain::NO_MEMORY.into()));
    }
    if report.is_of_several {
        return Err(Error::Inconclusive(explain::REPLACED.into()));
    }
    let incomplete = report.heap.incomplete();
    if let Heap::Glibc(heaps) = &report.heap
        && incomplete > 0
        && heaps.unaccounted() > 0
    {
        return Err(Error::Inconclusive(
            "A part of glibc's main arena was not found, as a note says, so the figures of the heap \
             are a part only."
                .into(),
        ));
    }
    if incomplete > 0 {
        return Err(Error::Inconclusive(format!(
            "{incomplete} of the heap's arenas changed all the time while they were read (or are \
             swapped out), so their figures are a part only. Try again when the process is calmer."
        )));
    }
    Ok(0)
}
