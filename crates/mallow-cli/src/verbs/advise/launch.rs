// SPDX-License-Identifier: MIT
//! A command that is started and asked while it runs.
//!
//! jemalloc is asked by MALLOC_CONF: it writes its statistics to standard error, where they are taken
//! out again, each time that another 256 MiB were allocated, and at the end. Several threads may write
//! at once. The kernel keeps each of their writes whole as long as the pipe has room for it, so the
//! pipe is a large one, and its reader waits for nobody. Others are looked at from outside, more and
//! more rarely.

use std::ffi::OsString;
use std::io::{PipeReader, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use mallow_advice::advise::{self, Case, Report};
use mallow_launch::words;
use mallow_measure::run::Outcome;
use mallow_os::Ending;
use mallow_os::signals::ForCommand;
use mallow_os::threads::{self, why_not_started};
use mallow_process::descendants;
use mallow_process::picture::Picture;
use mallow_stats::figures::counted;
use mallow_stats::{Filter, Stats};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::Signal;

use super::args::AdviseArgs;
use crate::error::{Error, Result};
use crate::output::Notes;
use crate::{passing, signals, statistics};

/// Printed at the end, and while it runs. What a jemalloc before 5.3 does not know it names and skips.
const OPTIONS: &str = "stats_print:true,stats_print_opts:Jaeh,stats_interval:268435456,\
                       stats_interval_opts:Jaeh";
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// A look comes after the command has run on by this part.
const GROWTH: f64 = 1.5;
const PAUSE: Duration = Duration::from_millis(20);
/// The most that everybody may ask for, by default: fifty of jemalloc's dumps.
const PIPE_BYTES: usize = 1 << 20;
/// So many pieces wait for whoever reads our standard error; then the command waits too.
const PIECES: usize = 256;

type Look = (Picture, Option<Stats>);

/// The report, and the exit code of the command.
pub fn report(args: &AdviseArgs, notes: Notes) -> Result<(Report, u8)> {
    let (command, name, errors) = prepare(args, notes)?;
    let passed_on = ForCommand::catch(&[Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM])
        .map_err(Error::io(signals::NO_HANDLER))?;
    let (pid, status, look, asked) = observed(command, &name, errors, &passed_on)?;
    if asked.mixed > 0 {
        notes.note(&format!(
            "Threads wrote {} of jemalloc's statistics at once; these are left out.",
            counted(asked.mixed, "dump")
        ));
    }
    let command = words::line(&args.command);
    let source = command.clone();
    let outcome = Outcome::from(Ending::from(status));
    let code = outcome.code();
    // Mallow writes jemalloc's dumps too, but its heap says more.
    let is_mallow = |stats: &Stats| stats.allocator == "mallow";
    let is_seen = look.as_ref().and_then(|(_, stats)| stats.as_ref()).is_some_and(is_mallow);
    let asked = best(asked.dumps).filter(|stats| !(is_seen && is_mallow(stats)));
    if let Some(stats) = asked {
        let case = Case { stats: &stats, process: None, command: Some(command) };
        return Ok((advise::report(&case, source, Some(pid)), code));
    }
    let Some((picture, stats)) = look else {
        return Err(Error::unseen(outcome, "before it could be looked at", "give it more to do"));
    };
    let report = advise::of_picture(&picture, stats, source, Some(command))
        .ok_or_else(|| statistics::unreadable(&picture))?;
    Ok((report, code))
}

/// The command with its name, and what it will write to standard error.
fn prepare(args: &AdviseArgs, notes: Notes) -> Result<(Command, String, PipeReader)> {
    let note = |sentence: &str| notes.note(sentence);
    let prepared =
        mallow_launch::prepare(&args.command, args.allocator.as_deref(), &[], &note)?.checked()?;
    let mut command = prepared.command();
    let mut options = std::env::var_os("MALLOC_CONF").unwrap_or_default();
    if !options.is_empty() {
        options.push(OsString::from(","));
    }
    options.push(OPTIONS);
    let (errors, writer) = std::io::pipe().map_err(Error::io("A pipe for standard error"))?;
    // Where it is refused, dumps may come mixed, which is then said.
    let _ = fcntl(&writer, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES as i32));
    command.env("MALLOC_CONF", options).stderr(writer);
    if args.output.to.file.is_none() {
        // Standard output is for the result.
        command.stdout(std::io::stderr());
    }
    Ok((command, prepared.target.command, errors))
}

/// What was seen of the command while it ran, and what it wrote of its heap.
fn observed(
    mut command: Command,
    name: &str,
    errors: PipeReader,
    passed_on: &ForCommand,
) -> Result<(u32, ExitStatus, Option<Look>, Filter)> {
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(PIECES);
        // Before the command, which does not begin where what it writes cannot be read.
        threads::spawn_scoped(scope, "errors", move || pass_on(receiver))?;
        let reader =
            threads::spawn_scoped(scope, "statistics", || read(errors, &has_ended, sender))?;
        let child = command.spawn();
        // It holds the other end of the pipe.
        drop(command);
        let waited = match child {
            Ok(mut child) => {
                wait(&mut child, passed_on).map(|(status, look)| (child.id(), status, look))
            }
            Err(error) => {
                let reason = why_not_started(&error);
                Err(Error::NotStarted { command: name.to_owned(), reason })
            }
        };
        has_ended.store(true, Ordering::Release);
        let asked = reader.join().unwrap_or_default();
        waited.map(|(pid, status, look)| (pid, status, look, asked))
    })
}

/// Reads what the command writes, and keeps jemalloc's statistics of it.
fn read(errors: PipeReader, has_ended: &AtomicBool, others: SyncSender<Vec<u8>>) -> Filter {
    let mut filter = Filter::default();
    // The receiver ends with this thread, not before.
    passing::read(errors, has_ended, PIPE_BYTES, |piece| drop(others.send(filter.take(piece))));
    let _ = others.send(filter.end());
    filter
}

fn pass_on(pieces: Receiver<Vec<u8>>) {
    for piece in pieces {
        // Nobody may be there to read it.
        let _ = std::io::stderr().write_all(&piece);
    }
}

/// Waits for the command, and looks at it now and then, until a signal may have begun its end; the last look counts.
fn wait(child: &mut Child, passed_on: &ForCommand) -> Result<(ExitStatus, Option<Look>)> {
    let pid = child.id();
    let begin = Instant::now();
    let (mut look, mut next, mut is_told) = (None, FIRST_LOOK, false);
    loop {
        let status = child.try_wait().map_err(Error::io("The command cannot be waited for"))?;
        if let Some(status) = status {
            passed_on.end();
            return Ok((status, look));
        }
        is_told |= passed_on.pass_on(pid);
        if begin.elapsed() >= next && !is_told {
            look = super::of_process(largest(pid)).ok().or(look);
            next = begin.elapsed().mul_f64(GROWTH);
        }
        std::thread::sleep(PAUSE);
    }
}

/// The process with the most resident memory, of the command and all that it started.
fn largest(pid: u32) -> u32 {
    let resident = |pid: &u32| -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
    };
    let mut processes = vec![];
    descendants(pid, &mut processes);
    processes.into_iter().max_by_key(resident).unwrap_or(pid)
}

/// Of the process that asked for most; one with its threads alive before one that has ended.
fn best(dumps: Vec<Stats>) -> Option<Stats> {
    let rank = |stats: &Stats| (stats.threads.unwrap_or(0) > 1, stats.requests());
    dumps.into_iter().max_by_key(rank)
}
