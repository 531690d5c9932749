// SPDX-License-Identifier: MIT
//! CPython's arenas for objects of up to 512 bytes. They hold pools, one size each, that begin with
//! a header (`struct pool_header` of obmalloc.c):
//!
//! ```text
//!     count | free block | next pool | previous pool | arena size | next offset last offset
//! ```
//!
//! Pools have 16 KiB since Python 3.10, and a page before.

use std::collections::BTreeMap;

use super::{Found, Kept, half, joined, own_mappings, places, space, word};
use crate::mappings::Kind;
use crate::memory::Memory;
use crate::process::Process;
use crate::smaps::Vma;

const POOLS: [u64; 2] = [16 << 10, 4 << 10];
/// Space between two pools of an arena that have been used.
const ARENA: u64 = 1 << 20;
/// In an arena, with pools of either size.
const POOLS_OF_ARENA: u64 = 64;
const HEADER: u64 = 48;
const LARGEST: u64 = 512;
/// Places that are looked at: pools of 4 GiB.
const MOST_POOLS: u64 = 1 << 18;
/// What is said of the size where not every place was looked at.
const PART: &str = ", as far as looked at";
/// So many pools are no accident.
const CONVINCING: usize = 4;

pub fn find(process: &Process, memory: &dyn Memory) -> Found {
    POOLS.iter().find_map(|&size| of_size(process, memory, size)).unwrap_or_default()
}

fn of_size(process: &Process, memory: &dyn Memory, size: u64) -> Option<Found> {
    let mut found = Found::default();
    let mut kept =
        Kept { what: "Python: arenas of objects up to 512 bytes".into(), ..Kept::default() };
    let (mut used, mut pools, mut left, mut is_whole) = (0, 0, MOST_POOLS, true);
    let mappings: Vec<&Vma> = own_mappings(process).filter(|vma| vma.is_writable()).collect();
    let mut all: u64 = mappings.iter().map(|vma| vma.size() / size).sum();
    for vma in mappings {
        let mut ranges = Vec::new();
        let mut add = |at, bytes: u64| {
            used += bytes;
            pools += 1;
            ranges.push((at, at + size));
        };
        // Half of the looks are enough for whatever begins in what is left, each some way from the last.
        let stride = (2 * all).div_ceil(left.max(1)).max(1);
        all -= vma.size() / size;
        if vma.size() / size <= left / 2 {
            for at in places(vma, size, &mut left) {
                pool(memory, at, size).into_iter().for_each(|bytes| add(at, bytes));
            }
        } else {
            let scattered = Scattered { memory, vma, size, stride };
            scattered.pools(&mut left).into_iter().for_each(|(at, bytes)| add(at, bytes));
            is_whole = false;
        }
        for run in joined(&ranges, ARENA) {
            let (start, end) = arenas(run, vma, size * POOLS_OF_ARENA);
            kept.size += end - start;
            found.spaces.push(space((start, end), Kind::RuntimeHeap, &kept.what));
        }
    }
    kept.used = Some(used).filter(|_| is_whole);
    if !is_whole {
        kept.what += PART;
        found.spaces.iter_mut().for_each(|space| space.label.clone_from(&kept.what));
    }
    found.kept.push(kept);
    (pools >= CONVINCING).then_some(found)
}

/// The arenas that a run of pools is of, in its mapping.
fn arenas((start, end): (u64, u64), vma: &Vma, arena: u64) -> (u64, u64) {
    // What of the first and the last was never used, or not aligned.
    let first = if start - vma.start < arena { vma.start } else { start };
    let last = if vma.end - end < arena { vma.end } else { end };
    if (last - first).is_multiple_of(arena) {
        return (first, last);
    }
    // The kernel joined them with what is not Python's.
    let bytes = (end - start).next_multiple_of(arena);
    let start = start.min(vma.end.saturating_sub(bytes)).max(vma.start);
    (start, vma.end.min(start + bytes))
}

/// A mapping with more places than may be looked at. Arenas lie together: where a look meets a pool,
/// those around it are looked at too.
struct Scattered<'a> {
    memory: &'a dyn Memory,
    vma: &'a Vma,
    size: u64,
    /// From one look to the next, in places.
    stride: u64,
}

