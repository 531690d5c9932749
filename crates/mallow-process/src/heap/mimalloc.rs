// SPDX-License-Identifier: MIT
//! mimalloc's heap, read from outside: every segment, by its header (versions 2.0 and 2.2 or later,
//! 64 bits).
//!
//! A segment begins at a multiple of 32 MiB. Its header has a table of slices of 64 KiB: the first
//! slice of each span says how many there are, and what the span is:
//!
//! ```text
//!     header: ... pages in use | cookie | ... | slices | of them header | kind | entries ... table
//!     table:  header's span | span | span ... up to the number of entries
//!     span:   slices 4 | offset 4 | flags | capacity 2 | reserved 2 | ... used, block size, lists
//! ```
//!
//! A free span has the block size 0. The cookie is the segment's address, encoded with a word that is
//! the same for all segments.
//!
//! Segments lie in arenas, which begin and end at multiples of 32 MiB too. A segment that was freed
//! stays in its arena, with a header that counts no pages in use, until the arena gives it back:
//!
//! ```text
//!     arena: segment | freed, still resident | segment | given back or never used ...
//! ```

use std::collections::BTreeMap;

use super::spans::{Heap, Sums};
use crate::memory::Memory;
use crate::page_size;
use crate::smaps::Vma;

const SEGMENT: u64 = 32 << 20;
const SLICE: u64 = 64 << 10;
const MOST_SLICES: u64 = SEGMENT / SLICE;
/// Places that are looked at in one process.
const MOST_PLACES: usize = 1 << 16;
/// Pages of data that are looked through for a key.
const MOST_PAGES: usize = 1 << 12;
const TRIES: u32 = 5;
const PAUSE: std::time::Duration = std::time::Duration::from_micros(200);

/// Offsets in a segment's header and in a span's description, and sizes of what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    used_pages: u64,
    cookie: u64,
    /// Slices, then those of the header.
    slices: u64,
    entries: u64,
    table: u64,
    span: u64,
    used: (u64, u64),
    block: (u64, u64),
    thread_free: u64,
}

const NEW: Layout = Layout {
    used_pages: 216,
    cookie: 224,
    slices: 248,
    entries: 272,
    table: 288,
    span: 96,
    used: (32, 2),
    block: (40, 8),
    thread_free: 56,
};
const OLD: Layout = Layout {
    used_pages: 208,
    cookie: 216,
    slices: 224,
    entries: 248,
    table: 264,
    span: 80,
    used: (24, 4),
    block: (28, 4),
    thread_free: 40,
};
/// Secure builds have two keys before the list that other threads free to.
const LAYOUTS: [Layout; 4] = [
    NEW,
    Layout { span: 112, thread_free: 72, ..NEW },
    OLD,
    Layout { span: 96, thread_free: 56, ..OLD },
];

#[derive(Clone, Debug)]
struct Segment {
    start: u64,
    size: u64,
    header: u64,
    spans: Vec<Span>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: u64,
    size: u64,
    /// 0 for a free one.
    block: u64,
    reserved: u64,
    used: u64,
    thread_free: u64,
}

/// A multiple of a segment's size, where one may begin.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u64,
    /// The word that its cookie is encoded with, if it is one.
    key: u64,
    is_segment: bool,
}

/// `None` where there is no mimalloc, or one whose structures are others.
pub fn read(memory: &dyn Memory, vmas: &[Vma]) -> Option<Heap> {
    let starts = vmas.iter().filter(is_plain).flat_map(|vma| {
        let first = vma.start.checked_next_multiple_of(SEGMENT).unwrap_or(u64::MAX);
        (first..vma.end).step_by(SEGMENT as usize)
    });
    let starts: Vec<u64> = starts.take(MOST_PLACES).collect();
    let read = |layout: Layout| {
        let place = |&start: &u64| place(memory, layout, start);
        let places: Vec<Place> = starts.iter().filter_map(place).collect();
        let (key, count) = common_key(&places)?;
        // Those that were freed have the heap's key too.
        let marked = places.iter().filter(|place| place.key == key).map(|place| place.start);
        Some((count, layout, key, marked.collect::<Vec<_>>()))
    };
    let found = LAYOUTS.into_iter().filter_map(read).max_by_key(|(count, ..)| *count);
    let (_, layout, key, marked) = found?;
    let mut heap = sums(memory, layout, &marked, vmas);
    if is_of_python(memory, vmas, key) {
        heap.owner = "Python".into();
    }
    Some(heap)
}

