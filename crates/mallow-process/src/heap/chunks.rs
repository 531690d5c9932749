//! The chunks of a glibc heap. Each begins with the size of the one before (if that is free) and
//! its own size, whose low bits say: the one before is in use (1), it is a mapping of its own (2),
//! it lies in another arena than the main one (4).

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::memory::Memory;
use crate::page_size;

const PREVIOUS_USED: u64 = 1;
const IS_MAPPED: u64 = 2;
const FLAGS: u64 = 7;
const SMALLEST: u64 = 32;
const FASTBINS: u64 = 10;
/// A thread's cache is a chunk: its size, where the lists begin in it and how wide their counters
/// are, since glibc 2.30 and in 2.26 to 2.29.
const CACHES: [(u64, u64, u64); 2] = [(0x290, 128, 2), (0x250, 64, 1)];
const CACHE_LISTS: u64 = 64;
/// In a list of free chunks; a longer one is a circle or something else altogether.
const LONGEST_LIST: u64 = 1 << 28;
/// How far behind the start of the heap the first chunk may lie: static programs keep thread-local
/// data there.
const FIRST_WITHIN: u64 = 1 << 20;
/// How far to look for the next chunk where one made no sense.
const RESUME_WITHIN: u64 = 4 << 20;
/// So many sizes in a row that fit are no accident.
const CONVINCING: u32 = 64;

/// Sizes in bytes, with headers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Chunks {
    /// In use as far as the heap itself tells: what waits in fast bins and threads' caches too.
    pub used_bytes: u64,
    pub used_count: u64,
    /// Chunks of fast bins and caches.
    pub listed_count: u64,
    pub free_bytes: u64,
    pub free_count: u64,
    pub largest_free: u64,
    /// Skipped, for it changed while it was read.
    pub unread: u64,
    /// Whole resident pages inside free chunks: what malloc_trim gives back.
    pub free_resident: u64,
    pub top_bytes: u64,
    pub top_resident: u64,
    /// Mapped and writable behind the top, not yet part of it.
    pub behind_top: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Sizes(HashMap<u64, u64>);

impl Sizes {
    pub fn count(&mut self, size: u64) {
        *self.0.entry(size).or_default() += 1;
    }

    pub fn add(&mut self, other: &Sizes) {
        for (size, count) in &other.0 {
            *self.0.entry(*size).or_default() += count;
        }
    }

    /// The sizes that take the most bytes.
    pub fn most_bytes(&self, most: usize) -> Vec<(u64, u64)> {
        let mut sizes: Vec<(u64, u64)> = self.0.iter().map(|(size, n)| (*size, *n)).collect();
        sizes.sort_by_key(|(size, count)| (std::cmp::Reverse(size * count), *size));
        sizes.truncate(most);
        sizes
    }
}

/// What waits in lists although it counts as in use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lists {
    pub fast: u64,
    pub cached: u64,
    pub count: u64,
}

pub struct Walk<'a> {
    pub memory: &'a dyn Memory,
    pub chunks: Chunks,
    pub sizes: Sizes,
    /// Chunks in use that have the size of a thread's cache.
    caches: Vec<(u64, usize)>,
}

