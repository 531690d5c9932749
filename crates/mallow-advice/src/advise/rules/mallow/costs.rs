// SPDX-License-Identifier: MIT
//! What costs time: locks that threads wait for, and pages that go back although they are needed again.

use mallow_process::heap::mallow;
use mallow_process::page_size;
use mallow_process::stat::Stat;
use mallow_process::vitals::TICKS_PER_SECOND;
use mallow_stats::figures::seconds;
use mallow_stats::{Lock, Stats};

use super::super::super::case::{Case, MIB, count, counted, size};
use super::super::jemalloc::is_of_the_end;
use super::super::{Advice, Step, Verdict};
use super::{LONG_DECAY_MS, NO_ARENAS, OF, heap, is_limited, near_limit};

/// A program that has run for less has not shown yet what it does.
const LEAST_S: f64 = 10.0;
/// Nor one that has used less CPU time.
const LEAST_CPU_S: f64 = 1.0;
/// The locks that each arena has, as a process shows them and as a dump calls them.
const ARENA_LOCKS: [&str; 6] = ["arena", "pool", "purge", "growth", "extents_dirty", "decay_dirty"];
/// Threads that share an arena before it is worth a thought, and the most arenas that can be set.
const MANY_THREADS: u64 = 4;
const MOST_ARENAS: u64 = 64;
/// A lock counts as contended where threads slept for it so often, and for such a part of the time.
const MANY_WAITS: u64 = 1000;
const WAITED_PART: f64 = 0.05;
/// Pages that are needed again take a hundredth of the time or more where there are so many of them each second: a
/// fault takes more than half a microsecond.
const AGAIN_A_SECOND: f64 = 64.0 * MIB as f64;

/// What costs are held against: CPU time of the process, or of a dump, which does not tell it, the time since the
/// program began.
struct Time {
    seconds: f64,
    words: &'static str,
    /// Page faults of the process.
    faults: Option<u64>,
}

impl Time {
    /// Why there is nothing to say, where it is not long enough.
    fn of(case: &Case) -> Result<Time, Verdict> {
        let Some(age) = case.stats.uptime_s() else {
            return Err(Verdict::Unknown("how long the program ran is not told".into()));
        };
        let process = case.process.as_ref().map(|seen| &seen.picture.process);
        let stat = process.and_then(|process| Stat::parse(process.files.get("stat")?));
        let (seconds, words) = match &stat {
            Some(stat) => (stat.ticks as f64 / TICKS_PER_SECOND, "of CPU time"),
            None => (age, "since the program began"),
        };
        if age < LEAST_S || seconds < LEAST_CPU_S {
            return Err(Verdict::Fine);
        }
        Ok(Time { seconds, words, faults: stat.map(|stat| stat.faults) })
    }
}

/// The lock of arenas that threads waited for longest. A dump has that of their slots with the sizes.
fn worst_lock(stats: &Stats) -> Option<(&str, &Lock)> {
    let own = stats.locks.iter().map(|lock| (lock.name.as_str(), lock));
    let of_slots = stats.classes.iter().filter_map(|class| Some(("pool", class.lock.as_ref()?)));
    let of_arenas = own.filter(|(name, _)| ARENA_LOCKS.contains(name));
    of_arenas.chain(of_slots).max_by_key(|(_, lock)| lock.wait_ns)
}