fn is_plain(vma: &&Vma) -> bool {
    vma.is_anonymous() && vma.is_private() && vma.is_writable() && vma.rss + vma.swap > 0
}

/// The spans are read again later: those of all segments would take too much memory.
fn place(memory: &dyn Memory, layout: Layout, start: u64) -> Option<Place> {
    let is_segment = segment_in_tries(memory, layout, start).is_some();
    let key = memory.word(start + layout.cookie)? ^ start;
    Some(Place { start, key, is_segment })
}

/// The word that the cookies of most segments are encoded with, and how many these are.
fn common_key(places: &[Place]) -> Option<(u64, usize)> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for place in places.iter().filter(|place| place.is_segment) {
        *counts.entry(place.key).or_default() += 1;
    }
    counts.into_iter().max_by_key(|&(_, count)| count)
}

/// The mimalloc inside Python has the word that its cookies are encoded with in the data of Python's
/// file.
fn is_of_python(memory: &dyn Memory, vmas: &[Vma], key: u64) -> bool {
    let is_python = |name: &str| {
        let file = name.rsplit('/').next().unwrap_or(name);
        file.starts_with("python") || file.starts_with("libpython")
    };
    let is_data = |vma: &&Vma| is_python(&vma.name) && vma.is_writable() && vma.is_private();
    let data = vmas.iter().filter(is_data);
    let pages = data.flat_map(|vma| (vma.start..vma.end).step_by(page_size() as usize));
    let has_key = |at: u64| {
        memory.words(at, page_size() as usize / 8).is_some_and(|words| words.contains(&key))
    };
    key != 0 && pages.take(MOST_PAGES).any(has_key)
}

/// A segment whose table does not fit together may be changing.
fn segment_in_tries(memory: &dyn Memory, layout: Layout, start: u64) -> Option<Segment> {
    // What cannot be the header of a segment, or was freed, is looked at once.
    let slices = memory.word(start + layout.slices)?;
    let header = memory.word(start + layout.slices + 8)?;
    let entries = memory.word(start + layout.entries)?;
    if entries > MOST_SLICES || entries == 0 || header == 0 || header > entries || slices < entries
    {
        return None;
    }
    if memory.word(start + layout.used_pages)? == 0 {
        return None;
    }
    for attempt in 1..=TRIES {
        let found = segment(memory, layout, start);
        if found.is_some() {
            return found;
        }
        if attempt > 1 {
            std::thread::sleep(PAUSE);
        }
        memory.refresh();
    }
    None
}

fn segment(memory: &dyn Memory, layout: Layout, start: u64) -> Option<Segment> {
    let slices = memory.word(start + layout.slices)?;
    let header = memory.word(start + layout.slices + 8)?;
    let entries = memory.word(start + layout.entries)?;
    let size = slices.checked_mul(SLICE).filter(|size| *size < 1 << 47)?;
    let mut spans = Vec::new();
    let mut index = 0;
    while index < entries {
        let at = start + layout.table + index * layout.span;
        let count = memory.number(at, 4)?;
        let offset = memory.number(at + 4, 4)?;
        // The one page of a very large segment has more slices than the table has entries.
        let is_last = index + count >= entries;
        if count == 0 || offset != 0 || (is_last && index + count != entries && index != header) {
            return None;
        }
        if index == 0 && count != header {
            return None;
        }
        if index > 0 {
            spans.push(span(memory, layout, at, (start + index * SLICE, count * SLICE))?);
        }
        index += count;
    }
    let used = spans.iter().filter(|span| span.block > 0).count() as u64;
    if memory.word(start + layout.used_pages)? != used {
        return None;
    }
    Some(Segment { start, size, header: header * SLICE, spans })
}

