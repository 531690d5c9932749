// SPDX-License-Identifier: MIT
//! The chunks of a glibc heap. Each begins with the size of the one before (if that is free) and
//! its own size, whose low bits say: the one before is in use (1), it is a mapping of its own (2),
//! it lies in another arena than the main one (4).

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::memory::Memory;
use crate::page_size;

pub const PREVIOUS_USED: u64 = 1;
pub const IS_MAPPED: u64 = 2;
pub const FLAGS: u64 = 7;
pub const SMALLEST: u64 = 32;
/// What threads' caches take, which are chunks too.
pub const CACHES: [u64; 4] = [0x250, 0x290, 0x300, 0x310];
/// How far behind the start of the heap the first chunk may lie: static programs keep thread-local
/// data there.
const FIRST_WITHIN: u64 = 1 << 20;
/// How far to look for the next chunk where one made no sense.
const RESUME_WITHIN: u64 = 4 << 20;
/// The same behind the end of a piece: how much memory others may have taken from the break.
const FOREIGN_WITHIN: u64 = 256 << 20;
/// The same for the first chunk in a window, which a block may cover whole: larger ones are
/// mappings of their own, unless the program asked for something else.
const COVERED_WITHIN: u64 = 33 << 20;
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
    /// Between the pieces of the heap, and not glibc's: others moved the break too.
    #[serde(default)]
    pub foreign: u64,
    /// Whole resident pages inside free chunks: what malloc_trim gives back.
    pub free_resident: u64,
    pub top_bytes: u64,
    pub top_resident: u64,
    /// Mapped and writable behind the top, not yet part of it.
    pub behind_top: u64,
    /// In a large heap: the part that was visited, from which the other figures are estimated.
    #[serde(default)]
    pub looked_at: Option<u64>,
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

/// How much of a heap is looked at. A walk visits every block, and there may be billions.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    window: u64,
    /// From the start of one window to the next.
    stretch: u64,
}

impl Sampling {
    /// Heaps of this size together. Up to half a GiB all of it is visited, some seconds at the
    /// most.
    pub fn of(bytes: u64) -> Sampling {
        Sampling::within(bytes, 512 << 20, 1 << 20)
    }

    /// Windows that come to `most` bytes, if there are more.
    fn within(bytes: u64, most: u64, window: u64) -> Sampling {
        let stretch = u128::from(window) * u128::from(bytes) / u128::from(most);
        Sampling { window, stretch: (stretch as u64).next_multiple_of(16) }
    }

    fn is_whole(self) -> bool {
        self.stretch <= self.window
    }
}

pub struct Walk<'a> {
    pub memory: &'a dyn Memory,
    pub chunks: Chunks,
    pub sizes: Sizes,
    sampling: Sampling,
    /// Bytes of the pieces so far, and of the windows in them.
    travelled: u64,
    looked_at: u64,
    /// Chunks in use that have the size of a thread's cache: where they are, and the size.
    pub caches: Vec<(u64, u64)>,
}

/// What of the chunks is counted: bytes between these addresses.
#[derive(Clone, Copy)]
struct Window {
    start: u64,
    end: u64,
}

impl Window {
    const ALL: Window = Window { start: 0, end: u64::MAX };

    fn cut(self, start: u64, end: u64) -> (u64, u64) {
        let start = start.max(self.start);
        (start, end.min(self.end).max(start))
    }
}

