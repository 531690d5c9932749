// SPDX-License-Identifier: MIT
//! glibc's large blocks, each a mapping of its own when it was made.
//!
//! The kernel joins such a mapping with neighbours that are alike, and splits it where the program
//! asks for huge pages or protects a part of it, so that a mapping of the kernel may hold many
//! blocks, a part of one, or blocks beside other memory. What betrays a block is its header:
//!
//! ```text
//!     page   lead    header                                    page
//!     |......|lead   size, flag 2|  what the program has ...   |
//! ```
//!
//! The lead is 0 unless the program asked for an alignment. Since glibc 2.43 the chunk ends 16 bytes
//! before the page does, and the lowest bit of the lead tells that the block has huge pages. glibc
//! counts its blocks, so that it is known whether all of them were found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::chunks::{FLAGS, IS_MAPPED, Sizes};
use crate::memory::Memory;
use crate::page_size;
use crate::smaps::Vma;

/// Pages whose start is looked at where blocks are missing: those of 4 GiB.
const MOST_PAGES: u64 = 1 << 20;
/// Up to this alignment blocks are found at the start of a mapping, and anywhere.
const LARGEST_ALIGNMENT: u64 = 1 << 30;
const USUAL_ALIGNMENT: u64 = 2 << 20;
/// glibc makes no smaller chunk, nor a smaller lead, but 16 before 32 since 2.43.
const SMALLEST_CHUNK: u64 = 32;
/// Behind the chunk, since 2.43.
const TAIL: u64 = 16;
const HAS_HUGE_PAGES: u64 = 1;
/// glibc never has more lists in a thread's cache.
const MOST_CACHE_LISTS: u64 = 128;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Mapped {
    /// Those that were found.
    pub chunks: u64,
    pub bytes: u64,
    /// By glibc's own counters, where these were found.
    #[serde(default)]
    pub counted: Option<Counted>,
    /// Where they lie, in order; neighbours are one range.
    #[serde(skip)]
    pub ranges: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    pub chunks: u64,
    pub bytes: u64,
    /// Since 2.43 glibc counts 16 bytes too many each time that it moves a block (`mremap`).
    #[serde(skip)]
    pub drifts: bool,
}

impl Counted {
    pub fn with(self, other: Counted) -> Counted {
        Counted {
            chunks: self.chunks.saturating_add(other.chunks),
            bytes: self.bytes.saturating_add(other.bytes),
            drifts: self.drifts || other.drifts,
        }
    }
}

impl Mapped {
    /// All of them, as far as that is known.
    pub fn in_use(&self) -> u64 {
        self.counted.map_or(self.bytes, |counted| counted.bytes)
    }

    pub fn count(&self) -> u64 {
        self.counted.map_or(self.chunks, |counted| counted.chunks)
    }

    /// Counted by glibc, and not found.
    pub fn missing(&self) -> u64 {
        self.in_use().saturating_sub(self.bytes)
    }
}

/// A block's mapping as glibc made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    start: u64,
    end: u64,
    /// Of its chunk.
    size: u64,
}

/// Mappings one behind the other, without a hole, that blocks may lie in.
struct Run<'a> {
    vmas: &'a [Vma],
    end: u64,
}

/// `arenas`: address ranges in which no such block lies.
pub fn find(
    memory: &dyn Memory,
    vmas: &[Vma],
    arenas: &[(u64, u64)],
    counted: Option<Counted>,
    sizes: &mut Sizes,
) -> Mapped {
    let in_arena =
        |vma: &Vma| arenas.iter().any(|&(start, end)| start <= vma.start && vma.end <= end);
    let runs = runs(vmas, in_arena);
    let mut found = Search { memory, blocks: BTreeMap::new(), bytes: 0, counted };
    if counted.is_none_or(|counted| counted.chunks > 0) {
        runs.iter().for_each(|run| found.at_starts(run));
        let mut budget = MOST_PAGES;
        runs.iter().for_each(|run| found.between(run, &mut budget));
    }
    let mut mapped = Mapped { counted, ..Mapped::default() };
    for block in found.blocks.values() {
        mapped.chunks += 1;
        mapped.bytes += block.end - block.start;
        sizes.count(block.size);
        match mapped.ranges.last_mut() {
            Some(last) if last.1 == block.start => last.1 = block.end,
            _ => mapped.ranges.push((block.start, block.end)),
        }
    }
    // All were found, so they have the bytes that were found.
    let is_off = |counted: &&mut Counted| counted.drifts && counted.chunks == mapped.chunks;
    if let Some(counted) = mapped.counted.as_mut().filter(is_off) {
        counted.bytes = mapped.bytes;
    }
    mapped
}

