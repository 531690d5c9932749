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

    /// What is resident in those regions that hold blocks. The regions are in the order of their
    /// addresses.
    pub fn resident_in(&self, regions: &[Region]) -> u64 {
        let mut is_heap = vec![false; regions.len()];
        for address in self.blocks.keys() {
            let behind = regions.partition_point(|region| region.start <= *address);
            let Some(index) = behind.checked_sub(1) else { continue };
            is_heap[index] |= *address - regions[index].start < regions[index].length;
        }
        let heap = regions.iter().zip(is_heap).filter(|(_, is_heap)| *is_heap);
        heap.map(|(region, _)| region.resident).sum()
    }

    pub fn len(&self) -> usize {
        self.blocks.len() + self.displaced.len()
    }
}
