// SPDX-License-Identifier: MIT
//! What `mallow guard` found, as data.

use std::collections::BTreeSet;
use std::time::SystemTime;

use mallow_advice::findings;
use mallow_faults::{Fault, Kind, Stack, Suppressions};
use mallow_launch::words;
use serde::Serialize;

use super::args::GuardArgs;
use super::launch::Outcome;
use super::resolve::{Call, Resolver};
use crate::recording::Sources;

pub const SCHEMA: &str = "mallow.guard/1";

#[derive(Serialize)]
pub struct Report {
    pub schema: &'static str,
    pub version: &'static str,
    pub command: String,
    pub mode: String,
    /// Of the command itself.
    pub exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    pub findings: Vec<Finding>,
    pub notes: Vec<String>,
    /// How it ended, in words.
    #[serde(skip)]
    pub ending: String,
    /// Whether all its processes that were seen had the library.
    #[serde(skip)]
    pub is_whole: bool,
}

/// One fault, or the leaks of one process.
#[derive(Default, Serialize)]
pub struct Finding {
    /// As in `mallow help MLW4101`.
    pub id: &'static str,
    pub kind: Kind,
    pub title: &'static str,
    /// What the allocator said.
    pub sentence: String,
    /// What that means, for messages of the C library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meaning: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The program's call that found it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<Block>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<Damage>,
    pub stacks: Vec<Named>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<Line>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leaks: Vec<Leak>,
}

#[derive(Serialize)]
pub struct Block {
    pub address: u64,
    pub size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
}

/// Bytes of the program's memory that are not what they should be.
#[derive(Clone, Copy, Serialize)]
pub struct Damage {
    /// From the start of the block; behind it from its size on.
    pub offset: i64,
    /// From the first byte to the last that is damaged, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
}

/// What a stack is about, and its calls, innermost first.
#[derive(Serialize)]
pub struct Named {
    /// "now", "allocated" or "freed".
    pub at: &'static str,
    /// 0: not known.
    pub thread: u32,
    pub calls: Vec<Call>,
}

#[derive(Serialize)]
pub struct Line {
    pub address: u64,
    pub bytes: Vec<u8>,
}

#[derive(Serialize)]
pub struct Leak {
    pub bytes: u64,
    pub blocks: u64,
    /// Nothing points to them; else only blocks that leaked do.
    pub is_direct: bool,
    pub calls: Vec<Call>,
}

/// Gives the addresses names, and leaves out what is suppressed.
pub fn build(
    args: &GuardArgs,
    outcome: &Outcome,
    started: SystemTime,
    suppressions: &Suppressions,
) -> Report {
    let mut found = Vec::new();
    let mut notes: BTreeSet<String> = outcome.unguarded.iter().cloned().collect();
    let mut suppressed = Vec::new();
    for fault in &outcome.faults {
        let sources = Sources { folders: &args.symbols, debug_files: true };
        let mut resolver = Resolver::new(fault, started, sources);
        let (finding, covered) = finding(fault, &mut resolver, suppressions);
        if finding.kind != Kind::Leak || !finding.leaks.is_empty() {
            found.push(finding);
            notes.extend(resolver.complaints());
        } else {
            suppressed.extend(covered);
        }
        if !fault.is_whole {
            notes.insert("A report was cut off; what it holds is shown.".into());
        }
    }
    if !suppressed.is_empty() {
        notes.insert(format!("Leaks of {} are suppressed.", amount(&suppressed)));
    }
    found.extend(outcome.messages.iter().map(|(line, message)| Finding {
        sentence: line.clone(),
        meaning: Some(message.meaning),
        ..entry(message.kind)
    }));
    Report {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        command: words::line(&args.command.words),
        mode: format!("{:?}", args.mode).to_lowercase(),
        exit_code: outcome.code,
        signal: outcome.signal.map(super::signal_name),
        findings: found,
        notes: notes.into_iter().collect(),
        ending: super::ending(args, outcome),
        is_whole: outcome.unguarded.is_none(),
    }
}

fn entry(kind: Kind) -> Finding {
    let id = id_of(kind);
    let title = findings::find(id).map_or("", |entry| entry.title);
    Finding { id, kind, title, ..Finding::default() }
}

