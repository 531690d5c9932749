//! `mallow advise`: what to change about an allocator's settings, and why; often nothing.
//!
//! `case` is what is looked at, `rules` look at it, `report` is what they found. `launch` starts a
//! command and asks it while it runs; `filter` takes jemalloc's statistics out of its output.

mod args;
mod case;
mod filter;
mod html;
mod launch;
mod report;
mod rules;
mod text;

use mallow_process::heap::Heap;
use mallow_process::picture::Picture;
use mallow_stats::Stats;

use crate::error::{Error, Result};
use crate::output::{self, Format, Notes, Page};
use crate::statistics::{self, Target};
pub use args::AdviseArgs;
use case::{Case, Seen};
use report::{Report, RuleList, SCHEMA};

pub fn main(args: &AdviseArgs, notes: Notes) -> Result<u8> {
    args.output.check()?;
    if args.rules {
        return list(args);
    }
    let (report, code) = match &args.target {
        Some(word) => (of_target(&Target::parse(word))?, 0),
        None => launch::advise(args, notes)?,
    };
    args.output.write(
        || output::json(&report),
        || Ok(html::page(&report)),
        |format, screen| {
            Ok(match format {
                Format::Csv => text::csv(&report),
                _ => text::text(&report, format, screen),
            })
        },
    )?;
    let is_strict = args.strict && code == 0 && !report.findings.is_empty();
    if is_strict { Err(Error::Unmet(text::sentence(&report))) } else { Ok(code) }
}

fn list(args: &AdviseArgs) -> Result<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let list = RuleList { schema: "mallow.advise.rules/1", version, rules: rules::list() };
    let table = text::rule_table(&list);
    args.output.write(
        || output::json(&list),
        || Ok(Page::of_table("mallow advise", "The rules, and what each finds.", &table)),
        |format, screen| Ok(table.render(format, screen)),
    )?;
    Ok(0)
}

fn of_target(target: &Target) -> Result<Report> {
    if let Some(stats) = target.dump()? {
        return Ok(report(
            &Case { stats: &stats, process: None, command: None },
            target.name(),
            None,
        ));
    }
    let Target::Process(pid) = *target else { return Err(Error::Internal("no target".into())) };
    let (picture, stats) = statistics::of_process(pid)?;
    let command = typed(&picture.process.command);
    of_picture(&picture, stats, target.name(), command)
}

/// A process whose counters can be read, or about which something can be said without them.
fn of_picture(
    picture: &Picture,
    stats: Option<Stats>,
    source: String,
    command: Option<String>,
) -> Result<Report> {
    let is_known = stats.is_some();
    let name = match &picture.heap {
        Heap::Other(other) => other.name.clone(),
        _ => picture.allocator.clone(),
    };
    let stats = stats.unwrap_or_else(|| Stats { allocator: name, ..Stats::default() });
    let is_judged = is_known || stats.allocator == "musl";
    if !is_judged {
        return Err(statistics::unreadable(picture));
    }
    let case = Case { stats: &stats, process: Some(Seen::new(picture)), command };
    Ok(report(&case, source, Some(picture.process.pid)))
}

fn report(case: &Case, source: String, pid: Option<u32>) -> Report {
    let (findings, not_judged) = rules::judge(case);
    Report {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        source,
        pid,
        allocator: case.stats.allocator.clone(),
        allocator_version: case.stats.version.clone(),
        findings,
        not_judged,
        notes: case.stats.missing.clone(),
    }
}

/// The command of a process, if it is short enough to be shown.
fn typed(command: &str) -> Option<String> {
    const LONGEST: usize = 60;
    let is_plain = !command.is_empty() && !command.contains(char::is_control);
    (is_plain && command.chars().count() <= LONGEST).then(|| command.to_owned())
}
