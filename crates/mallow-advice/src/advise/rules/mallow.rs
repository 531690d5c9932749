// SPDX-License-Identifier: MIT
//! Rules for Mallow's own heap: of a process, or as a dump of its own has it. `costs` weighs what happened in it
//! against time.

mod costs;

use mallow_process::heap::Heap;
use mallow_process::heap::mallow;
use mallow_process::vitals::Limit;
use mallow_stats::Stats;
use mallow_stats::figures::seconds;

use super::super::case::{Case, NOTABLE, size};
use super::{Advice, Rule, Step, Verdict};

const OF: &str = "mallow";
/// What is kept longer than this may as well be kept for ever.
const LONG_DECAY_MS: i64 = 60_000;

pub const RULES: &[Rule] = &[
    Rule {
        id: "MLW2201",
        of: OF,
        reason: "Free pages go back over dirty_decay_ms while the program calls the allocator; one that \
                 rests keeps them.",
        applies: is_mallow,
        judge: dirty,
    },
    Rule {
        id: "MLW2202",
        of: OF,
        reason: "A slab goes back only when all its slots are free.",
        applies: is_mallow,
        judge: slabs,
    },
    Rule {
        id: "MLW3201",
        of: OF,
        reason: "Threads of one arena take its locks in turn when they need pages or slots beyond their \
                 own.",
        applies: is_mallow,
        judge: costs::arenas,
    },
    Rule {
        id: "MLW3202",
        of: OF,
        reason: "What goes back and is needed again costs a call and a page fault for each page.",
        applies: is_mallow,
        judge: costs::needed_again,
    },
    Rule {
        id: "MLW3203",
        of: "mallow, of a process",
        reason: "Without a limit of its own Mallow does not read the control group's, and keeps free pages \
                 for dirty_decay_ms also where the kernel ends a process for lack of memory.",
        applies: is_mallow_process,
        judge: group_limit,
    },
    Rule {
        id: "MLW3204",
        of: "mallow, of a process",
        reason: "What would need more than memory_limit is refused: malloc returns NULL.",
        applies: is_mallow_process,
        judge: own_limit,
    },
];

const NO_ARENAS: &str =
    "the arenas are not in the dump (made with the letters m and a of stats_print_opts)";
const NO_CLASSES: &str =
    "the size classes are not in the dump (made with the letter b of stats_print_opts)";
const AT_REST: &str = "a dump does not tell whether the program rests, and so keeps its free pages; ask the process \
                       itself (mallow advise PID)";

fn is_mallow(case: &Case) -> bool {
    case.stats.allocator == OF
}

fn is_mallow_process(case: &Case) -> bool {
    is_mallow(case) && heap(case).is_some()
}

/// `None` of a dump.
fn heap<'a>(case: &'a Case) -> Option<&'a mallow::Heap> {
    match &case.process.as_ref()?.picture.heap {
        Heap::Mallow(heap) => Some(heap),
        _ => None,
    }
}

fn dirty(case: &Case) -> Verdict {
    let totals = &case.stats.totals;
    let figures = match heap(case) {
        Some(heap) => Some((heap.sum(|arena| arena.dirty), heap.allocated())),
        None => totals.dirty.zip(totals.allocated),
    };
    let Some((dirty, used)) = figures else { return Verdict::Unknown(NO_ARENAS.into()) };
    if dirty < 4 * NOTABLE || dirty < used / 4 {
        return Verdict::Fine;
    }
    let is_counted = match heap(case) {
        Some(_) => "free and resident",
        None => {
            "free and not given back (what of it was ever written a dump does not tell, mallow advise PID does)"
        }
    };
    let evidence = format!("{} {is_counted} beside {} in use", size(dirty), size(used));
    let (decay, thread) = (case.stats.number("dirty_decay_ms"), case.stats.option("purge_thread"));
    match (decay, thread) {
        (Some(decay), _) if !(0..=LONG_DECAY_MS).contains(&decay) => {
            decays_late(case, evidence, decay, thread == Some("true"))
        }
        // What is free was freed just now, or is on its way.
        (Some(_), Some("true")) => Verdict::Fine,
        _ if heap(case).is_none() => Verdict::Unknown(AT_REST.into()),
        (Some(decay), _) => rests(case, evidence, &seconds(decay as f64 / 1000.0)),
        (None, _) => rests(
            case,
            evidence,
            "10 s, unless the program has set another time or has set -1, never",
        ),
    }
}

/// Free pages go back so late that a thread which gives them back does not help.
fn decays_late(case: &Case, evidence: String, decay: i64, has_thread: bool) -> Verdict {
    let kept = match decay {
        ..0 => "for ever".to_owned(),
        _ => format!("for up to {}", seconds(decay as f64 / 1000.0)),
    };
    let when = match has_thread {
        true => "also while the program rests, as purge_thread is on",
        false => {
            "while the program calls the allocator; with purge_thread:true also while it rests"
        }
    };
    let (before, after) = (format!("dirty_decay_ms:{decay}"), "dirty_decay_ms:10000");
    Verdict::Found(Advice {
        evidence: format!("{evidence}; dirty_decay_ms is {decay}, so they are kept {kept}"),
        set: Step::typed(format!("MALLOW_CONF={after}")),
        effect: format!("free pages go back over 10 s {when}"),
        check: case.compare_values(OF, "MALLOW_CONF", &before, after),
    })
}

