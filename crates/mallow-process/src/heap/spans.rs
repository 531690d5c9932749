// SPDX-License-Identifier: MIT
//! What heaps of other allocators have in common, as far as their own structures tell it from
//! outside: runs of pages that are cut into blocks of one size, large blocks, and free pages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::mallow::Class;
use crate::memory::Memory;

/// Of free pages, ranges that are asked about one by one.
const MOST_RANGES: usize = 1 << 19;

/// Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Heap {
    pub allocator: String,
    /// Whose structures these are, such as `jemalloc 5.3`.
    pub layout: String,
    /// Which runtime has it inside; empty where none is known to.
    #[serde(default)]
    pub owner: String,
    /// What the allocator cannot tell apart from blocks that the program has, in its own words.
    pub counted_as_used: String,
    pub arenas: Vec<Arena>,
    /// By block size, of the small ones.
    pub classes: Vec<Class>,
    pub metadata: u64,
    /// What of it was changing whenever it was looked at, and is not counted.
    pub unread: u64,
    /// Free pages of which it was not asked whether they are resident: there are too many ranges.
    pub unasked: u64,
    /// Pages of runs, of large blocks, and free ones.
    pub ranges: Vec<(u64, u64)>,
    pub metadata_at: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Arena {
    pub index: u64,
    /// Pages of runs and of large blocks.
    pub active: u64,
    /// Blocks in runs, and the room that runs have for them.
    pub small: u64,
    pub small_count: u64,
    pub small_room: u64,
    pub large: u64,
    pub large_count: u64,
    /// Free pages: as they were left, given back lazily, and address space alone.
    pub dirty: u64,
    pub muzzy: u64,
    pub retained: u64,
    /// What of the free pages is resident.
    pub free_resident: u64,
}

impl Heap {
    /// As a title calls it.
    pub fn name(&self) -> String {
        match self.owner.as_str() {
            "" => self.layout.clone(),
            owner => format!("{owner}'s {}", self.layout),
        }
    }

    pub fn sum(&self, of: impl Fn(&Arena) -> u64) -> u64 {
        self.arenas.iter().map(of).fold(0, u64::saturating_add)
    }

    /// With the program, or in caches that cannot be told from it.
    pub fn used(&self) -> u64 {
        self.sum(|arena| arena.small.saturating_add(arena.large))
    }

    pub fn used_count(&self) -> u64 {
        self.sum(|arena| arena.small_count.saturating_add(arena.large_count))
    }

    /// Free blocks of runs that are in use.
    pub fn free_blocks(&self) -> u64 {
        self.sum(|arena| arena.small_room.saturating_sub(arena.small))
    }

    pub fn free_pages(&self) -> u64 {
        self.sum(|arena| arena.dirty.saturating_add(arena.muzzy).saturating_add(arena.retained))
    }

    pub fn free_resident(&self) -> u64 {
        self.sum(|arena| arena.free_resident)
    }

    /// More than a hundredth was not seen whole.
    pub fn is_incomplete(&self) -> bool {
        self.unread > self.sum(|arena| arena.active) / 100
    }
}

/// The arenas and classes of a heap while they are met.
#[derive(Default)]
pub struct Sums {
    pub arenas: BTreeMap<u64, Arena>,
    classes: BTreeMap<u64, Class>,
    free: Vec<(u64, (u64, u64))>,
    unasked: u64,
    ranges: Vec<(u64, u64)>,
}

impl Sums {
    pub fn arena(&mut self, index: u64) -> &mut Arena {
        self.arenas.entry(index).or_insert_with(|| Arena { index, ..Arena::default() })
    }

    /// A run of an arena, with room for so many blocks of a size, of which some are used.
    pub fn run(&mut self, arena: u64, bytes: u64, block: u64, room: u64, used: u64) {
        let class = self.classes.entry(block).or_default();
        class.slot_size = block;
        class.slabs += 1;
        class.bytes = class.bytes.saturating_add(bytes);
        class.used += used;
        class.capacity += room;
        let arena = self.arena(arena);
        arena.active = arena.active.saturating_add(bytes);
        arena.small = arena.small.saturating_add(used.saturating_mul(block));
        arena.small_count += used;
        arena.small_room = arena.small_room.saturating_add(room.saturating_mul(block));
    }

    /// Where pages of the heap are, met in the order of addresses.
    pub fn pages(&mut self, start: u64, end: u64) {
        match self.ranges.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.ranges.push((start, end)),
        }
    }

    /// Free pages of an arena, met in the order of addresses.
    pub fn free(&mut self, arena: u64, start: u64, end: u64) {
        let is_full = self.free.len() == MOST_RANGES;
        match self.free.last_mut() {
            Some((of, last)) if *of == arena && last.1 == start => last.1 = end,
            _ if is_full => {
                self.unasked = self.unasked.saturating_add(end.saturating_sub(start));
            }
            _ => self.free.push((arena, (start, end))),
        }
    }

    /// The heap that was met; what of its free pages is resident is asked for.
    pub fn finish(mut self, memory: &dyn Memory) -> Heap {
        for (index, (start, end)) in std::mem::take(&mut self.free) {
            let resident = memory.resident(start, end.max(start)).unwrap_or(0);
            let arena = self.arena(index);
            arena.free_resident =
                arena.free_resident.saturating_add(resident.min(end.saturating_sub(start)));
        }
        Heap {
            arenas: self.arenas.into_values().collect(),
            classes: self.classes.into_values().collect(),
            ranges: self.ranges,
            unasked: self.unasked,
            ..Heap::default()
        }
    }
}
