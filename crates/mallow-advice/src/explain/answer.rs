// SPDX-License-Identifier: MIT
//! The sentences that answer "why so much".

use mallow_process::mappings::{Group, Kind};

use super::report::Report;
use crate::amounts::{MIB, size};

/// Why VIRT and RSS are what they are.
pub fn answer(report: &Report) -> String {
    [virt_sentence(report), Some(rss_sentence(report))]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}

fn virt_sentence(report: &Report) -> Option<String> {
    let totals = &report.totals;
    if totals.virt < 4 * totals.rss || totals.virt < 256 * MIB {
        return None;
    }
    let unused = |group: &Group| group.size - group.rss.min(group.size);
    let largest = report.groups.iter().max_by_key(|group| unused(group))?;
    let why = match largest.kind? {
        Kind::GlibcReserve => " (each arena reserves 64 MiB for its threads)",
        Kind::ThreadStack => " (each thread reserves its whole stack)",
        Kind::Reserved => "",
        Kind::RuntimeHeap => " (the runtime reserves what it may need one day)",
        Kind::File | Kind::Library | Kind::Program => " (files are mapped as a whole)",
        _ => " (it is mapped, but was never touched or has been given back)",
    };
    Some(format!(
        "VIRT is {}, but only {} is resident: {} of it is {}{why}, which is address space and \
         costs no memory.",
        size(totals.virt),
        size(totals.rss),
        size(unused(largest)),
        name(largest)
    ))
}

/// What a sentence calls it.
fn name(group: &Group) -> &str {
    match group.kind {
        Some(Kind::GlibcReserve) => "reserved for arenas of glibc",
        Some(Kind::OtherHeap) => "a heap beside malloc's",
        Some(Kind::RuntimeHeap) => "the heap of the runtime",
        Some(Kind::Stack) => "the main stack",
        Some(Kind::ThreadStack) => "stacks of threads",
        Some(Kind::GlibcHeap) => "the main arena of glibc",
        Some(Kind::GlibcBlock) => "large blocks of glibc",
        Some(Kind::Program) => "the program's file and data",
        Some(Kind::File) => "mapped files",
        Some(Kind::Kernel) => "memory of the kernel's own",
        Some(Kind::Anonymous) => "anonymous memory that nothing explains",
        Some(Kind::Reserved) => "reserved without access",
        _ => &group.title,
    }
}

fn rss_sentence(report: &Report) -> String {
    let totals = &report.totals;
    let (_, heap_rss) = report.heap_sums();
    let largest = report.groups.iter().filter(|group| !group.kind.is_some_and(Kind::is_heap));
    let largest = largest.max_by_key(|group| group.rss);
    if let Some(group) = largest.filter(|group| group.rss > heap_rss) {
        if heap_rss == 0 {
            let (rss, part, name) = (size(totals.rss), size(group.rss), name(group));
            return format!("RSS is {rss}: the largest part, {part}, is {name}.");
        }
        return format!(
            "RSS is {}: the largest part, {}, is {}; malloc's heap is {} of it.",
            size(totals.rss),
            size(group.rss),
            name(group),
            size(heap_rss)
        );
    }
    let start = format!(
        "RSS is {}, of which {} is the heap of {}",
        size(totals.rss),
        size(heap_rss),
        report.allocator
    );
    let Some((used, free)) = report.heap.used_and_free() else {
        return format!("{start}; what of that is free cannot be seen from outside.");
    };
    if used > heap_rss {
        let rest = size(used - heap_rss);
        return format!("{start}: {} in use, of which {rest} or more is not resident.", size(used));
    }
    // Of what is free a part has been given back, and of what is in use a part may not be resident either.
    let least = free.min(heap_rss - used);
    let most = free.min(heap_rss);
    let verdict = if least > used {
        "most of it is free and has not been given back"
    } else if least * 4 > used {
        "a good part of it is free and has not been given back"
    } else if most * 10 <= used {
        "the program holds nearly all of it"
    } else if most * 4 <= used {
        "the program holds most of it"
    } else {
        "how much of it is free cannot be told more exactly"
    };
    let (used, least, most) = (size(used), size(least), size(most));
    let free = if least == most { least } else { format!("{least} to {most}") };
    format!("{start}: {used} in use, {free} free but resident; {verdict}.")
}