impl Scattered<'_> {
    /// Pools by address, with their bytes in use.
    fn pools(&self, left: &mut u64) -> BTreeMap<u64, u64> {
        let mut pools = BTreeMap::new();
        let mut at = self.vma.start.next_multiple_of(self.size);
        while at + self.size <= self.vma.end && *left > 0 {
            *left -= 1;
            if let Some(bytes) = pool(self.memory, at, self.size) {
                pools.insert(at, bytes);
                self.follow(at, |at| at - self.size, left, &mut pools);
                self.follow(at, |at| at + self.size, left, &mut pools);
                at = pools.last_key_value().map_or(at, |(last, _)| at.max(*last));
            }
            at += self.stride * self.size;
        }
        pools
    }

    /// From a pool on, until there was none for as long as an arena is.
    fn follow(
        &self,
        from: u64,
        next: impl Fn(u64) -> u64,
        left: &mut u64,
        pools: &mut BTreeMap<u64, u64>,
    ) {
        let (mut at, mut last) = (next(from), from);
        let is_inside = |at: u64| self.vma.start <= at && at + self.size <= self.vma.end;
        while is_inside(at) && at.abs_diff(last) <= ARENA && !pools.contains_key(&at) && *left > 0 {
            *left -= 1;
            if let Some(bytes) = pool(self.memory, at, self.size) {
                pools.insert(at, bytes);
                last = at;
            }
            at = next(at);
        }
    }
}

/// Bytes in use of the pool at an address.
fn pool(memory: &dyn Memory, at: u64, size: u64) -> Option<u64> {
    let mut header = [0; HEADER as usize];
    memory.read(at, &mut header)?;
    let (count, free) = (half(&header, 0), word(&header, 1));
    let (next, previous) = (word(&header, 2), word(&header, 3));
    let (class, next_offset, last_offset) =
        (half(&header, 9), half(&header, 10), half(&header, 11));
    // Multiples of 16 bytes since Python 3.7, of 8 before.
    [16, 8].into_iter().find_map(|step| {
        let block = (class + 1) * step;
        let fits = block <= LARGEST && last_offset == size - block;
        let is_free = free == 0 || (at + HEADER..at + size).contains(&free);
        let is_offset = (HEADER..=size).contains(&next_offset);
        let is_linked = next != 0 && previous != 0;
        let most = (size - HEADER) / block;
        (fits && is_free && is_offset && is_linked && (1..=most).contains(&count))
            .then(|| count * block)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: u64 = 16 << 10;

    /// Pools of 32 bytes in these ranges, zeros elsewhere.
    struct Arenas(Vec<(u64, u64)>);

    impl Memory for Arenas {
        fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
            let halves = [10, 0, 0, 0, 1, 0, 1, 0, 0, 1, 1024, POOL as u32 - 32];
            let is_pool = self.0.iter().any(|&(start, end)| (start..end).contains(&address));
            for (bytes, half) in buffer.chunks_mut(4).zip(halves) {
                bytes.copy_from_slice(&(if is_pool { half } else { 0 }).to_le_bytes());
            }
            Some(())
        }
    }

    fn found(mappings: &[(u64, u64)], arenas: &[(u64, u64)]) -> Kept {
        let vma = |&(start, end): &(u64, u64)| Vma {
            start,
            end,
            perms: "rw-p".into(),
            rss: end - start,
            ..Vma::default()
        };
        let vmas = mappings.iter().map(vma).collect();
        let process = Process { vmas, ..Process::default() };
        find(&process, &Arenas(arenas.to_vec())).kept.first().cloned().unwrap_or_default()
    }

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    #[test]
    fn arenas_behind_and_in_blocks_of_gigabytes_are_found() {
        let small = (100 * GIB, 100 * GIB + 8 * MIB);
        let kept = found(&[(GIB, 40 * GIB), small], &[small]);
        assert_eq!(kept.size, 8 * MIB, "behind one");
        let inside = (30 * GIB + 5 * MIB, 30 * GIB + 45 * MIB);
        let kept = found(&[(GIB, 40 * GIB), small], &[small, inside]);
        assert_eq!((kept.size, kept.used), (48 * MIB, None), "the kernel joined them");
        assert!(kept.what.ends_with(PART), "{}", kept.what);
        let kept = found(&[(GIB, 2 * GIB), small], &[small]);
        assert_eq!((kept.size, kept.used), (8 * MIB, Some(512 * 10 * 32)), "all was looked at");
        assert!(!kept.what.contains(PART), "{}", kept.what);
    }

    #[test]
    fn what_lies_beside_arenas_in_their_mapping_is_not_theirs() {
        let joined = (GIB - 300 * 1024, GIB + 8 * MIB + 200 * 1024);
        let used = [(GIB, GIB + 8 * MIB), (GIB, GIB + 8 * MIB - 5 * POOL)];
        for used in used {
            assert_eq!(found(&[joined], &[used]).size, 8 * MIB, "{used:x?}");
        }
        let alone = (GIB, GIB + 2 * MIB);
        let used = (GIB + MIB / 2, GIB + MIB + MIB / 2);
        assert_eq!(found(&[alone], &[used]).size, 2 * MIB, "both ends are free");
    }

    #[test]
    fn a_heap_of_nothing_but_arenas_is_found_as_far_as_may_be_looked() {
        let kept = found(&[(GIB, 9 * GIB)], &[(GIB, 9 * GIB)]);
        assert!((3 * GIB..=8 * GIB).contains(&kept.size), "{}", kept.size);
        assert_eq!(kept.used, None);
    }
}
