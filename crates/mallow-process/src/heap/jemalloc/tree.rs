// SPDX-License-Identifier: MIT
//! The tree in which jemalloc looks addresses up: where its root is, and the extents that it leads to.

use super::layout::{
    EXTENT_WORDS, Entry, Extent, LAYOUTS, Layout, PAGE, PAGE_LOG2, QUANTA_LOG2, Shape, State,
    size_classes,
};
use crate::memory::Memory;
use crate::smaps::Vma;

/// Words that are read at a time.
const PIECE: u64 = 1 << 13;

/// Words of zeroed data that may point to a leaf, and entries of each that are looked at.
const MOST_CANDIDATES: u64 = 4096;
/// Words one behind another that are looked at: an array of pointers is no root, and each entry of a
/// root leads to all of it.
const LONGEST_RUN: u64 = 64;
const FIRST_ENTRIES: usize = 8;
const MOST_DATA: u64 = 64 << 20;
/// Of these each is about 128 MiB or more.
const MOST_LEAVES: usize = 1 << 17;
/// Extents by which the version is told.
const SAMPLES: usize = 256;
/// A tree in which so many entries more lead to no extent than to one is none, though a few of its words fit.
const MOST_STRAY: usize = 256;
/// Of the tables of a level, so many may lie where no mapping was when the mappings were read: one in this.
const NEW_TABLES: usize = 8;

pub(super) struct Reader<'a> {
    pub(super) memory: &'a dyn Memory,
    pub(super) vmas: &'a [Vma],
    pub(super) shape: Shape,
}

/// Private memory without a file that can be written to.
pub(super) fn is_plain(vma: &Vma) -> bool {
    vma.is_anonymous() && vma.is_private() && vma.is_writable()
}

/// A leaf, and the first address that it is about.
pub(super) type Leaf = (u64, u64);

impl Reader<'_> {
    pub(super) fn vma(&self, address: u64) -> Option<&Vma> {
        let after = self.vmas.partition_point(|vma| vma.end <= address);
        self.vmas.get(after).filter(|vma| vma.contains(address))
    }

    /// Looks for the root in zeroed data of files.
    pub(super) fn tree(&self) -> Option<(Vec<Leaf>, Layout, Vec<u64>)> {
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
            let (mut run, mut last) = (0, 0);
            for (at, word) in self.known(start, (end - start) / 8) {
                run = if at == last + 8 { run + 1 } else { 1 };
                last = at;
                if !self.may_be_table(word)
                    || run > LONGEST_RUN
                    || !self.may_be_in_root(at, start, vma.end)
                {
                    continue;
                }
                candidates = candidates.checked_sub(1)?;
                let key = self.key_of(word);
                let root = key.and_then(|key| at.checked_sub(8 * key));
                let root =
                    root.filter(|root| *root >= start && root.saturating_add(table) <= vma.end);
                if let Some(leaves) = root.and_then(|root| self.leaves(root))
                    && let Some((layout, sizes)) = self.version(&leaves)
                {
                    return Some((leaves, layout, sizes));
                }
            }
        }
        None
    }

    /// Whether a word can be the entry of some mapping in a root that lies whole in a range.
    fn may_be_in_root(&self, at: u64, start: u64, end: u64) -> bool {
        let top = self.shape.levels - 1;
        let first = |key: u64| start.saturating_add(8 * key);
        let last = |key: u64| end.saturating_sub(self.shape.table()).saturating_add(8 * key);
        let keys = self.vmas.iter().filter(|vma| is_plain(vma)).map(|vma| {
            (self.shape.index(top, vma.start), self.shape.index(top, vma.end.saturating_sub(1)))
        });
        keys.into_iter().any(|(low, high)| low <= high && first(low) <= at && at <= last(high))
    }

    /// Words that are not zero, with their addresses.
    fn known(&self, start: u64, count: u64) -> impl Iterator<Item = (u64, u64)> {
        let pieces = (0..count).step_by(PIECE as usize);
        pieces.flat_map(move |first| {
            let at = start.saturating_add(8 * first);
            let words = self.memory.words_unless_zero(at, PIECE.min(count - first) as usize);
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
    pub(super) fn extent_now(&self, entry: Entry) -> Option<Extent> {
        let address = entry.address()?;
        let mut words = [0; EXTENT_WORDS];
        for (index, word) in words.iter_mut().enumerate() {
            *word = self.memory.number_now(address + 8 * index as u64, 8)?;
        }
        Some(Extent { words, entry })
    }

    fn may_be_table(&self, address: u64) -> bool {
        address & 0x3f == 0 && self.vma(address).is_some_and(is_plain)
    }

    /// `None` if the root is none: a tree of other words leads anywhere, and takes long to be looked at.
    fn leaves(&self, root: u64) -> Option<Vec<Leaf>> {
        let mut tables = vec![(root, 0)];
        for level in (1..self.shape.levels).rev() {
            let span = self.shape.span_log2(level);
            let below = |&(table, base): &Leaf| {
                let words = self.known(table, self.shape.entries());
                words.map(move |(at, word)| (word, base + (((at - table) / 8) << span))).collect()
            };
            tables = tables.iter().flat_map::<Vec<Leaf>, _>(below).take(MOST_LEAVES).collect();
            let strange = tables.iter().filter(|(table, _)| !self.may_be_table(*table)).count();
            if strange * NEW_TABLES > tables.len() {
                return None;
            }
        }
        Some(tables)
    }

    /// Hands every extent to `each`, with its address, as long as that returns true; `None` for an entry that
    /// leads to no extent of its address.
    pub(super) fn extents(
        &self,
        leaves: &[Leaf],
        each: &mut dyn FnMut(u64, Option<Extent>) -> bool,
    ) {
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
                let words = words.and_then(|at| self.memory.words_unless_zero(at, PIECE as usize));
                let words = words.unwrap_or_default();
                for (index, words) in words.chunks_exact(size as usize / 8).enumerate() {
                    let address = page(first + index as u64 * self.shape.entry);
                    if words[0] == 0 || address < next {
                        continue;
                    }
                    entry.words[..words.len()].copy_from_slice(words);
                    // An extent's other pages have entries too.
                    let extent = self.extent(entry).filter(|extent| extent.start() == address);
                    if let Some(extent) = &extent {
                        next = address + extent.size();
                    }
                    if !each(address, extent) {
                        return;
                    }
                }
            }
        }
    }

    /// The version and the size classes with which what slabs count agrees with their bitmaps.
    fn version(&self, leaves: &[Leaf]) -> Option<(Layout, Vec<u64>)> {
        let mut slabs = Vec::new();
        let (mut found, mut stray) = (0, 0);
        self.extents(leaves, &mut |_, extent| {
            found += usize::from(extent.is_some());
            stray += usize::from(extent.is_none());
            slabs.extend(extent.filter(Extent::is_slab));
            slabs.len() < SAMPLES && stray <= found + MOST_STRAY
        });
        if stray > found + MOST_STRAY {
            return None;
        }
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
