// SPDX-License-Identifier: MIT
//! Statistics of a heap that was read from outside, without stopping the process.

use std::collections::BTreeMap;

use mallow_process::heap::{Heap, glibc, mallow, spans};

use crate::vocabulary::{Arena, Class, Large, Lock, Purges, Stats, Totals};

/// `None` for an allocator whose counters cannot be read from outside.
pub fn stats(heap: &Heap, resident: Option<u64>) -> Option<Stats> {
    let mut stats = match heap {
        Heap::Mallow(heap) => of_mallow(heap),
        Heap::Glibc(heaps) => of_glibc(heaps),
        Heap::Spans(_) | Heap::Other(_) | Heap::Unknown => return None,
    };
    stats.totals.resident = resident;
    Some(stats)
}

/// As the allocator's own table has them. Pages in the stacks of threads are free: they count as dirty, not as
/// active. The bookkeeping is mapped too, and is the first arena's, so that the arenas add up to the process.
fn of_mallow(heap: &mallow::Heap) -> Stats {
    let arena = |(index, arena): (usize, &mallow::Arena)| Arena {
        name: index.to_string(),
        threads: None,
        totals: of_mallow_arena(arena, if index == 0 { heap.metadata } else { 0 }),
    };
    let arenas: Vec<Arena> = heap.arenas.iter().enumerate().map(arena).collect();
    let sum = |of: fn(&Totals) -> Option<u64>| {
        let figures = arenas.iter().filter_map(|arena| of(&arena.totals));
        Some(figures.fold(0, u64::saturating_add))
    };
    Stats {
        allocator: "mallow".into(),
        version: Some(heap.build.clone()).filter(|build| !build.is_empty()),
        threads: heap.threads,
        arenas_for_threads: Some(heap.arenas.len() as u64),
        totals: Totals {
            // A list counts for the arena of its first slot, so one arena may seem to have less than none.
            allocated: Some(heap.allocated()),
            active: sum(|totals| totals.active),
            metadata: Some(heap.metadata),
            resident: None,
            mapped: sum(|totals| totals.mapped),
            retained: sum(|totals| totals.retained),
            dirty: sum(|totals| totals.dirty),
            muzzy: sum(|totals| totals.muzzy),
            cached: Some(heap.listed),
            huge: None,
        },
        arenas,
        options: heap
            .options
            .iter()
            .map(|(name, &value)| (name.clone(), option(name, value)))
            .collect(),
        classes: of_mallow_classes(heap),
        large: Large {
            allocated: Some(heap.sum(|arena| arena.large.saturating_add(arena.huge))),
            allocations: None,
            requests: heap.large_allocations,
        },
        locks: of_mallow_locks(&heap.locks),
        dirty_purges: of_mallow_purges(heap, |arena| arena.dirty_purges),
        muzzy_purges: of_mallow_purges(heap, |arena| arena.muzzy_purges),
        ..Stats::default()
    }
}

/// The slabs of each size, and what happened to its blocks. Of a size that is no longer in use only the latter is there.
fn of_mallow_classes(heap: &mallow::Heap) -> Vec<Class> {
    let mut classes: BTreeMap<u64, Class> =
        heap.classes.iter().map(|class| (class.slot_size, of_class(class))).collect();
    for counts in &heap.counts {
        let unused = || Class {
            size: counts.slot_size,
            is_small: true,
            slabs: Some(0),
            used: Some(0),
            ..Class::default()
        };
        let class = classes.entry(counts.slot_size).or_insert_with(unused);
        class.requests = Some(counts.allocations);
        class.fills = Some(counts.fills);
        class.flushes = Some(counts.flushes);
    }
    classes.into_values().collect()
}

/// Those of all arenas come together: `arena 3 purge` counts for `purge`.
fn of_mallow_locks(locks: &[mallow::Lock]) -> Vec<Lock> {
    let mut all: Vec<Lock> = Vec::new();
    for lock in locks {
        let name = lock.name.rsplit(' ').next().unwrap_or_default();
        let lock = Lock {
            name: name.to_owned(),
            operations: lock.operations,
            waits: Some(lock.waits),
            spins: Some(lock.spins),
            owner_switches: Some(lock.owner_changes),
            wait_ns: Some(lock.wait_time),
            longest_wait_ns: Some(lock.wait_time_most),
            most_waiting: lock.queue_most,
        };
        match all.iter_mut().find(|known| known.name == lock.name) {
            Some(known) => known.add(&lock),
            None => all.push(lock),
        }
    }
    all
}

fn of_mallow_purges(
    heap: &mallow::Heap,
    of: fn(&mallow::Arena) -> Option<mallow::Purges>,
) -> Purges {
    let sum = |what: fn(&mallow::Purges) -> u64| {
        let figures = heap.arenas.iter().filter_map(of);
        figures.map(|purges| what(&purges)).reduce(u64::saturating_add)
    };
    Purges {
        rounds: sum(|purges| purges.rounds),
        calls: sum(|purges| purges.calls),
        bytes: sum(|purges| purges.bytes),
    }
}

/// As it is written.
fn option(name: &str, value: i64) -> String {
    match name {
        "purge_thread" => (value != 0).to_string(),
        _ => value.to_string(),
    }
}

