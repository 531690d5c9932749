// SPDX-License-Identifier: MIT
//! Mallow's page map, read from outside: the descriptor of an address, where the leaves of the map lie, and the
//! blocks that are mappings of their own, whatever the kernel joined these with.

use std::collections::BTreeSet;

use super::{Page, Reader};
use crate::memory::Memory;

/// What the map covers: the process has the same processor as we have.
const MAP_BITS: u64 = if cfg!(target_arch = "x86_64") { 47 } else { ADDRESS_BITS };
const ADDRESS_BITS: u64 = 48;
/// Entries of the first level; that of 48 bits has fewer.
const MOST_LEAVES: u64 = 1 << 22;
/// Of these so many are searched for blocks: they cover 4 TiB.
const MOST_SEARCHED: usize = 1 << 13;
/// Blocks that are listed, and words that lead to none of them: there are few beside a known region.
const MOST_BLOCKS: usize = 1 << 20;
const MOST_STRAYS: u32 = 1 << 18;
/// Words that are read at a time: those of a page.
const PIECE: u64 = 512;

/// Blocks that are mappings of their own, in use or free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Huge {
    /// In order, without overlaps.
    pub blocks: Vec<(u64, u64)>,
    /// What else has descriptors and lies in no region that is known: guarded blocks, and younger regions.
    pub others: Vec<(u64, u64)>,
    /// Pages in which their descriptors lie.
    pub metadata_at: BTreeSet<u64>,
}

/// The blocks of a heap; `regions`: where its others lie.
pub fn huge(memory: &dyn Memory, page: &Page, regions: &[(u64, u64)]) -> Option<Huge> {
    let reader = Reader { memory, page, shift: super::page_shift(memory, page)? };
    let mut regions = regions.to_vec();
    regions.sort_unstable();
    let mut search =
        Search { reader: &reader, regions: &regions, at: 0, strays: 0, found: Huge::default() };
    let root_shift = u32::try_from(page.number("root_shift")?).ok()?;
    for (index, leaf) in reader.roots()?.into_iter().take(MOST_SEARCHED) {
        search.leaf(index.checked_shl(root_shift)?, leaf)?;
        if search.is_full() || memory.is_over() {
            break;
        }
    }
    Some(search.found)
}

impl Reader<'_> {
    pub fn descriptor(&self, address: u64) -> Option<u64> {
        let number = |name: &str| self.page.number(name);
        let map = self.page.root("pagemap")?;
        let right = |name: &str| address.checked_shr(u32::try_from(number(name)?).ok()?);
        let root = map.wrapping_add(number("pagemap_root_at")?);
        let entry = right("root_shift")?.wrapping_mul(8);
        let leaf = self.memory.word(root.wrapping_add(entry))?;
        if leaf == 0 {
            return None;
        }
        let index = right("granule_shift")? & number("leaf_mask")?;
        let at = map.wrapping_add(leaf).wrapping_add(index.wrapping_mul(8));
        self.described_by(self.memory.word(at)?)
    }

    /// The top bits of a word tell free which list takes a block.
    fn described_by(&self, word: u64) -> Option<u64> {
        let map = self.page.root("pagemap")?;
        (word != 0).then(|| map.wrapping_add(word) & ((1 << ADDRESS_BITS) - 1))
    }

    /// The entries of the first level that have a leaf: which they are, and where it lies.
    fn roots(&self) -> Option<Vec<(u64, u64)>> {
        let map = self.page.root("pagemap")?;
        let count = 1u64 << MAP_BITS.checked_sub(self.page.number("root_shift")?)?;
        let first = map.wrapping_add(self.page.number("pagemap_root_at")?);
        let mut roots = Vec::new();
        for from in (0..count.min(MOST_LEAVES)).step_by(PIECE as usize) {
            let at = first.wrapping_add(8 * from);
            let piece = PIECE.min(count - from) as usize;
            let words = self.memory.words_unless_zero(at, piece).unwrap_or_default();
            let entries = (from..).zip(words).filter(|(_, distance)| *distance != 0);
            roots.extend(entries.map(|(index, distance)| (index, map.wrapping_add(distance))));
        }
        Some(roots)
    }

    /// Where the leaves lie: an address of eight bytes for each granule.
    pub fn leaves(&self) -> Option<Vec<(u64, u64)>> {
        let size = self.page.number("leaf_mask")?.saturating_add(1).saturating_mul(8);
        let starts = self.roots()?.into_iter().map(|(_, leaf)| leaf);
        Some(starts.map(|start| (start, start.saturating_add(size))).collect())
    }
}

struct Search<'a> {
    reader: &'a Reader<'a>,
    /// In order.
    regions: &'a [(u64, u64)],
    /// What lies before this address is known.
    at: u64,
    strays: u32,
    found: Huge,
}

impl Search<'_> {
    fn is_full(&self) -> bool {
        self.found.blocks.len() + self.found.others.len() >= MOST_BLOCKS
            || self.strays >= MOST_STRAYS
    }

    /// The words of a leaf whose first one is that of the address `base`. Of a block the map names the ends,
    /// so that most of a leaf was never touched, and reads as zero.
    fn leaf(&mut self, base: u64, leaf: u64) -> Option<()> {
        let shift = u32::try_from(self.reader.page.number("granule_shift")?).ok()?;
        let count = self.reader.page.number("leaf_mask")?.checked_add(1)?;
        let address = |index: u64| Some(base.saturating_add(index.checked_shl(shift)?));
        for first in (0..count.min(MOST_LEAVES)).step_by(PIECE as usize) {
            let next = PIECE.min(count - first) + first;
            self.pass_regions(address(first)?);
            if self.at >= address(next)? {
                continue;
            }
            let at = leaf.wrapping_add(8 * first);
            let words = self.reader.memory.words_unless_zero(at, (next - first) as usize);
            for (index, word) in (first..).zip(words.unwrap_or_default()) {
                if self.is_full() {
                    return Some(());
                }
                if word != 0 {
                    self.word(address(index)?, word);
                }
            }
        }
        Some(())
    }

    /// Moves on to an address, and to the end of the regions that it lies in.
    fn pass_regions(&mut self, address: u64) {
        self.at = self.at.max(address);
        let after = self.regions.partition_point(|(start, _)| *start <= self.at);
        if let Some((_, end)) = after.checked_sub(1).map(|index| self.regions[index]) {
            self.at = self.at.max(end);
        }
    }

    fn word(&mut self, address: u64, word: u64) {
        if address < self.at {
            return;
        }
        self.pass_regions(address);
        if self.at > address {
            return;
        }
        match self.extent(address, word) {
            Some((end, is_huge)) => {
                let Huge { blocks, others, .. } = &mut self.found;
                if is_huge { blocks } else { others }.push((address, end));
                self.at = end;
            }
            None => self.strays += 1,
        }
    }

    /// Where the extent ends that begins at an address, and whether it is a mapping of its own.
    fn extent(&mut self, address: u64, word: u64) -> Option<(u64, bool)> {
        let reader = self.reader;
        let extent = reader.described_by(word)?;
        let pages = reader.get(extent, "extent.pages")?;
        let end = address.checked_add(pages.checked_mul(1 << reader.shift)?)?;
        if reader.get(extent, "extent.start")? != address || end == address || end >> MAP_BITS != 0
        {
            return None;
        }
        let is_huge = reader.get(extent, "extent.is_huge")? != 0;
        self.found.metadata_at.insert(extent >> reader.shift << reader.shift);
        Some((end, is_huge))
    }
}