fn runs(vmas: &[Vma], in_arena: impl Fn(&Vma) -> bool) -> Vec<Run<'_>> {
    let may_hold = |vma: &Vma| may_hold_blocks(vma) && !in_arena(vma);
    let groups = vmas
        .chunk_by(|one, next| one.end == next.start && may_hold(one) && may_hold(next))
        .filter(|group| may_hold(&group[0]));
    groups.filter_map(|vmas| Some(Run { vmas, end: vmas.last()?.end })).collect()
}

pub fn may_hold_blocks(vma: &Vma) -> bool {
    let of_glibc =
        vma.name.is_empty() || vma.name.starts_with("[anon: glibc: malloc") || vma.is_hugetlb();
    // The sums below are safe where programs may have memory at all.
    let is_low = vma.end < 1 << 57;
    vma.is_private() && is_low && of_glibc && (vma.is_anonymous() || vma.is_hugetlb())
}

fn is_readable(vma: &Vma) -> bool {
    vma.is_writable() && (vma.rss + vma.swap > 0 || vma.is_hugetlb())
}

struct Search<'a> {
    memory: &'a dyn Memory,
    /// By their start.
    blocks: BTreeMap<u64, Block>,
    bytes: u64,
    counted: Option<Counted>,
}

impl Search<'_> {
    fn is_complete(&self) -> bool {
        let chunks = self.blocks.len() as u64;
        self.counted.is_none_or(|all| chunks >= all.chunks || self.bytes >= all.bytes)
    }

    fn add(&mut self, block: Block) -> u64 {
        self.bytes += block.end - block.start;
        self.blocks.insert(block.start, block);
        block.end
    }

    /// The last block that begins before an address and ends behind another.
    fn over(&self, start: u64, end: u64) -> Option<&Block> {
        let before = self.blocks.range(..end).next_back()?.1;
        (before.end > start).then_some(before)
    }

    /// Blocks that a mapping begins with, and those behind them.
    fn at_starts(&mut self, run: &Run) {
        let mut known = 0;
        for vma in run.vmas.iter().filter(|vma| is_readable(vma)) {
            let mut at = vma.start;
            while at >= known && at < run.end {
                let Some(block) = self.block_at(at, run.end, true) else { break };
                at = self.add(block);
                known = at;
            }
        }
    }

    /// Blocks that begin anywhere, as long as some are missing.
    fn between(&mut self, run: &Run, budget: &mut u64) {
        let page = page_size();
        for vma in run.vmas.iter().filter(|vma| is_readable(vma)) {
            let mut at = vma.start;
            while at < vma.end && *budget > 0 && !self.is_complete() {
                *budget -= 1;
                at = match self.over(at, at + 1) {
                    Some(block) => block.end,
                    None => match self.block_at(at, run.end, false) {
                        Some(block) if self.is_believable(&block) => self.add(block),
                        _ => at + page,
                    },
                };
            }
        }
    }

    /// What looks like a block in the middle of other memory may be anything.
    fn is_believable(&self, block: &Block) -> bool {
        let size = block.end - block.start;
        let is_counted = self.counted.is_some_and(|all| self.bytes + size <= all.bytes);
        is_counted && self.over(block.start, block.end).is_none()
    }

    /// The block whose mapping began at a page.
    fn block_at(&self, page: u64, end: u64, is_start: bool) -> Option<Block> {
        let alignments = (5..=LARGEST_ALIGNMENT.ilog2()).map(|log2| 1u64 << log2);
        let within = alignments.take_while(|&alignment| is_start || alignment <= USUAL_ALIGNMENT);
        let aligned = within.map(|alignment| {
            // As glibc places what is aligned: the chunk before it has room for a header.
            let first = (page + 16).next_multiple_of(alignment) - 16;
            if first - page < SMALLEST_CHUNK { first + alignment } else { first }
        });
        [page, page + 16].into_iter().chain(aligned).find_map(|at| self.block(page, at, end))
    }

    fn block(&self, start: u64, at: u64, end: u64) -> Option<Block> {
        let room = end.checked_sub(at).filter(|&room| room > SMALLEST_CHUNK)?;
        let header = self.memory.word(at + 8)?;
        let size = header & !FLAGS;
        if header & FLAGS != IS_MAPPED || size <= SMALLEST_CHUNK || size > room {
            return None;
        }
        let (lead, word) = (at - start, self.memory.word(at)?);
        let (tail, is_lead) = if (at + size).is_multiple_of(page_size()) {
            (0, word == lead && (lead == 0 || lead >= SMALLEST_CHUNK))
        } else {
            (TAIL, word & !HAS_HUGE_PAGES == lead)
        };
        let end = at + size + tail;
        (is_lead && end.is_multiple_of(page_size())).then_some(Block { start, end, size })
    }
}

