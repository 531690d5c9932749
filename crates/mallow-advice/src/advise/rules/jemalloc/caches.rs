// SPDX-License-Identifier: MIT
//! The caches of threads, and the slabs that they are filled from.

use mallow_stats::{Class, Stats};

use super::super::super::case::{Case, NOTABLE, count, counted, rate, size};
use super::super::{Advice, Step, Verdict};
use super::{MANY, MANY_A_SECOND, OF, is_of_the_end, set, unknown};

/// A cache that serves so many requests from one fill is deep enough.
const REQUESTS_A_FILL: u64 = 64;
/// A slab with no more blocks is used up at once.
const FEW_BLOCKS: u64 = 8;
/// jemalloc's own, of a dump that does not say it.
const PAGE: u64 = 4096;

/// Advice to make the caches of threads deeper, by the option that bounds them now.
pub fn deeper(case: &Case, evidence: String) -> Verdict {
    let Some(multiplier) = case.stats.number("lg_tcache_nslots_mul") else {
        return Verdict::Found(Advice {
            evidence,
            set: Step::words("jemalloc 5.3 or later, which has lg_tcache_nslots_mul"),
            effect: "the depth of the caches can be set".into(),
            check: case.compare(OF),
        });
    };
    let value = (multiplier + 1).to_string();
    set(
        case,
        evidence,
        "lg_tcache_nslots_mul",
        &value,
        "caches of threads hold twice as many blocks and are filled half as often; each thread keeps \
         more free memory",
    )
}

/// Blocks that the cache of a thread holds of a size.
fn slots(class: &Class, stats: &Stats) -> Option<u64> {
    let option = |name, default| stats.number(name).map_or(default, |value| value.max(0) as u64);
    let blocks = class.blocks_per_slab?;
    let multiplier = stats.number("lg_tcache_nslots_mul").unwrap_or(1);
    let wanted = if multiplier >= 0 {
        blocks.checked_shl(multiplier.min(32) as u32)?
    } else {
        blocks >> multiplier.unsigned_abs().min(63)
    };
    let (least, most) =
        (option("tcache_nslots_small_min", 20), option("tcache_nslots_small_max", 200));
    Some(wanted.clamp(least, most.max(least)))
}

/// Sizes whose caches are filled often, and from each fill serve few requests.
pub fn hot(stats: &Stats) -> impl Iterator<Item = &Class> {
    stats.classes.iter().filter(|class| {
        let (fills, requests) = (class.fills.unwrap_or(0), class.requests.unwrap_or(0));
        class.is_small
            && fills >= MANY
            && rate(fills, stats).is_none_or(|fills| fills >= MANY_A_SECOND)
            && requests / fills.max(1) < REQUESTS_A_FILL
    })
}

fn has_fills(stats: &Stats) -> bool {
    stats.classes.iter().any(|class| class.fills.is_some())
}

fn worst<'a>(classes: impl Iterator<Item = &'a Class>) -> Option<&'a Class> {
    classes.max_by_key(|class| class.fills)
}

fn fills(class: &Class, stats: &Stats) -> String {
    let fills = class.fills.unwrap_or(0);
    let slots = slots(class, stats).map_or(String::new(), |slots| format!(", {slots} in a cache"));
    format!(
        "{} bytes: {} fills for {} requests; {} in a slab{slots}",
        class.size,
        count(fills),
        count(class.requests.unwrap_or(0)),
        counted(class.blocks_per_slab.unwrap_or(0), "block")
    )
}

pub fn slabs(case: &Case) -> Verdict {
    let stats = case.stats;
    if !has_fills(stats) {
        return unknown("the size classes are");
    }
    let few = || hot(stats).filter(|class| has_few_blocks(class, stats));
    let Some(class) = worst(few()) else { return Verdict::Fine };
    let (first, last) = (few().next().unwrap_or(class), few().last().unwrap_or(class));
    let pages = pages_for(last.size, page_of(stats));
    let sizes: Vec<String> = few().map(|class| class.size.to_string()).collect();
    let others = match sizes.len() {
        1 => String::new(),
        _ => format!(" (the same of {} bytes)", sizes.join(", ")),
    };
    set(
        case,
        fills(class, stats) + &others,
        "slab_sizes",
        &format!("{}-{}:{pages}", first.size, last.size),
        "fewer slabs are made and dropped, and caches hold more blocks, so fills become rarer; up to \
         one larger slab for each size and arena is partly free",
    )
}

/// Whether its slabs hold few blocks, and larger ones would hold more.
fn has_few_blocks(class: &Class, stats: &Stats) -> bool {
    let page = page_of(stats);
    let larger = pages_for(class.size, page).saturating_mul(page);
    let is_smaller = class.slab_size.is_some_and(|slab| slab < larger);
    is_smaller && class.blocks_per_slab.is_some_and(|blocks| blocks <= FEW_BLOCKS)
}