/// The entry of the catalogue about a kind of fault.
fn id_of(kind: Kind) -> &'static str {
    match kind {
        Kind::DoubleFree => "MLW4101",
        Kind::InteriorFree => "MLW4102",
        Kind::MisalignedFree => "MLW4103",
        Kind::InvalidFree => "MLW4104",
        Kind::ForeignFree => "MLW4105",
        Kind::Overflow => "MLW4106",
        Kind::Underflow => "MLW4107",
        Kind::WriteAfterFree => "MLW4108",
        Kind::ReadAfterFree => "MLW4109",
        Kind::OutOfBounds => "MLW4110",
        Kind::SizeMismatch => "MLW4111",
        Kind::AlignmentMismatch => "MLW4112",
        Kind::KindMismatch => "MLW4113",
        Kind::DamagedList => "MLW4114",
        Kind::OutOfMemory => "MLW4115",
        Kind::Broken => "MLW4116",
        Kind::Leak => "MLW4117",
        Kind::Misuse => "MLW4118",
    }
}

/// With the leaks that are left out of it.
fn finding(
    fault: &Fault,
    resolver: &mut Resolver,
    suppressions: &Suppressions,
) -> (Finding, Vec<Leak>) {
    let stacks = [("now", &fault.now), ("allocated", &fault.allocated), ("freed", &fault.freed)];
    let named = |(at, stack): (&'static str, &Option<Stack>)| {
        let stack = stack.as_ref().filter(|stack| !stack.frames.is_empty() || stack.thread != 0)?;
        let thread = if at == "now" { fault.thread.unwrap_or(0) } else { stack.thread };
        Some((at, thread, stack.frames.clone()))
    };
    let stacks: Vec<_> = stacks.into_iter().filter_map(named).collect();
    let stacks = stacks
        .into_iter()
        .map(|(at, thread, frames)| {
            let trapped = fault.pc.filter(|_| at == "now");
            Named { at, thread, calls: resolver.calls(&frames, trapped) }
        })
        .collect();
    let leaks = fault.leaks.iter().map(|leak| Leak {
        bytes: leak.bytes,
        blocks: leak.count,
        is_direct: leak.is_direct,
        calls: resolver.calls(&leak.frames, None),
    });
    let leaks: Vec<Leak> = leaks.collect();
    let is_covered = |leak: &Leak| suppressions.cover(leak.calls.iter().flat_map(Call::names));
    let covered: Vec<bool> = leaks.iter().map(is_covered).collect();
    let mut are_told = told(fault, &covered).into_iter();
    let (leaks, covered): (Vec<Leak>, Vec<Leak>) =
        leaks.into_iter().partition(|_| are_told.next() == Some(true));
    let finding = Finding {
        sentence: match covered.as_slice() {
            [] => fault.sentence.clone(),
            covered => format!("{}; {} suppressed", fault.sentence, amount(covered)),
        },
        pid: fault.pid,
        thread: fault.thread,
        program: fault.program.clone(),
        call: fault.call.clone(),
        pointer: fault.pointer,
        block: fault.block.map(|block| Block {
            address: block.address,
            size: block.size,
            state: fault.state.clone(),
            made_by: fault.made.clone(),
        }),
        damage: damage(fault),
        stacks,
        memory: fault
            .bytes
            .iter()
            .map(|piece| Line { address: piece.address, bytes: piece.bytes.clone() })
            .collect(),
        leaks: merged(leaks.into_iter()),
        ..entry(fault.kind)
    };
    (finding, covered)
}

/// Which leaks are told: of those that are not covered the direct ones and what blocks of these point to,
/// and so on. An indirect one whose cause the report does not say is told too.
fn told(fault: &Fault, covered: &[bool]) -> Vec<bool> {
    let leaks = &fault.leaks;
    if !covered.contains(&true) {
        return vec![true; leaks.len()];
    }
    let mut has_cause = vec![false; leaks.len()];
    for &at in leaks.iter().flat_map(|leak| &leak.points_to) {
        has_cause[at] = fault.is_whole;
    }
    let mut told = vec![false; leaks.len()];
    let is_begin = |at: &usize| leaks[*at].is_direct || !has_cause[*at];
    let mut pending: Vec<usize> = (0..leaks.len()).filter(is_begin).collect();
    while let Some(at) = pending.pop() {
        if !covered[at] && !told[at] {
            told[at] = true;
            pending.extend(&leaks[at].points_to);
        }
    }
    told
}

