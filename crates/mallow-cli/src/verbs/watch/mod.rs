// SPDX-License-Identifier: MIT
//! `mallow watch`: memory and faults of a process and its children over time, and the difference
//! between two such runs. `session` is the watch itself: `sampler` takes samples, `run` saves what
//! they add up to, `live` shows them as they come; `html` and `compare` are for afterwards.

mod args;
mod compare;
mod html;
mod live;
mod run;
mod sampler;
mod session;

use std::path::Path;
use std::process::{Child, Stdio};

use crate::error::{Error, Result};
use crate::output::{self, Format, Notes, Table};
use crate::signals;
pub use args::WatchArgs;
use live::Live;
use mallow_measure::run::Outcome;
use mallow_measure::timeline::Figures;
use mallow_measure::watched::{Run, Summary};
use mallow_os::threads::why_not_started;
use mallow_process::binding::Failure;
use mallow_process::stat::folder;
use session::Session;

pub fn main(args: &WatchArgs, notes: Notes) -> Result<u8> {
    args.output.check()?;
    for path in [&args.save, &args.csv].into_iter().flatten() {
        output::check_writable(path)?;
    }
    if let [a, b] = args.compare.as_slice() {
        return compare_files(args, a, b);
    }
    let interrupted = signals::watch()?;
    // A table on standard output has its lines as they come.
    let lines = args.output.chosen_format() == Format::Table && args.output.to.file.is_none();
    let (pid, child) = match args.pid {
        Some(pid) => {
            note_what_is_hidden(pid, notes);
            (pid, None)
        }
        None => {
            let child = start(args, notes)?;
            (child.id(), Some(child))
        }
    };
    let live = Live::new(notes.quiet, lines, child.is_some());
    let (run, outcome) = Session::new(args, pid, child, live)?.watch(&interrupted)?;
    publish(args, &run)?;
    Ok(outcome.map_or(0, Outcome::code))
}

fn note_what_is_hidden(pid: u32, notes: Notes) {
    let rollup = std::fs::read_to_string(folder(pid).join("smaps_rollup"));
    if rollup.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied) {
        let why = Failure::NoPermission.sentence(pid);
        notes.note(&format!("{why} PSS and heap are left out."));
    }
}

fn start(args: &WatchArgs, notes: Notes) -> Result<Child> {
    let note = |sentence: &str| notes.note(sentence);
    let prepared =
        mallow_launch::prepare(&args.command, args.allocator.as_deref(), &[], &note)?.checked()?;
    let mut command = prepared.command();
    if live::wants_chart(notes.quiet) {
        // The terminal shows the chart.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    } else if args.output.to.file.is_none() {
        // Standard output is for the figures.
        command.stdout(std::io::stderr());
    }
    command.spawn().map_err(|error| Error::NotStarted {
        command: prepared.target.command.clone(),
        reason: why_not_started(&error),
    })
}

/// Files first: the window may be closed.
fn publish(args: &WatchArgs, run: &Run) -> Result<()> {
    if let Some(path) = &args.csv {
        output::write_file(path, &run::csv(run))?;
    }
    if let Some(path) = &args.save {
        output::write_file(path, &output::json(run)?)?;
    }
    args.output.write(
        run,
        || html::page(run),
        |format, screen| {
            let table = || summary_table(&run.summary).render(format, screen);
            match format {
                Format::Csv => run::csv(run),
                _ => format!("\n{}\n\n{}", screen.fill(&html::sentence(run)), table()),
            }
        },
    )
}

/// What has an average, a peak and an end.
pub fn rows(summary: &Summary) -> Vec<(&'static str, Figures)> {
    let all = [
        ("RSS", Some(summary.rss)),
        ("PSS", summary.pss),
        ("swap", Some(summary.swap).filter(|swap| swap.peak > 0.0)),
        ("RSS when the heap was read", summary.rss_at_heap),
        ("heap in use", summary.heap_used),
        ("heap free but kept", summary.heap_free),
    ];
    all.into_iter().filter_map(|(name, figures)| Some((name, figures?))).collect()
}

fn summary_table(summary: &Summary) -> Table {
    let mut table = Table::new(&[("", false), ("average", true), ("peak", true), ("end", true)]);
    for (name, Figures { average, peak, end }) in rows(summary) {
        let sizes = [average, peak, end].map(output::bytes);
        table.rows.push([name.to_owned()].into_iter().chain(sizes).collect());
    }
    table
}

fn compare_files(args: &WatchArgs, a: &Path, b: &Path) -> Result<u8> {
    let (first, second) = (run::load(a)?, run::load(b)?);
    let file = |path: &Path| path.display().to_string();
    let [a, b] = compare::names(&first, &second, [file(a), file(b)]);
    let differences = compare::differences(&first, &second);
    args.output.write(
        &compare::report(&a, &b, &differences),
        || html::comparison_page((&a, &first), (&b, &second), &differences),
        |format, screen| {
            let table = || compare::table(&a, &b, &differences).render(format, screen);
            match format {
                Format::Csv => compare::csv(&differences),
                _ => format!("{}\n\n{}", compare::sentence(&a, &b, &differences), table()),
            }
        },
    )?;
    Ok(0)
}
