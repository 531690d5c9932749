// SPDX-License-Identifier: MIT
//! `mallow advise`: what to change about an allocator's settings, and why; often nothing.
//!
//! The rules are those of `mallow_advice`. `launch` starts a command and asks it while it runs;
//! `options` are those of a process under Mallow.

mod args;
mod html;
mod launch;
mod options;
mod text;

use mallow_advice::advise::{self, Case, Report};
use mallow_launch::words;
use mallow_process::picture::Picture;
use mallow_process::process::Process;
use mallow_stats::Stats;

use crate::error::{Error, Result};
use crate::output::{Format, Notes, Page};
use crate::statistics::{self, Target};
pub use args::AdviseArgs;

pub fn main(args: &AdviseArgs, notes: Notes) -> Result<u8> {
    args.output.check()?;
    if args.rules {
        return list(args);
    }
    let (report, code) = match &args.target {
        Some(word) => (of_target(&Target::parse(word))?, 0),
        None => launch::report(args, notes)?,
    };
    args.output.write(
        &report,
        || html::page(&report),
        |format, screen| match format {
            Format::Csv => text::csv(&report),
            _ => text::text(&report, format, screen),
        },
    )?;
    let is_strict = args.strict && code == 0 && !report.findings.is_empty();
    if is_strict { Err(Error::Unmet(text::sentence(&report))) } else { Ok(code) }
}

fn list(args: &AdviseArgs) -> Result<u8> {
    let list = advise::rules();
    let table = text::rule_table(&list);
    args.output.write(
        &list,
        || Page::of_table("mallow advise", "The rules, and what each finds.", &table),
        |format, screen| table.render(format, screen),
    )?;
    Ok(0)
}

fn of_target(target: &Target) -> Result<Report> {
    if let Some(stats) = target.dump()? {
        return Ok(advise::report(
            &Case { stats: &stats, process: None, command: None },
            target.name(),
            None,
        ));
    }
    let Target::Process(pid) = *target else { return Err(Error::Internal("no target".into())) };
    let (picture, stats) = of_process(pid)?;
    let command = typed(&picture.process);
    advise::of_picture(&picture, stats, target.name(), command)
        .ok_or_else(|| statistics::unreadable(&picture))
}

/// A process, and the counters of its allocator with the options that rules ask for.
fn of_process(pid: u32) -> Result<(Picture, Option<Stats>)> {
    let (picture, mut stats) = statistics::of_process(pid)?;
    if let Some(stats) = stats.as_mut().filter(|stats| stats.allocator == "mallow") {
        // What the allocator tells holds now, whoever has set it.
        let told = std::mem::take(&mut stats.options);
        stats.options = options::of_process(pid);
        stats.options.extend(told);
    }
    Ok((picture, stats))
}

/// The command of a process as a shell takes it, if it is short enough to be shown. Its words are the process's own, who
/// may have written anything there.
fn typed(process: &Process) -> Option<String> {
    const LONGEST: usize = 60;
    let text = process.files.get("cmdline")?;
    let command = words::line(text.strip_suffix('\0').unwrap_or(text).split('\0'));
    let is_plain = !command.is_empty() && !command.contains(char::is_control);
    (is_plain && command.chars().count() <= LONGEST).then_some(command)
}
