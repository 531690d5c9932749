// SPDX-License-Identifier: MIT
//! glibc's heaps, read from outside: the arenas are found in the C library's data, and every chunk
//! of their heaps is visited (`chunks.rs`).
//!
//! An arena's state is in one piece of memory whose end has kept its shape since glibc 2.23:
//!
//! ```text
//!     mutex flags [have_fastchunks] [fastbins[10]] | top last_remainder bins[254] binmap[2 words]
//!                                                    next next_free attached_threads system max
//! ```
//!
//! An empty bin points to itself, so a run of such pairs of words betrays the main arena.

use std::cell::OnceCell;

use serde::{Deserialize, Serialize};

use super::caches::{self, Lists};
use super::chunks::{self, Chunks};
use super::large::{self, Counted, Mapped};
use super::pieces;
use crate::memory::Memory;
use crate::page_size;
use crate::smaps::Vma;

/// A heap of an arena other than the main one begins at a multiple of this, unless huge pages are
/// asked for (`glibc.malloc.hugetlb=2`): then it has four of them.
const HEAP_MAX: u64 = 64 << 20;
const HUGE_PAGES_OF_HEAP: u64 = 4;

const BIN_WORDS: usize = 254;
/// From the bins to what follows them, in words.
const NEXT: usize = BIN_WORDS + 2;
const ATTACHED: usize = NEXT + 2;
const SYSTEM: usize = NEXT + 3;
/// Before the bins: `top` and `last_remainder`.
const TOP_BEFORE_BINS: u64 = 16;
/// From the start of the state to the bins: since 2.27, before, and without fast bins, which glibc
/// has had no more since 2.43.
const BINS_AT: [u64; 3] = [112, 104, NEWEST_BINS_AT];
const NEWEST_BINS_AT: u64 = 24;

/// Data in which it is looked for whether nothing was allocated yet.
const LARGEST_UNUSED: u64 = 1 << 20;
const MOST_ARENAS: usize = 20_000;
const TRIES: u32 = 6;
/// Between two tries, for a thread that is in the middle of something.
pub const PAUSE: std::time::Duration = std::time::Duration::from_millis(2);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Heaps {
    pub arenas: Vec<Arena>,
    /// Blocks that are mappings of their own.
    pub mapped: Mapped,
    /// The most frequent sizes of blocks in use: bytes and number.
    pub sizes: Vec<(u64, u64)>,
    /// Arenas of which not everything could be read.
    pub incomplete: u32,
    pub tries: u32,
    /// Copies of the C library that have a heap: more than one after `dlmopen`.
    #[serde(default)]
    pub copies: u32,
    /// Nothing was allocated yet.
    #[serde(default)]
    pub is_unused: bool,
    /// The most that a heap of an arena takes; 0 in what older versions saved.
    #[serde(default)]
    pub heap_max: u64,
}

/// Sizes in bytes, of whole chunks with their headers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Arena {
    pub address: u64,
    pub is_main: bool,
    /// Of which copy of the C library; 0 is the program's own.
    #[serde(default)]
    pub copy: u32,
    /// Threads that allocate from it; `None` before glibc 2.23.
    pub threads: Option<u64>,
    /// What glibc itself counts as taken from the system.
    pub system: u64,
    pub heaps: u64,
    /// What glibc keeps for itself at the start of the heaps.
    pub headers: u64,
    /// Address ranges of its heaps, up to what is writable.
    pub ranges: Vec<(u64, u64)>,
    #[serde(flatten)]
    pub chunks: Chunks,
    /// Free, in the arena's fast bins and in threads' caches; the program does not have them.
    pub fast: u64,
    pub cached: u64,
    /// In threads' caches too, but blocks with mappings of their own, which are not of the arena.
    #[serde(default)]
    pub cached_mapped: Counted,
    /// Of `system`: in pieces that were not found.
    #[serde(default)]
    pub unaccounted: u64,
    /// Of the main arena, where the break could not grow: its top lies in memory that was mapped instead.
    #[serde(default)]
    pub top_is_mapped: bool,
    pub is_complete: bool,
}

