// SPDX-License-Identifier: MIT
//! The report as text, and as a table.

use std::fmt::Write as _;

use super::report::{Finding, Leak, Named, Report};
use super::resolve::Call;
use crate::output::{Screen, Table, bytes};

/// Calls of a stack that are shown; the rest is counted.
const CALLS: usize = 20;
/// Of a leak, of which there may be many.
const LEAK_CALLS: usize = 6;
const LEAKS: usize = 20;

pub fn text(report: &Report, screen: Screen) -> String {
    let mut text = String::new();
    if report.findings.is_empty() {
        let _ = writeln!(text, "{}", screen.fill(&clean_end(report)));
    }
    for finding in &report.findings {
        let _ = writeln!(text, "\n== {} ({})\n", finding.title, finding.id);
        let _ = writeln!(text, "{}", screen.fill(&format!("  {}", finding.sentence)));
        for sentence in facts(finding) {
            let _ = writeln!(text, "{}", screen.fill(&format!("  {sentence}")));
        }
        for stack in &finding.stacks {
            let _ = writeln!(text, "\n  {}", heading(stack, finding));
            put_calls(&mut text, &stack.calls, CALLS, "    ");
        }
        put_memory(&mut text, finding);
        put_leaks(&mut text, &finding.leaks);
        let _ = writeln!(text, "\n  What it means, and what to do: mallow help {}", finding.id);
    }
    for note in &report.notes {
        let _ = writeln!(text, "\n{}", screen.fill(note));
    }
    if !report.findings.is_empty() {
        text.push('\n');
    }
    text
}

/// What is said where nothing was found.
pub fn clean_end(report: &Report) -> String {
    // They have no sentence where the program handles the signal, or there is a memory_limit.
    let may_be_a_guard = report.mode == "secure" && report.signal.as_deref() == Some("SIGSEGV");
    let may_be_untold = report.signal.as_deref() == Some("SIGABRT");
    let hint = match (may_be_a_guard, may_be_untold) {
        (true, _) => " A guard of the secure build may have done so: --mode debug tells.",
        // It has no file descriptor left, or another root.
        (_, true) => {
            " If a sentence of mallow stands above, the process could not write its report."
        }
        _ => "",
    };
    let place = if report.is_whole { "" } else { " in what was guarded" };
    format!("No misuse of memory was found{place}. {}{hint}", report.ending)
}

/// The last line, which also is the reason for the exit code.
pub fn closing(report: &Report) -> String {
    let found = match report.findings.len() {
        1 => "1 fault was found".to_owned(),
        count => format!("{count} faults were found"),
    };
    format!("{found} in {}. {}", report.command, report.ending)
}

/// What is known beside the sentence.
pub fn facts(finding: &Finding) -> Vec<String> {
    let mut facts: Vec<String> =
        finding.meaning.map(|meaning| format!("That is: {meaning}.")).into_iter().collect();
    if let Some(block) = &finding.block {
        let made = block.made_by.as_ref().map_or_else(String::new, |by| format!(", made by {by}"));
        let state = block.state.as_ref().map_or_else(String::new, |state| format!(", {state}"));
        facts
            .push(format!("The block: {} bytes at {:#x}{made}{state}.", block.size, block.address));
    }
    if let (Some(block), Some(damage)) = (&finding.block, finding.damage) {
        let size = i64::try_from(block.size).unwrap_or(i64::MAX);
        let place = match damage.offset {
            offset if offset < 0 => format!("{} in front of its start", offset.unsigned_abs()),
            offset if offset == size => "right behind its end".into(),
            offset if offset > size => format!("{} behind its end", offset - size),
            offset => format!("{offset} behind its start"),
        };
        facts.push(match damage.length {
            None => format!("The damage begins {place}."),
            Some(1) => format!("The damage: a byte, {place}."),
            Some(length) => format!("The damage: {length} bytes, the first of them {place}."),
        });
    }
    let place = match (&finding.program, finding.pid) {
        (Some(program), Some(pid)) => format!(" in process {pid} ({program})"),
        _ => String::new(),
    };
    if let Some(call) = &finding.call {
        let how = match call.as_str() {
            "access" => "by the access itself".to_owned(),
            "sweep" => "when the heap was checked".to_owned(),
            "exit" => "when the program ended".to_owned(),
            call => format!("by the call of {call}"),
        };
        facts.push(format!("Found {how}{place}."));
    }
    facts
}

