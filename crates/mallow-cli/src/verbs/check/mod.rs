// SPDX-License-Identifier: MIT
//! `mallow check`: a command's allocations against a baseline that is kept with its source.
//!
//! `measure` runs the command several times, `baseline` is the file, `mallow_report` compares the
//! two; `text` and `formats` print the `report`.

mod args;
mod baseline;
mod formats;
mod measure;
mod report;
mod text;

use std::collections::BTreeMap;

use mallow_report::baseline::{
    Baseline, Environment, Head, Known, Measured, Metric, Platform, SCHEMA, Verdict, judge, overall,
};

use crate::error::{Error, Result};
use crate::output::{self, Notes, OutputArgs, Screen};
use crate::parse::Stacks;
use crate::signals;
pub use args::CheckArgs;
use args::Format;
use report::Report;

const DEPTH: u32 = 8;

pub fn main(args: &CheckArgs, notes: Notes) -> Result<u8> {
    let output = args.output();
    output.check()?;
    let old = open(args)?;
    let depth = depth(args, old.as_ref())?;
    let interrupted = signals::watch()?;
    let placeholder =
        (args.update && old.is_none()).then(|| baseline::Placeholder::new(&args.baseline));
    let environment = Environment::of(std::env::vars_os());
    let is_of_another = old.as_ref().is_some_and(|old| old.head.environment != Some(environment));
    let padding = is_of_another.then(|| environment.padding());
    let measured = measure::measure(args, depth as usize, padding.as_deref(), notes, &interrupted)?;
    let new = baseline(args, depth, environment, &measured, old.as_ref());
    let mut report = report(args, old.as_ref().unwrap_or(&new), &measured);
    report.created = old.is_none();
    if args.update {
        update(args, new, old.as_ref(), &report)?;
        if let Some(placeholder) = placeholder {
            placeholder.replaced();
        }
    }
    for note in &report.notes {
        notes.note(note);
    }
    publish(args, &output, &report)?;
    if args.update {
        notes.note(&format!("The baseline is written to {}.", args.baseline.display()));
        return Ok(0);
    }
    Ok(match report.verdict {
        Verdict::Ok | Verdict::Improved => 0,
        Verdict::Regressed => 3,
        Verdict::Inconclusive => 6,
    })
}

/// Before the command runs: it may take long.
fn open(args: &CheckArgs) -> Result<Option<Baseline>> {
    let old = baseline::read(&args.baseline)?;
    if old.is_none() && !args.update {
        return Err(Error::Usage(format!(
            "There is no baseline {}. Write it with: mallow check --update -- COMMAND.",
            args.baseline.display()
        )));
    }
    Ok(old)
}

fn depth(args: &CheckArgs, old: Option<&Baseline>) -> Result<u32> {
    let (Some(old), false) = (old, args.update) else {
        return Ok(args.depth.or(old.map(|old| old.head.depth)).unwrap_or(DEPTH));
    };
    if args.depth.is_some_and(|depth| depth != old.head.depth) {
        return Err(Error::Usage(format!(
            "The stacks of {} have {} frames. Leave --depth out, or write it anew with --update.",
            args.baseline.display(),
            old.head.depth
        )));
    }
    if old.head.stack_kind != kind(args.stacks) {
        return Err(Error::Usage(format!(
            "The stacks of {} were taken with --stacks {}. Use the same, or write it anew with \
             --update.",
            args.baseline.display(),
            old.head.stack_kind
        )));
    }
    Ok(old.head.depth)
}

fn kind(stacks: Stacks) -> &'static str {
    match stacks {
        Stacks::None => "none",
        Stacks::Fp => "fp",
        Stacks::Full => "full",
    }
}

/// In percent: the command line before the baseline before the default.
fn tolerance(args: &CheckArgs, baseline: Option<&Baseline>, metric: Metric) -> f64 {
    let given = args.tolerance.iter().rev().find(|tolerance| tolerance.metric == metric);
    let kept = || baseline.and_then(|baseline| baseline.head.tolerance.get(&metric)).copied();
    given.map(|tolerance| tolerance.percent).or_else(kept).unwrap_or(metric.default_tolerance())
}

/// What is measured now as a baseline.
fn baseline(
    args: &CheckArgs,
    depth: u32,
    environment: Environment,
    measured: &Measured,
    old: Option<&Baseline>,
) -> Baseline {
    let mut tolerances: BTreeMap<Metric, f64> =
        old.map(|old| old.head.tolerance.clone()).unwrap_or_default();
    tolerances.extend(args.tolerance.iter().map(|given| (given.metric, given.percent)));
    let known = |stack: &str| Known {
        stack: stack.to_owned(),
        allocations: measured.of_stack(stack, Metric::Allocations).exact(),
        bytes: measured.of_stack(stack, Metric::Bytes).exact(),
        leaks: measured.of_stack(stack, Metric::Leaks).exact(),
    };
    let stacks = measured.stacks();
    Baseline {
        head: Head {
            schema: SCHEMA.into(),
            command: command(args),
            platform: platform(measured),
            environment: Some(environment),
            processes: measured.processes.iter().cloned().collect(),
            stack_kind: kind(args.stacks).into(),
            depth,
            tolerance: tolerances,
            metrics: Metric::ALL.map(|metric| (metric, measured.total(metric))).into(),
        },
        stacks: stacks.into_iter().map(|stack| (stack.to_owned(), known(stack))).collect(),
    }
}

