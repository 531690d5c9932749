// SPDX-License-Identifier: MIT
//! A living process at one moment: its mappings, each with a name, and its heap.

use crate::binding::{Failure, Inspector};
use crate::heap::glibc::Heaps;
use crate::heap::{self, Heap, spans};
use crate::mappings::{self, Context, Kind, Mapping, Space};
use crate::memory::Memory;
use crate::process::{Keep, Process};
use crate::runtimes::{self, Kept};
use crate::sparse::{self, Sparse};
use crate::stat::Stat;

/// Reads the heap again if the process changed so much meanwhile that heap and mappings do not fit
/// together.
const TRIES: u32 = 3;
const LARGEST_CHANGE: f64 = 0.02;
/// The same if it started another program meanwhile.
const PROGRAMS: u32 = 10;

#[derive(Debug)]
pub struct Picture {
    pub process: Process,
    /// Who serves malloc in the main program.
    pub allocator: String,
    pub heap: Heap,
    /// Of other allocators, beside malloc's.
    pub others: Vec<spans::Heap>,
    pub mappings: Vec<Mapping>,
    /// What the language's runtime keeps beside the heap.
    pub kept: Vec<Kept>,
    /// Of that runtime, where it is known.
    pub runtime_version: Option<String>,
    pub sparse: Option<Sparse>,
    pub gaps: Vec<Gap>,
}

/// What the picture does not show, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gap {
    /// The memory of the process may not be read.
    NoMemory,
    /// Parts of the heap are swapped out.
    Swapped,
    /// RSS in bytes, before and after the heap was read.
    Moved { before: f64, after: f64 },
    /// The mappings changed all the time while they were read.
    Torn,
    /// Bytes of the heap that were visited, and of how many: the figures of its blocks are
    /// estimates.
    Sampled { part: u64, whole: u64 },
    /// What is resident was estimated in places.
    Estimated,
    /// So many copies of the C library have heaps of their own.
    Copies(u32),
    /// Bytes between glibc's pieces that others took from the break.
    Foreign(u64),
    /// Bytes that glibc counts as its own and that were not found.
    Unaccounted(u64),
    /// Nothing was allocated by malloc yet.
    Unused,
    /// The C library's heap is none of those that are known, or changes too quickly.
    UnknownHeap,
    /// The process started another program each time while it was looked at.
    Replaced,
}

impl Picture {
    /// What is resident of all that malloc serves from.
    pub fn heap_rss(&self) -> u64 {
        let heaps = self.mappings.iter().filter(|mapping| Kind::is_heap(mapping.kind));
        heaps.map(|mapping| mapping.rss).sum()
    }

    /// What of that is in huge pages.
    pub fn heap_huge(&self) -> u64 {
        let heaps = self.mappings.iter().filter(|mapping| Kind::is_heap(mapping.kind));
        heaps.map(|mapping| mapping.huge).sum()
    }
}

