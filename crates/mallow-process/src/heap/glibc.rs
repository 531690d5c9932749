//! glibc's heaps, read from outside: the arenas are found in the C library's data, and every chunk
//! of their heaps is visited (`chunks.rs`).
//!
//! An arena's state is in one piece of memory whose end has kept its shape since glibc 2.23:
//!
//! ```text
//!     mutex flags [have_fastchunks] fastbins[10] | top last_remainder bins[254] binmap[2 words]
//!                                                  next next_free attached_threads system max
//! ```
//!
//! An empty bin points to itself, so a run of such pairs of words betrays the main arena.

use serde::{Deserialize, Serialize};

use super::chunks::{self, Chunks, Lists};
use super::large::{self, Mapped};
use crate::memory::Memory;
use crate::page_size;
use crate::smaps::Vma;

/// A heap of an arena other than the main one begins at a multiple of this.
pub const HEAP_MAX: u64 = 64 << 20;

const BIN_WORDS: usize = 254;
/// From the bins to what follows them, in words.
const NEXT: usize = BIN_WORDS + 2;
const ATTACHED: usize = NEXT + 2;
const SYSTEM: usize = NEXT + 3;
/// Before the bins: `top` and `last_remainder`.
const TOP_BEFORE_BINS: u64 = 16;
/// From the start of the state to the bins: since 2.27, and before.
const BINS_AT: [u64; 2] = [112, 104];

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
}

/// Sizes in bytes, of whole chunks with their headers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Arena {
    pub address: u64,
    pub is_main: bool,
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
    pub is_complete: bool,
}

impl Arena {
    /// With the program.
    pub fn used(&self) -> u64 {
        self.chunks.used_bytes.saturating_sub(self.fast + self.cached)
    }

    pub fn used_count(&self) -> u64 {
        self.chunks.used_count.saturating_sub(self.chunks.listed_count)
    }

    pub fn free(&self) -> u64 {
        self.chunks.free_bytes + self.fast + self.cached
    }
}

impl Heaps {
    pub fn used(&self) -> u64 {
        self.arenas.iter().map(Arena::used).sum::<u64>() + self.mapped.in_use()
    }

    /// Free, without the tops of the heaps.
    pub fn free(&self) -> u64 {
        self.sum(Arena::free)
    }

    pub fn sum(&self, of: impl Fn(&Arena) -> u64) -> u64 {
        self.arenas.iter().map(of).sum()
    }

    /// In a large heap: how much of the arenas was visited, and of how much.
    pub fn looked_at(&self) -> Option<(u64, u64)> {
        let parts = self.arenas.iter().filter_map(|arena| {
            let chunks = &arena.chunks;
            Some((chunks.looked_at?, chunks.used_bytes + chunks.free_bytes + chunks.unread))
        });
        parts.reduce(|(part, whole), (more, of)| (part + more, whole + of))
    }

    pub fn used_count(&self) -> u64 {
        self.sum(Arena::used_count) + self.mapped.count()
    }
}

/// The shape of this process's arenas.
#[derive(Clone, Copy, Debug)]
struct Layout {
    bins_at: u64,
}

impl Layout {
    fn word(self, arena: u64, index: usize) -> u64 {
        arena + self.bins_at + 8 * index as u64
    }

    fn top(self, arena: u64) -> u64 {
        arena + self.bins_at - TOP_BEFORE_BINS
    }

