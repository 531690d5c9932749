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

use std::collections::{BTreeMap, BTreeSet};

use super::spans::{Heap, Sums};
use crate::memory::Memory;
use crate::smaps::Vma;

const PAGE: u64 = 4096;
const PAGE_LOG2: u64 = 12;
/// Words that are read at a time.
const PIECE: u64 = 1 << 13;
const SIZE_CLASS_SHIFT: u64 = 48;
/// Flags in an entry; extents are aligned beyond them.
const FLAGS: u64 = 0x3f;
const ARENA_MASK: u64 = 0xfff;
const SLAB_BIT: u64 = 1 << 12;
const BITMAP: usize = 8;
const BITMAP_WORDS: usize = 8;
const EXTENT_WORDS: usize = BITMAP + BITMAP_WORDS;
/// Blocks above what slabs hold may lie anywhere in their first page, for which a page is added.
const PAD: u64 = PAGE;
const SMALLEST_LARGE: u64 = 4 * PAGE;
/// Metadata is taken from the kernel in multiples of this, aligned so.
const BASE_BLOCK: u64 = 2 << 20;
const BASE_BLOCK_MOST: u64 = 64;

/// Words of zeroed data that may point to a leaf, and entries of each that are looked at.
const MOST_CANDIDATES: u64 = 4096;
const FIRST_ENTRIES: usize = 8;
const MOST_DATA: u64 = 64 << 20;
/// Of these each is about 128 MiB or more.
const MOST_LEAVES: usize = 1 << 17;
/// Extents by which the version is told.
const SAMPLES: usize = 256;
const TRIES: u32 = 5;
const PAUSE: std::time::Duration = std::time::Duration::from_micros(200);

/// Where the versions keep what in an extent's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    name: &'static str,
    state: (u64, u64),
    size_class: u64,
    free: u64,
    /// And what in entries of two words.
    wide_size_class: u64,
    wide_slab: u64,
}

const LAYOUTS: [Layout; 2] = [
    Layout {
        name: "jemalloc 5.3",
        state: (17, 3),
        size_class: 20,
        free: 28,
        wide_size_class: 5,
        wide_slab: 0,
    },
    Layout {
        name: "jemalloc 5.2",
        state: (16, 2),
        size_class: 18,
        free: 26,
        wide_size_class: 0,
        wide_slab: 32,
    },
];

/// How the tree is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    levels: u32,
    /// By which each level tells addresses apart.
    bits: u32,
    /// Words of an entry of a leaf.
    entry: u64,
}

const SHAPES: [Shape; 2] =
    [Shape { levels: 2, bits: 18, entry: 1 }, Shape { levels: 3, bits: 15, entry: 2 }];

impl Shape {
    fn entries(self) -> u64 {
        1 << self.bits
    }

    /// Bytes of the root and of nodes, and of leaves.
    fn table(self) -> u64 {
        8 << self.bits
    }

    fn leaf(self) -> u64 {
        self.entry * self.table()
    }

    /// Bytes of addresses that an entry of a level is about, leaves being level 0.
    fn span_log2(self, level: u32) -> u32 {
        PAGE_LOG2 as u32 + level * self.bits
    }

    /// Where an address stands in a table of a level.
    fn index(self, level: u32, address: u64) -> u64 {
        address >> self.span_log2(level) & (self.entries() - 1)
    }
}

/// What an entry of a leaf says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    words: [u64; 2],
    is_wide: bool,
}

impl Entry {
    /// Of the extent, if it may be one.
    fn address(self) -> Option<u64> {
        let address = self.words[0] & ((1 << SIZE_CLASS_SHIFT) - 1) & !FLAGS;
        (address >= PAGE).then_some(address)
    }

    fn size_class(self, layout: Layout) -> u64 {
        let word = match self.is_wide {
            true => self.words[1] >> layout.wide_size_class,
            false => self.words[0] >> SIZE_CLASS_SHIFT,
        };
        word & 0xff
    }

    fn is_slab(self, layout: Layout) -> bool {
        let bit = match self.is_wide {
            true => self.words[1] >> layout.wide_slab,
            false => self.words[0],
        };
        bit & 1 != 0
    }
}