/// A power of two, as a dump may say anything.
fn page_of(stats: &Stats) -> u64 {
    stats.page_size.filter(|page| page.is_power_of_two() && *page >= PAGE).unwrap_or(PAGE)
}

/// Pages that hold 32 blocks, a power of two, up to 64 KiB as long as that holds one.
fn pages_for(size: u64, page: u64) -> u64 {
    const BLOCKS: u64 = 32;
    const MOST: u64 = 64 << 10;
    let pages = |bytes: u64| bytes.div_ceil(page).max(1).next_power_of_two();
    pages(size.saturating_mul(BLOCKS).min(MOST)).max(pages(size.min(1 << 30)))
}

pub fn depth(case: &Case) -> Verdict {
    let stats = case.stats;
    if !has_fills(stats) {
        return unknown("the size classes are");
    }
    let many = |class: &&Class| !has_few_blocks(class, stats);
    let Some(class) = worst(hot(stats).filter(many)) else { return Verdict::Fine };
    let evidence = fills(class, stats);
    let most = stats.number("tcache_nslots_small_max").unwrap_or(200).max(1) as u64;
    if stats.number("lg_tcache_nslots_mul").is_some() && slots(class, stats) >= Some(most) {
        return set(
            case,
            evidence,
            "tcache_nslots_small_max",
            &(2 * most).to_string(),
            "caches of this size hold twice as many blocks; each thread keeps more free memory",
        );
    }
    deeper(case, evidence)
}

pub fn large(case: &Case) -> Verdict {
    const MANY_LARGE: u64 = 10_000;
    const A_SECOND: f64 = 1000.0;
    const DEFAULT: u64 = 32 << 10;
    let stats = case.stats;
    let (Some(requests), Some(allocations)) = (stats.large.requests, stats.large.allocations)
    else {
        return unknown("the large blocks are");
    };
    let is_often = rate(requests, stats).is_none_or(|rate| rate >= A_SECOND);
    // Those of caches are requests without an allocation from the arena.
    if requests < MANY_LARGE || !is_often || 2 * allocations < requests {
        return Verdict::Fine;
    }
    let each_second = rate(requests, stats)
        .map_or(String::new(), |rate| format!(", {} a second", count(rate as u64)));
    let evidence = format!(
        "{} large blocks asked for{each_second}, {} of them not from a cache",
        count(requests),
        count(allocations)
    );
    let effect = "blocks up to this size wait in the caches of threads, 20 of each size and thread; \
                  which sizes they are, mallow record tells";
    if stats.number("lg_tcache_max").is_some() {
        return set(case, evidence, "lg_tcache_max", "18", effect);
    }
    // Since 5.3.1, which has this option, eight pages are the most.
    let is_bounded = stats.option("disable_large_size_classes").is_some();
    let most = if is_bounded { 8 * page_of(stats) } else { 8 << 20 };
    let now = stats.number("tcache_max").map_or(DEFAULT, |now| now.max(0) as u64);
    let larger = now.max(DEFAULT).saturating_mul(8).min(most);
    if larger > now {
        return set(case, evidence, "tcache_max", &larger.to_string(), effect);
    }
    Verdict::Found(Advice {
        evidence,
        set: Step::words(format!(
            "use such blocks again in the program, or another allocator: this jemalloc caches none \
             above {}",
            size(most)
        )),
        effect: "no lock is taken and no page split for what is used again".into(),
        check: case.compare(""),
    })
}

pub fn caches_off(case: &Case) -> Verdict {
    match case.stats.option("tcache") {
        None => unknown("the options are"),
        Some("false") => set(
            case,
            format!(
                "tcache is false; {} requests, each under a lock",
                count(case.stats.requests())
            ),
            "tcache",
            "true",
            "most calls take no lock; each thread keeps some free blocks",
        ),
        Some(_) => Verdict::Fine,
    }
}

pub fn caches_large(case: &Case) -> Verdict {
    let stats = case.stats;
    let (Some(cached), Some(allocated)) = (stats.totals.cached, stats.totals.allocated) else {
        return if is_of_the_end(stats) { Verdict::Fine } else { unknown("the caches are") };
    };
    if cached < 4 * NOTABLE || cached < allocated / 4 {
        return Verdict::Fine;
    }
    let threads = stats.threads.unwrap_or(0);
    let evidence = format!(
        "{} in the caches of {threads} threads, beside {} with the program",
        size(cached),
        size(allocated)
    );
    let Some(multiplier) = stats.number("lg_tcache_nslots_mul") else {
        return set(case, evidence, "lg_tcache_max", "13", "caches hold smaller blocks only");
    };
    set(
        case,
        evidence,
        "lg_tcache_nslots_mul",
        &(multiplier - 1).to_string(),
        "caches hold half as many blocks; they are filled more often. Threads that rest can give \
         theirs back: mallctl thread.idle",
    )
}
