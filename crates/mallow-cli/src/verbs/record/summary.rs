// SPDX-License-Identifier: MIT
//! The line that says what was recorded.

use std::path::Path;

use mallow_capture::{Recorded, WHY_OUTSIDE};
use mallow_stats::figures::counted;
use serde::Serialize;

use super::args::RecordArgs;
use crate::error::Result;
use crate::output::{self, Notes, Page, Table, clean};

/// What a recording came to, for programs.
#[derive(Serialize)]
struct Summary<'a> {
    schema: &'static str,
    version: &'static str,
    #[serde(serialize_with = "mallow_process::lossy::path")]
    trace: &'a Path,
    trace_bytes: u64,
    #[serde(flatten)]
    recorded: &'a Recorded,
}

/// As a sentence, and in the forms that are asked for.
pub fn publish(recorded: &Recorded, args: &RecordArgs, notes: Notes) -> Result<()> {
    let sentence = sentence(recorded, &args.output);
    notes.note(&sentence);
    let summary = Summary {
        schema: "mallow.record/1",
        version: env!("CARGO_PKG_VERSION"),
        trace: &args.output,
        trace_bytes: std::fs::metadata(&args.output).map_or(0, |metadata| metadata.len()),
        recorded,
    };
    if args.json {
        output::print(&output::json(&summary)?)?;
    }
    match &args.html {
        Some(path) => {
            let page = Page::of_table("mallow record", &sentence, &table(recorded));
            output::write_file(path, &page)
        }
        None => Ok(()),
    }
}

fn table(recorded: &Recorded) -> Table {
    let mut table = Table::new(&[("", false), ("number", true)]);
    for (name, number) in [
        ("calls", recorded.calls),
        ("calls dropped", recorded.dropped),
        ("threads", recorded.threads.into()),
        ("threads not recorded", recorded.lost_threads.into()),
        ("processes", recorded.processes as u64),
        ("processes that still run", recorded.still_running as u64),
        ("processes seen that were not recorded", recorded.outsiders.len() as u64),
        ("processes started before, not recorded", recorded.started_before as u64),
    ] {
        table.rows.push(vec![name.into(), number.to_string()]);
    }
    table
}

fn sentence(recorded: &Recorded, file: &Path) -> String {
    let size = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    let mut text = format!(
        "{} of {} in {} recorded in {} ({})",
        counted(recorded.calls, "call"),
        counted(recorded.threads.into(), "thread"),
        counted(recorded.processes as u64, "process"),
        file.display(),
        crate::output::bytes(size as f64)
    );
    let is_whole = recorded.lost_threads == 0 && recorded.outsiders.is_empty();
    if recorded.dropped == 0 && is_whole && recorded.damaged_rings == 0 {
        text.push_str("; none were dropped");
    }
    if recorded.dropped > 0 {
        let all = recorded.calls.saturating_add(recorded.dropped) as f64;
        let percent = recorded.dropped as f64 / all * 100.0;
        text.push_str(&format!("; {} dropped ({percent:.2} %)", counted(recorded.dropped, "call")));
    }
    if recorded.lost_threads > 0 {
        let threads = counted(recorded.lost_threads.into(), "thread");
        text.push_str(&format!(
            "; {threads} not recorded: there were more than 4,096 at a time, or no address space was left"
        ));
    }
    if !recorded.outsiders.is_empty() {
        text.push_str(&outsiders(&recorded.outsiders));
    }
    if recorded.started_before > 0 {
        let before = counted(recorded.started_before as u64, "process");
        text.push_str(&format!(
            "; {before} that it had started before not recorded, each of which another mallow record -p can"
        ));
    }
    if recorded.damaged_rings > 0 {
        text.push_str("; the command overwrote some of it");
    }
    if recorded.still_running > 0 {
        let left = counted(recorded.still_running as u64, "process");
        let run =
            if recorded.still_running == 1 { "still runs, and is" } else { "still run, and are" };
        text.push_str(&format!("; {left} of the command {run} not recorded further"));
    }
    text.push('.');
    text
}

fn outsiders(names: &[String]) -> String {
    const MOST: usize = 4;
    let mut each: Vec<&str> = names.iter().map(String::as_str).collect();
    each.sort_unstable();
    each.dedup();
    let more = if each.len() > MOST { " and others" } else { "" };
    each.truncate(MOST);
    format!(
        "; at least {} not recorded ({}{more}), which {WHY_OUTSIDE}",
        counted(names.len() as u64, "process"),
        clean::line(&each.join(", ")),
    )
}
