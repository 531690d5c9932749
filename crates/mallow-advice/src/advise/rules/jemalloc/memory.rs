// SPDX-License-Identifier: MIT
//! Memory that is free: what goes back too soon, too late, or not at all.

use mallow_stats::Class;

use super::super::super::case::{Case, MIB, NOTABLE, count, percent, rate, size};
use super::super::{Advice, Step, Verdict};
use super::{MANY, MANY_A_SECOND, set, unknown};

pub fn decay_at_once(case: &Case) -> Verdict {
    let stats = case.stats;
    let Some(dirty) = stats.number("dirty_decay_ms") else { return unknown("the options are") };
    if dirty != 0 || stats.number("muzzy_decay_ms").unwrap_or(0) > 0 {
        return Verdict::Fine;
    }
    let calls = stats.dirty_purges.calls.unwrap_or(0);
    let is_often = rate(calls, stats).is_none_or(|calls| calls >= MANY_A_SECOND);
    if calls < MANY || !is_often {
        return Verdict::Fine;
    }
    let each_second = rate(calls, stats)
        .map_or(String::new(), |rate| format!(", {} a second", count(rate as u64)));
    let evidence = format!(
        "dirty_decay_ms is 0: {} calls of madvise{each_second}, {} given back in all",
        count(calls),
        size(stats.dirty_purges.bytes.unwrap_or(0))
    );
    set(
        case,
        evidence,
        "dirty_decay_ms",
        "10000",
        "nearly all of these calls and the page faults behind them go away; memory of a peak goes \
         back over 10 s. 1000 is a step in between",
    )
}

pub fn decay_never(case: &Case) -> Verdict {
    let stats = case.stats;
    let Some(dirty) = stats.number("dirty_decay_ms") else { return unknown("the options are") };
    let muzzy = stats.number("muzzy_decay_ms").unwrap_or(0);
    let option = match (dirty, muzzy) {
        (-1, _) => "dirty_decay_ms",
        // Muzzy pages stay with the kernel's leave to take them.
        (_, -1) => "muzzy_decay_ms",
        _ => return Verdict::Fine,
    };
    let Some(dirty) = stats.totals.dirty else { return unknown("the arenas are") };
    let free = dirty.saturating_add(stats.totals.muzzy.unwrap_or(0));
    if free < NOTABLE {
        return Verdict::Fine;
    }
    set(
        case,
        format!("{option} is -1; {} of free pages are kept", size(free)),
        option,
        "10000",
        "free pages go back; what is kept can no longer end in an out-of-memory kill",
    )
}

pub fn background(case: &Case) -> Verdict {
    let stats = case.stats;
    let (Some(dirty), Some(active)) = (stats.totals.dirty, stats.totals.active) else {
        return unknown("the arenas are");
    };
    let decay = stats.number("dirty_decay_ms").unwrap_or(10_000);
    // Within the decay time dirty pages are as they should be.
    let is_old = stats.uptime_s().is_some_and(|time| time * 1000.0 > 3.0 * decay as f64);
    let is_off = stats.option("background_thread") == Some("false");
    if !is_off || decay <= 0 || !is_old || dirty < 4 * NOTABLE || dirty < active / 4 {
        return Verdict::Fine;
    }
    set(
        case,
        format!(
            "{} of free pages are resident beside {} in use; background_thread is off",
            size(dirty),
            size(active)
        ),
        "background_thread",
        "true",
        "free pages go back also while the program rests, and its own threads no longer call madvise",
    )
}

pub fn fragmentation(case: &Case) -> Verdict {
    let stats = case.stats;
    let Some(active) = stats.totals.active else { return unknown("the totals are") };
    let mut free: Vec<(u64, &Class)> =
        stats.classes.iter().filter_map(|class| Some((class.free()?, class))).collect();
    if free.is_empty() {
        return unknown("the size classes are");
    }
    let sum = free.iter().map(|(free, _)| *free).fold(0, u64::saturating_add);
    if sum < NOTABLE || sum < active / 4 {
        return Verdict::Fine;
    }
    free.sort_by_key(|(free, _)| std::cmp::Reverse(*free));
    let most: Vec<String> = free
        .iter()
        .take(3)
        .filter(|(free, _)| *free >= MIB)
        .map(|(free, class)| format!("{} bytes {}", class.size, size(*free)))
        .collect();
    let arenas = stats.arenas_for_threads.unwrap_or(1);
    let evidence = format!(
        "{} of {} in slabs ({:.0} % of what is active) is free: {}",
        size(sum),
        size(active),
        percent(sum, active),
        most.join(", ")
    );
    let effect = "slabs fill better where fewer arenas have them; threads share arenas more, so look \
                  at time as well. If the survivors of a peak hold the slabs, allocate what lives \
                  long apart from what does not";
    if arenas > 2 {
        return set(case, evidence, "narenas", &(arenas / 2).to_string(), effect);
    }
    Verdict::Found(Advice {
        evidence,
        set: Step::words("allocate what lives long apart from what does not"),
        effect: "slabs become empty and go back".into(),
        check: Step::typed(format!("mallow record -o app.trace -- {}", case.typed())),
    })
}

pub fn huge_pages(case: &Case) -> Verdict {
    let stats = case.stats;
    let Some(own) = stats.option("thp") else { return unknown("the options are") };
    let is_always =
        own == "always" || own == "default" && stats.option("system.thp_mode") == Some("always");
    let purges = stats.dirty_purges.calls.unwrap_or(0) + stats.muzzy_purges.calls.unwrap_or(0);
    let is_often = rate(purges, stats).is_none_or(|calls| calls >= MANY_A_SECOND);
    if !is_always || purges < MANY || !is_often {
        return Verdict::Fine;
    }
    set(
        case,
        format!("huge pages are always on, and {} calls gave memory back", count(purges)),
        "thp",
        "never",
        "RSS no longer comes back after purging; more TLB misses where the heap is large, so look at \
         time as well",
    )
}
