// SPDX-License-Identifier: MIT
//! The blocks that are live in a process, by address.

use std::collections::VecDeque;

use mallow_trace::Region;
use rustc_hash::FxHashMap;

/// An operation of a lane: so many are finished when it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub lane: u32,
    pub done: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub slot: u32,
    pub size: u64,
    /// The last operation on the slot.
    pub last: Moment,
    /// The lane that the slot belongs to.
    pub owner: u32,
}

/// How finely blocks are placed in a mapping, and the widest gap in a heap, in these.
const GRANULE: u64 = 64 << 10;
const WIDEST_GAP: u64 = 15;

/// Of the granules that blocks begin in, the last one that a block from there on covers. Nothing is as
/// large as the mapping, which may be address space alone.
type Covered = FxHashMap<u64, u64>;

/// The bytes of the granules that are covered, with the gaps between them.
fn span(covered: Covered) -> u64 {
    let mut covered: Vec<(u64, u64)> = covered.into_iter().collect();
    covered.sort_unstable();
    let mut count: u64 = 0;
    let mut until: Option<u64> = None;
    for (first, last) in covered {
        let from = match until {
            Some(until) if first <= until.saturating_add(WIDEST_GAP + 1) => until + 1,
            _ => first,
        };
        count += (last + 1).saturating_sub(from);
        until = until.max(Some(last));
    }
    count.saturating_mul(GRANULE)
}

/// A block whose address somebody else was given although nobody freed it: either a realloc that
/// was going on moved it, and that realloc's record follows, or its free is missing.
#[derive(Clone, Copy, Debug)]
struct Displaced {
    time: u64,
    address: u64,
    block: Block,
}

/// No realloc takes longer than this, in nanoseconds.
const LONGEST_REALLOC: u64 = 1_000_000_000;

#[derive(Debug, Default)]
pub struct Live {
    blocks: FxHashMap<u64, Block>,
    /// In time order; nearly always empty.
    displaced: VecDeque<Displaced>,
}

impl Live {
    pub fn insert(&mut self, time: u64, address: u64, block: Block) {
        if let Some(block) = self.blocks.insert(address, block) {
            self.displaced.push_back(Displaced { time, address, block });
        }
    }

    pub fn remove(&mut self, address: u64) -> Option<Block> {
        self.blocks.remove(&address)
    }

    /// The block that a realloc, begun at a time, took.
    pub fn remove_for_realloc(&mut self, address: u64, begun: u64) -> Option<Block> {
        let place = self
            .displaced
            .iter()
            .position(|displaced| displaced.address == address && displaced.time >= begun);
        match place.and_then(|place| self.displaced.remove(place)) {
            Some(displaced) => Some(displaced.block),
            None => self.remove(address),
        }
    }

    /// A block that must have been freed unseen, now that it is so late.
    pub fn take_lost(&mut self, now: u64) -> Option<Block> {
        let first = self.displaced.front()?;
        if now.saturating_sub(first.time) < LONGEST_REALLOC {
            return None;
        }
        self.displaced.pop_front().map(|displaced| displaced.block)
    }

    /// What of the regions' resident memory is the heap: that of regions which hold blocks, but not
    /// more than their blocks and the gaps between them cover, for the kernel joins a heap's mappings
    /// with others beside them. The regions are in the order of their addresses.
    pub fn resident_in(&self, regions: &[Region]) -> u64 {
        let mut covered: Vec<Covered> = vec![Covered::default(); regions.len()];
        for (address, block) in &self.blocks {
            let behind = regions.partition_point(|region| region.start <= *address);
            let Some(index) = behind.checked_sub(1) else { continue };
            let region = &regions[index];
            let first = *address - region.start;
            if first >= region.length {
                continue;
            }
            let last = first.saturating_add(block.size.max(1)).min(region.length) - 1;
            let until = covered[index].entry(first / GRANULE).or_default();
            *until = (last / GRANULE).max(*until);
        }
        let heap = regions.iter().zip(covered);
        heap.map(|(region, granules)| region.resident.min(span(granules)))
            .fold(0, u64::saturating_add)
    }

    pub fn len(&self) -> usize {
        self.blocks.len() + self.displaced.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_mappings_are_told_apart() {
        let mut live = Live::default();
        let last = Moment { lane: 0, done: 0 };
        let mut place = |address, size| {
            live.insert(0, address, Block { slot: 0, size, last, owner: 0 });
        };
        // A block of 2 MiB at one end of a mapping of 64 MiB, and small ones with gaps in another.
        place(0x1000_0010, 2 << 20);
        place(0x2000_0000, 100);
        place(0x2004_0000, 100);
        let region = |start, length, resident| Region { start, length, resident };
        let regions =
            [region(0x1000_0000, 64 << 20, 60 << 20), region(0x2000_0000, 1 << 20, 160 << 10)];
        assert_eq!(live.resident_in(&regions), (2 << 20) + GRANULE + (160 << 10));
    }

    #[test]
    fn regions_of_any_length_cost_nothing() {
        let mut live = Live::default();
        let last = Moment { lane: 0, done: 0 };
        for (address, size) in [(1 << 40, u64::MAX), (1 << 41, 100), (u64::MAX - 9, 100)] {
            live.insert(0, address, Block { slot: 0, size, last, owner: 0 });
        }
        let region = Region { start: 1 << 20, length: u64::MAX, resident: 5 << 20 };
        assert_eq!(live.resident_in(&[region, region]), 5 << 20);
    }

    #[test]
    fn gaps_up_to_the_widest_belong_to_the_heap() {
        let bytes = |covered: &[(u64, u64)]| span(covered.iter().copied().collect()) / GRANULE;
        assert_eq!(bytes(&[]), 0);
        assert_eq!(bytes(&[(3, 3), (0, 4), (1, 2)]), 5, "over each other");
        assert_eq!(bytes(&[(20, 20), (4, 4)]), 17, "a gap of 15");
        assert_eq!(bytes(&[(21, 22), (4, 4)]), 3, "a gap of 16");
    }
}
