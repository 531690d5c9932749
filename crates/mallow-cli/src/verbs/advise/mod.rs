//! `mallow advise`: what to change about an allocator's settings, and why; often nothing.
//!
//! The rules are those of `mallow_advice`. `launch` starts a command and asks it while it runs.

mod args;
mod html;
mod launch;
mod text;

use mallow_advice::advise::{self, Case, Report};

use crate::error::{Error, Result};
use crate::output::{self, Format, Notes, Page};
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
    let list = advise::rules();
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
        return Ok(advise::report(
            &Case { stats: &stats, process: None, command: None },
            target.name(),
            None,
        ));
    }
    let Target::Process(pid) = *target else { return Err(Error::Internal("no target".into())) };
    let (picture, stats) = statistics::of_process(pid)?;
    let command = typed(&picture.process.command);
    advise::of_picture(&picture, stats, target.name(), command)
        .ok_or_else(|| statistics::unreadable(&picture))
}

/// The command of a process, if it is short enough to be shown.
fn typed(command: &str) -> Option<String> {
    const LONGEST: usize = 60;
    let is_plain = !command.is_empty() && !command.contains(char::is_control);
    (is_plain && command.chars().count() <= LONGEST).then(|| command.to_owned())
}
