// SPDX-License-Identifier: MIT
//! `--if-better`: the allocator has to prove itself on the user's own command before it is enabled.

use std::sync::atomic::Ordering;

use super::EnableArgs;
use crate::comparing::report::Report;
use crate::comparing::{Plan, Wish, Worth, analysis, rounds, worth};
use crate::error::{Error, Result};
use crate::output::Notes;
use crate::signals;
use mallow_launch::installed::Installed;

/// Compares the allocator with the C library's own. Fails, and says why, unless it is better.
pub fn demand(allocator: &Installed, args: &EnableArgs, notes: Notes) -> Result<()> {
    // The very file that would be enabled, whatever else has its name.
    let name = format!("{}={}", allocator.name, allocator.path.display());
    let wish = Wish {
        allocators: vec![name],
        baseline: Some("libc".into()),
        runs: args.runs,
        command: args.command.clone(),
        ..Wish::default()
    };
    let plan = Plan::new(&wish, notes)?;
    let interrupted = signals::watch()?;
    let measured = rounds::measure(&plan, &wish, notes, &interrupted)?;
    if interrupted.load(Ordering::Relaxed) {
        return Err(Error::Child {
            message: "The comparison was interrupted, so nothing was enabled.".into(),
            code: signals::exit_code(),
        });
    }
    judge(&allocator.name, &analysis::analyse(&plan, &wish, &measured), notes)
}

fn judge(name: &str, report: &Report, notes: Notes) -> Result<()> {
    if let Some((failure, code)) = report.first_failure() {
        return Err(Error::Child {
            message: format!("Some runs failed: {failure}. So {name} was not enabled."),
            code,
        });
    }
    let mut entries = report.conditions.iter().flat_map(|condition| &condition.entries);
    let entry = entries.find(|entry| !entry.who.is_baseline);
    let verdict = &report.verdict;
    match entry.map_or(Worth::Unclear, worth) {
        Worth::Better => {
            notes.note(verdict);
            Ok(())
        }
        Worth::NotBetter => Err(Error::Unmet(format!(
            "{name} was not enabled, because it is not better. {verdict}"
        ))),
        Worth::Unclear => Err(Error::Inconclusive(format!(
            "{name} was not enabled, because the runs do not prove it better. {verdict}"
        ))),
    }
}