impl<'a> Walk<'a> {
    pub fn new(memory: &'a dyn Memory, sampling: Sampling) -> Walk<'a> {
        let (chunks, sizes) = (Chunks::default(), Sizes::default());
        let (travelled, looked_at) = (0, 0);
        Walk { memory, chunks, sizes, sampling, travelled, looked_at, caches: Vec::new() }
    }

    /// Visits the chunks from `at` to `end`. `None` if most of it makes no sense. A program that
    /// allocates meanwhile leaves places that do not fit: they are skipped and counted as unread.
    pub fn run(&mut self, at: u64, end: u64, top: u64) -> Option<()> {
        if self.sampling.is_whole() {
            return self.visit(at, end, top, Window::ALL);
        }
        // The pieces of an arena one behind the other; a window begins with the first of them.
        let before = self.travelled;
        self.travelled += end.saturating_sub(at);
        let mut place = before.next_multiple_of(self.sampling.stretch);
        while place < self.travelled {
            let start = at + (place - before);
            let window = Window { start, end: end.min(start + self.sampling.window) };
            self.look_at(at, end, top, window);
            place += self.sampling.stretch;
        }
        Some(())
    }

    /// One window of the chunks from `at` to `end`.
    fn look_at(&mut self, at: u64, end: u64, top: u64, window: Window) {
        self.looked_at += window.end - window.start;
        let from = window.start.next_multiple_of(16);
        let first = if window.start == at {
            Some(at)
        } else {
            find_next(self.memory, from, end, COVERED_WITHIN)
        };
        let known = first.and_then(|first| Some((first, self.memory.word(first + 8)?)));
        let Some((first, header)) = known else {
            self.chunks.unread += window.end - window.start;
            return;
        };
        // What lies before it belongs to a chunk that begins before the window.
        let (start, end_before) = window.cut(window.start, first);
        if header & PREVIOUS_USED != 0 {
            self.chunks.used_bytes += end_before - start;
        } else {
            self.chunks.free_bytes += end_before - start;
            self.chunks.free_resident += self.resident_within(start, end_before);
        }
        if first < window.end && self.visit(first, end, top, window).is_none() {
            self.chunks.unread += window.end - first;
        }
    }

    /// Counts what a part of the heap stands for. Afterwards the figures are those of the arena.
    pub fn scale(&mut self) {
        if self.looked_at == 0 {
            return;
        }
        let (whole, part) = (u128::from(self.travelled), u128::from(self.looked_at));
        let scaled = |figure: u64| (u128::from(figure) * whole / part) as u64;
        let chunks = &mut self.chunks;
        for figure in [
            &mut chunks.used_bytes,
            &mut chunks.used_count,
            &mut chunks.free_bytes,
            &mut chunks.free_count,
            &mut chunks.free_resident,
            &mut chunks.unread,
            &mut chunks.foreign,
        ] {
            *figure = scaled(*figure);
        }
        self.sizes.0.values_mut().for_each(|count| *count = scaled(*count));
        chunks.looked_at = Some(self.looked_at);
    }

    fn visit(&mut self, mut at: u64, end: u64, top: u64, window: Window) -> Option<()> {
        while at < end.min(window.end) {
            match self.step(at, end, top, window) {
                Some(next) => at = next,
                None => {
                    let is_foreign = is_behind_fences(self.memory, at);
                    let within = if is_foreign { FOREIGN_WITHIN } else { RESUME_WITHIN };
                    let next = find_next(self.memory, at + 16, end, within)?;
                    let (start, stop) = window.cut(at, next);
                    if is_foreign {
                        self.chunks.foreign += stop - start;
                    } else {
                        self.chunks.unread += stop - start;
                    }
                    at = next;
                }
            }
        }
        (at == end || at >= window.end).then_some(())
    }

    /// Counts the chunk at `at` and returns where the next one begins.
    fn step(&mut self, at: u64, end: u64, top: u64, window: Window) -> Option<u64> {
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
            self.count(at, size, next & PREVIOUS_USED != 0, window);
        }
        Some(at + size)
    }

    fn count(&mut self, at: u64, size: u64, is_used: bool, window: Window) {
        let (start, end) = window.cut(at, at + size);
        if is_used {
            self.chunks.used_bytes += end - start;
            self.chunks.used_count += 1;
            self.sizes.count(size);
            if CACHES.contains(&size) {
                self.caches.push((at, size));
            }
            return;
        }
        self.chunks.free_bytes += end - start;
        self.chunks.free_count += 1;
        self.chunks.largest_free = self.chunks.largest_free.max(size);
        // The header and the links of the list stay in memory.
        self.chunks.free_resident += self.resident_within((at + 48).min(end), end);
    }

    /// Of the whole pages between two addresses.
    fn resident_within(&self, start: u64, end: u64) -> u64 {
        let page = page_size();
        let (start, end) = (start.next_multiple_of(page), end / page * page);
        if start < end { self.memory.resident(start, end).unwrap_or(0) } else { 0 }
    }

    /// The rest of the heap, behind the last chunk.
    pub fn top(&mut self, at: u64, end: u64) -> Option<()> {
        let size = self.memory.word(at + 8)? & !FLAGS;
        if at.checked_add(size)? > end {
            return None;
        }
        self.chunks.top_bytes += size;
        self.chunks.behind_top += end - (at + size);
        self.chunks.top_resident += self.resident_within(at + 48, at + size);
        Some(())
    }

    /// What waits in lists is not in use.
    pub fn uncount(&mut self, size: u64, length: u64) {
        if let Some(count) = self.sizes.0.get_mut(&size) {
            *count = count.saturating_sub(length);
        }
    }
}