pub fn heading(stack: &Named, finding: &Finding) -> String {
    let what = match (stack.at, finding.call.as_deref()) {
        ("now", Some("access")) => "Accessed",
        ("now", _) => "Found",
        ("allocated", _) => "Allocated",
        _ => "Freed",
    };
    match (stack.thread, stack.calls.is_empty()) {
        (0, _) => format!("{what} at"),
        (thread, true) => format!("{what} by thread {thread}"),
        (thread, false) => format!("{what} by thread {thread} at"),
    }
}

/// As in `make_table at table.c:31`.
pub fn place(call: &Call) -> String {
    let inlined = if call.inlined { " (inlined)" } else { "" };
    let module = call.module.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path));
    let place = match (&call.file, call.line, module) {
        (Some(file), Some(line), _) => format!("  {file}:{line}"),
        (Some(file), None, _) => format!("  {file}"),
        (None, _, Some(module)) if !call.function.starts_with(module) => format!("  ({module})"),
        _ => String::new(),
    };
    format!("{}{inlined}{place}", call.function)
}

fn put_calls(text: &mut String, calls: &[Call], most: usize, indent: &str) {
    for (number, call) in calls.iter().take(most).enumerate() {
        let _ = writeln!(text, "{indent}{number:>2}  {}", place(call));
    }
    if let Some(more) = calls.len().checked_sub(most).filter(|more| *more > 0) {
        let _ = writeln!(text, "{indent}    … and {more} more; --json has them all");
    }
}

fn put_memory(text: &mut String, finding: &Finding) {
    if finding.memory.is_empty() {
        return;
    }
    let marked = if finding.damage.is_some() { "; [ ] is what was damaged" } else { "" };
    let _ = writeln!(text, "\n  Memory there{marked}");
    for line in dump(finding) {
        let _ = writeln!(text, "    {line}");
    }
}

/// Sixteen bytes a line; those that are damaged in brackets.
pub fn dump(finding: &Finding) -> Vec<String> {
    const WIDTH: usize = 16;
    let mut lines = Vec::new();
    for piece in &finding.memory {
        for (index, row) in piece.bytes.chunks(WIDTH).enumerate() {
            let start = piece.address + (index * WIDTH) as u64;
            let mut line = format!("{start:#x} ");
            let mut was_damaged = false;
            for (address, byte) in (start..).zip(row) {
                let is_damaged = finding.is_damaged(address);
                line.push(match (was_damaged, is_damaged) {
                    (false, true) => '[',
                    (true, false) => ']',
                    _ => ' ',
                });
                let _ = write!(line, "{byte:02x}");
                was_damaged = is_damaged;
            }
            line.push(if was_damaged { ']' } else { ' ' });
            lines.push(line.trim_end().to_owned());
        }
    }
    lines
}

fn put_leaks(text: &mut String, leaks: &[Leak]) {
    for leak in leaks.iter().take(LEAKS) {
        let _ = writeln!(text, "\n  {}", leak_line(leak));
        put_calls(text, &leak.calls, LEAK_CALLS, "    ");
    }
    if let Some(more) = leaks.len().checked_sub(LEAKS).filter(|more| *more > 0) {
        let _ = writeln!(text, "\n  … and {more} more places; --json has them all");
    }
}

pub fn leak_line(leak: &Leak) -> String {
    let blocks =
        if leak.blocks == 1 { "1 block".into() } else { format!("{} blocks", leak.blocks) };
    let how = if leak.is_direct { "" } else { ", which only leaked blocks point to," };
    format!("{} in {blocks}{how} allocated at", bytes(leak.bytes as f64))
}

/// A row for each finding.
pub fn table(report: &Report) -> Table {
    let mut table = Table::new(&[
        ("id", false),
        ("kind", false),
        ("what", false),
        ("found at", false),
        ("allocated at", false),
        ("freed at", false),
    ]);
    for finding in &report.findings {
        let at = |what: &str| {
            let stack = finding.stacks.iter().find(|stack| stack.at == what);
            stack.and_then(|stack| stack.calls.first()).map(place).unwrap_or_default()
        };
        table.rows.push(vec![
            finding.id.into(),
            finding.kind.word().into(),
            finding.sentence.clone(),
            at("now"),
            at("allocated"),
            at("freed"),
        ]);
    }
    table
}
