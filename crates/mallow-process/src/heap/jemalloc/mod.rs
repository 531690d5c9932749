// SPDX-License-Identifier: MIT
//! jemalloc's heap, read from outside: every extent that it knows of, free ones included, by the
//! radix tree in which it looks addresses up (5.2 to 5.3.1, 64 bits, pages of 4 KiB).
//!
//! The tree's root is a static array, its nodes and leaves are metadata. It has two levels where it was
//! built for addresses of 48 bits, and three for those of 57, which a new processor has:
//!
//! ```text
//!     root[2^18] --> leaf[2^18]: size class, 16 bits | extent, 48 bits, of which the low ones are flags
//!     by bits 30 to 47   by bits 12 to 29
//!
//!     root[2^15] --> node[2^15] --> leaf[2^15]: extent | size class and flags
//!     by bits 42 to 56   27 to 41       12 to 26
//! ```
//!
//! No symbol leads there, since libraries are stripped and static programs prefix them: the root is
//! where a word of zeroed data points to a leaf whose entries describe the very addresses that they
//! stand for. The first and the last page of each extent have an entry, pages of slabs all of them.
//! An extent, 128 bytes:
//!
//! ```text
//!     0 bits  8 address  16 size | serial  24 ...  64 bitmap of the slab, a bit set for a free region
//! ```

mod layout;
mod tree;

use std::collections::{BTreeMap, BTreeSet};

use super::spans::{Heap, Sums};
use crate::memory::Memory;
use crate::smaps::Vma;
use layout::{ARENA_MASK, Extent, Layout, PAGE, SHAPES, State};
use tree::{Leaf, Reader};

/// Blocks above what slabs hold may lie anywhere in their first page, for which a page is added.
const PAD: u64 = PAGE;
const SMALLEST_LARGE: u64 = 4 * PAGE;
/// Metadata is taken from the kernel in multiples of this, aligned so.
const BASE_BLOCK: u64 = 2 << 20;
const BASE_BLOCK_MOST: u64 = 64;
const TRIES: u32 = 5;
const PAUSE: std::time::Duration = std::time::Duration::from_micros(200);

/// `None` where there is no jemalloc, or one whose structures are others.
pub fn read(memory: &dyn Memory, vmas: &[Vma]) -> Option<Heap> {
    SHAPES.iter().find_map(|&shape| {
        let reader = Reader { memory, vmas, shape };
        let (leaves, layout, sizes) = reader.tree()?;
        Walk::new(layout, &sizes).over(&reader, &leaves)
    })
}

fn base_block_of(address: u64) -> u64 {
    address & !(BASE_BLOCK - 1)
}

/// A walk over all extents.
struct Walk<'a> {
    layout: Layout,
    sizes: &'a [u64],
    sums: Sums,
    /// Large blocks of each arena, with the page added to each of them and without; the first
    /// counts if one of them shows that it is.
    padded: BTreeMap<u64, (u64, u64)>,
    is_padded: bool,
    unread: u64,
    /// Where extents and leaves lie, by base blocks.
    metadata: BTreeSet<u64>,
    /// Bytes of extents outside of what is mapped.
    lost: u64,
    active: u64,
}

