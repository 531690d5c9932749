// SPDX-License-Identifier: MIT
//! What versions of jemalloc keep where: entries of the tree, extents, and size classes.

pub(super) const PAGE: u64 = 4096;
pub(super) const PAGE_LOG2: u64 = 12;
pub(super) const SIZE_CLASS_SHIFT: u64 = 48;
/// Flags in an entry; extents are aligned beyond them.
pub(super) const FLAGS: u64 = 0x3f;
pub(super) const ARENA_MASK: u64 = 0xfff;
pub(super) const SLAB_BIT: u64 = 1 << 12;
pub(super) const BITMAP: usize = 8;
pub(super) const BITMAP_WORDS: usize = 8;
pub(super) const EXTENT_WORDS: usize = BITMAP + BITMAP_WORDS;

/// Where the versions keep what in an extent's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) name: &'static str,
    pub(super) state: (u64, u64),
    pub(super) size_class: u64,
    pub(super) free: u64,
    /// And what in entries of two words.
    pub(super) wide_size_class: u64,
    pub(super) wide_slab: u64,
}

pub(super) const LAYOUTS: [Layout; 2] = [
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
pub(super) struct Shape {
    pub(super) levels: u32,
    /// By which each level tells addresses apart.
    pub(super) bits: u32,
    /// Words of an entry of a leaf.
    pub(super) entry: u64,
}

pub(super) const SHAPES: [Shape; 2] =
    [Shape { levels: 2, bits: 18, entry: 1 }, Shape { levels: 3, bits: 15, entry: 2 }];

impl Shape {
    pub(super) fn entries(self) -> u64 {
        1 << self.bits
    }

    /// Bytes of the root and of nodes, and of leaves.
    pub(super) fn table(self) -> u64 {
        8 << self.bits
    }

    pub(super) fn leaf(self) -> u64 {
        self.entry * self.table()
    }

    /// Bytes of addresses that an entry of a level is about, leaves being level 0.
    pub(super) fn span_log2(self, level: u32) -> u32 {
        PAGE_LOG2 as u32 + level * self.bits
    }

    /// Where an address stands in a table of a level.
    pub(super) fn index(self, level: u32, address: u64) -> u64 {
        address >> self.span_log2(level) & (self.entries() - 1)
    }
}

/// What an entry of a leaf says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) words: [u64; 2],
    pub(super) is_wide: bool,
}

impl Entry {
    /// Of the extent, if it may be one.
    pub(super) fn address(self) -> Option<u64> {
        let address = self.words[0] & ((1 << SIZE_CLASS_SHIFT) - 1) & !FLAGS;
        (address >= PAGE).then_some(address)
    }

    pub(super) fn size_class(self, layout: Layout) -> u64 {
        let word = match self.is_wide {
            true => self.words[1] >> layout.wide_size_class,
            false => self.words[0] >> SIZE_CLASS_SHIFT,
        };
        word & 0xff
    }

    pub(super) fn is_slab(self, layout: Layout) -> bool {
        let bit = match self.is_wide {
            true => self.words[1] >> layout.wide_slab,
            false => self.words[0],
        };
        bit & 1 != 0
    }
}

/// The smallest distance of size classes: 16 bytes, or 8 where it was built so.
pub(super) const QUANTA_LOG2: [u32; 2] = [4, 3];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Active,
    Dirty,
    Muzzy,
    Retained,
    Changing,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) words: [u64; EXTENT_WORDS],
    pub(super) entry: Entry,
}

impl Extent {
    pub(super) fn bits(&self) -> u64 {
        self.words[0]
    }

    pub(super) fn start(&self) -> u64 {
        self.words[1] & !(PAGE - 1)
    }

    pub(super) fn size(&self) -> u64 {
        self.words[2] & !(PAGE - 1)
    }

    pub(super) fn end(&self) -> Option<u64> {
        self.start().checked_add(self.size()).filter(|&end| end > self.start() && end < 1 << 48)
    }

    pub(super) fn arena(&self) -> u64 {
        self.bits() & ARENA_MASK
    }

    pub(super) fn is_slab(&self) -> bool {
        self.bits() & SLAB_BIT != 0
    }

    /// In use, and what the entry says of the extent agrees with what the extent says.
    pub(super) fn fits(&self, layout: Layout) -> bool {
        let class = self.bits() >> layout.size_class & 0xff;
        self.state(layout) == State::Active
            && class == self.entry.size_class(layout)
            && self.is_slab() == self.entry.is_slab(layout)
    }

    pub(super) fn state(&self, layout: Layout) -> State {
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
    pub(super) fn regions(&self, layout: Layout, sizes: &[u64]) -> Option<(u64, u64, u64)> {
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
pub(super) fn size_classes(quantum_log2: u32) -> Vec<u64> {
    let tiny = 3..quantum_log2;
    let first = (1..=4).map(|n| n << quantum_log2);
    let groups = (quantum_log2 + 2..62)
        .flat_map(|base| (1..=4).map(move |n| (1u64 << base).saturating_add(n << (base - 2))));
    tiny.map(|log2| 1 << log2).chain(first).chain(groups).collect()
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