fn rests(case: &Case, evidence: String, time: &str) -> Verdict {
    Verdict::Found(Advice {
        evidence,
        set: Step::typed("MALLOW_CONF=purge_thread:true"),
        effect: format!(
            "free pages go back within dirty_decay_ms ({time}) also while the program rests"
        ),
        check: case.compare_values(OF, "MALLOW_CONF", "", "purge_thread:true"),
    })
}

fn slabs(case: &Case) -> Verdict {
    let Some((free, used, worst)) = (match heap(case) {
        Some(heap) => Some((heap.free_slots(), heap.allocated(), worst_of_heap(heap))),
        None => slabs_of_dump(case.stats),
    }) else {
        return Verdict::Unknown(NO_CLASSES.into());
    };
    if free < NOTABLE || free < used / 2 {
        return Verdict::Fine;
    }
    Verdict::Found(Advice {
        evidence: format!(
            "{} of free slots beside {} in use, most of {worst} bytes",
            size(free),
            size(used),
        ),
        set: Step::words("allocate what lives long apart from what does not"),
        effect: "slabs become empty and go back; there is no setting for it".into(),
        check: Step::typed(format!("mallow record -o app.trace -- {}", case.typed())),
    })
}

/// The size whose slabs have the most free.
fn worst_of_heap(heap: &mallow::Heap) -> u64 {
    let free = |class: &&mallow::Class| {
        class.bytes.saturating_sub(class.used.saturating_mul(class.slot_size))
    };
    heap.classes.iter().max_by_key(free).map_or(0, |class| class.slot_size)
}

/// Bytes in free slots, bytes with the program, and the size whose slabs have the most free.
fn slabs_of_dump(stats: &Stats) -> Option<(u64, u64, u64)> {
    let in_slabs = stats.classes.iter().filter_map(|class| Some((class.free()?, class.size)));
    let (worst_free, worst) = in_slabs.clone().max()?;
    let in_lists = stats.totals.cached.unwrap_or(0);
    let free = in_slabs.map(|(free, _)| free).fold(in_lists, u64::saturating_add);
    Some((free, stats.totals.allocated?, if worst_free > 0 { worst } else { 0 }))
}

/// What is free in a heap that takes most of what its control group may have, and that limit.
fn near_limit(case: &Case) -> Option<(u64, Limit)> {
    let seen = case.process.as_ref()?;
    let limit = seen.picture.process.memory_limit?;
    let free = heap(case)?.sum(|arena| arena.dirty).min(seen.heap_rss);
    let is_near = seen.heap_rss >= limit.bytes / 4 * 3;
    (is_near && free >= NOTABLE.max(limit.bytes / 8)).then_some((free, limit))
}

/// Whether free memory goes back sooner by a limit; `None` where that is not told.
fn is_limited(case: &Case) -> Option<bool> {
    let (hard, soft) =
        (case.stats.number("memory_limit")?, case.stats.number("memory_soft_limit")?);
    Some(hard != 0 || soft != 0)
}

fn group_limit(case: &Case) -> Verdict {
    let Some((free, limit)) = near_limit(case) else { return Verdict::Fine };
    match is_limited(case) {
        Some(true) => return Verdict::Fine,
        Some(false) => {}
        None => {
            return Verdict::Unknown("this Mallow does not tell whether it has a limit".into());
        }
    }
    Verdict::Found(Advice {
        evidence: format!(
            "{} free and resident; the control group has {} of {} in use",
            size(free),
            size(limit.used),
            size(limit.bytes)
        ),
        set: Step::typed("MALLOW_CONF=memory_soft_limit:90%"),
        effect:
            "free pages go back the sooner the less room the group has left, also where its limit \
                 is lowered; page faults where they are needed again. A program that rests needs \
                 purge_thread:true for it"
                .into(),
        check: case.compare_values(OF, "MALLOW_CONF", "", "memory_soft_limit:90%"),
    })
}

fn own_limit(case: &Case) -> Verdict {
    let Some(seen) = &case.process else { return Verdict::Fine };
    let (stats, process) = (case.stats, &seen.picture.process);
    let limit = stats.number("memory_limit").and_then(|limit| u64::try_from(limit).ok());
    let held = stats.totals.active.zip(stats.totals.metadata);
    let (Some(limit), Some((active, metadata))) = (limit.filter(|limit| *limit != 0), held) else {
        return Verdict::Fine;
    };
    let held = active.saturating_add(metadata);
    // Before anything is refused free pages go back: they do not count.
    if held < NOTABLE || held < limit / 10 * 9 {
        return Verdict::Fine;
    }
    let larger = limit.saturating_add(limit / 2);
    let is_of_group = process.memory_limit.is_some_and(|group| larger > group.bytes);
    let set = match is_of_group {
        true => Step::words("a larger limit of the control group, and then a larger memory_limit"),
        false => Step::typed(format!("MALLOW_CONF=memory_limit:{larger}")),
    };
    Verdict::Found(Advice {
        evidence: format!(
            "blocks in use and bookkeeping take {} of the {} that memory_limit allows",
            size(held),
            size(limit)
        ),
        set,
        effect: format!("malloc goes on working up to {}, where there is so much", size(larger)),
        check: Step::typed(format!("mallow stats {}", process.pid)),
    })
}