fn span(memory: &dyn Memory, layout: Layout, at: u64, (start, size): (u64, u64)) -> Option<Span> {
    let get = |(offset, size): (u64, u64)| memory.number(at + offset, size);
    let (capacity, reserved) = (get((10, 2))?, get((12, 2))?);
    let mut block = get(layout.block)?;
    let used = get(layout.used)?;
    let thread_free = get((layout.thread_free, 8))?;
    if block > 0 {
        // A page of one block may be larger than the field can say.
        let is_single = reserved <= 1;
        if is_single {
            block = block.min(size);
        }
        let fits = reserved.checked_mul(block).is_some_and(|bytes| bytes <= size);
        if used > capacity || capacity > reserved || !fits || (used > 0 && block < 8) {
            return None;
        }
    }
    Some(Span { start, size, block, reserved, used, thread_free })
}

/// The sums of all that lies where segments have the heap's key.
fn sums(memory: &dyn Memory, layout: Layout, marked: &[u64], vmas: &[Vma]) -> Heap {
    let mut sums = Sums::default();
    let mut metadata_at = Vec::new();
    let mut unread: u64 = 0;
    // Where the last segment ends that was met.
    let mut at = 0;
    for vma in vmas.iter().filter(is_plain) {
        let first = marked.partition_point(|&start| start < vma.start);
        let behind = marked.partition_point(|&start| start < vma.end);
        let marked = &marked[first.min(behind)..behind];
        let Some((from, to)) = extent(vma, marked) else { continue };
        at = from.max(at);
        for &start in marked {
            // What a large segment holds may look like a header.
            if start < at {
                continue;
            }
            let found = segment_in_tries(memory, layout, start);
            if found.is_none() && memory.word(start + layout.used_pages) == Some(0) {
                continue;
            }
            add_vacant(memory, (at, start), &mut sums);
            let told = || told_size(memory, layout, start, vma.end);
            let size = found.as_ref().map_or_else(told, |segment| segment.size);
            at = start.saturating_add(size);
            let Some(segment) = found else {
                unread += size;
                continue;
            };
            metadata_at.push((segment.start, segment.start + segment.header));
            add(memory, &segment, &mut sums);
        }
        add_vacant(memory, (at, to), &mut sums);
    }
    let mut heap = sums.finish(memory);
    heap.allocator = "mimalloc".into();
    heap.layout = if layout.block.1 == 8 { "mimalloc 2.2".into() } else { "mimalloc 2.0".into() };
    heap.unread = unread;
    heap.metadata = metadata_at.iter().map(|(start, end)| end - start).sum();
    heap.metadata_at = metadata_at;
    heap
}

/// Of a segment that cannot be read: a large one says how large it is, whatever else changes in it.
fn told_size(memory: &dyn Memory, layout: Layout, start: u64, end: u64) -> u64 {
    let told = memory.word(start + layout.slices).and_then(|slices| slices.checked_mul(SLICE));
    told.filter(|size| *size <= end - start).unwrap_or(0).max(SEGMENT)
}

/// What of a mapping is the heap's. Where it does not begin or end as an arena does, the kernel
/// joined it with something else: then it is what lies between segments.
fn extent(vma: &Vma, marked: &[u64]) -> Option<(u64, u64)> {
    let (first, last) = (*marked.first()?, *marked.last()?);
    let is_start = vma.start.is_multiple_of(SEGMENT);
    let is_end = vma.end.is_multiple_of(SEGMENT);
    let end = if is_end { vma.end } else { last.saturating_add(SEGMENT).min(vma.end) };
    Some((if is_start { vma.start } else { first }, end))
}