/// What glibc's settings (`mp_`) say, which stand in its data:
///
/// ```text
///     trim_threshold top_pad mmap_threshold arena_test arena_max
///     [[thp_mode] thp_pagesize hp_pagesize flags]
///     n_mmaps n_mmaps_max max_n_mmaps is_fixed | mmapped_mem max_mmapped_mem
///     sbrk_base tcache_bins tcache_max_bytes
/// ```
///
/// What is in brackets is there since glibc 2.35, the mode since 2.43. The mode, the flags, and the
/// four numbers before the bar, are 32 bits wide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// How many blocks there are, and their bytes.
    pub counted: Option<Counted>,
    /// The size of huge pages that heaps are made of; 0 if none are asked for.
    pub huge_page: u64,
    /// Nothing was allocated yet.
    pub is_unused: bool,
}

/// `is_heap` tells whether the main arena may begin at an address.
pub fn settings_in(
    memory: &dyn Memory,
    data: &[(u64, u64)],
    is_heap: &dyn Fn(u64) -> bool,
) -> Option<Settings> {
    const PIECE: u64 = 1 << 20;
    const OVERLAP: u64 = 8 * WORDS as u64;
    let pieces = data.iter().flat_map(|&(start, end)| {
        let end = end.min(start.saturating_add(MOST_DATA));
        (start..end)
            .step_by(PIECE as usize)
            .map(move |at| (at, end.min(at.saturating_add(PIECE + OVERLAP))))
    });
    pieces.into_iter().find_map(|(start, end)| {
        let words = memory.words_unless_zero(start, ((end - start) / 8) as usize)?;
        words.windows(WORDS).find_map(|words| settings(words, is_heap))
    })
}

/// Data of a C library is small; a static program's own may be anything.
const MOST_DATA: u64 = 64 << 20;
/// Words of the settings, and where `mmapped_mem` is in them: since glibc 2.43, 2.35, and before.
const WORDS: usize = 16;
const NEWEST_MAPPED_AT: usize = 11;
/// Without brackets.
const OLDEST_MAPPED_AT: usize = 7;
const MAPPED_AT: [usize; 3] = [NEWEST_MAPPED_AT, 10, OLDEST_MAPPED_AT];

fn settings(words: &[u64], is_heap: &dyn Fn(u64) -> bool) -> Option<Settings> {
    MAPPED_AT.into_iter().find_map(|at| {
        let counted = settings_at(words, at, is_heap)?;
        let huge_page = if at == OLDEST_MAPPED_AT { 0 } else { words[at - 4] };
        let is_one = huge_page.is_power_of_two() && (page_size()..1 << 40).contains(&huge_page);
        let huge_page = if is_one { huge_page } else { 0 };
        let is_unused = words[at + 2] == 0 && words[at + 1] == 0;
        Some(Settings { counted: Some(counted), huge_page, is_unused })
    })
}