pub fn arenas(case: &Case) -> Verdict {
    let stats = case.stats;
    if is_of_the_end(stats) {
        return Verdict::Unknown(
            "the dump was made when the program ended, without its threads; ask the process itself \
             (mallow advise PID)"
                .into(),
        );
    }
    let (Some(threads), Some(arenas)) = (stats.threads, stats.arenas_for_threads) else {
        return Verdict::Unknown("threads and arenas are not told".into());
    };
    if threads < MANY_THREADS.saturating_mul(arenas) || arenas == 0 || arenas >= MOST_ARENAS {
        return Verdict::Fine;
    }
    let Some((name, lock)) = worst_lock(stats) else {
        return Verdict::Unknown("the locks are not told".into());
    };
    let time = match Time::of(case) {
        Ok(time) => time,
        Err(verdict) => return verdict,
    };
    let (waits, waited) = (lock.waits.unwrap_or(0), lock.wait_ns.unwrap_or(0) as f64 / 1e9);
    if waits < MANY_WAITS || waited < WAITED_PART * time.seconds {
        return Verdict::Fine;
    }
    let wanted = (threads / 2).next_power_of_two().min(MOST_ARENAS);
    let (before, after) = (format!("arenas:{arenas}"), format!("arenas:{wanted}"));
    Verdict::Found(Advice {
        evidence: format!(
            "{} on {}; {name}: taken {} times, of which {} with a wait, {} in all beside {} {}",
            counted(threads, "thread"),
            counted(arenas, "arena"),
            count(lock.operations),
            count(waits),
            seconds(waited),
            seconds(time.seconds),
            time.words
        ),
        set: Step::typed(format!("MALLOW_CONF={after}")),
        effect:
            "fewer threads share a lock, so they wait less; memory grows by what each added arena \
                 keeps of free pages and partly used slabs"
                .into(),
        check: case.compare_values(OF, "MALLOW_CONF", &before, &after),
    })
}

/// The time to advise: the default where it is less now, else the longest that MLW2201 leaves alone.
fn longer(decay_ms: i64) -> i64 {
    const DEFAULT_MS: i64 = 10_000;
    if decay_ms < DEFAULT_MS { DEFAULT_MS } else { LONG_DECAY_MS }
}

pub fn needed_again(case: &Case) -> Verdict {
    let stats = case.stats;
    let Some(decay) = stats.number("dirty_decay_ms") else {
        return Verdict::Unknown("dirty_decay_ms is not told".into());
    };
    // By a limit memory goes back whatever the time is, and near one it is to go.
    let goes_anyway = is_limited(case) == Some(true) || near_limit(case).is_some();
    if !(0..LONG_DECAY_MS).contains(&decay) || goes_anyway {
        return Verdict::Fine;
    }
    let Some(given_back) = stats.dirty_purges.bytes else {
        return Verdict::Unknown(NO_ARENAS.into());
    };
    if given_back == 0 {
        return Verdict::Fine;
    }
    let time = match Time::of(case) {
        Ok(time) => time,
        Err(verdict) => return verdict,
    };
    let least = AGAIN_A_SECOND * time.seconds;
    if (given_back as f64) < least {
        return Verdict::Fine;
    }
    let Some(again) = heap(case).and_then(refaulted) else {
        return Verdict::Unknown(
            "it is not told how much of what went back was needed again; ask the process itself \
             (mallow advise PID)"
                .into(),
        );
    };
    // Of a block that is a mapping of its own the program may use a part only, and a huge page takes one fault.
    let again =
        again.min(time.faults.map_or(u64::MAX, |faults| faults.saturating_mul(page_size())));
    if (again as f64) < least || again < given_back / 2 {
        return Verdict::Fine;
    }
    let value = longer(decay);
    let (before, after) = (format!("dirty_decay_ms:{decay}"), format!("dirty_decay_ms:{value}"));
    Verdict::Found(Advice {
        evidence: format!(
            "dirty_decay_ms is {decay}: {} calls gave back {}, of which {} was needed again, in {} {}",
            count(stats.dirty_purges.calls.unwrap_or(0)),
            size(given_back),
            size(again),
            seconds(time.seconds),
            time.words
        ),
        set: Step::typed(format!("MALLOW_CONF={after}")),
        effect: format!(
            "what is needed again within that time stays, without these calls and page faults, unless \
             the program itself gives it back (malloc_trim); memory of a peak goes back over {}",
            seconds(value as f64 / 1000.0)
        ),
        check: case.compare_values(OF, "MALLOW_CONF", &before, &after),
    })
}

/// `None` where the allocator does not count it.
fn refaulted(heap: &mallow::Heap) -> Option<u64> {
    let figures = heap.arenas.iter().filter_map(|arena| arena.refaulted);
    figures.reduce(u64::saturating_add)
}
