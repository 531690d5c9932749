// SPDX-License-Identifier: MIT
//! Rules for glibc's heaps, as they are walked from outside.

use mallow_process::heap::Heap;
use mallow_process::heap::glibc::{Arena, Heaps};

use super::super::case::{Case, NOTABLE, percent, size};
use super::{Advice, Rule, Step, Verdict};
use crate::arenas;

const OF: &str = "glibc";

pub const RULES: &[Rule] = &[
    Rule {
        id: "MLW2102",
        of: OF,
        reason: "glibc gives back only the end of a heap by itself; free pages in between stay.",
        applies: is_glibc,
        judge: trim,
    },
    Rule {
        id: "MLW2103",
        of: OF,
        reason: "The trim threshold grows with the largest block that was freed, and with it what \
                 stays at the end.",
        applies: is_glibc,
        judge: top,
    },
    Rule {
        id: "MLW2104",
        of: OF,
        reason: "Threads of one arena wait for each other in malloc and free.",
        applies: is_glibc,
        judge: threads,
    },
    Rule {
        id: "MLW2105",
        of: OF,
        reason: "glibc counts the machine's CPUs, not those that the control group allows, and each \
                 arena keeps free memory of its own.",
        applies: is_glibc,
        judge: quota,
    },
    Rule {
        id: "MLW2108",
        of: OF,
        reason: "No page between the blocks in use is free as a whole, so malloc_trim cannot give it \
                 back.",
        applies: is_glibc,
        judge: pinned,
    },
];

fn is_glibc(case: &Case) -> bool {
    case.stats.allocator == OF
}

/// The heaps, or why there are none.
fn heaps<'a>(case: &'a Case) -> Result<&'a Heaps, Verdict> {
    match case.process.as_ref().map(|seen| &seen.picture.heap) {
        Some(Heap::Glibc(heaps)) => Ok(heaps),
        _ => Err(Verdict::Unknown(
            "malloc_info does not tell what is resident and which threads use an arena; mallow \
             advise PID reads that from the process"
                .into(),
        )),
    }
}

fn trim(case: &Case) -> Verdict {
    let heaps = match heaps(case) {
        Ok(heaps) => heaps,
        Err(verdict) => return verdict,
    };
    let pid = case.process.as_ref().map_or(0, |seen| seen.picture.process.pid);
    let (free, used) = (heaps.sum(|arena| arena.chunks.free_resident), heaps.used());
    if free < NOTABLE || free < used / 4 {
        return Verdict::Fine;
    }
    Verdict::Found(Advice {
        evidence: format!(
            "{} in free pages that are resident, counted page by page, beside {} in use",
            size(free),
            size(used)
        ),
        set: Step::words(
            "malloc_trim(0) in the program after its peaks, or an allocator that gives memory back",
        ),
        effect: format!(
            "RSS falls by {}, until the same pattern needs it again and pays for it in page faults",
            size(heaps.sum(Arena::trimmable))
        ),
        check: Step::words(format!(
            "gdb -p {pid} -batch -ex 'call (int)malloc_trim(0)' stops it for a moment and does it \
             once; mallow watch {pid} then shows RSS and the faults that follow. {}",
            case.compare("glibc,mallow").text()
        )),
    })
}

fn top(case: &Case) -> Verdict {
    let heaps = match heaps(case) {
        Ok(heaps) => heaps,
        Err(verdict) => return verdict,
    };
    let (top, used) = (heaps.sum(|arena| arena.chunks.top_resident), heaps.used());
    if top < NOTABLE || top < used / 4 {
        return Verdict::Fine;
    }
    let set = "GLIBC_TUNABLES=glibc.malloc.trim_threshold=131072";
    Verdict::Found(Advice {
        evidence: format!("{} at the ends of the heaps, beside {} in use", size(top), size(used)),
        set: Step::typed(set),
        effect: format!("up to {} goes back; page faults when it is needed again", size(top)),
        check: case.compare_values(OF, "GLIBC_TUNABLES", "", "glibc.malloc.trim_threshold=131072"),
    })
}

fn threads(case: &Case) -> Verdict {
    let heaps = match heaps(case) {
        Ok(heaps) => heaps,
        Err(verdict) => return verdict,
    };
    let count = heaps.arenas.len() as u64;
    let attached = heaps.sum(|arena| arena.threads.unwrap_or(0));
    let most = heaps.arenas.iter().filter_map(|arena| arena.threads).max().unwrap_or(0);
    let enough = case
        .process
        .as_ref()
        .and_then(|seen| arenas::enough(seen.runtime, seen.picture.process.cpu_quota));
    if most < 4 || attached < 2 * count || enough.is_some_and(|enough| count >= enough) {
        return Verdict::Fine;
    }
    Verdict::Found(Advice {
        evidence: format!("{attached} threads in {count} arenas, up to {most} in one"),
        set: Step::words(format!(
            "MALLOC_ARENA_MAX={attached}, or an allocator whose threads have heaps of their own"
        )),
        effect:
            "threads that allocate at the same time wait less; each arena keeps free memory of \
                 its own"
                .into(),
        check: case.compare(""),
    })
}

fn quota(case: &Case) -> Verdict {
    let heaps = match heaps(case) {
        Ok(heaps) => heaps,
        Err(verdict) => return verdict,
    };
    let Some(seen) = &case.process else { return Verdict::Fine };
    let (count, process) = (heaps.arenas.len() as u64, &seen.picture.process);
    // Without a quota glibc counts right.
    let Some(quota) = process.cpu_quota else { return Verdict::Fine };
    let free = heaps.sum(|arena| arena.chunks.free_resident + arena.chunks.top_resident);
    if count as f64 <= 4.0 * quota.max(1.0) || process.cpus as f64 <= quota || free < NOTABLE {
        return Verdict::Fine;
    }
    let value = arenas::for_quota(quota).to_string();
    Verdict::Found(Advice {
        evidence: format!(
            "{count} arenas, with {} free but resident, for {quota:.1} CPUs of the control group; the \
             machine has {}",
            size(free),
            process.cpus
        ),
        set: Step::typed(format!("MALLOC_ARENA_MAX={value}")),
        effect:
            "free memory of the arenas comes together, so RSS falls; with this few CPUs threads \
                 rarely wait"
                .into(),
        check: case.compare_values(OF, "MALLOC_ARENA_MAX", "", &value),
    })
}

fn pinned(case: &Case) -> Verdict {
    let heaps = match heaps(case) {
        Ok(heaps) => heaps,
        Err(verdict) => return verdict,
    };
    let Some(seen) = &case.process else { return Verdict::Fine };
    // Blocks with mappings of their own pin nothing, nor does what others took from the break.
    let beside = heaps.mapped.in_use().saturating_add(heaps.untold());
    let resident = seen.heap_rss.saturating_sub(beside);
    let used = heaps.sum(Arena::used);
    let movable = heaps.sum(|arena| arena.chunks.free_resident + arena.chunks.top_resident);
    let pinned = resident.saturating_sub(used + movable);
    if pinned < NOTABLE || pinned < resident / 4 {
        return Verdict::Fine;
    }
    Verdict::Found(Advice {
        evidence: format!(
            "{} of {} resident ({:.0} %) is free in pieces smaller than a page",
            size(pinned),
            size(resident),
            percent(pinned, resident)
        ),
        set: Step::words(
            "an allocator that keeps sizes apart; or allocate what lives long apart from what does \
             not",
        ),
        effect: "whole pages become free and can go back".into(),
        check: case.compare(""),
    })
}
