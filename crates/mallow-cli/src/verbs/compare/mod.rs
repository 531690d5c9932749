// SPDX-License-Identifier: MIT
//! `mallow compare`: a command under several allocators, measured fairly, with a verdict that may
//! be "no change needed". `comparing` measures; `text`, `timeline` and `html` show the result.

mod args;
mod html;
mod text;
mod timeline;

use std::sync::atomic::Ordering;

use crate::comparing::report::Report;
use crate::comparing::{Plan, analysis, rounds};
use crate::error::{Error, Result};
use crate::output::{self, Notes};
use crate::signals;
pub use args::CompareArgs;

pub fn main(args: &CompareArgs, notes: Notes) -> Result<u8> {
    args.output.check()?;
    args.export_json.iter().try_for_each(|path| output::check_writable(path))?;
    let wish = args.wish();
    let plan = Plan::new(&wish, notes)?;
    let interrupted = signals::watch()?;
    // Nothing is measured after an interruption, but what was set up is cleaned up.
    plan.run_shell("setup", args.setup.as_deref(), &interrupted)?;
    let measured = rounds::measure(&plan, &wish, notes, &interrupted);
    let cleaned = plan.run_shell("cleanup", args.cleanup.as_deref(), &interrupted);
    let report = analysis::analyse(&plan, &wish, &measured?);
    publish(args, &report)?;
    cleaned?;
    exit_code(args, &report, interrupted.load(Ordering::Relaxed))
}

fn publish(args: &CompareArgs, report: &Report) -> Result<()> {
    if let Some(path) = &args.export_json {
        output::write_file(path, &output::json(report)?)?;
    }
    args.output.write(report, || html::page(report), |format, screen| report.text(format, screen))
}

fn exit_code(args: &CompareArgs, report: &Report, interrupted: bool) -> Result<u8> {
    if interrupted {
        return Err(Error::Child {
            message: "The measurement was interrupted; the report covers the finished runs.".into(),
            code: signals::exit_code(),
        });
    }
    if let (Some(failure), false) = (report.first_failure(), args.ignore_failure) {
        return Err(Error::Child {
            message: format!("Some runs failed: {}.", failure.0),
            code: failure.1,
        });
    }
    if args.strict && report.has_inconclusive() {
        return Err(Error::Inconclusive(
            "Some comparisons are inconclusive. Make more runs (--runs, --budget), or quiet the \
             machine."
                .into(),
        ));
    }
    Ok(0)
}
