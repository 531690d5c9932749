// SPDX-License-Identifier: MIT
//! `mallow guard`: a command under an allocator that finds misuse of memory, and what it found.
//!
//! `launch` runs the command, `unguarded` sees which of its processes lack the library, `resolve` gives addresses
//! their names, `report` is what was found.

mod args;
mod html;
mod launch;
mod report;
mod resolve;
mod text;
mod unguarded;

use std::path::Path;
use std::time::SystemTime;

use mallow_faults::{Misspelt, Suppressions};

use crate::error::{Error, Result};
use crate::output::{self, Format, Notes, Screen, clean, colour};
use crate::parse;
pub use args::{GuardArgs, Mode};
use launch::Outcome;
use report::Report;

pub fn main(args: &GuardArgs, notes: Notes) -> Result<u8> {
    args.output.check()?;
    if args.leaks && args.mode != Mode::Debug {
        return Err(Error::Usage("Leaks are found by the debug build alone: --mode debug.".into()));
    }
    let suppressions = match &args.suppressions {
        Some(path) => suppressions(path)?,
        None => Suppressions::default(),
    };
    let started = SystemTime::now();
    let outcome = launch::run(args, notes)?;
    let report = report::build(args, &outcome, started, &suppressions);
    show(args, &report, notes)?;
    match report.findings.len() {
        0 => Ok(outcome.code),
        _ => Err(Error::Unmet(text::closing(&report))),
    }
}

fn suppressions(path: &Path) -> Result<Suppressions> {
    let text = parse::text_of(path)
        .map_err(Error::io(format!("The suppressions {} cannot be read", path.display())))?;
    Suppressions::parse(&text).map_err(|Misspelt(line)| {
        Error::Usage(format!("{}, line {line}: write leak:PATTERN.", path.display()))
    })
}

/// The result goes where it is asked to; without a wish to standard error, which leaves the
/// command's own output alone, and only if there is something to say.
fn show(args: &GuardArgs, report: &Report, notes: Notes) -> Result<()> {
    let is_plain = args.output.to.file.is_none() && args.output.chosen_format() == Format::Table;
    if is_plain {
        // A command without a fault is left as it is; a crash without one is worth a word.
        if report.findings.is_empty() {
            if report.signal.is_some() {
                output::tell(&text::clean_end(report));
            }
            report.notes.iter().for_each(|sentence| notes.note(sentence));
        } else {
            let text = clean::text(&text::text(report, Screen::PLAIN)).into_owned();
            let is_coloured = colour::is_wanted(&std::io::stderr());
            output::tell_text(&colour::resolved(&text, is_coloured));
        }
        return args.output.write_page(|| Ok(html::page(report)));
    }
    args.output.write(
        report,
        || html::page(report),
        |format, screen| match format {
            Format::Csv | Format::Md => text::table(report).render(format, screen),
            _ => text::text(report, screen),
        },
    )
}

/// The words for a signal that ended a process.
fn signal_name(signal: i32) -> String {
    nix::sys::signal::Signal::try_from(signal)
        .map_or_else(|_| format!("signal {signal}"), |signal| signal.as_str().to_owned())
}

/// What became of the command, in words.
fn ending(args: &GuardArgs, outcome: &Outcome) -> String {
    match outcome.signal {
        Some(signal) => {
            let leaks = if args.leaks { ", before leaks were looked for" } else { "" };
            format!("It was ended by {}{leaks}.", signal_name(signal))
        }
        None => format!("It ended with exit code {}.", outcome.code),
    }
}