fn settings_at(words: &[u64], at: usize, is_heap: &dyn Fn(u64) -> bool) -> Option<Counted> {
    let (arena_test, arena_max) = (words[3], words[4]);
    let (bytes, most_bytes, base) = (words[at], words[at + 1], words[at + 2]);
    let (lists, largest) = (words[at + 3], words[at + 4]);
    // Most places are told by this alone.
    if !(1..1 << 20).contains(&arena_test) || arena_max >= 1 << 20 {
        return None;
    }
    let half = |index: usize| (words[index / 2] >> (32 * (index % 2))) & 0xffff_ffff;
    // The four numbers end before a word, or before a hole of 32 bits.
    let first = if at == OLDEST_MAPPED_AT { 2 * at - 4 } else { 2 * at - 5 };
    let [chunks, most, peak, is_fixed] = [0, 1, 2, 3].map(|index| half(first + index));
    let drifts = at == NEWEST_MAPPED_AT;
    let unit = if drifts { TAIL } else { page_size() };
    let is_whole = [bytes, most_bytes].iter().all(|bytes| bytes.is_multiple_of(unit));
    let is_base = || base == 0 || is_heap(base);
    let is_cache = (1..=MOST_CACHE_LISTS).contains(&lists) && largest / 16 + 2 > lists;
    let is_count = chunks <= peak && (1..1 << 31).contains(&most) && is_fixed <= 1;
    let both = (chunks == 0) == (bytes == 0) || (chunks == 0 && drifts);
    let both = both && (peak == 0) == (most_bytes == 0);
    let enough = bytes <= most_bytes && chunks * page_size() <= bytes;
    (is_whole && is_cache && is_count && both && enough && is_base()).then_some(Counted {
        chunks,
        bytes,
        drifts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words at addresses; all else is zero.
    struct Sparse(BTreeMap<u64, u64>);

    impl Memory for Sparse {
        fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
            for (index, word) in buffer.chunks_mut(8).enumerate() {
                let value = self.0.get(&(address + 8 * index as u64)).copied().unwrap_or(0);
                word.copy_from_slice(&value.to_le_bytes()[..word.len()]);
            }
            Some(())
        }
    }

    const MAPS: &str = "\
        10000000-10100000 rw-p 0 00:00 0 \nRss: 8 kB\n\
        10100000-10400000 rw-p 0 00:00 0 \nRss: 8 kB\n\
        10400000-10500000 ---p 0 00:00 0 \nRss: 0 kB\n\
        10500000-10600000 rw-p 0 00:00 0 \nRss: 8 kB\n\
        20000000-20800000 rw-p 0 00:00 0 \nRss: 8 kB\n\
        30000000-30100000 rw-p 0 00:00 0 [heap]\nRss: 8 kB\n";

    fn memory(blocks: &[(u64, u64, u64)]) -> Sparse {
        let words = blocks.iter().flat_map(|&(start, lead, bytes)| {
            [(start + lead, lead), (start + lead + 8, (bytes - lead) | IS_MAPPED)]
        });
        Sparse(words.filter(|(_, word)| *word != 0).collect())
    }

    fn found(blocks: &[(u64, u64, u64)], counted: Option<Counted>) -> Mapped {
        let vmas = crate::smaps::parse(MAPS).unwrap();
        find(&memory(blocks), &vmas, &[], counted, &mut Sizes::default())
    }

    #[test]
    fn blocks_that_were_split_or_joined_are_found() {
        // Over three mappings; at a start and behind it; behind other memory; with a lead.
        let blocks = [
            (0x1000_0000, 0, 0x50_0000),
            (0x1050_0000, 0, 0x10_0000),
            (0x2020_0000, 0, 0x20_0000),
            (0x2060_0000, 0x30, 0x2_1000),
        ];
        let bytes = blocks.iter().map(|block| block.2).sum();
        let counted = Counted { chunks: 4, bytes, drifts: false };
        let mapped = found(&blocks, Some(counted));
        assert_eq!((mapped.chunks, mapped.bytes, mapped.missing()), (4, bytes, 0));
        let ranges = [(0x1000_0000, 0x1060_0000), (0x2020_0000, 0x2040_0000)];
        assert_eq!(mapped.ranges[..2], ranges);
        // Without a count nothing is looked for in the middle of other memory.
        assert_eq!(found(&blocks, None).chunks, 2);
    }

    #[test]
    fn blocks_of_huge_pages_are_found_although_no_rss_counts_them() {
        let maps = "10000000-10400000 rw-p 0 00:0f 7 /anon_hugepage (deleted)\nRss: 0 kB\n";
        let vmas = crate::smaps::parse(maps).unwrap();
        let memory = memory(&[(0x1000_0000, 0, 0x40_0000)]);
        let mapped = find(&memory, &vmas, &[], None, &mut Sizes::default());
        assert_eq!((mapped.chunks, mapped.bytes), (1, 0x40_0000));
    }

    #[test]
    fn what_only_looks_like_a_block_is_none() {
        let stray = (0x2010_0000, 0, 0x10_0000);
        let all = |chunks, bytes| Some(Counted { chunks, bytes, drifts: false });
        assert_eq!(found(&[stray], all(0, 0)).chunks, 0);
        assert_eq!(found(&[stray], all(1, 0x1000)).bytes, 0, "larger than all that glibc counts");
        assert_eq!(found(&[(0x1050_0000, 0, 0x20_0000)], all(1, 0x20_0000)).chunks, 0, "too long");
        assert_eq!(found(&[(0x3000_0000, 0, 0x1000)], all(1, 0x1000)).chunks, 0, "of the break");
        let missing = found(&[], all(2, 0x30_0000));
        assert_eq!((missing.in_use(), missing.count(), missing.missing()), (3 << 20, 2, 3 << 20));
    }

    #[test]
    fn large_alignments_lie_anywhere_in_their_mapping() {
        for log2 in 5..22 {
            let alignment = 1u64 << log2;
            let start = 0x2000_0000 - 0x2000_0000 % alignment;
            let lead = if alignment == 32 { 48 } else { alignment - 16 };
            let bytes = (lead + (1 << 20)).next_multiple_of(page_size());
            let mapped = found(&[(start, lead, bytes)], None);
            assert_eq!((mapped.chunks, mapped.bytes), (1, bytes), "{alignment}");
        }
    }

    #[test]
    fn blocks_may_end_before_the_page_does() {
        // As since glibc 2.43, with a lead of 16 too, and a bit for huge pages.
        for (lead, bit) in [(0, 0), (0, 1), (16, 0), (48, 0), (48, 1)] {
            let start = 0x2000_0000;
            let size = 0x10_0000 - lead - TAIL;
            let words = [(start + lead, lead | bit), (start + lead + 8, size | IS_MAPPED)];
            let memory = Sparse(words.into_iter().collect());
            let vmas = crate::smaps::parse(MAPS).unwrap();
            let mapped = find(&memory, &vmas, &[], None, &mut Sizes::default());
            assert_eq!((mapped.chunks, mapped.bytes), (1, 0x10_0000), "{lead} {bit}");
        }
        // Before, a lead of 16 was none, nor was the bit.
        assert_eq!(found(&[(0x2000_0000, 16, 0x10_0000)], None).chunks, 0);
        let words = [(0x2000_0000, 1), (0x2000_0008, 0x10_0000 | IS_MAPPED)];
        let vmas = crate::smaps::parse(MAPS).unwrap();
        let memory = Sparse(words.into_iter().collect());
        assert_eq!(find(&memory, &vmas, &[], None, &mut Sizes::default()).chunks, 0);
    }

    #[test]
    fn what_glibc_counts_too_much_is_not_believed() {
        let block = [(0x2000_0000, 0, 0x20_0000)];
        let counted = |chunks, bytes| Some(Counted { chunks, bytes, drifts: true });
        let mapped = found(&block, counted(1, 0x20_0000 + 4096 + 16));
        assert_eq!((mapped.in_use(), mapped.missing()), (0x20_0000, 0));
        assert_eq!(found(&block, counted(2, 0x30_0010)).in_use(), 0x30_0010, "one is missing");
        assert_eq!(found(&[], counted(0, 160)).in_use(), 0);
    }

    #[test]
    fn counters_are_recognised() {
        let brk = |at: u64| (0x3000_0000..0x3010_0000).contains(&at);
        let new = [
            131_072,
            131_072,
            8_392_704,
            8,
            0,
            0,
            0,
            3 << 32,
            (9 << 32) | 65536,
            0,
            0x50_0000,
            0x90_0000,
            0x3000_0000,
            64,
            1032,
            7,
        ];
        let newest = [
            131_072,
            131_072,
            131_072,
            8,
            0,
            1,
            2 << 20,
            0,
            3 << 32,
            (9 << 32) | 65536,
            1,
            0x50_0000,
            0x90_0000,
            0x3000_0000,
            64,
            1041,
        ];
        let old = [
            131_072,
            131_072,
            131_072,
            8,
            0,
            (65536 << 32) | 3,
            9,
            0x50_0000,
            0x90_0000,
            0,
            64,
            1032,
            7,
            0,
            0,
            0,
        ];
        let counted = Counted { chunks: 3, bytes: 0x50_0000, drifts: false };
        let settings_of =
            |huge_page, is_unused| Some(Settings { counted: Some(counted), huge_page, is_unused });
        assert_eq!(settings(&new, &brk), settings_of(0, false));
        let counted = Some(Counted { drifts: true, ..counted });
        let of_newest = Settings { counted, huge_page: 0, is_unused: false };
        assert_eq!(settings(&newest, &brk), Some(of_newest));
        // What is counted too much stays when the last block has gone.
        let mut none_left = newest;
        (none_left[8], none_left[11]) = (0, 160);
        assert!(settings(&none_left, &brk).is_some());
        assert_eq!(settings(&old, &brk), settings_of(0, false));
        assert_eq!(settings(&[0; WORDS], &brk), None);
        let mut huge = new;
        huge[6] = 2 << 20;
        assert_eq!(settings(&huge, &brk), settings_of(2 << 20, false));
        let mut elsewhere = new;
        elsewhere[12] = 0x4000_0000;
        assert_eq!(settings(&elsewhere, &brk), None, "the heap begins elsewhere");
        for index in [7, 8, 10, 11] {
            let mut torn = new;
            torn[index] = 1;
            assert_eq!(settings(&torn, &brk), None, "{index}");
        }
    }
}
