// SPDX-License-Identifier: MIT
//! The live blocks of one process.

use rustc_hash::FxHashMap;

/// Realloc claims a displaced block within its own duration, so few have to be remembered.
const MOST_DISPLACED: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub size: u64,
    /// Of the first allocation; a realloc keeps it.
    pub born_ns: u64,
    /// Number of the stack in the trace.
    pub stack: u32,
    /// Index of the thread that allocated it.
    pub thread: u32,
}

#[derive(Debug, Default)]
pub struct Heap {
    blocks: FxHashMap<u64, Block>,
    /// Blocks in whose place another one was allocated, with the time of that.
    displaced: FxHashMap<u64, (u64, Block)>,
}

/// What a realloc gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old {
    /// Live until now.
    Live(Block),
    /// Gone already, when another thread was given its address while the realloc was under way.
    Displaced(Block),
    Unknown,
}

impl Heap {
    /// Returns the block that was at this address: its free was lost, or belongs to a realloc of
    /// another thread that is yet to come.
    pub fn insert(&mut self, address: u64, block: Block, time_ns: u64) -> Option<Block> {
        let displaced = self.blocks.insert(address, block)?;
        if self.displaced.len() == MOST_DISPLACED {
            self.displaced.clear();
        }
        self.displaced.insert(address, (time_ns, displaced));
        Some(displaced)
    }

    pub fn remove(&mut self, address: u64) -> Option<Block> {
        self.blocks.remove(&address)
    }

    /// The block that a realloc, begun at this time, gave up.
    pub fn remove_old(&mut self, address: u64, begun_ns: u64) -> Old {
        if let Some((time, block)) = self.displaced.get(&address).copied() {
            self.displaced.remove(&address);
            if time >= begun_ns {
                return Old::Displaced(block);
            }
        }
        self.blocks.remove(&address).map_or(Old::Unknown, Old::Live)
    }

    /// All blocks, when the process ends.
    pub fn drain(&mut self) -> impl Iterator<Item = (u64, Block)> + use<> {
        self.displaced.clear();
        std::mem::take(&mut self.blocks).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_realloc_finds_its_block_although_the_address_was_given_away() {
        let block = |size| Block { size, born_ns: 0, stack: 0, thread: 0 };
        let mut heap = Heap::default();
        assert_eq!(heap.insert(16, block(1), 10), None);
        assert_eq!(heap.insert(16, block(2), 20), Some(block(1)));
        assert_eq!(heap.remove_old(16, 15), Old::Displaced(block(1)));
        assert_eq!(heap.remove(16), Some(block(2)));

        heap.insert(16, block(3), 30);
        assert_eq!(heap.insert(16, block(4), 40), Some(block(3)));
        assert_eq!(heap.remove_old(16, 50), Old::Live(block(4)), "the free of 3 was lost");
        assert_eq!(heap.remove_old(16, 60), Old::Unknown);
    }
}