fn of_mallow_arena(arena: &mallow::Arena, metadata: u64) -> Totals {
    Totals {
        allocated: Some(arena.allocated()),
        active: Some(arena.active),
        metadata: Some(metadata),
        mapped: Some(arena.mapped.saturating_sub(arena.retained).saturating_add(metadata)),
        retained: Some(arena.retained),
        dirty: Some(arena.dirty.saturating_add(arena.cached)),
        muzzy: Some(arena.muzzy),
        cached: Some(arena.listed),
        ..Totals::default()
    }
}

fn of_class(class: &mallow::Class) -> Class {
    Class {
        size: class.slot_size,
        is_small: true,
        slab_size: class.bytes.checked_div(class.slabs),
        blocks_per_slab: class.capacity.checked_div(class.slabs),
        slabs: Some(class.slabs),
        used: Some(class.used),
        ..Class::default()
    }
}

/// What a walk over all pages finds, which is how things lie at this moment. What an allocator calls dirty may be address
/// space that was never written to: here it is what of it is resident.
pub fn of_spans(heap: &spans::Heap, resident: u64) -> Stats {
    let arena = |arena: &spans::Arena| Arena {
        name: arena.index.to_string(),
        threads: None,
        totals: Totals {
            allocated: Some(arena.small.saturating_add(arena.large)),
            active: Some(arena.active),
            retained: Some(arena.retained),
            dirty: Some(arena.dirty.min(arena.free_resident)),
            muzzy: Some(arena.muzzy),
            ..Totals::default()
        },
    };
    let version = heap.layout.strip_prefix(heap.allocator.as_str()).unwrap_or(&heap.layout).trim();
    Stats {
        allocator: heap.allocator.clone(),
        version: Some(version.to_owned()).filter(|version| !version.is_empty()),
        arenas_for_threads: Some(heap.arenas.len() as u64),
        totals: Totals {
            allocated: Some(heap.used()),
            active: Some(heap.sum(|arena| arena.active)),
            metadata: Some(heap.metadata),
            resident: Some(resident),
            retained: Some(heap.sum(|arena| arena.retained)),
            dirty: Some(heap.sum(|arena| arena.dirty.min(arena.free_resident))),
            muzzy: Some(heap.sum(|arena| arena.muzzy)),
            ..Totals::default()
        },
        arenas: heap.arenas.iter().map(arena).collect(),
        classes: heap.classes.iter().map(of_class).collect(),
        ..Stats::default()
    }
}

fn of_glibc(heaps: &glibc::Heaps) -> Stats {
    let arena = |(index, arena): (usize, &glibc::Arena)| Arena {
        name: arena.name(index),
        threads: arena.threads,
        totals: Totals {
            allocated: Some(arena.used()),
            metadata: Some(arena.headers),
            mapped: Some(arena.system),
            dirty: Some(arena.chunks.free_resident + arena.chunks.top_resident),
            cached: Some(arena.fast + arena.cached),
            ..Totals::default()
        },
    };
    Stats {
        allocator: "glibc".into(),
        threads: Some(heaps.sum(|arena| arena.threads.unwrap_or(0))),
        arenas_for_threads: Some(heaps.arenas.len() as u64),
        totals: Totals {
            allocated: Some(heaps.used()),
            metadata: Some(heaps.sum(|arena| arena.headers)),
            mapped: Some(heaps.sum(|arena| arena.system) + heaps.mapped.in_use()),
            dirty: Some(heaps.sum(|arena| arena.chunks.free_resident + arena.chunks.top_resident)),
            cached: Some(heaps.sum(|arena| arena.fast + arena.cached)),
            ..Totals::default()
        },
        arenas: heaps.arenas.iter().enumerate().map(arena).collect(),
        ..Stats::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arenas_add_up_to_the_process() {
        let arena = |slots_used, listed| mallow::Arena {
            slots_used,
            listed,
            // Huge blocks are active too, and counted in it.
            active: 9000,
            huge: 4000,
            dirty: 300,
            cached: 200,
            mapped: 20_000,
            retained: 5000,
            ..mallow::Arena::default()
        };
        let arenas = vec![arena(1000, 100), arena(500, 20)];
        let options = [("dirty_decay_ms".to_owned(), -1), ("purge_thread".to_owned(), 1)].into();
        let heap =
            mallow::Heap { arenas, listed: 120, metadata: 70, options, ..Default::default() };
        let stats = stats(&Heap::Mallow(heap), None).unwrap();
        assert_eq!(stats.options["dirty_decay_ms"], "-1");
        assert_eq!(stats.options["purge_thread"], "true");
        let both = |of: fn(&Totals) -> Option<u64>| {
            let sum: u64 = stats.arenas.iter().map(|arena| of(&arena.totals).unwrap()).sum();
            assert_eq!(of(&stats.totals), Some(sum));
            sum
        };
        assert_eq!(both(|totals| totals.allocated), 9380);
        // As the process's own table has them: pages in stacks are dirty, slots in lists cached.
        assert_eq!(both(|totals| totals.dirty), 1000);
        assert_eq!(both(|totals| totals.cached), 120);
        assert_eq!(both(|totals| totals.active), 18_000);
        assert_eq!(both(|totals| totals.metadata), 70);
        assert_eq!(both(|totals| totals.mapped), 30_070, "without what is retained");
    }
}