impl Arena {
    /// Among others, of which it is the one with this index.
    pub fn name(&self, index: usize) -> String {
        match (self.is_main, self.copy) {
            (true, 0) => "main".to_owned(),
            (true, copy) => format!("main of copy {}", copy + 1),
            (false, _) => index.to_string(),
        }
    }

    /// With the program.
    pub fn used(&self) -> u64 {
        self.chunks.used_bytes.saturating_sub(self.fast.saturating_add(self.cached))
    }

    pub fn used_count(&self) -> u64 {
        self.chunks.used_count.saturating_sub(self.chunks.listed_count)
    }

    pub fn free(&self) -> u64 {
        self.chunks.free_bytes.saturating_add(self.fast).saturating_add(self.cached)
    }

    /// Of the top: what malloc_trim gives back. It moves the break, unless others have moved it since or the top is not
    /// there; the tops of threads' arenas, and of other copies of the C library, stay.
    pub fn trimmable_top(&self) -> u64 {
        let is_of_program = self.is_main && self.copy == 0;
        let is_at_brk = !self.top_is_mapped && self.chunks.behind_top == 0;
        if is_of_program && is_at_brk { self.chunks.top_resident } else { 0 }
    }

    /// What malloc_trim gives back: whole pages between the blocks, of every arena, and that.
    pub fn trimmable(&self) -> u64 {
        self.chunks.free_resident.saturating_add(self.trimmable_top())
    }
}

impl Heaps {
    pub fn used(&self) -> u64 {
        let cached = self.sum(|arena| arena.cached_mapped.bytes);
        self.sum(Arena::used).saturating_add(self.mapped.in_use().saturating_sub(cached))
    }

    /// Free, without the tops of the heaps.
    pub fn free(&self) -> u64 {
        self.sum(|arena| arena.free().saturating_add(arena.cached_mapped.bytes))
    }

    pub fn sum(&self, of: impl Fn(&Arena) -> u64) -> u64 {
        self.arenas.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Taken from the system by glibc's count, and not found.
    pub fn unaccounted(&self) -> u64 {
        self.sum(|arena| arena.unaccounted)
    }

    /// Memory in the midst of the main arena that is not glibc's.
    pub fn foreign(&self) -> u64 {
        self.sum(|arena| arena.chunks.foreign)
    }

    /// Memory in the midst of the arenas that is neither in use nor free: what others have there, and
    /// what could not be read.
    pub fn untold(&self) -> u64 {
        self.sum(|arena| arena.chunks.foreign.saturating_add(arena.chunks.unread))
    }

    /// In a large heap: how much of the arenas was visited, and of how much.
    pub fn looked_at(&self) -> Option<(u64, u64)> {
        let parts = self.arenas.iter().filter_map(|arena| {
            let chunks = &arena.chunks;
            let whole = chunks.used_bytes.saturating_add(chunks.free_bytes);
            Some((chunks.looked_at?, whole.saturating_add(chunks.unread)))
        });
        parts.reduce(|(part, whole), (more, of)| {
            (part.saturating_add(more), whole.saturating_add(of))
        })
    }

    pub fn used_count(&self) -> u64 {
        let cached = self.sum(|arena| arena.cached_mapped.chunks);
        self.sum(Arena::used_count).saturating_add(self.mapped.count().saturating_sub(cached))
    }
}

/// The shape of this process's arenas.
#[derive(Clone, Copy, Debug)]
struct Layout {
    bins_at: u64,
    heap_max: u64,
}

impl Layout {
    fn word(self, arena: u64, index: usize) -> u64 {
        arena + self.bins_at + 8 * index as u64
    }

    fn top(self, arena: u64) -> u64 {
        arena + self.bins_at - TOP_BEFORE_BINS
    }