/// The smallest distance of size classes: 16 bytes, or 8 where it was built so.
const QUANTA_LOG2: [u32; 2] = [4, 3];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active,
    Dirty,
    Muzzy,
    Retained,
    Changing,
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    words: [u64; EXTENT_WORDS],
    entry: Entry,
}

impl Extent {
    fn bits(&self) -> u64 {
        self.words[0]
    }

    fn start(&self) -> u64 {
        self.words[1] & !(PAGE - 1)
    }

    fn size(&self) -> u64 {
        self.words[2] & !(PAGE - 1)
    }

    fn end(&self) -> Option<u64> {
        self.start().checked_add(self.size()).filter(|&end| end > self.start() && end < 1 << 48)
    }

    fn arena(&self) -> u64 {
        self.bits() & ARENA_MASK
    }

    fn is_slab(&self) -> bool {
        self.bits() & SLAB_BIT != 0
    }

    /// In use, and what the entry says of the extent agrees with what the extent says.
    fn fits(&self, layout: Layout) -> bool {
        let class = self.bits() >> layout.size_class & 0xff;
        self.state(layout) == State::Active
            && class == self.entry.size_class(layout)
            && self.is_slab() == self.entry.is_slab(layout)
    }

    fn state(&self, layout: Layout) -> State {
        let (shift, width) = layout.state;
        match self.bits() >> shift & ((1 << width) - 1) {
            0 => State::Active,
            1 => State::Dirty,
            2 => State::Muzzy,
            3 => State::Retained,
            _ => State::Changing,
        }
    }

    /// Regions of a slab, and those in use; `None` unless its count and its bitmap agree.
    fn regions(&self, layout: Layout, sizes: &[u64]) -> Option<(u64, u64, u64)> {
        let size = *sizes.get((self.bits() >> layout.size_class & 0xff) as usize)?;
        let count = self.size() / size;
        let free = self.bits() >> layout.free & 0x3ff;
        let is_whole = count > 0 && count <= 64 * BITMAP_WORDS as u64;
        if !is_whole || !self.size().is_multiple_of(size) || free > count {
            return None;
        }
        let words = count.div_ceil(64) as usize;
        let set: u64 =
            self.words[BITMAP..BITMAP + words].iter().map(|w| u64::from(w.count_ones())).sum();
        (set == free).then_some((size, count, count - free))
    }
}

/// Bytes of the size classes by index.
fn size_classes(quantum_log2: u32) -> Vec<u64> {
    let tiny = 3..quantum_log2;
    let first = (1..=4).map(|n| n << quantum_log2);
    let groups = (quantum_log2 + 2..62)
        .flat_map(|base| (1..=4).map(move |n| (1u64 << base).saturating_add(n << (base - 2))));
    tiny.map(|log2| 1 << log2).chain(first).chain(groups).collect()
}

struct Reader<'a> {
    memory: &'a dyn Memory,
    vmas: &'a [Vma],
    shape: Shape,
}

/// Private memory without a file that can be written to.
fn is_plain(vma: &Vma) -> bool {
    vma.is_anonymous() && vma.is_private() && vma.is_writable()
}

/// `None` where there is no jemalloc, or one whose structures are others.
pub fn read(memory: &dyn Memory, vmas: &[Vma]) -> Option<Heap> {
    SHAPES.iter().find_map(|&shape| {
        let reader = Reader { memory, vmas, shape };
        let (leaves, layout, sizes) = reader.tree()?;
        Walk::new(layout, &sizes).over(&reader, &leaves)
    })
}

/// A leaf, and the first address that it is about.
type Leaf = (u64, u64);

