// SPDX-License-Identifier: MIT
//! Rules for jemalloc's counters: `locks` that threads wait for, `caches` of threads and what fills
//! them, `memory` that is free and stays or goes.

mod caches;
mod locks;
mod memory;

use mallow_stats::Stats;

use super::super::case::Case;
use super::{Advice, Rule, Step, Verdict};

const OF: &str = "jemalloc";
/// Fills of caches, or calls to the kernel, that are worth a look.
const MANY: u64 = 1000;
const MANY_A_SECOND: f64 = 100.0;

pub const RULES: &[Rule] = &[
    Rule {
        id: "MLW3101",
        of: OF,
        reason: "Each arena has its own locks and lists; threads of one arena wait for each other.",
        applies: is_jemalloc,
        judge: locks::arenas,
    },
    Rule {
        id: "MLW3102",
        of: OF,
        reason: "Address space without memory is the last place where pages are looked for. Who \
                 gets there also pays for the page faults.",
        applies: is_jemalloc,
        judge: locks::retained,
    },
    Rule {
        id: "MLW3103",
        of: OF,
        reason: "Pages that left the dirty list are looked for in the muzzy one, which is one lock \
                 more.",
        applies: is_jemalloc,
        judge: locks::muzzy,
    },
    Rule {
        id: "MLW3104",
        of: OF,
        reason: "Every slab that is made or dropped takes this lock. Deeper caches of threads make \
                 that rarer.",
        applies: is_jemalloc,
        judge: locks::dirty,
    },
    Rule {
        id: "MLW3105",
        of: OF,
        reason: "A slab of few blocks is used up at once, and its size decides how many blocks the \
                 cache of a thread holds.",
        applies: is_jemalloc,
        judge: caches::slabs,
    },
    Rule {
        id: "MLW3106",
        of: OF,
        reason: "All threads of an arena take blocks of one size under one lock, unless it is split.",
        applies: is_jemalloc,
        judge: locks::bin_locks,
    },
    Rule {
        id: "MLW3107",
        of: OF,
        reason: "An empty cache is filled under the lock of an arena. A deeper one is filled more \
                 rarely.",
        applies: is_jemalloc,
        judge: caches::depth,
    },
    Rule {
        id: "MLW3108",
        of: OF,
        reason: "Blocks above tcache_max are split from free pages and merged again, under the \
                 arena's locks, at each malloc and free.",
        applies: is_jemalloc,
        judge: caches::large,
    },
    Rule {
        id: "MLW3109",
        of: OF,
        reason: "What is given back at once comes back as page faults when it is needed again.",
        applies: is_jemalloc,
        judge: memory::decay_at_once,
    },
    Rule {
        id: "MLW3110",
        of: OF,
        reason: "A peak then stays for as long as the program runs.",
        applies: is_jemalloc,
        judge: memory::decay_never,
    },
    Rule {
        id: "MLW3111",
        of: OF,
        reason: "Without background threads pages are given back only when the program calls the \
                 allocator, arena by arena; an arena that rests keeps its own.",
        applies: is_jemalloc,
        judge: memory::background,
    },
    Rule {
        id: "MLW3112",
        of: OF,
        reason: "A slab goes back only when all its blocks are free, and each arena has slabs of its \
                 own.",
        applies: is_jemalloc,
        judge: memory::fragmentation,
    },
    Rule {
        id: "MLW3113",
        of: OF,
        reason: "Without caches every malloc and free takes the lock of an arena.",
        applies: is_jemalloc,
        judge: caches::caches_off,
    },
    Rule {
        id: "MLW3114",
        of: OF,
        reason: "Each thread has caches of its own for every size; what lies in them serves nobody \
                 else.",
        applies: is_jemalloc,
        judge: caches::caches_large,
    },
    Rule {
        id: "MLW3115",
        of: OF,
        reason: "Giving back 4 KiB splits a page of 2 MiB, and the kernel joins it again: both cost \
                 time, and the second brings the memory back.",
        applies: is_jemalloc,
        judge: memory::huge_pages,
    },
];

fn is_jemalloc(case: &Case) -> bool {
    case.stats.allocator == OF
}

/// Advice to set an option.
fn set(case: &Case, evidence: String, option: &str, value: &str, effect: &str) -> Verdict {
    let before = case.stats.option(option).map_or(String::new(), |now| format!("{option}:{now}"));
    let after = format!("{option}:{value}");
    Verdict::Found(Advice {
        evidence,
        set: Step::typed(format!("MALLOC_CONF={after}")),
        effect: effect.to_owned(),
        check: case.compare_values(OF, "MALLOC_CONF", &before, &after),
    })
}

fn unknown(what: &str) -> Verdict {
    Verdict::Unknown(format!("{what} not in the dump"))
}

/// The dump was made when the program ended, and the threads had ended before it.
pub(super) fn is_of_the_end(stats: &Stats) -> bool {
    stats.threads.is_some_and(|threads| threads <= 1) && stats.option("stats_print") == Some("true")
}

#[cfg(test)]
mod tests;