/// What an arena has between segments: those that were freed, and what was never used.
fn add_vacant(memory: &dyn Memory, (start, end): (u64, u64), sums: &mut Sums) {
    if start >= end {
        return;
    }
    sums.pages(start, end);
    let resident = memory.resident(start, end).unwrap_or(0).min(end - start);
    let arena = sums.arena(0);
    arena.dirty = arena.dirty.saturating_add(resident);
    arena.free_resident = arena.free_resident.saturating_add(resident);
    arena.retained = arena.retained.saturating_add(end - start - resident);
}

fn add(memory: &dyn Memory, segment: &Segment, sums: &mut Sums) {
    let end = segment.start.saturating_add(segment.size);
    sums.pages(segment.start + segment.header, end);
    for span in &segment.spans {
        if span.block == 0 {
            let arena = sums.arena(0);
            arena.dirty = arena.dirty.saturating_add(span.size);
            sums.free(0, span.start, span.start.saturating_add(span.size));
            continue;
        }
        let used = span.used - freed_by_others(memory, span);
        if span.reserved > 1 {
            sums.run(0, span.size, span.block, span.reserved, used);
        } else {
            let arena = sums.arena(0);
            arena.active = arena.active.saturating_add(span.size);
            arena.large = arena.large.saturating_add(used * span.block);
            arena.large_count += used;
        }
    }
}