/// In the words of the allocator's sentence.
fn amount(leaks: &[Leak]) -> String {
    let bytes = leaks.iter().map(|leak| leak.bytes).fold(0, u64::saturating_add);
    let blocks = leaks.iter().map(|leak| leak.blocks).fold(0, u64::saturating_add);
    format!("{bytes} bytes in {blocks} blocks")
}

/// The bytes that were written; of an access that trapped, its first.
fn damage(fault: &Fault) -> Option<Damage> {
    let was_written = matches!(fault.kind, Kind::Overflow | Kind::Underflow | Kind::WriteAfterFree);
    let offset = fault.offset.filter(|_| was_written || fault.length.is_some())?;
    let trapped = (fault.call.as_deref() == Some("access")).then_some(1);
    Some(Damage { offset, length: fault.length.or(trapped) })
}

/// Call stacks that differ in addresses only, as of a loop that was unrolled, are one. First those that
/// nothing points to, the causes of the others; the largest first.
fn merged(leaks: impl Iterator<Item = Leak>) -> Vec<Leak> {
    let mut all: Vec<Leak> = Vec::new();
    for leak in leaks {
        let is_same =
            |other: &&mut Leak| other.is_direct == leak.is_direct && other.calls == leak.calls;
        match all.iter_mut().find(is_same) {
            Some(same) => {
                same.bytes = same.bytes.saturating_add(leak.bytes);
                same.blocks = same.blocks.saturating_add(leak.blocks);
            }
            None => all.push(leak),
        }
    }
    all.sort_by_key(|leak| std::cmp::Reverse((leak.is_direct, leak.bytes)));
    all
}

impl Finding {
    /// Whether a byte at an address is damaged.
    pub fn is_damaged(&self, address: u64) -> bool {
        let (Some(block), Some(damage)) = (&self.block, self.damage) else { return false };
        let start = block.address.wrapping_add_signed(damage.offset);
        address.wrapping_sub(start) < damage.length.unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_fault_is_explained() {
        let ids: BTreeSet<&str> = Kind::all().map(id_of).collect();
        assert_eq!(ids.len(), Kind::all().count());
        assert!(Kind::all().all(|kind| !entry(kind).title.is_empty()));
    }

    #[test]
    fn what_only_covered_leaks_point_to_is_not_told() {
        let leak = |is_direct, points_to: &[usize]| mallow_faults::Leak {
            is_direct,
            points_to: points_to.to_vec(),
            ..Default::default()
        };
        // 0 is covered; 3 has another cause, 5 a covered one between, and 6 one that nobody knows.
        let leaks = vec![
            leak(true, &[2, 3]),
            leak(true, &[3, 4]),
            leak(false, &[2, 7]),
            leak(false, &[]),
            leak(false, &[5]),
            leak(false, &[]),
            leak(false, &[]),
            leak(false, &[2]),
        ];
        let mut fault = Fault { leaks, is_whole: true, ..Fault::default() };
        let covered = [true, false, false, false, true, false, false, false];
        let names =
            |told: Vec<bool>| -> Vec<usize> { (0..told.len()).filter(|at| told[*at]).collect() };
        assert_eq!(names(told(&fault, &covered)), [1, 3, 6]);
        // Without suppressions all are, such as 2 and 7 that no direct one points to then.
        fault.leaks[0].points_to.clear();
        assert_eq!(names(told(&fault, &[false; 8])), [0, 1, 2, 3, 4, 5, 6, 7]);
        fault.leaks[0].points_to = vec![2, 3];
        // Of a report that was cut off, or of an older allocator, no cause is known.
        fault.is_whole = false;
        assert_eq!(names(told(&fault, &covered)), [1, 2, 3, 5, 6, 7]);
    }

    #[test]
    fn leaks_that_nothing_points_to_come_first() {
        let leak = |is_direct, bytes| Leak { bytes, blocks: 1, is_direct, calls: Vec::new() };
        let all = merged([leak(false, 500), leak(true, 8), leak(false, 100)].into_iter());
        let told: Vec<_> = all.iter().map(|leak| (leak.is_direct, leak.bytes)).collect();
        assert_eq!(told, [(true, 8), (false, 600)]);
    }
}