impl Reader<'_> {
    fn vma(&self, address: u64) -> Option<&Vma> {
        let after = self.vmas.partition_point(|vma| vma.end <= address);
        self.vmas.get(after).filter(|vma| vma.contains(address))
    }

    /// Looks for the root in zeroed data of files.
    fn tree(&self) -> Option<(Vec<Leaf>, Layout, Vec<u64>)> {
        let table = self.shape.table();
        let mut candidates = MOST_CANDIDATES;
        let mut data = MOST_DATA;
        for (index, vma) in self.vmas.iter().enumerate().skip(1) {
            let file = &self.vmas[index - 1];
            let follows = file.end == vma.start && file.inode != 0 && file.is_writable();
            if !follows || vma.inode != 0 || !is_plain(vma) || vma.size() < table - PAGE {
                continue;
            }
            // The array may begin in the page that is the file's.
            let start = vma.start - PAGE.min(vma.start);
            let end = vma.end.min(vma.start.saturating_add(data));
            data = data.saturating_sub(end - vma.start);
            for (at, word) in self.known(start, (end - start) / 8) {
                if word & 0x3f != 0 || !self.vma(word).is_some_and(is_plain) {
                    continue;
                }
                candidates = candidates.checked_sub(1)?;
                let key = self.key_of(word);
                let root = key.and_then(|key| at.checked_sub(8 * key));
                let root =
                    root.filter(|root| *root >= start && root.saturating_add(table) <= vma.end);
                if let Some(leaves) = root.map(|root| self.leaves(root))
                    && let Some((layout, sizes)) = self.version(&leaves)
                {
                    return Some((leaves, layout, sizes));
                }
            }
        }
        None
    }

    /// Words that are not zero, with their addresses.
    fn known(&self, start: u64, count: u64) -> impl Iterator<Item = (u64, u64)> {
        let pieces = (0..count).step_by(PIECE as usize);
        pieces.flat_map(move |first| {
            let at = start.saturating_add(8 * first);
            let words = self.memory.words(at, PIECE.min(count - first) as usize);
            let words = words.unwrap_or_default().into_iter().enumerate();
            words
                .map(move |(i, word)| (at.saturating_add(8 * i as u64), word))
                .filter(|(_, word)| *word != 0)
        })
    }

    /// The index in the root of what may be a node or a leaf, by the first extents that it knows.
    fn key_of(&self, table: u64) -> Option<u64> {
        let top = self.shape.levels - 1;
        let (leaf, node_index) = if top == 1 {
            (table, None)
        } else {
            let (at, leaf) = self.known(table, self.shape.entries()).next()?;
            (leaf, Some((at - table) / 8))
        };
        let size = 8 * self.shape.entry;
        let first = self.known(leaf, self.shape.leaf() / 8).take(FIRST_ENTRIES);
        let pages = first.map(|(at, _)| (at - leaf) / size);
        pages.filter_map(|page| Some((page, self.entry(leaf.checked_add(page * size)?)?))).find_map(
            |(page, entry)| {
                let start = self.extent(entry)?.start();
                let is_it = self.shape.index(0, start) == page
                    && node_index.is_none_or(|index| self.shape.index(1, start) == index)
                    && self.vma(start).is_some();
                is_it.then(|| self.shape.index(top, start))
            },
        )
    }

    fn entry(&self, at: u64) -> Option<Entry> {
        let is_wide = self.shape.entry == 2;
        let second = if is_wide { self.memory.word(at.checked_add(8)?)? } else { 0 };
        Some(Entry { words: [self.memory.word(at)?, second], is_wide })
    }

    /// What an entry points to, if it may be an extent.
    fn extent(&self, entry: Entry) -> Option<Extent> {
        let mut bytes = [0; 8 * EXTENT_WORDS];
        self.memory.read(entry.address()?, &mut bytes)?;
        let mut words = [0; EXTENT_WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        let extent = Extent { words, entry };
        extent.end()?;
        Some(extent)
    }

    /// The same as it is at this moment.
    fn extent_now(&self, entry: Entry) -> Option<Extent> {
        let address = entry.address()?;
        let mut words = [0; EXTENT_WORDS];
        for (index, word) in words.iter_mut().enumerate() {
            *word = self.memory.number_now(address + 8 * index as u64, 8)?;
        }
        Some(Extent { words, entry })
    }

    fn leaves(&self, root: u64) -> Vec<Leaf> {
        let mut tables = vec![(root, 0)];
        for level in (1..self.shape.levels).rev() {
            let span = self.shape.span_log2(level);
            let below = |&(table, base): &Leaf| {
                let words = self.known(table, self.shape.entries());
                words.map(move |(at, word)| (word, base + (((at - table) / 8) << span))).collect()
            };
            tables = tables.iter().flat_map::<Vec<Leaf>, _>(below).take(MOST_LEAVES).collect();
        }
        tables
    }

    /// Hands every extent to `each`, with its address, as long as that returns true.
    fn extents(&self, leaves: &[Leaf], each: &mut dyn FnMut(u64, Extent) -> bool) {
        let mut next = 0;
        for &(leaf, base) in leaves {
            let size = 8 * self.shape.entry;
            let mut entry = Entry { words: [0; 2], is_wide: self.shape.entry == 2 };
            for first in (0..self.shape.leaf() / 8).step_by(PIECE as usize) {
                let page = |word: u64| base + ((word / self.shape.entry) << PAGE_LOG2);
                if page(first + PIECE) <= next {
                    continue;
                }
                let words = leaf.checked_add(8 * first);
                let words = words.and_then(|at| self.memory.words(at, PIECE as usize));
                let words = words.unwrap_or_default();
                for (index, words) in words.chunks_exact(size as usize / 8).enumerate() {
                    let address = page(first + index as u64 * self.shape.entry);
                    if words[0] == 0 || address < next {
                        continue;
                    }
                    entry.words[..words.len()].copy_from_slice(words);
                    // An extent's other pages have entries too.
                    let extent = self.extent(entry).filter(|extent| extent.start() == address);
                    if let Some(extent) = extent {
                        next = address + extent.size();
                        if !each(address, extent) {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// The version and the size classes with which what slabs count agrees with their bitmaps.
    fn version(&self, leaves: &[Leaf]) -> Option<(Layout, Vec<u64>)> {
        let mut slabs = Vec::new();
        self.extents(leaves, &mut |_, extent| {
            if extent.is_slab() {
                slabs.push(extent);
            }
            slabs.len() < SAMPLES
        });
        let tables = QUANTA_LOG2.map(size_classes);
        let mut best = None;
        let mut most = 0;
        for layout in LAYOUTS {
            // Free extents may have been slabs.
            let active = slabs.iter().filter(|slab| slab.state(layout) == State::Active).count();
            for sizes in &tables {
                let fits =
                    |slab: &&Extent| slab.fits(layout) && slab.regions(layout, sizes).is_some();
                let count = slabs.iter().filter(fits).count();
                // A few may be changing.
                if count > most && count * 20 >= active * 19 {
                    (best, most) = (Some((layout, sizes.clone())), count);
                }
            }
        }
        best
    }
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
            is_sound &= self.add(reader, address, extent);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_of_both_quanta() {
        let sixteen = size_classes(4);
        assert_eq!(sixteen[..10], [8, 16, 32, 48, 64, 80, 96, 112, 128, 160]);
        assert_eq!((sixteen[35], sixteen[36]), (14 << 10, 16 << 10));
        let eight = size_classes(3);
        assert_eq!(eight[..10], [8, 16, 24, 32, 40, 48, 56, 64, 80, 96]);
    }

    #[test]
    fn slab_is_believed_if_its_count_and_its_bitmap_agree() {
        let layout = LAYOUTS[0];
        let sizes = size_classes(4);
        let mut words = [0; EXTENT_WORDS];
        words[0] = SLAB_BIT | 4 << layout.size_class | 3 << layout.free;
        (words[1], words[2]) = (0x7f00_0000_0000, PAGE);
        words[BITMAP] = 0b1011;
        let entry = Entry { words: [4 << SIZE_CLASS_SHIFT | 1, 0], is_wide: false };
        let mut slab = Extent { words, entry };
        assert!(slab.fits(layout) && !slab.fits(LAYOUTS[1]));
        assert_eq!(slab.regions(layout, &sizes), Some((64, 64, 61)));
        slab.words[BITMAP] = 0b11;
        assert_eq!(slab.regions(layout, &sizes), None);
    }
}