/// A piece of the main arena that was given up for another ends with two chunks of 16 bytes, the
/// second of which is behind one in use.
pub fn is_behind_fences(memory: &dyn Memory, at: u64) -> bool {
    let header = |before: u64| at.checked_sub(before).and_then(|at| memory.word(at));
    header(8) == Some(16 | PREVIOUS_USED)
        && header(24).is_some_and(|header| header & !PREVIOUS_USED == 16)
}

pub fn is_plausible(header: u64, room: u64) -> bool {
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

/// The next place, not farther than this, from which chunks follow each other.
fn find_next(memory: &dyn Memory, from: u64, end: u64, within: u64) -> Option<u64> {
    let last = end.min(from.saturating_add(within));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A heap of any size that costs nothing: the same blocks again and again, 1 MiB of them at a
    /// time, made up when they are asked for.
    struct Pattern {
        sizes: Vec<(u64, bool)>,
        end: u64,
    }

    const START: u64 = 1 << 30;
    const PERIOD: u64 = 1 << 20;

    impl Pattern {
        fn new(bytes: u64) -> Pattern {
            // Two thirds of the blocks in use; no two free ones beside each other.
            let mut sizes = Vec::new();
            let mut left = PERIOD;
            for n in 0u64.. {
                let size = (48 + n * 7919 % 9000).next_multiple_of(16).min(left);
                let size = if left - size < 48 { left } else { size };
                sizes.push((size, n % 3 != 1));
                left -= size;
                if left == 0 {
                    break;
                }
            }
            Pattern { sizes, end: START + bytes }
        }

        fn sum(&self, used: bool) -> u64 {
            let each: u64 = self.sizes.iter().filter(|s| s.1 == used).map(|s| s.0).sum();
            each * ((self.end - START) / PERIOD)
        }

        /// What lies at a word: the size of a chunk that begins 8 bytes before, or data.
        fn word_at(&self, address: u64) -> u64 {
            if address >= self.end {
                return if address == self.end + 8 { (1 << 20) | PREVIOUS_USED } else { 0 };
            }
            let (mut at, wanted) = (0, (address - START) % PERIOD);
            let mut before = self.sizes[self.sizes.len() - 1].1 || address < START + PERIOD;
            for &(size, used) in &self.sizes {
                if wanted == at + 8 {
                    return size | if before { PREVIOUS_USED } else { 0 };
                }
                if wanted < at + size {
                    break;
                }
                (at, before) = (at + size, used);
            }
            0x5555_5555_5555_5555
        }
    }

    impl Memory for Pattern {
        fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
            assert_eq!(buffer.len(), 8, "words alone are asked for");
            buffer.copy_from_slice(&self.word_at(address).to_le_bytes());
            Some(())
        }

        fn resident(&self, start: u64, end: u64) -> Option<u64> {
            Some(end - start)
        }
    }

    #[track_caller]
    fn near(found: u64, expected: u64, percent: u64) {
        assert!(found.abs_diff(expected) * 100 <= expected * percent, "{found} {expected}");
    }

    #[test]
    fn every_chunk_of_a_small_heap_is_counted() {
        let heap = Pattern::new(4 * PERIOD);
        let mut walk = Walk::new(&heap, Sampling::of(4 * PERIOD));
        walk.run(START, heap.end, heap.end).unwrap();
        walk.scale();
        assert_eq!(walk.chunks.used_bytes, heap.sum(true));
        assert_eq!(walk.chunks.free_bytes, heap.sum(false));
        assert_eq!(walk.chunks.used_count + walk.chunks.free_count, 4 * heap.sizes.len() as u64);
        assert_eq!((walk.chunks.unread, walk.chunks.looked_at), (0, None));
    }

    #[test]
    fn a_large_heap_is_estimated_from_a_part() {
        // Windows that are no multiple of the pattern, so that they begin anywhere in it.
        let bytes = (200u64 << 30) / PERIOD * PERIOD;
        let heap = Pattern::new(bytes);
        let mut walk = Walk::new(&heap, Sampling::within(bytes, 32 << 20, 100_000));
        walk.run(START, heap.end, heap.end).unwrap();
        walk.scale();
        near(walk.chunks.used_bytes, heap.sum(true), 1);
        near(walk.chunks.free_bytes, heap.sum(false), 1);
        let blocks = bytes / PERIOD * heap.sizes.len() as u64;
        near(walk.chunks.used_count + walk.chunks.free_count, blocks, 2);
        assert!(walk.chunks.free_resident <= walk.chunks.free_bytes);
        assert!(walk.chunks.looked_at.is_some_and(|part| part <= 33 << 20));
        let sizes: u64 = walk.sizes.0.iter().map(|(size, count)| size * count).sum();
        near(sizes, heap.sum(true), 2);
    }
}