impl<'a> Walk<'a> {
    fn new(layout: Layout, sizes: &'a [u64]) -> Walk<'a> {
        Walk {
            layout,
            sizes,
            sums: Sums::default(),
            padded: BTreeMap::new(),
            is_padded: false,
            unread: 0,
            metadata: BTreeSet::new(),
            lost: 0,
            active: 0,
        }
    }

    /// `None` if this cannot be a heap of jemalloc.
    fn over(mut self, reader: &Reader, leaves: &[Leaf]) -> Option<Heap> {
        for &(leaf, _) in leaves {
            // A leaf may begin anywhere.
            let last = leaf.saturating_add(reader.shape.leaf() - 1);
            self.metadata.extend([leaf, last].map(base_block_of));
        }
        let mut is_sound = true;
        reader.extents(leaves, &mut |address, extent| {
            is_sound &= extent.is_none_or(|extent| self.add(reader, address, extent));
            is_sound
        });
        if is_sound { self.finish(reader) } else { None }
    }

    /// False if this cannot be a heap of jemalloc.
    fn add(&mut self, reader: &Reader, address: u64, extent: Extent) -> bool {
        self.metadata.extend(extent.entry.address().map(base_block_of));
        let mut extent = extent;
        for attempt in 1..=TRIES {
            if self.add_whole(reader, &extent) {
                return self.lost <= self.active / 50 + (64 << 20);
            }
            if attempt > 1 {
                std::thread::sleep(PAUSE);
            }
            match reader.extent_now(extent.entry) {
                Some(now) if now.start() == address && now.end().is_some() => extent = now,
                _ => break, // the extent is gone
            }
        }
        self.unread = self.unread.saturating_add(extent.size());
        true
    }

    /// False while the extent is changing.
    fn add_whole(&mut self, reader: &Reader, extent: &Extent) -> bool {
        let (start, size, arena) = (extent.start(), extent.size(), extent.arena());
        let end = start.saturating_add(size);
        let state = extent.state(self.layout);
        match state {
            State::Active if extent.is_slab() => {
                let Some((block, room, used)) = extent.regions(self.layout, self.sizes) else {
                    return false;
                };
                self.sums.run(arena, size, block, room, used);
            }
            State::Active => {
                if !self.add_large(extent) {
                    return false;
                }
            }
            State::Changing => return false,
            State::Dirty | State::Muzzy | State::Retained => {
                let met = self.sums.arena(arena);
                let place = match state {
                    State::Dirty => &mut met.dirty,
                    State::Muzzy => &mut met.muzzy,
                    _ => &mut met.retained,
                };
                *place = place.saturating_add(size);
                self.sums.free(arena, start, end);
            }
        }
        if state == State::Active {
            self.active = self.active.saturating_add(size);
            let is_mapped = |at| reader.vma(at).is_some_and(|vma| vma.inode == 0);
            if !is_mapped(start) || !is_mapped(end - PAGE) {
                self.lost = self.lost.saturating_add(size);
            }
        }
        self.sums.pages(start, end);
        true
    }

    fn add_large(&mut self, extent: &Extent) -> bool {
        let class = extent.bits() >> self.layout.size_class & 0xff;
        let Some(&wanted) = self.sizes.get(class as usize) else { return false };
        let size = extent.size();
        let usable = |pad: u64| {
            // Newer versions may round to pages, not to classes, and name the class above.
            if wanted.saturating_add(pad) <= size { wanted } else { size.saturating_sub(pad) }
        };
        let is_moved = !extent.words[1].is_multiple_of(PAGE);
        self.is_padded |= is_moved || (wanted >= SMALLEST_LARGE && wanted < size);
        let sums = self.padded.entry(extent.arena()).or_default();
        sums.0 = sums.0.saturating_add(usable(PAD));
        sums.1 = sums.1.saturating_add(usable(0));
        let arena = self.sums.arena(extent.arena());
        arena.active = arena.active.saturating_add(size);
        arena.large_count += 1;
        true
    }

    fn finish(mut self, reader: &Reader) -> Option<Heap> {
        for (&arena, &(padded, plain)) in &self.padded {
            self.sums.arena(arena).large = if self.is_padded { padded } else { plain };
        }
        let mut heap = self.sums.finish(reader.memory);
        heap.allocator = "jemalloc".into();
        heap.layout = self.layout.name.into();
        heap.counted_as_used = "blocks in threads' caches".into();
        heap.unread = self.unread;
        heap.metadata_at = base_blocks(reader, &self.metadata);
        heap.metadata = heap.metadata_at.iter().map(|(start, end)| end - start).sum();
        (heap.used() <= heap.sum(|arena| arena.active)).then_some(heap)
    }
}

/// Where metadata is, by the headers of its blocks: `size | next | extent of what is unused`.
fn base_blocks(reader: &Reader, places: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut blocks: Vec<(u64, u64)> = Vec::new();
    for &place in places {
        if blocks.last().is_some_and(|&(_, end)| place < end) {
            continue;
        }
        let starts = (0..BASE_BLOCK_MOST).map_while(|n| place.checked_sub(n * BASE_BLOCK));
        let found = starts.take_while(|&start| reader.vma(start).is_some()).find_map(|start| {
            let size = reader.memory.word(start)?;
            let arena = reader.memory.word(start + 16)? & ARENA_MASK;
            let end = start.checked_add(size)?;
            let is_block = size % BASE_BLOCK == 0 && end > place && arena == ARENA_MASK;
            (is_block && reader.vma(end - PAGE).is_some()).then_some((start, end))
        });
        blocks.extend(found.filter(|&(start, _)| blocks.last().is_none_or(|b| b.1 <= start)));
    }
    blocks
}