fn command(args: &CheckArgs) -> Vec<String> {
    args.command.words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

fn platform(measured: &Measured) -> Platform {
    Platform {
        architecture: std::env::consts::ARCH.into(),
        libc: measured.libc.clone(),
        allocator: measured.allocator.clone(),
    }
}

fn report(args: &CheckArgs, baseline: &Baseline, measured: &Measured) -> Report {
    let tolerance = |metric| tolerance(args, Some(baseline), metric);
    let (metrics, changes) = judge(baseline, measured, tolerance, report::place);
    let mut report = Report {
        schema: report::SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        command: command(args),
        baseline: args.baseline.display().to_string(),
        updated: args.update,
        created: false,
        runs: args.runs,
        environment_differs: measured.elsewhere.is_some(),
        verdict: overall(&metrics),
        processes: measured.processes.iter().cloned().collect(),
        metrics,
        changes,
        notes: measured.notes.iter().cloned().collect(),
    };
    let more = [
        left_out(&report, args.stacks),
        of_go(&report),
        of_another(&baseline.head, args, measured),
    ];
    report.notes.extend(more.into_iter().flatten());
    if report.verdict == Verdict::Improved && !args.update {
        report.notes.push("Keep the improvement: mallow check --update -- COMMAND.".into());
    }
    report
}

/// What flaps by nature.
fn left_out(report: &Report, stacks: Stacks) -> Option<String> {
    let flapping = report.metrics.iter().filter(|judged| judged.left_out_stacks > 0);
    let parts: Vec<String> = flapping
        .map(|judged| {
            let share = judged.left_out_share * 100.0;
            let (name, stacks) = (judged.metric.name(), judged.left_out_stacks);
            let word = if stacks == 1 { "stack" } else { "stacks" };
            format!("{stacks} {word} with {share:.1} % of the {name}")
        })
        .collect();
    (!parts.is_empty()).then(|| {
        let advice = match stacks {
            Stacks::None => {
                " Without stacks all calls are one; with --stacks full only what differs is left out."
            }
            Stacks::Fp | Stacks::Full => "",
        };
        let environment = match report.environment_differs {
            true => " or it changes with the environment, which is not the baseline's (its variables)",
            false => "",
        };
        format!(
            "Left out, because equal runs differ in it (random numbers, hash seeds, threads)\
             {environment}: {}.{advice}",
            parts.join(", ")
        )
    })
}

fn of_go(report: &Report) -> Option<String> {
    let stacks = report.metrics.iter().map(|judged| judged.by_nature_stacks).max()?;
    (stacks > 0).then(|| {
        let word = if stacks == 1 { "stack" } else { "stacks" };
        format!("Not counted: {stacks} {word} of the threads that Go starts, as many as it needs just then.")
    })
}

/// What was not the same when the baseline was written.
fn of_another(head: &Head, args: &CheckArgs, measured: &Measured) -> Option<String> {
    let now = platform(measured);
    let was = &head.platform;
    let mut parts = Vec::new();
    let mut differ = |what: &str, before: &str, after: &str| {
        if before != after {
            parts.push(format!("{what} was {before} and is {after}"));
        }
    };
    differ("the architecture", &was.architecture, &now.architecture);
    differ("the libc", &was.libc, &now.libc);
    differ("the allocator", &was.allocator, &now.allocator);
    differ("the command", &head.command.join(" "), &command(args).join(" "));
    (!parts.is_empty()).then(|| {
        format!(
            "The baseline is of another kind, so a change need not be the program's: {}.",
            parts.join("; ")
        )
    })
}

fn update(
    args: &CheckArgs,
    mut new: Baseline,
    old: Option<&Baseline>,
    report: &Report,
) -> Result<()> {
    if let Some(old) = old {
        let is_ok = |metric| {
            let judged = report.metrics.iter().find(|judged| judged.metric == metric);
            judged.is_some_and(|judged| judged.verdict == Verdict::Ok)
        };
        new.keep(old, is_ok);
    }
    baseline::write(&new, &args.baseline)
}

fn publish(args: &CheckArgs, output: &OutputArgs, report: &Report) -> Result<()> {
    let write = |text: String| {
        output::write_result(output, &text)?;
        output.write_page(|| Ok(text::page(report)))
    };
    match args.chosen_format() {
        Format::Junit => write(formats::junit(report)),
        Format::Sarif => write(formats::sarif(report)?),
        Format::Github => {
            let table = text::text(report, output::Format::Table, Screen::PLAIN);
            write(format!("{table}\n{}", formats::annotations(report)))
        }
        Format::Shared(_) => output.write(
            report,
            || text::page(report),
            |format, screen| text::text(report, format, screen),
        ),
    }
}