    fn fastbins(self, arena: u64) -> Option<u64> {
        Some(arena + self.bins_at.checked_sub(96)?)
    }

    /// Behind the mutex.
    fn flags(self, arena: u64) -> u64 {
        arena + 4
    }

    fn size(self) -> u64 {
        self.bins_at + 8 * (SYSTEM as u64 + 2)
    }
}

/// Where the C library keeps its data: its own writable mappings and the memory behind them.
pub fn data_ranges(vmas: &[Vma], is_libc: impl Fn(&str) -> bool) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (index, vma) in vmas.iter().enumerate() {
        let follows = index > 0 && vmas[index - 1].end == vma.start;
        let is_data = vma.inode != 0 && is_libc(&vma.name);
        // Zeroed data lies behind the file's.
        let is_tail = vma.inode == 0
            && vma.name.is_empty()
            && follows
            && ranges.last().is_some_and(|range| range.1 == vma.start);
        if vma.is_writable() && vma.is_private() && (is_data || is_tail) {
            ranges.push((vma.start, vma.end));
        }
    }
    ranges
}

/// A copy of the C library: its arenas, the main one first, then the others in the order of their list.
struct Copy {
    layout: Layout,
    arenas: Vec<u64>,
    counted: Option<Counted>,
    /// No block was a mapping of its own either; or it could not be read.
    is_unused: bool,
}

/// What is the same for all arenas.
struct Place<'a> {
    memory: &'a dyn Memory,
    sampling: chunks::Sampling,
    brk: Option<(u64, u64)>,
    vmas: &'a [Vma],
}

impl Place<'_> {
    /// The break may have grown since the mappings were read, up to what is mapped behind it.
    fn brk_with(&self, system: u64) -> Option<(u64, u64)> {
        let (start, end) = self.brk?;
        let next = self.vmas.iter().map(|vma| vma.start).find(|&next| next >= end)?;
        Some((start, end.max(start.saturating_add(system)).min(next)))
    }
}

/// The heaps of a process, or `None` if its C library has none (nothing was allocated from it), or if
/// they cannot be read at this moment.
pub fn read(memory: &dyn Memory, data: &[(u64, u64)], vmas: &[Vma]) -> Option<Heaps> {
    // One mapping, or several, where a part of it is advised to have huge pages, or protected.
    let by_brk = vmas.iter().filter(|vma| vma.name == "[heap]");
    let brk = by_brk.map(|vma| (vma.start, vma.end)).reduce(|first, last| (first.0, last.1));
    let is_heap = |at: u64| {
        let is_brk = brk.is_none_or(|(start, end)| (start..=end).contains(&at));
        is_brk || vmas.iter().any(|vma| vma.contains(at) && large::may_hold_blocks(vma))
    };
    let copies = find_copies(memory, data, brk, &is_heap);
    if copies.is_empty() {
        // That of the library itself; a program's own may be anything.
        let is_small = |&&(start, end): &&(u64, u64)| end - start <= LARGEST_UNUSED;
        let small: Vec<(u64, u64)> = data.iter().filter(is_small).copied().collect();
        let settings = large::settings_in(memory, &small, &is_heap)?;
        return settings.is_unused.then(|| Heaps { is_unused: true, ..Heaps::default() });
    }
    let system = copies.iter().flat_map(|copy| {
        copy.arenas.iter().filter_map(|&at| memory.word(copy.layout.word(at, SYSTEM)))
    });
    let sampling = chunks::Sampling::of(system.fold(0, u64::saturating_add));
    let place = Place { memory, sampling, brk, vmas };
    let heap_max = copies.first()?.layout.heap_max;
    let mut heaps = Heaps { heap_max, copies: copies.len() as u32, ..Heaps::default() };
    let mut sizes = chunks::Sizes::default();
    for (number, copy) in (0..).zip(&copies) {
        // Copies never take the break.
        let place = Place { brk: brk.filter(|_| number == 0), ..place };
        for &address in &copy.arenas {
            let Some((mut arena, found)) = read_often(&place, &mut heaps, copy, address) else {
                heaps.incomplete += 1;
                continue;
            };
            heaps.incomplete += u32::from(!arena.is_complete);
            sizes.add(&found);
            arena.copy = number;
            heaps.arenas.push(arena);
        }
    }
    let counted = copies.iter().filter_map(|copy| copy.counted);
    let counted = counted.reduce(Counted::with);
    let ranges: Vec<(u64, u64)> =
        heaps.arenas.iter().flat_map(|arena| arena.ranges.iter().copied()).collect();
    heaps.mapped = large::find(memory, vmas, &ranges, counted, &mut sizes);
    heaps.sizes = sizes.most_bytes(12);
    // glibc 2.43 has its arena before the first call.
    let is_empty = |arena: &Arena| arena.is_complete && arena.system == 0;
    heaps.is_unused = heaps.incomplete == 0
        && heaps.arenas.iter().all(is_empty)
        && copies.iter().all(|copy| copy.is_unused);
    Some(heaps)
}