    fn fastbins(self, arena: u64) -> u64 {
        arena + self.bins_at - 96
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

/// The heaps of a process, or `None` if its C library has none (nothing was allocated from it), or if
/// they cannot be read at this moment.
pub fn read(memory: &dyn Memory, data: &[(u64, u64)], vmas: &[Vma]) -> Option<Heaps> {
    let (layout, addresses) = find_arenas(memory, data)?;
    let mut heaps = Heaps::default();
    let mut sizes = chunks::Sizes::default();
    let system = addresses.iter().filter_map(|&at| memory.word(layout.word(at, SYSTEM))).sum();
    let sampling = chunks::Sampling::of(system);
    let brk = vmas.iter().find(|vma| vma.name == "[heap]").map(|vma| (vma.start, vma.end));
    for &address in &addresses {
        let mut arena = None;
        for attempt in 0..TRIES {
            if attempt > 0 {
                memory.refresh();
                std::thread::sleep(PAUSE);
            }
            heaps.tries = heaps.tries.max(attempt + 1);
            let is_main = address == addresses[0];
            let found = read_arena(memory, layout, sampling, (address, is_main), brk, vmas);
            let complete = found.as_ref().is_some_and(|(arena, _)| arena.is_complete);
            if arena.is_none() || complete {
                arena = found;
            }
            if complete {
                break;
            }
        }
        let Some((arena, found_sizes)) = arena else {
            heaps.incomplete += 1;
            continue;
        };
        heaps.incomplete += u32::from(!arena.is_complete);
        sizes.add(&found_sizes);
        heaps.arenas.push(arena);
    }
    let counted = large::counted(memory, data, brk);
    let ranges: Vec<(u64, u64)> =
        heaps.arenas.iter().flat_map(|arena| arena.ranges.iter().copied()).collect();
    heaps.mapped = large::find(memory, vmas, &ranges, counted, &mut sizes);
    heaps.sizes = sizes.most_bytes(12);
    Some(heaps)
}

/// The main arena first, then the others in the order of their list.
fn find_arenas(memory: &dyn Memory, data: &[(u64, u64)]) -> Option<(Layout, Vec<u64>)> {
    // Pieces overlap by what an arena takes, so that one of them holds it whole.
    const PIECE: u64 = 1 << 20;
    const OVERLAP: u64 = 8 * (SYSTEM as u64 + 4);
    for &(start, end) in data {
        // Data of a C library is small; a program's own may be anything.
        let end = end.min(start.saturating_add(64 << 20));
        for piece in (start..end).step_by(PIECE as usize) {
            let count = (end.min(piece.saturating_add(PIECE + OVERLAP)) - piece) / 8;
            let Some(words) = memory.words_unless_zero(piece, count as usize) else { continue };
            if let Some(found) = arenas_in(memory, piece, &words) {
                return Some(found);
            }
        }
    }
    None
}

fn arenas_in(memory: &dyn Memory, start: u64, words: &[u64]) -> Option<(Layout, Vec<u64>)> {
    for index in 2..words.len().saturating_sub(SYSTEM + 2) {
        let bins = start + 8 * index as u64;
        if !looks_like_bins(memory, &words[index..], bins) {
            continue;
        }
        for bins_at in BINS_AT {
            let layout = Layout { bins_at };
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
        let is_heap = next >= HEAP_MAX && next % HEAP_MAX <= 0x1000 && next % 16 == 0;
        if !is_heap || addresses.len() > MOST_ARENAS {
            return None;
        }
        addresses.push(next);
    }
}

fn read_arena(
    memory: &dyn Memory,
    layout: Layout,
    sampling: chunks::Sampling,
    (address, is_main): (u64, bool),
    brk: Option<(u64, u64)>,
    vmas: &[Vma],
) -> Option<(Arena, chunks::Sizes)> {
    let top = memory.word(layout.top(address))?;
    let threads = memory.word(layout.word(address, ATTACHED))?;
    let system = memory.word(layout.word(address, SYSTEM))?;
    let mut arena = Arena { address, is_main, system, ..Arena::default() };
    arena.threads = (threads < 1 << 20).then_some(threads);
    let mut walk = chunks::Walk::new(memory, sampling);
    let walked = if is_main {
        walk_main(&mut walk, &mut arena, top, brk, vmas)
    } else {
        walk_others(memory, &mut walk, &mut arena, layout, top)
    };
    walk.scale();
    let Lists { fast, cached, count } = walk.lists(layout.fastbins(address));
    (arena.fast, arena.cached) = (fast, cached);
    let chunks::Walk { chunks, sizes, .. } = walk;
    arena.chunks = chunks;
    arena.chunks.listed_count = count;
    // A part of a percent lost to a thread that worked meanwhile is within what is promised.
    let chunks = &arena.chunks;
    let read = chunks.used_bytes + chunks.free_bytes;
    arena.is_complete = walked.is_some() && chunks.unread * 100 <= read;
    Some((arena, sizes))
}

/// One piece from the first chunk to the top; in pieces where something else moved the break.
fn walk_main(
    walk: &mut chunks::Walk,
    arena: &mut Arena,
    top: u64,
    brk: Option<(u64, u64)>,
    vmas: &[Vma],
) -> Option<()> {
    if arena.system == 0 {
        return Some(()); // nothing was allocated from it yet
    }
    // The heap may have grown since the mappings were read.
    let now = brk.map(|(start, end)| (start, end.max(start.saturating_add(arena.system))));
    let holds_top = |&(start, end): &(u64, u64)| (start..end).contains(&top);
    let range = now.filter(holds_top).or_else(|| {
        let vma = vmas.iter().find(|vma| vma.contains(top))?;
        Some((vma.start, vma.end))
    })?;
    arena.heaps = 1;
    arena.ranges.push(range);
    let first = chunks::find_first(walk.memory, range.0, top)?;
    walk.run(first, top, top)?;
    walk.top(top, range.1)
}

/// From the heap that holds the top back to the first one.
fn walk_others(
    memory: &dyn Memory,
    walk: &mut chunks::Walk,
    arena: &mut Arena,
    layout: Layout,
    top: u64,
) -> Option<()> {
    let mut heap = top / HEAP_MAX * HEAP_MAX;
    let header = arena.address % HEAP_MAX;
    loop {
        let info = memory.words(heap, 4)?;
        let [owner, previous, size, _] = info[..] else { return None };
        if owner != arena.address || size > HEAP_MAX || !size.is_multiple_of(page_size()) {
            return None;
        }
        let is_first = heap == arena.address / HEAP_MAX * HEAP_MAX;
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
        if previous % HEAP_MAX != 0 || previous == 0 || arena.heaps > 1 << 20 {
            return None;
        }
        heap = previous;
    }
}
