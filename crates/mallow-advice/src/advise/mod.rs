// SPDX-License-Identifier: MIT
//! What to change about an allocator's settings, and why; often nothing.
//!
//! `case` is what is looked at, `rules` look at it, `report` is what they found.

mod case;
mod report;
mod rules;

use mallow_process::heap::Heap;
use mallow_process::picture::Picture;
use mallow_stats::Stats;

pub use case::{Case, Seen};
pub use report::{Finding, Listed, NotJudged, Report, RuleList, Step};

use report::SCHEMA;

/// What the rules say of a case. `source` names the process, the file of the dump, or the command.
pub fn report(case: &Case, source: String, pid: Option<u32>) -> Report {
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

/// What they say of a process, given its counters where they can be read; `None` if without them
/// there is nothing to say.
pub fn of_picture(
    picture: &Picture,
    stats: Option<Stats>,
    source: String,
    command: Option<String>,
) -> Option<Report> {
    let is_known = stats.is_some();
    let name = match &picture.heap {
        Heap::Other(other) => other.name.clone(),
        _ => picture.allocator.clone(),
    };
    let stats = stats.unwrap_or_else(|| Stats { allocator: name, ..Stats::default() });
    let is_judged = is_known || stats.allocator == "musl";
    if !is_judged {
        return None;
    }
    let case = Case { stats: &stats, process: Some(Seen::new(picture)), command };
    Some(report(&case, source, Some(picture.process.pid)))
}

/// All rules, and what each looks for.
pub fn rules() -> RuleList {
    RuleList {
        schema: "mallow.advise.rules/1",
        version: env!("CARGO_PKG_VERSION"),
        rules: rules::list(),
    }
}