/// Again, while a thread is in the middle of something.
fn read_often(
    place: &Place,
    heaps: &mut Heaps,
    copy: &Copy,
    address: u64,
) -> Option<(Arena, chunks::Sizes)> {
    let mut best = None;
    for attempt in 0..TRIES {
        if attempt > 0 {
            place.memory.refresh();
            std::thread::sleep(PAUSE);
        }
        heaps.tries = heaps.tries.max(attempt + 1);
        let is_main = address == copy.arenas[0];
        let found = read_arena(place, copy.layout, (address, is_main));
        let complete = found.as_ref().is_some_and(|(arena, _)| arena.is_complete);
        if best.is_none() || complete {
            best = found;
        }
        if complete {
            break;
        }
    }
    best
}

/// Each copy of the C library has its data in a range of its own. The program's own comes first:
/// the loader brought it before others, so it lies above them.
fn find_copies(
    memory: &dyn Memory,
    data: &[(u64, u64)],
    brk: Option<(u64, u64)>,
    is_heap: &dyn Fn(u64) -> bool,
) -> Vec<Copy> {
    let settings_in = |data: &[(u64, u64)]| large::settings_in(memory, data, is_heap);
    let mut copies: Vec<Copy> = Vec::new();
    for range in joined(data).into_iter().rev() {
        let settings = OnceCell::new();
        let settings = || {
            *settings.get_or_init(|| {
                settings_in(&[range]).or_else(|| settings_in(data)).unwrap_or_default()
            })
        };
        let heap_max = || match settings().huge_page.checked_mul(HUGE_PAGES_OF_HEAP) {
            Some(bytes) if bytes > 0 => bytes,
            _ => HEAP_MAX,
        };
        if let Some((layout, arenas)) = find_arenas(memory, range, &heap_max) {
            // The settings of older ones look like the newest, a word further.
            let drifts = layout.bins_at == NEWEST_BINS_AT;
            let counted = settings().counted.map(|counted| Counted { drifts, ..counted });
            let is_unused = counted.is_none() || settings().is_unused;
            copies.push(Copy { layout, arenas, counted, is_unused });
        }
    }
    let is_by_brk = |copy: &Copy| {
        let top = copy.arenas.first().and_then(|&main| memory.word(copy.layout.top(main)));
        brk.zip(top).is_some_and(|((start, end), top)| (start..end).contains(&top))
    };
    copies.sort_by_key(|copy| !is_by_brk(copy));
    copies
}

fn joined(data: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for &(start, end) in data {
        match joined.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => joined.push((start, end)),
        }
    }
    joined
}

