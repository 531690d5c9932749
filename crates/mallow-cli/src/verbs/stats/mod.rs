// SPDX-License-Identifier: MIT
//! `mallow stats`: the counters of an allocator in one vocabulary, from a living process or from a
//! dump. `text` and `html` show a `report`; `follow` reads a process again and again.

mod args;
mod follow;
mod html;
mod report;
mod text;

use crate::error::{Error, Result};
use crate::output::{Format, Notes};
use crate::statistics::{self, Target};
pub use args::StatsArgs;
use report::Report;
use text::Sections;

pub fn main(args: &StatsArgs, _notes: Notes) -> Result<u8> {
    args.output.check()?;
    let target = Target::parse(&args.target);
    let is_followed = args.interval.is_some() || args.count.is_some();
    let report = match target {
        Target::Process(pid) if is_followed => follow::follow(args, pid)?,
        Target::Process(pid) => {
            let (picture, stats) = statistics::of_process(pid)?;
            let stats = stats.or_else(|| statistics::walked(&picture));
            let stats = stats.ok_or_else(|| statistics::unreadable(&picture))?;
            Report::of_process(pid, &picture.process.command, stats)
        }
        _ if is_followed => {
            return Err(Error::Usage(
                "--interval and --count are for a process; a dump is of one moment.".into(),
            ));
        }
        _ => {
            let stats = target.dump()?.ok_or_else(|| Error::Internal("no dump".into()))?;
            Report::new(target.name(), None, stats)
        }
    };
    publish(args, &report)
}

fn publish(args: &StatsArgs, report: &Report) -> Result<u8> {
    let sections = Sections::of(args);
    let is_shown = !report.samples.is_empty() && follow::has_lines(args);
    args.output.write(
        report,
        || html::page(report),
        |format, screen| match format {
            Format::Csv => text::csv(report, sections),
            _ => text::text(report, sections, format, screen, is_shown),
        },
    )?;
    Ok(0)
}
