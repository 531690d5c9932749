// SPDX-License-Identifier: MIT
//! mimalloc's JSON (`mi_stats_get_json`) of 2.2 and later, and 3.

use serde_json::Value;

use crate::fields::{list, number};
use crate::vocabulary::{Class, Purges, Stats, Totals};

pub fn read(dump: &Value) -> Option<Stats> {
    let dump = dump.as_object().map(|_| dump)?;
    let current = |name| number(dump.get(name)?, "current");
    let process = dump.get("process").filter(|process| process.is_object())?;
    let mut stats = Stats {
        allocator: "mimalloc".into(),
        version: number(dump, "mimalloc_version").map(version),
        uptime_ns: number(process, "elapsed_msecs").map(|time| time.saturating_mul(1_000_000)),
        threads: current("threads"),
        arenas_for_threads: number(dump, "arena_count"),
        totals: Totals {
            allocated: allocated(dump),
            active: current("page_committed").filter(|bytes| *bytes > 0),
            resident: resident(process),
            mapped: current("committed"),
            retained: current("reserved")
                .zip(current("committed"))
                .map(|(reserved, committed)| reserved.saturating_sub(committed)),
            ..Totals::default()
        },
        classes: list(dump, "malloc_bins").iter().filter_map(class).collect(),
        dirty_purges: Purges {
            calls: number(dump, "purge_calls"),
            bytes: number(dump, "purged"),
            rounds: number(dump, "arena_purges"),
        },
        ..Stats::default()
    };
    let mut say = |is_missing: bool, sentence: &str| {
        if is_missing {
            stats.missing.push(sentence.to_owned());
        }
    };
    say(
        stats.totals.allocated.is_none(),
        "This mimalloc does not count blocks: a build with MI_STAT=1 does.",
    );
    say(
        stats.totals.resident.is_none(),
        "mimalloc does not know what is resident; mallow explain PID does.",
    );
    Some(stats)
}

/// 30600 is 3.6.0, as was 315 3.1.5 before.
fn version(number: u64) -> String {
    let base = if number >= 10_000 { 100 } else { 10 };
    format!("{}.{}.{}", number / (base * base), number / base % base, number % base)
}

fn allocated(dump: &Value) -> Option<u64> {
    let counted = |name| {
        let count = dump.get(name)?;
        // Nothing was ever counted: the build does not.
        number(count, "total").filter(|total| *total > 0)?;
        number(count, "current")
    };
    counted("allocated").or_else(|| {
        let huge = counted("malloc_huge").unwrap_or(0);
        Some(counted("malloc_normal")?.saturating_add(huge))
    })
}

/// Where mimalloc does not know it, it shows what it has committed in its place.
fn resident(process: &Value) -> Option<u64> {
    let resident = number(process, "rss_current")?;
    (Some(resident) != number(process, "commit_current")).then_some(resident)
}

fn class(bin: &Value) -> Option<Class> {
    let requests = number(bin, "total").filter(|total| *total > 0)?;
    let slab_size = number(bin, "page_size").filter(|size| *size > 0);
    let size = number(bin, "block_size").filter(|size| *size > 0)?;
    Some(Class {
        size,
        is_small: slab_size.is_some(),
        slab_size,
        blocks_per_slab: slab_size.map(|slab| slab / size),
        used: number(bin, "current"),
        requests: Some(requests),
        ..Class::default()
    })
}