fn find_arenas(
    memory: &dyn Memory,
    (start, end): (u64, u64),
    heap_max: &dyn Fn() -> u64,
) -> Option<(Layout, Vec<u64>)> {
    // Pieces overlap by what an arena takes, so that one of them holds it whole.
    const PIECE: u64 = 1 << 20;
    const OVERLAP: u64 = 8 * (SYSTEM as u64 + 4);
    // Data of a C library is small; a program's own may be anything.
    let end = end.min(start.saturating_add(64 << 20));
    (start..end).step_by(PIECE as usize).find_map(|piece| {
        let count = (end.min(piece.saturating_add(PIECE + OVERLAP)) - piece) / 8;
        let words = memory.words_unless_zero(piece, count as usize)?;
        arenas_in(memory, piece, &words, heap_max)
    })
}

fn arenas_in(
    memory: &dyn Memory,
    start: u64,
    words: &[u64],
    heap_max: &dyn Fn() -> u64,
) -> Option<(Layout, Vec<u64>)> {
    for index in 2..words.len().saturating_sub(SYSTEM + 2) {
        let bins = start + 8 * index as u64;
        if !looks_like_bins(memory, &words[index..], bins) {
            continue;
        }
        for bins_at in BINS_AT {
            let layout = Layout { bins_at, heap_max: heap_max() };
            if let Some(addresses) = follow_list(memory, layout, bins - bins_at) {
                return Some((layout, addresses));
            }
        }
    }
    None
}

/// Each of the 127 pairs points to itself, or to the ends of a list of chunks whose first one points back.
fn looks_like_bins(memory: &dyn Memory, words: &[u64], address: u64) -> bool {
    /// As many are proof. A heap in many pieces leaves few bins empty, a thread at work some torn.
    const PROOF: usize = 32;
    let bins = &words[..BIN_WORDS];
    if !bins.iter().all(|&word| word != 0 && word.is_multiple_of(8)) {
        return false;
    }
    let itself = |bin: usize| address + 16 * bin as u64 - 16;
    let is_empty =
        |bin: &usize| bins[2 * *bin] == itself(*bin) && bins[2 * *bin + 1] == itself(*bin);
    let empty = (0..BIN_WORDS / 2).filter(is_empty).count();
    if empty == 0 || empty >= PROOF {
        return empty >= PROOF;
    }
    let is_list = |bin: &usize| {
        let first = bins[2 * *bin];
        let back = first.checked_add(24).and_then(|at| memory.word(at));
        first != itself(*bin) && back == Some(itself(*bin))
    };
    empty + (0..BIN_WORDS / 2).filter(is_list).take(PROOF - empty).count() >= PROOF
}

fn follow_list(memory: &dyn Memory, layout: Layout, main: u64) -> Option<Vec<u64>> {
    let mut addresses = vec![main];
    loop {
        let last = *addresses.last()?;
        let next = memory.word(layout.word(last, NEXT))?;
        if next == main {
            return Some(addresses);
        }
        // The others lie in the first page of a heap.
        let max = layout.heap_max;
        let is_heap = next >= max && next % max <= 0x1000 && next % 16 == 0;
        if !is_heap || addresses.len() > MOST_ARENAS {
            return None;
        }
        addresses.push(next);
    }
}

fn read_arena(
    place: &Place,
    layout: Layout,
    (address, is_main): (u64, bool),
) -> Option<(Arena, chunks::Sizes)> {
    let memory = place.memory;
    let top = memory.word(layout.top(address))?;
    let threads = memory.word(layout.word(address, ATTACHED))?;
    let system = memory.word(layout.word(address, SYSTEM))?;
    let mut arena = Arena { address, is_main, system, ..Arena::default() };
    arena.threads = (threads < 1 << 20).then_some(threads);
    let mut walk = chunks::Walk::new(memory, place.sampling);
    let walked = if is_main {
        walk_main(place, &mut walk, &mut arena, layout, top)
    } else {
        walk_others(memory, &mut walk, &mut arena, layout, top)
    };
    walk.scale();
    let Lists { fast, cached, count, mapped } = caches::lists(&mut walk, layout.fastbins(address));
    (arena.fast, arena.cached, arena.cached_mapped) = (fast, cached, mapped);
    let chunks::Walk { chunks, sizes, .. } = walk;
    arena.chunks = chunks;
    arena.chunks.listed_count = count;
    // A part of a percent lost to a thread that worked meanwhile is within what is promised.
    let chunks = &arena.chunks;
    let read = u128::from(chunks.used_bytes) + u128::from(chunks.free_bytes);
    let lost = u128::from(chunks.unread) + u128::from(arena.unaccounted);
    arena.is_complete = walked.is_some() && lost * 100 <= read;
    Some((arena, sizes))
}

