// SPDX-License-Identifier: MIT
//! Go's heap: arenas of 64 MiB at multiples of that, which no other program maps so. Stacks of
//! goroutines lie in it, so a thread's stack pointer says nothing there.
//!
//! What an arena's pages are used for is told by the runtime's own tables (Go 1.18 and later, 64 bits):
//!
//! ```text
//!     index[2^22] --> heapArena: [bitmap] spans[8192] --> mspan
//!     by bits 26 to 47           by page of 8 KiB
//!
//!     mspan: ... 24 first address  32 pages ... | objects, 16 bits  class, 8  state, 8 | ... size of an object
//! ```
//!
//! No symbol leads there, for programs are stripped: the index is where a word leads to an arena whose
//! spans begin at the very pages that they stand for.

use super::{Found, Kept, MOST_PLACES, half, joined, places, space, word};
use crate::mappings::Kind;
use crate::memory::Memory;
use crate::process::Process;
use crate::smaps::Vma;

/// Free pages, which a finding is about.
pub const FREE: &str = "Go: free pages of the heap";
const HEAP: &str = "Go: heap, with stacks of goroutines";

const ARENA: u64 = 64 << 20;
const PAGE: u64 = 8 << 10;
const INDEX: u64 = 8 << 22;
/// Added to addresses before they are looked up.
const BASE_OFFSET: u64 = if cfg!(target_arch = "x86_64") { 1 << 47 } else { 0 };
/// Pages of the kernel, at which the index begins, are at least as large.
const STEP: u64 = 4096;
const SPAN: usize = 120;
const IN_USE: u64 = 1;
/// Stacks, and memory of the collector.
const MANUAL: u64 = 2;

/// Words that lead to what may be an arena, of which every page is looked at.
const MOST_CANDIDATES: u64 = 256;
/// Of more arenas some are looked at, which stand for all.
const MOST_ARENAS: usize = 1024;
/// Ranges that are asked about one by one.
const MOST_RANGES: u64 = 1 << 19;

/// Where a version of Go keeps what.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// The first minor version.
    since: u64,
    /// In an arena.
    spans: u64,
    /// In a span: the number of objects and what stands beside it; eight bytes on is their size.
    counts: u64,
}

const LAYOUTS: [Layout; 4] = [
    Layout { since: 22, spans: 0, counts: 96 },
    Layout { since: 21, spans: (1 << 20) + (16 << 10), counts: 104 },
    Layout { since: 20, spans: (1 << 20) + (16 << 10), counts: 96 },
    Layout { since: 18, spans: 2 << 20, counts: 96 },
];

pub fn find(process: &Process, memory: &dyn Memory) -> Found {
    let mut found = Found { version: process.go_version.clone(), ..Found::default() };
    let heap = mapped(process);
    if heap.is_empty() {
        return found;
    }
    let size = heap.iter().map(|(start, end)| end - start).sum();
    found.kept.push(Kept { what: HEAP.into(), size, ..Kept::default() });
    let whole = |range: &(u64, u64)| space(*range, Kind::RuntimeHeap, HEAP);
    found.spaces = joined(&heap, 0).iter().map(whole).collect();
    let minor = found.version.as_deref().and_then(minor_version);
    let walked = LAYOUTS.iter().filter(|layout| minor.is_none_or(|minor| minor >= layout.since));
    let walked = walked.take(if minor.is_some() { 1 } else { LAYOUTS.len() });
    let walked = walked.copied().find_map(|layout| {
        let index = index(process, memory, layout, &heap)?;
        Some((index, Reader { memory, layout, index }.sums(&heap)?))
    });
    if let Some((index, kept)) = walked {
        found.kept.extend(kept);
        let range = (index, index + INDEX);
        found.spaces.push(space(range, Kind::RuntimeHeap, "Go: index of the heap"));
    }
    found
}

