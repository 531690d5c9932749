// SPDX-License-Identifier: MIT
//! `mallow report`: what a recorded trace says.
//!
//! `mallow-report` analyses what the trace holds, `recording` finds the names of stacks,
//! and the rest prints the summary: `text` (tables; `tasks` is that of the
//! processes), `csv`, `html`. A profile of the heap has a report of
//! its own, `heap`.

mod args;
mod csv;
mod heap;
mod html;
mod tasks;
mod text;
mod words;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::{Compression, write::GzEncoder};
use mallow_report::flame::{self, Change};
use mallow_report::{HeapProfile, Limits, Metric, Profile, Summary};
use serde::Serialize;

pub use args::ReportArgs;

use crate::error::{Error, Result};
use crate::input;
use crate::output::{self, Format, Notes, Screen};
use crate::recording::{self, Analysed, Recording, analyse};

/// Everything that is printed: the summary, and what changed since another trace.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<Difference>,
}

/// What the trace has more, or less, than the other one.
#[derive(Serialize)]
struct Difference {
    #[serde(serialize_with = "mallow_process::lossy::path")]
    other: PathBuf,
    /// Name, before, after.
    totals: Vec<Total>,
    stacks: Vec<ChangedStacks>,
}

#[derive(Serialize)]
struct Total {
    name: &'static str,
    unit: &'static str,
    before: u64,
    after: u64,
}

#[derive(Serialize)]
struct ChangedStacks {
    metric: Metric,
    changes: Vec<Change>,
}

pub fn main(args: &ReportArgs, notes: Notes) -> Result<u8> {
    args.output.check()?;
    let mut files = args.pprof.iter().filter(|path| !input::is_standard(path));
    files.try_for_each(|path| output::check_writable(path))?;
    let (head, file) = recording::peek(&args.trace)?;
    if HeapProfile::is_one(&head) {
        return heap::main(args, file, notes);
    }
    let limits = Limits {
        stacks: (args.top as usize).max(Limits::default().stacks),
        sizes: (args.top as usize).max(Limits::default().sizes),
        ..Limits::default()
    };
    let detail = args.frames.detail();
    let of = |recording| analyse(recording, &args.symbols, detail, limits, notes);
    let this = of(Recording::of(&args.trace, file)?)?;
    let other = match &args.diff {
        Some(path) => Some((path, of(Recording::open(path)?)?)),
        None => None,
    };
    let report = Report {
        summary: &this.summary,
        difference: other.as_ref().map(|(path, other)| difference(&this, other, path, limits)),
    };
    if let Some(path) = &args.pprof {
        write_pprof(path, &this)?;
    }
    let other_profile = other.as_ref().map(|(_, other)| &other.profile);
    if !args.pprof.as_deref().is_some_and(input::is_standard) {
        output::write_result(&args.output, &print(args, &report, &this.profile, other_profile)?)?;
    }
    args.output.write_page(|| html::page(&report, &this.profile, other_profile))?;
    let damage = [Some(&this), other.as_ref().map(|(_, other)| other)];
    match damage.into_iter().flatten().find_map(|analysed| analysed.damage.clone()) {
        Some(damage) => Err(Error::Damaged(damage)),
        None => Ok(0),
    }
}

fn print(
    args: &ReportArgs,
    report: &Report,
    profile: &Profile,
    other: Option<&Profile>,
) -> Result<String> {
    if let Some(metric) = args.folded {
        let metric = metric.metric();
        return Ok(match other {
            Some(before) => profile.folded_difference(before, metric),
            None => profile.folded(metric),
        });
    }
    if let Some(table) = args.csv {
        return Ok(csv::table(report.summary, profile, table).render(Format::Csv, Screen::PLAIN));
    }
    match args.output.chosen_format() {
        Format::Json => output::json(report),
        Format::Html => html::page(report, profile, other),
        Format::Csv => {
            let table = csv::table(report.summary, profile, args::TableName::Stacks);
            Ok(table.render(Format::Csv, Screen::PLAIN))
        }
        format => {
            let style = text::Style {
                format,
                screen: args.output.screen(),
                top: args.top as usize,
                depth: args.depth as usize,
                by: args.by.metric(),
            };
            Ok(text::report(report, profile, style))
        }
    }
}

fn difference(this: &Analysed, other: &Analysed, path: &Path, limits: Limits) -> Difference {
    let (after, before) = (&this.summary.totals, &other.summary.totals);
    let total = |name, unit, before, after| Total { name, unit, before, after };
    let changed = Metric::ALL.map(|metric| ChangedStacks {
        metric,
        changes: flame::changes(&this.profile, &other.profile, metric, limits.stacks),
    });
    Difference {
        other: path.to_owned(),
        totals: vec![
            total("allocations", "calls", before.allocated.blocks, after.allocated.blocks),
            total("allocated", "bytes", before.allocated.bytes, after.allocated.bytes),
            total("peak", "bytes", before.peak.bytes, after.peak.bytes),
            total("never freed", "bytes", before.leaked.bytes, after.leaked.bytes),
            total("temporary", "calls", before.temporary.blocks, after.temporary.blocks),
        ],
        stacks: changed.into_iter().filter(|stacks| !stacks.changes.is_empty()).collect(),
    }
}

fn write_pprof(path: &Path, analysed: &Analysed) -> Result<()> {
    let recording = &analysed.summary.recording;
    let bytes = mallow_report::pprof::encode(
        &analysed.profile,
        &recording.program,
        recording.started_unix_ns,
        recording.duration_ns,
    );
    write_compressed(path, &bytes)
}

/// `-` stands for standard input and output.
fn write_compressed(path: &Path, bytes: &[u8]) -> Result<()> {
    if input::is_standard(path) {
        return output::printed(compress(std::io::stdout().lock(), bytes));
    }
    let failed = || Error::io(format!("The profile cannot be written to {}", path.display()));
    let file = File::create(path).map_err(failed())?;
    compress(file, bytes).map_err(failed())
}

fn compress(to: impl Write, bytes: &[u8]) -> std::io::Result<()> {
    let mut encoder = GzEncoder::new(to, Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()?.flush()
}