impl<'a> Walk<'a> {
    pub fn new(memory: &'a dyn Memory) -> Walk<'a> {
        let (chunks, sizes) = (Chunks::default(), Sizes::default());
        Walk { memory, chunks, sizes, caches: Vec::new() }
    }

    /// Visits the chunks from `at` to `end`. `None` if most of it makes no sense. A program that
    /// allocates meanwhile leaves places that do not fit: they are skipped and counted as unread.
    pub fn run(&mut self, mut at: u64, end: u64, top: u64) -> Option<()> {
        while at < end {
            match self.step(at, end, top) {
                Some(next) => at = next,
                None => {
                    let next = resume(self.memory, at + 16, end)?;
                    self.chunks.unread += next - at;
                    at = next;
                }
            }
        }
        (at == end).then_some(())
    }

    /// Counts the chunk at `at` and returns where the next one begins.
    fn step(&mut self, at: u64, end: u64, top: u64) -> Option<u64> {
        let header = self.memory.word(at + 8)?;
        let size = header & !FLAGS;
        // A heap that was full ends with two fences, of 16 bytes and of none.
        if size == 0 && end - at <= 2 * SMALLEST && end != top {
            return Some(end);
        }
        if !is_plausible(header, end - at) {
            return None;
        }
        if size > 16 {
            let next = self.memory.word(at + size + 8)?;
            self.count(at, size, next & PREVIOUS_USED != 0);
        }
        Some(at + size)
    }

    fn count(&mut self, at: u64, size: u64, is_used: bool) {
        if is_used {
            self.chunks.used_bytes += size;
            self.chunks.used_count += 1;
            self.sizes.count(size);
            if let Some(kind) = CACHES.iter().position(|(cache, ..)| *cache == size) {
                self.caches.push((at, kind));
            }
            return;
        }
        self.chunks.free_bytes += size;
        self.chunks.free_count += 1;
        self.chunks.largest_free = self.chunks.largest_free.max(size);
        let (start, end) = whole_pages(at, size);
        if start < end {
            self.chunks.free_resident += self.memory.resident(start, end).unwrap_or(0);
        }
    }

    /// The rest of the heap, behind the last chunk.
    pub fn top(&mut self, at: u64, end: u64) -> Option<()> {
        let size = self.memory.word(at + 8)? & !FLAGS;
        if at + size > end {
            return None;
        }
        self.chunks.top_bytes += size;
        self.chunks.behind_top += end - (at + size);
        let (start, stop) = whole_pages(at, size);
        if start < stop {
            self.chunks.top_resident += self.memory.resident(start, stop).unwrap_or(0);
        }
        Some(())
    }

    /// Follows the fast bins, and the lists of the threads' caches that were met.
    pub fn lists(&mut self, fastbins: u64) -> Lists {
        let mut lists = Lists::default();
        for bin in 0..FASTBINS {
            let head = self.memory.word(fastbins + 8 * bin).unwrap_or(0);
            // Fast bins link chunks, caches link what the program got: 16 bytes further.
            let length =
                self.follow(if head != 0 { head + 16 } else { 0 }, 16, SMALLEST + 16 * bin);
            let length = length.unwrap_or(0);
            lists.count += length;
            lists.fast += length * (SMALLEST + 16 * bin);
            self.uncount(SMALLEST + 16 * bin, length);
        }
        for (at, kind) in std::mem::take(&mut self.caches) {
            let Some(found) = self.cache_lists(at + 16, CACHES[kind]) else { continue };
            for (size, length) in found {
                lists.count += length;
                lists.cached += length * size;
                self.uncount(size, length);
            }
        }
        lists
    }

    fn uncount(&mut self, size: u64, length: u64) {
        if let Some(count) = self.sizes.0.get_mut(&size) {
            *count = count.saturating_sub(length);
        }
    }

    /// Sizes and lengths of the lists of a thread's cache; `None` if the chunk is something else.
    fn cache_lists(&self, at: u64, (_, heads, width): (u64, u64, u64)) -> Option<Vec<(u64, u64)>> {
        let mut found = Vec::new();
        for list in 0..CACHE_LISTS {
            let count = self.memory.number(at + width * list, width)?;
            let head = self.memory.word(at + heads + 8 * list)?;
            let size = SMALLEST + 16 * list;
            if self.follow(head, 0, size)? != count {
                return None;
            }
            if count != 0 {
                found.push((size, count));
            }
        }
        Some(found)
    }

    /// The length of a list of free chunks of one size, by addresses as the program has them. A
    /// link points `before` bytes in front of the next such address. Since glibc 2.32 links are
    /// mixed with their own place.
    fn follow(&self, head: u64, before: u64, size: u64) -> Option<u64> {
        let is_one = |address: u64| {
            address.is_multiple_of(16)
                && self.memory.word(address.wrapping_sub(8)).map(|s| s & !FLAGS) == Some(size)
        };
        let (mut at, mut length) = (head, 0);
        while at != 0 {
            if !is_one(at) || length >= LONGEST_LIST {
                return None;
            }
            length += 1;
            let link = self.memory.word(at)?;
            let place = |pointer: u64| if pointer == 0 { 0 } else { pointer + before };
            let (mixed, plain) = (place(link ^ (at >> 12)), place(link));
            at = if mixed == 0 || is_one(mixed) { mixed } else { plain };
        }
        Some(length)
    }
}

/// Of a free chunk, but for the header and the links of the list.
fn whole_pages(at: u64, size: u64) -> (u64, u64) {
    let page = page_size();
    ((at + 48).next_multiple_of(page), (at + size) / page * page)
}

fn is_plausible(header: u64, room: u64) -> bool {
    let size = header & !FLAGS;
    size >= 16 && size.is_multiple_of(16) && size <= room && header & IS_MAPPED == 0
}

/// The first chunk behind `start`.
pub fn find_first(memory: &dyn Memory, start: u64, top: u64) -> Option<u64> {
    // It has none before it that could be free.
    let may_be_first =
        |at: &u64| memory.word(at + 8).is_some_and(|header| header & PREVIOUS_USED != 0);
    let start = start.next_multiple_of(16);
    let places = (start..=top.min(start + FIRST_WITHIN)).step_by(16);
    places.filter(may_be_first).find(|&at| at == top || leads_on(memory, at, top))
}

/// The next place from which chunks follow each other.
fn resume(memory: &dyn Memory, from: u64, end: u64) -> Option<u64> {
    let last = end.min(from + RESUME_WITHIN);
    (from..=last).step_by(16).find(|&at| at == end || leads_on(memory, at, end))
}

/// Whether sizes lead on from here, many times or to the end.
fn leads_on(memory: &dyn Memory, mut at: u64, end: u64) -> bool {
    for _ in 0..CONVINCING {
        match memory.word(at + 8) {
            Some(header) if is_plausible(header, end - at) => at += header & !FLAGS,
            _ => return false,
        }
        if at == end {
            return true;
        }
    }
    true
}

/// The size of a chunk that is a mapping of its own and begins at a page.
pub fn mapped_size(memory: &dyn Memory, at: u64) -> Option<u64> {
    let (before, header) = (memory.word(at)?, memory.word(at + 8)?);
    let size = header & !FLAGS;
    (before == 0 && header & FLAGS == IS_MAPPED && size.is_multiple_of(page_size()) && size > 0)
        .then_some(size)
}