/// `go1.22.5` → 22.
fn minor_version(version: &str) -> Option<u64> {
    let digits = version.split_once("go1.")?.1;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// The writable parts of arenas, in order, none of them in two arenas.
fn mapped(process: &Process) -> Vec<(u64, u64)> {
    let may_be = |vma: &Vma| {
        let is_of_go = vma.name.is_empty() || vma.name.starts_with("[anon: Go:");
        vma.is_anonymous() && vma.is_private() && is_of_go && vma.end < 1 << 48
    };
    // What is not in use yet is reserved without access.
    let runs = process
        .vmas
        .chunk_by(|one, next| one.end == next.start && may_be(one) && may_be(next))
        .filter(|run| may_be(&run[0]));
    let is_aligned = |run: &&[Vma]| {
        let (start, end) = (run[0].start, run[run.len() - 1].end);
        start.is_multiple_of(ARENA) && end.is_multiple_of(ARENA)
    };
    let writable = runs.filter(is_aligned).flatten().filter(|vma| vma.is_writable());
    writable.flat_map(|vma| by_arena(vma.start, vma.end)).collect()
}

fn by_arena(start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
    let first = start / ARENA * ARENA;
    let starts = (first..end).step_by(ARENA as usize);
    starts.map(move |arena| (arena.max(start), (arena + ARENA).min(end)))
}

/// Looks for the index in memory that is large enough for it.
fn index(
    process: &Process,
    memory: &dyn Memory,
    layout: Layout,
    heap: &[(u64, u64)],
) -> Option<u64> {
    let &(start, end) = heap.first()?;
    let offset = slot(start);
    let is_own = |vma: &&Vma| {
        let is_nameless = vma.name.is_empty() || vma.name.starts_with("[anon: Go:");
        let is_plain = is_plain(vma) && !heap.iter().any(|range| vma.contains(range.0));
        is_plain && is_nameless && vma.size() >= INDEX && vma.rss > 0 && vma.end < 1 << 57
    };
    let may_be_arena = |word: u64| {
        word.is_multiple_of(8) && process.vmas.iter().any(|vma| is_plain(vma) && vma.contains(word))
    };
    let (mut left, mut candidates) = (MOST_PLACES, MOST_CANDIDATES);
    for vma in process.vmas.iter().filter(is_own) {
        let last = vma.end - INDEX;
        for index in places(vma, STEP, &mut left).take_while(|at| *at <= last) {
            if !memory.word(index + offset).is_some_and(|word| word != 0 && may_be_arena(word)) {
                continue;
            }
            candidates = candidates.checked_sub(1)?;
            let reader = Reader { memory, layout, index };
            let mut pages = (start..end).step_by(PAGE as usize);
            if pages.any(|page| reader.span(page).is_some_and(|span| span.start == page)) {
                return Some(index);
            }
        }
    }
    None
}

fn is_plain(vma: &Vma) -> bool {
    vma.is_anonymous() && vma.is_private() && vma.is_writable()
}

/// Where in the index an address is looked up.
fn slot(address: u64) -> u64 {
    8 * (address.wrapping_add(BASE_OFFSET) / ARENA)
}

/// Pages that are used for one thing; addresses and sizes in bytes.
struct Span {
    start: u64,
    end: u64,
    state: u64,
    objects: u64,
    object_size: u64,
}

struct Reader<'a> {
    memory: &'a dyn Memory,
    layout: Layout,
    index: u64,
}

/// Pages of one use.
#[derive(Default)]
struct Sum {
    size: u64,
    rss: u64,
    used: u64,
    /// What follows each other and was not asked about yet.
    range: (u64, u64),
}

