//! `mallow compare`: a command under several allocators, measured fairly, with a verdict that may
//! be "no change needed". `plan` says what is run, `rounds` runs it, `analysis` says what it means,
//! `report`, `timeline` and `html` show it.

pub mod analysis;
pub mod html;
pub mod plan;
pub mod report;
pub mod rounds;
pub mod timeline;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cli::{CompareArgs, Format};
use crate::error::{Error, Result};
use crate::output::{self, Notes};
use plan::Plan;

pub fn main(args: &CompareArgs, notes: Notes) -> Result<u8> {
    for path in [&args.output.file, &args.export_json].into_iter().flatten() {
        output::check_writable(path)?;
    }
    let plan = Plan::new(args, notes)?;
    let interrupted = watch_signals()?;
    plan.run_shell("setup", args.setup.as_deref())?;
    let measured = rounds::measure(&plan, args, notes, &interrupted);
    let cleaned = plan.run_shell("cleanup", args.cleanup.as_deref());
    let report = analysis::analyse(&plan, args, &measured?);
    publish(args, &report)?;
    cleaned?;
    exit_code(args, &report, interrupted.load(Ordering::Relaxed))
}

/// Ctrl-C and SIGTERM end the measurement, not the report of what is finished.
pub fn watch_signals() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [nix::libc::SIGINT, nix::libc::SIGTERM] {
        // A second one ends the command as usual.
        let flag = Arc::clone(&interrupted);
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, flag))
            .map_err(Error::io("The signal handler cannot be installed"))?;
    }
    Ok(interrupted)
}

fn publish(args: &CompareArgs, report: &report::Report) -> Result<()> {
    let format = args.output.chosen_format();
    let text = match format {
        Format::Json => report.json()?,
        Format::Html => html::page(report),
        _ => report.text(format, output::unicode_wanted(&args.output)),
    };
    output::write_result(&args.output, &text)?;
    if let Some(path) = &args.export_json {
        output::write_file(path, &report.json()?)?;
    }
    Ok(())
}

fn exit_code(args: &CompareArgs, report: &report::Report, interrupted: bool) -> Result<u8> {
    if interrupted {
        return Err(Error::Child {
            message: "The measurement was interrupted; the report covers the finished runs.".into(),
            code: 130,
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