/// Blocks in the list to which other threads free; they still count as used. Its links may be
/// encoded: then the rest of it stays counted.
fn freed_by_others(memory: &dyn Memory, span: &Span) -> u64 {
    let mut count = 0;
    let mut block = span.thread_free & !3;
    while block >= span.start && block < span.start.saturating_add(span.size) && count < span.used {
        count += 1;
        let Some(next) = memory.word(block) else { break };
        block = next;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::made_up::MadeUp;

    const AT: u64 = 0x430_0000_0000;
    const KEY: u64 = 0x1234_5678_9abc;
    const HEADER: u64 = SLICE;

    /// Half of each range is resident.
    struct Half(MadeUp);

    impl Memory for Half {
        fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
            self.0.read(address, buffer)
        }

        fn resident(&self, start: u64, end: u64) -> Option<u64> {
            Some((end - start) / 2)
        }
    }

    impl Half {
        /// A segment of mimalloc 2.2 with one page of 100 blocks of 512 bytes, of which 40 are used.
        fn segment(&mut self, start: u64) {
            let header = [(NEW.used_pages, 1), (NEW.cookie, start ^ KEY), (NEW.entries, 512)];
            let page = [(0, 511), (8, 100 << 16 | 100 << 32), (32, 40), (40, 512)];
            let page = page.map(|(at, word): (u64, u64)| (NEW.table + NEW.span + at, word));
            for (at, word) in header.into_iter().chain([(NEW.table, 1)]).chain(page) {
                self.0.set(start + at, word);
            }
            self.0.set_all(start + NEW.slices, &[512, 1]);
        }

        /// As mimalloc leaves it: its span is in no list of free ones any more.
        fn freed(&mut self, start: u64) {
            self.segment(start);
            self.0.set(start + NEW.used_pages, 0);
            self.0.set(start + NEW.table + NEW.span + 32, 0);
            self.0.set(start + NEW.table + NEW.span + 40, 1);
        }

        fn heap(&self, start: u64, end: u64) -> Heap {
            let vma = Vma { start, end, perms: "rw-p".into(), rss: 4096, ..Vma::default() };
            read(self, &[vma]).expect("segments")
        }
    }

    fn made(segments: &[u64], freed: &[u64]) -> Half {
        let mut memory = Half(MadeUp::default());
        segments.iter().for_each(|index| memory.segment(AT + index * SEGMENT));
        freed.iter().for_each(|index| memory.freed(AT + index * SEGMENT));
        memory
    }

    /// What lies behind the headers of these segments, each up to the next one.
    fn behind_headers(indices: &[u64], end: u64) -> Vec<(u64, u64)> {
        let ends = indices.iter().skip(1).map(|index| AT + index * SEGMENT).chain([end]);
        let starts = indices.iter().map(|index| AT + index * SEGMENT + HEADER);
        starts.zip(ends).collect()
    }

    #[test]
    fn what_an_arena_has_beside_its_segments_is_free() {
        // The third was freed, the fourth given back, the last two were never used.
        let end = AT + 7 * SEGMENT;
        let heap = made(&[0, 1, 4], &[2]).heap(AT, end);
        assert_eq!(heap.ranges, behind_headers(&[0, 1, 4], end));
        assert_eq!((heap.used_count(), heap.unread), (120, 0));
        let arena = &heap.arenas[0];
        assert_eq!((arena.dirty, arena.retained), (2 * SEGMENT, 2 * SEGMENT));
        assert_eq!(heap.free_resident(), 2 * SEGMENT);
    }

    #[test]
    fn what_the_kernel_joined_with_an_arena_is_not_the_heap_s() {
        let page = 1 << 16;
        let heap = made(&[1, 3], &[]).heap(AT - page, AT + 6 * SEGMENT + page);
        assert_eq!(heap.ranges, behind_headers(&[1, 3], AT + 4 * SEGMENT));
        assert_eq!(heap.free_resident(), SEGMENT / 2);
        // A segment that was freed is known by its key.
        let heap = made(&[1], &[4]).heap(AT + page, AT + 6 * SEGMENT - page);
        assert_eq!(heap.ranges, behind_headers(&[1], AT + 5 * SEGMENT));
    }

    #[test]
    fn a_segment_that_changes_is_not_free() {
        let mut memory = made(&[0, 1, 2], &[]);
        memory.0.set(AT + SEGMENT + NEW.used_pages, 2);
        let heap = memory.heap(AT, AT + 3 * SEGMENT);
        assert_eq!((heap.unread, heap.free_pages()), (SEGMENT, 0));
        assert_eq!(heap.ranges[0], (AT + HEADER, AT + SEGMENT));
    }

    #[test]
    fn large_segments_are_used_to_their_end() {
        // The first has one page of 40 MiB; within it lies the header of one that was freed.
        let mut memory = made(&[0, 2], &[1]);
        let size = 40 << 20;
        memory.0.set(AT + NEW.slices, size / SLICE);
        memory.0.set(AT + NEW.table + NEW.span, size / SLICE - 1);
        let heap = memory.heap(AT, AT + 3 * SEGMENT);
        assert_eq!(heap.ranges, behind_headers(&[0, 2], AT + 3 * SEGMENT));
        assert_eq!(heap.free_pages(), 2 * SEGMENT - size);
    }

    #[test]
    fn python_s_own_has_its_key_in_python_s_data() {
        let mut memory = made(&[0], &[]);
        memory.0.set(0x7000_0000_0100, KEY);
        let owner = |name: &str, start: u64| {
            let vma = |start: u64, size: u64| Vma {
                start,
                end: start + size,
                perms: "rw-p".into(),
                rss: 4096,
                ..Vma::default()
            };
            let data = Vma { inode: 7, name: name.into(), ..vma(start, 1 << 16) };
            read(&memory, &[vma(AT, SEGMENT), data]).expect("a segment").owner
        };
        assert_eq!(owner("/usr/bin/python3.13", 0x7000_0000_0000), "Python");
        assert_eq!(owner("/usr/lib/libpython3.13.so.1.0", 0x7000_0000_0000), "Python");
        assert_eq!(owner("/usr/bin/python3.13", 0x7100_0000_0000), "");
        assert_eq!(owner("/usr/lib/libarrow.so", 0x7000_0000_0000), "");
    }
}
