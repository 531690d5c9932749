// SPDX-License-Identifier: MIT
//! Locks that threads wait for.

use mallow_stats::{Class, Lock, Stats};

use super::super::super::case::{Case, count, counted, rate};
use super::super::Verdict;
use super::{caches, is_of_the_end, set, unknown};

/// Threads that share an arena before it is worth a thought.
const MANY_THREADS: u64 = 4;
/// A lock that is found taken less often than this costs nothing.
const FEW_CONTENTIONS: u64 = 50;
/// A part of all operations: one in 200.
const CONTENDED_PART: u64 = 200;
/// Threads that wait for a lock, on average.
const WAITING: f64 = 0.1;
const WAITS_A_SECOND: f64 = 10.0;

fn is_contended(lock: &Lock, stats: &Stats) -> bool {
    let contended = lock.contended();
    if contended < FEW_CONTENTIONS {
        return false;
    }
    if lock.waiting(stats.uptime_ns).is_some_and(|threads| threads >= WAITING) {
        return true;
    }
    let is_large_part = contended.saturating_mul(CONTENDED_PART) >= lock.operations;
    let waits = lock.waits.unwrap_or(0);
    // Where the times are not known.
    let is_often =
        lock.wait_ns.is_none() && rate(waits, stats).is_some_and(|waits| waits >= WAITS_A_SECOND);
    is_large_part || is_often
}

fn figures(lock: &Lock, stats: &Stats) -> String {
    let waiting = match lock.waiting(stats.uptime_ns) {
        Some(threads) if threads >= 0.05 => format!(", {threads:.1} threads waiting on average"),
        _ => String::new(),
    };
    format!(
        "{}: taken {} times, of which {} with a wait and {} while spinning{waiting}",
        lock.name,
        count(lock.operations),
        count(lock.waits.unwrap_or(0)),
        count(lock.spins.unwrap_or(0))
    )
}

/// The locks of arenas and of sizes.
fn arena_locks(stats: &Stats) -> Vec<Lock> {
    const OF_PROCESS: [&str; 9] = [
        "background_thread",
        "max_per_bg_thd",
        "ctl",
        "prof",
        "prof_thds_data",
        "prof_dump",
        "prof_recent_alloc",
        "prof_recent_dump",
        "prof_stats",
    ];
    let of_arenas =
        stats.locks.iter().filter(|lock| !OF_PROCESS.contains(&lock.name.as_str())).cloned();
    let of_sizes = stats.classes.iter().filter_map(|class| {
        let lock = class.lock.clone()?;
        Some(Lock { name: format!("slabs of {} bytes", class.size), ..lock })
    });
    of_arenas.chain(of_sizes).collect()
}

pub fn arenas(case: &Case) -> Verdict {
    let stats = case.stats;
    if is_of_the_end(stats) {
        return Verdict::Unknown(
            "the dump was made when the program ended, without its threads; one of a running \
             program shows them (mallow help MLW3101)"
                .into(),
        );
    }
    let (Some(threads), Some(arenas)) = (stats.threads, stats.arenas_for_threads) else {
        return unknown("threads and arenas are");
    };
    let each = threads / arenas.max(1);
    if each < MANY_THREADS {
        return Verdict::Fine;
    }
    let locks = arena_locks(stats);
    if locks.is_empty() {
        return unknown("the locks are");
    }
    let contended = locks.iter().filter(|lock| is_contended(lock, stats));
    let Some(worst) = contended.max_by_key(|lock| (lock.wait_ns, lock.contended())) else {
        return Verdict::Fine;
    };
    let evidence = format!(
        "{} on {}, {each} on each; {}",
        counted(threads, "thread"),
        counted(arenas, "arena"),
        figures(worst, stats)
    );
    let wanted = (threads / 2).next_power_of_two();
    set(
        case,
        evidence,
        "narenas",
        &wanted.to_string(),
        "threads wait less; memory grows by what the added arenas keep. Where a few threads allocate \
         most, arenas of their own (mallctl arenas.create, thread.arena) give the same for less \
         memory",
    )
}

/// A contended lock of this name, or why there is nothing to say.
fn contended<'a>(stats: &'a Stats, name: &str) -> Result<&'a Lock, Verdict> {
    if stats.locks.is_empty() {
        return Err(unknown("the locks are"));
    }
    let lock = stats.lock(name).filter(|lock| is_contended(lock, stats));
    lock.ok_or(Verdict::Fine)
}

pub fn retained(case: &Case) -> Verdict {
    let lock = match contended(case.stats, "extents_retained") {
        Ok(lock) => lock,
        Err(verdict) => return verdict,
    };
    let evidence = figures(lock, case.stats);
    if case.stats.number("dirty_decay_ms") == Some(0) {
        // Nothing is ever in the lists before this one.
        return set(
            case,
            evidence + "; dirty_decay_ms is 0",
            "dirty_decay_ms",
            "10000",
            "freed pages are found again before they are given back; RSS follows a peak down more \
             slowly",
        );
    }
    let value = longer(case.stats.number("muzzy_decay_ms"));
    set(
        case,
        evidence,
        "muzzy_decay_ms",
        &value,
        "pages stay longer where they are found without this lock; RSS shows more. Not -1, which \
         never gives memory back and ends in an out-of-memory kill",
    )
}

/// Ten times as long as now; 10 s where it is at once.
fn longer(now: Option<i64>) -> String {
    const FIRST: i64 = 10_000;
    const LONGEST: i64 = 600_000;
    match now {
        Some(now) if now > 0 => now.saturating_mul(10).min(LONGEST).max(now).to_string(),
        _ => FIRST.to_string(),
    }
}

pub fn muzzy(case: &Case) -> Verdict {
    match contended(case.stats, "extents_muzzy") {
        Ok(lock) => set(
            case,
            figures(lock, case.stats),
            "dirty_decay_ms",
            &longer(case.stats.number("dirty_decay_ms")),
            "pages stay dirty longer, where they are looked for first; RSS follows a peak down more \
             slowly. Not -1, which never gives memory back and ends in an out-of-memory kill",
        ),
        Err(verdict) => verdict,
    }
}

pub fn dirty(case: &Case) -> Verdict {
    match contended(case.stats, "extents_dirty") {
        // Of large blocks, MLW3108.
        Ok(_) if caches::hot(case.stats).next().is_none() => Verdict::Fine,
        Ok(lock) => caches::deeper(case, figures(lock, case.stats)),
        Err(verdict) => verdict,
    }
}

pub fn bin_locks(case: &Case) -> Verdict {
    let stats = case.stats;
    let with_locks = || stats.classes.iter().filter(|class| class.lock.is_some());
    if with_locks().next().is_none() {
        return unknown("the locks of the size classes are");
    }
    let is_bad = |class: &&Class| {
        class.lock.as_ref().is_some_and(|lock| {
            lock.contended() >= 20 * FEW_CONTENTIONS && is_contended(lock, stats)
        })
    };
    let bad: Vec<&Class> = with_locks().filter(is_bad).collect();
    let contended = |class: &&&Class| class.lock.as_ref().map_or(0, Lock::contended);
    let (Some(first), Some(last), Some(class)) =
        (bad.first(), bad.last(), bad.iter().max_by_key(contended))
    else {
        return Verdict::Fine;
    };
    let Some(lock) = &class.lock else { return Verdict::Fine };
    let named = Lock { name: format!("slabs of {} bytes", class.size), ..lock.clone() };
    set(
        case,
        figures(&named, stats),
        "bin_shards",
        &format!("{}-{}:4", first.size, last.size),
        "the lock of these sizes becomes four; each part has slabs of its own, so some memory more",
    )
}