impl Reader<'_> {
    /// The span that a page belongs to, or did.
    fn span(&self, page: u64) -> Option<Span> {
        let arena = self.memory.word(self.index.checked_add(slot(page))?)?;
        let entry = self.layout.spans + page % ARENA / PAGE * 8;
        let at = self.memory.word(arena.checked_add(entry)?)?;
        if at == 0 || !at.is_multiple_of(8) {
            return None;
        }
        let mut bytes = [0; SPAN + 8];
        self.memory.read(at, &mut bytes)?;
        let (start, pages) = (word(&bytes, 3), word(&bytes, 4));
        let end = start.checked_add(pages.checked_mul(PAGE)?)?;
        let counts = half(&bytes, self.layout.counts as usize / 4);
        let span = Span {
            start,
            end,
            state: counts >> 24,
            objects: counts & 0xffff,
            object_size: word(&bytes, self.layout.counts as usize / 8 + 1),
        };
        let is_one = start.is_multiple_of(PAGE) && (start..end).contains(&page);
        let holds = span.objects.checked_mul(span.object_size)? <= end - start;
        let is_used = matches!(span.state, IN_USE | MANUAL);
        (is_one && is_used && holds && end < 1 << 48).then_some(span)
    }

    /// What all pages of the heap are used for. `None` where too little can be seen.
    fn sums(&self, heap: &[(u64, u64)]) -> Option<Vec<Kept>> {
        let stride = heap.len().div_ceil(MOST_ARENAS).max(1);
        let mut ranges_left = MOST_RANGES;
        let [mut objects, mut stacks, mut collector, mut free] = [(); 4].map(|()| Sum::default());
        let mut visited = 0;
        for &(start, end) in heap.iter().step_by(stride) {
            visited += end - start;
            let mut page = start;
            while page < end {
                let span = self.span(page);
                let next = span.as_ref().map_or(page + PAGE, |span| span.end).min(end);
                let sum = match &span {
                    None => &mut free,
                    Some(span) if span.state == IN_USE => {
                        let bytes = u128::from(span.objects * span.object_size);
                        let whole = u128::from(span.end - span.start);
                        objects.used += (bytes * u128::from(next - page) / whole) as u64;
                        &mut objects
                    }
                    // The collector's have no size of objects.
                    Some(span) if span.object_size == 0 => &mut collector,
                    Some(_) => &mut stacks,
                };
                sum.add(self.memory, (page, next), &mut ranges_left);
                page = next;
            }
        }
        let size: u64 = heap.iter().map(|(start, end)| end - start).sum();
        let scaled = |part: u64| (u128::from(part) * u128::from(size) / u128::from(visited)) as u64;
        let estimated = if stride > 1 { " (estimated)" } else { "" };
        let used = Some(scaled(objects.used));
        let all = [
            ("Go: objects", objects, used),
            ("Go: stacks of goroutines", stacks, None),
            ("Go: memory of the collector in the heap", collector, None),
            (FREE, free, None),
        ];
        let kept = all.into_iter().map(|(what, mut sum, used)| {
            sum.ask(self.memory, &mut ranges_left);
            let rss = Some(scaled(sum.rss)).filter(|_| ranges_left > 0);
            Kept { what: format!("{what}{estimated}"), size: scaled(sum.size), used, rss }
        });
        let kept: Vec<Kept> = kept.filter(|kept| kept.size > 0).collect();
        kept.iter().any(|kept| kept.used.is_some()).then_some(kept)
    }
}

impl Sum {
    fn add(&mut self, memory: &dyn Memory, (start, end): (u64, u64), left: &mut u64) {
        self.size += end - start;
        if self.range.1 != start {
            self.ask(memory, left);
            self.range.0 = start;
        }
        self.range.1 = end;
    }

    /// How much of the last range is resident.
    fn ask(&mut self, memory: &dyn Memory, left: &mut u64) {
        let (start, end) = std::mem::take(&mut self.range);
        if start < end && *left > 0 {
            *left -= 1;
            self.rss += memory.resident(start, end).unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(minor_version("go1.26.8"), Some(26));
        assert_eq!(minor_version("devel go1.23-abcdef"), Some(23));
        assert_eq!(minor_version("go1.22"), Some(22));
        assert_eq!(minor_version("unknown"), None);
    }

    #[test]
    fn ranges_are_cut_at_arenas() {
        let mib = 1 << 20;
        let cut: Vec<_> = by_arena(96 * mib, 192 * mib).collect();
        assert_eq!(cut, [(96 * mib, 128 * mib), (128 * mib, 192 * mib)]);
        assert_eq!(by_arena(64 * mib, 68 * mib).collect::<Vec<_>>(), [(64 * mib, 68 * mib)]);
    }
}
