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

use std::collections::BTreeMap;

use super::spans::{Heap, Sums};
use crate::memory::Memory;
use crate::smaps::Vma;

const SEGMENT: u64 = 32 << 20;
const SLICE: u64 = 64 << 10;
const MOST_SLICES: u64 = SEGMENT / SLICE;
/// Places that are looked at in one process.
const MOST_PLACES: usize = 1 << 16;
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
    /// The word that its cookie is encoded with.
    key: u64,
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

/// `None` where there is no mimalloc, or one whose structures are others.
pub fn read(memory: &dyn Memory, vmas: &[Vma]) -> Option<Heap> {
    let plain = |vma: &&Vma| {
        vma.is_anonymous() && vma.is_private() && vma.is_writable() && vma.rss + vma.swap > 0
    };
    let starts = vmas.iter().filter(plain).flat_map(|vma| {
        let first = vma.start.checked_next_multiple_of(SEGMENT).unwrap_or(u64::MAX);
        (first..vma.end).step_by(SEGMENT as usize)
    });
    let starts: Vec<u64> = starts.take(MOST_PLACES).collect();
    let read = |layout: Layout| {
        let segment = |&start: &u64| segment_in_tries(memory, layout, start);
        // Their spans are read again later: those of all segments would take too much memory.
        let found = starts.iter().filter_map(segment).map(|found| (found.start, found.key));
        let found = same_key(&found.collect::<Vec<_>>());
        (!found.is_empty()).then_some((layout, found))
    };
    let (layout, segments) = LAYOUTS.into_iter().filter_map(read).max_by_key(|(_, s)| s.len())?;
    Some(sums(memory, layout, &segments))
}

/// A segment whose table does not fit together may be changing.
fn segment_in_tries(memory: &dyn Memory, layout: Layout, start: u64) -> Option<Segment> {
    // What cannot be the header of a segment is looked at once.
    let slices = memory.word(start + layout.slices)?;
    let header = memory.word(start + layout.slices + 8)?;
    let entries = memory.word(start + layout.entries)?;
    if entries > MOST_SLICES || entries == 0 || header == 0 || header > entries || slices < entries
    {
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
    let key = memory.word(start + layout.cookie)? ^ start;
    Some(Segment { start, size, header: header * SLICE, key, spans })
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

/// Where segments are whose cookies are encoded with the word that most of them have.
fn same_key(segments: &[(u64, u64)]) -> Vec<u64> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for &(_, key) in segments {
        *counts.entry(key).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|&(_, count)| count).map(|(key, _)| key);
    let same = segments.iter().filter(|&&(_, key)| Some(key) == most);
    same.map(|&(start, _)| start).collect()
}

fn sums(memory: &dyn Memory, layout: Layout, segments: &[u64]) -> Heap {
    let mut sums = Sums::default();
    let mut metadata_at = Vec::new();
    let mut unread: u64 = 0;
    for &start in segments {
        match segment_in_tries(memory, layout, start) {
            Some(segment) => {
                metadata_at.push((segment.start, segment.start + segment.header));
                add(memory, &segment, &mut sums);
            }
            None => unread += SEGMENT,
        }
    }
    let mut heap = sums.finish(memory);
    heap.allocator = "mimalloc".into();
    heap.layout = if layout.block.1 == 8 { "mimalloc 2.2".into() } else { "mimalloc 2.0".into() };
    heap.unread = unread;
    heap.metadata = metadata_at.iter().map(|(start, end)| end - start).sum();
    heap.metadata_at = metadata_at;
    heap
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