pub fn take(pid: u32, keep: Keep) -> Result<Picture, Failure> {
    let mut inspector = Inspector::default();
    let mut gaps = Vec::new();
    let (process, mut found) = of_one_program(pid, keep, &mut inspector, &mut gaps)?;
    let memory = found.memory.as_ref();
    match memory {
        None if gaps.contains(&Gap::Replaced) => {}
        None => gaps.push(Gap::NoMemory),
        Some(memory) if memory.met_swap() => gaps.push(Gap::Swapped),
        Some(_) => {}
    }
    if process.is_torn {
        gaps.push(Gap::Torn);
    }
    if let Some((part, whole)) = found.heap.looked_at() {
        gaps.push(Gap::Sampled { part, whole });
    }
    match &found.heap {
        Heap::Glibc(heaps) => gaps.extend(of_glibc(heaps)),
        Heap::Unknown if found.allocator == "glibc" && memory.is_some() => {
            gaps.push(Gap::UnknownHeap);
        }
        _ => {}
    }
    let runtime = memory.map(|memory| runtimes::find(&process, memory, &mut inspector));
    let runtimes::Found { spaces, kept, version: runtime_version } = runtime.unwrap_or_default();
    let beside = found.others.iter().flat_map(mappings::beside);
    let spaces: Vec<Space> = beside.chain(spaces).collect();
    let mappings = mappings::name(&Context {
        process: &process,
        heap: &found.heap,
        allocator: &found.allocator,
        memory: memory.map(|memory| memory as &dyn Memory),
        page: found.page.as_ref(),
        spaces: &spaces,
    });
    let sparse = memory.and_then(|memory| sparse::look(&mappings, memory));
    if memory.is_some_and(|memory| memory.has_sampled()) {
        gaps.push(Gap::Estimated);
    }
    if let Heap::Other(other) = &mut found.heap {
        let served = mappings.iter().filter(|mapping| mapping.kind == Kind::Allocator);
        let sizes = served.map(|mapping| (mapping.end - mapping.start, mapping.rss));
        (other.size, other.rss) = sizes.fold((0, 0), |(a, b), (size, rss)| (a + size, b + rss));
    }
    let heap::Found { allocator, heap, others, .. } = found;
    Ok(Picture { process, allocator, heap, others, mappings, kept, runtime_version, sparse, gaps })
}

/// Mappings and heap of the program that the process runs, which may start another one meanwhile
/// (exec): then what was read is of neither.
fn of_one_program(
    pid: u32,
    keep: Keep,
    inspector: &mut Inspector,
    gaps: &mut Vec<Gap>,
) -> Result<(Process, heap::Found), Failure> {
    for attempt in 1.. {
        let before = Stat::read(pid)?;
        let taken = of_one_moment(pid, keep, inspector, gaps);
        let is_last = attempt == PROGRAMS;
        let Ok(now) = Stat::read(pid) else { return taken };
        let is_same = now.start == before.start;
        match taken {
            // While an exec goes on, a process has no mappings.
            Err(_) if !is_last && !is_same => {}
            Ok(_) if !is_last && !is_same => gaps.clear(),
            taken => {
                gaps.extend((!is_same).then_some(Gap::Replaced));
                return taken;
            }
        }
    }
    Err(Failure::Vanished)
}

fn of_one_moment(
    pid: u32,
    keep: Keep,
    inspector: &mut Inspector,
    gaps: &mut Vec<Gap>,
) -> Result<(Process, heap::Found), Failure> {
    let mut process = Process::live(pid, Keep::Figures)?;
    for attempt in 1.. {
        let mut found = heap::find(&process, inspector);
        let before = process.rss() as f64;
        // What was kept of another moment is not needed any more, and large.
        process.files.clear();
        process = Process::live(pid, keep)?;
        let after = process.rss() as f64;
        if let Some(memory) = &mut found.memory {
            memory.remap(&process.vmas);
        }
        let change = before.max(after) - before.min(after);
        if change <= LARGEST_CHANGE * before.max(after) {
            return Ok((process, found));
        }
        if attempt == TRIES {
            gaps.push(Gap::Moved { before, after });
            return Ok((process, found));
        }
    }
    Err(Failure::Vanished)
}

/// What is to be known of glibc's heaps beside their figures.
fn of_glibc(heaps: &Heaps) -> impl Iterator<Item = Gap> {
    let copies = (heaps.copies > 1).then_some(Gap::Copies(heaps.copies));
    let foreign = Some(heaps.foreign()).filter(|&bytes| bytes > 0).map(Gap::Foreign);
    let unaccounted = Some(heaps.unaccounted()).filter(|&bytes| bytes > 0).map(Gap::Unaccounted);
    let unused = heaps.is_unused.then_some(Gap::Unused);
    [copies, foreign, unaccounted, unused].into_iter().flatten()
}

/// The allocator's name and its heap alone.
pub fn heap_of(pid: u32, inspector: &mut Inspector) -> Option<(String, Heap)> {
    let found = heap::find(&Process::live(pid, Keep::Figures).ok()?, inspector);
    Some((found.allocator, found.heap))
}