/// By the break, from the first chunk to the top; something else may have moved the break too. Where
/// the break could not grow, the rest lies in pieces anywhere.
fn walk_main(
    place: &Place,
    walk: &mut chunks::Walk,
    arena: &mut Arena,
    layout: Layout,
    top: u64,
) -> Option<()> {
    const NOT_CONTIGUOUS: u64 = 2;
    if arena.system == 0 {
        return Some(()); // nothing was allocated from it yet
    }
    let is_contiguous = place.memory.number(layout.flags(arena.address), 4)? & NOT_CONTIGUOUS == 0;
    let brk = if is_contiguous { place.brk_with(arena.system) } else { place.brk };
    let brk = brk.unwrap_or((0, 0));
    let holds_top = (brk.0..brk.1).contains(&top);
    arena.top_is_mapped = !holds_top;
    let stop = if holds_top { top } else { brk.1 };
    let mut rest = arena.system;
    match chunks::find_first(place.memory, brk.0, stop) {
        Some(first) => {
            arena.heaps = 1;
            arena.ranges.push(brk);
            walk.run(first, stop, top)?;
            rest = rest.saturating_sub(brk.1 - first);
        }
        None if holds_top => return None,
        None => {}
    }
    if holds_top {
        walk.top(top, brk.1)?;
    }
    if holds_top && is_contiguous {
        return Some(());
    }
    let search = pieces::Search { memory: place.memory, vmas: place.vmas, top, brk };
    let found = search.run(rest);
    for &(start, end) in &found {
        let is_last = (start..end).contains(&top);
        walk.run(start, if is_last { top } else { end }, top)?;
        if is_last {
            walk.top(top, end)?;
        }
        rest = rest.saturating_sub(end - start);
    }
    arena.heaps += found.len() as u64;
    arena.ranges.extend(joined(&found));
    arena.unaccounted = if rest < pieces::SLACK { 0 } else { rest };
    let has_top = holds_top || found.iter().any(|&(start, end)| (start..end).contains(&top));
    has_top.then_some(())
}

/// From the heap that holds the top back to the first one.
fn walk_others(
    memory: &dyn Memory,
    walk: &mut chunks::Walk,
    arena: &mut Arena,
    layout: Layout,
    top: u64,
) -> Option<()> {
    let max = layout.heap_max;
    let mut heap = top / max * max;
    let header = arena.address % max;
    loop {
        let info = memory.words(heap, 4)?;
        let [owner, previous, size, _] = info[..] else { return None };
        if owner != arena.address || size > max || !size.is_multiple_of(page_size()) {
            return None;
        }
        let is_first = heap == arena.address / max * max;
        let state = if is_first { layout.size() } else { 0 };
        let first = (heap + header + state).next_multiple_of(16);
        let end = heap + size;
        arena.heaps += 1;
        arena.headers += first - heap;
        arena.ranges.push((heap, end));
        if (heap..end).contains(&top) {
            walk.run(first, top, top)?;
            walk.top(top, end)?;
        } else {
            walk.run(first, end, top)?;
        }
        if is_first {
            return Some(());
        }
        if previous % max != 0 || previous == 0 || arena.heaps > 1 << 20 {
            return None;
        }
        heap = previous;
    }
}
