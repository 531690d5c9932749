// SPDX-License-Identifier: MIT
//! Heaps, read from outside: `glibc` (with `chunks`, `caches`, `large` and `pieces`), `mallow` (with `stats_page`),
//! and what gives `spans`: `jemalloc`, `mimalloc` and `mallocng`, which is musl's. What others hold is
//! known by their mappings alone.

pub mod bounded;
mod caches;
mod chunks;
pub mod core_file;
#[cfg(test)]
mod generations;
pub mod glibc;
#[cfg(test)]
mod hostile;
pub mod jemalloc;
pub mod large;
#[cfg(test)]
pub(crate) mod made_up;
pub mod mallocng;
pub mod mallow;
pub mod mimalloc;
mod pieces;
pub mod spans;
pub mod stats_page;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::binding::{Failure, Inspector, Report as Served};
use crate::memory::{Memory, ProcessMemory};
use crate::page_size;
use crate::process::Process;
use crate::smaps::Vma;
use crate::vitals;
use bounded::Bounded;
use glibc::Heaps;
use stats_page::Page;

/// Of a program of Go without C, which has no malloc: its runtime's heap is told as such.
const GO: &str = "Go's own";
/// Of a static program in which no symbol tells whose malloc it has.
const UNTOLD: &str = "its own (static)";

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Heap {
    Glibc(Heaps),
    Mallow(mallow::Heap),
    /// Of another allocator, by its own structures.
    Spans(spans::Heap),
    /// Known by its mappings alone.
    Other(Other),
    /// Nothing could be read of it.
    #[default]
    Unknown,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Other {
    pub name: String,
    pub size: u64,
    pub rss: u64,
    /// What it counts itself as taken from the system, where a counter can be read.
    pub taken: Option<u64>,
}

impl Heap {
    /// Arenas of which not everything could be read.
    pub fn incomplete(&self) -> u32 {
        match self {
            Heap::Glibc(heaps) => heaps.incomplete,
            Heap::Mallow(heap) => heap.incomplete,
            Heap::Spans(heap) => u32::from(heap.is_incomplete()),
            _ => 0,
        }
    }

    /// In a large heap: how much of it was visited, and of how much.
    pub fn looked_at(&self) -> Option<(u64, u64)> {
        match self {
            Heap::Glibc(heaps) => heaps.looked_at(),
            _ => None,
        }
    }

    /// Bytes with the program, and free ones, of which glibc may have given back a part.
    pub fn used_and_free(&self) -> Option<(u64, u64)> {
        match self {
            Heap::Glibc(heaps) => {
                let top = heaps.sum(|arena| arena.chunks.top_resident);
                Some((heaps.used(), heaps.free() + top))
            }
            Heap::Mallow(heap) => {
                let kept = heap.sum(|arena| arena.dirty + arena.cached);
                Some((heap.allocated(), heap.free_slots() + kept))
            }
            Heap::Spans(heap) => Some((heap.used(), heap.free_blocks() + heap.free_resident())),
            _ => None,
        }
    }

    /// Free bytes that are resident; of glibc's heaps those in whole pages alone.
    pub fn free_resident(&self) -> Option<u64> {
        match self {
            Heap::Glibc(heaps) => {
                Some(heaps.sum(|arena| {
                    arena.chunks.free_resident.saturating_add(arena.chunks.top_resident)
                }))
            }
            _ => self.used_and_free().map(|(_, free)| free),
        }
    }
}

/// What could be found of the heap of a process.
pub struct Found {
    /// Who serves malloc in the main program.
    pub allocator: String,
    pub heap: Heap,
    /// Of allocators that the program or a library brings along under other names.
    pub others: Vec<spans::Heap>,
    pub page: Option<Page>,
    /// `None` where it may not be read.
    pub memory: Option<ProcessMemory>,
}

pub fn find(process: &Process, inspector: &mut Inspector) -> Found {
    let pid = process.pid;
    let served = inspector.inspect(pid);
    let allocator = served.as_ref().map_or_else(|_| String::new(), Served::summary);
    let is_static = matches!(served, Ok(Served::Static { .. }));
    let memory = ProcessMemory::open(pid, &process.vmas).ok();
    let memory = memory.filter(|memory| can_read(memory, process));
    let (mut heap, mut page, mut counter) = (Heap::Unknown, None, None);
    let mut others = Vec::new();
    if let Some(memory) = &memory {
        let symbol = inspector.symbol(pid, "mw_stats_page");
        page = symbol.and_then(|address| Page::read(memory, address));
        if page.is_none() && is_static {
            page = stats_page::search(memory, &read_only_data(process));
        }
        heap = read_heap(memory, process, &allocator, is_static, page.as_ref());
        counter = taken(memory, inspector, pid);
        others = beside(memory, &process.vmas, &heap);
    }
    let mut allocator = name_of(&heap, allocator);
    if matches!(heap, Heap::Unknown) && !matches!(allocator.as_str(), "" | "none" | "glibc" | GO) {
        let name = allocator.clone();
        heap = Heap::Other(Other { name, taken: counter, ..Other::default() });
    }
    if allocator.is_empty() {
        allocator = "unknown".into();
    }
    Found { allocator, heap, others, page, memory }
}

/// Who serves malloc in a process, and where its statistics page is. Both stay as they are until the
/// process ends, or starts another program.
pub struct Place {
    pub allocator: String,
    pub page: Option<Page>,
}

impl Place {
    pub fn find(pid: u32, inspector: &mut Inspector) -> Result<Place, Failure> {
        let allocator = inspector.inspect(pid)?.summary();
        let mut page = || {
            let address = inspector.symbol(pid, "mw_stats_page")?;
            let memory = ProcessMemory::open(pid, &vitals::mappings(pid).ok()?).ok()?;
            Page::read(&memory, address)
        };
        let page = page();
        // A program that Mallow was linked into serves itself.
        let is_named = page.is_none() || allocator.starts_with("mallow");
        let allocator = if is_named { allocator } else { "mallow".into() };
        Ok(Place { allocator, page })
    }

    /// What Mallow counts now; `None` where it cannot be read in this time, or there is no page.
    pub fn read(&self, memory: &ProcessMemory, time: Duration) -> Option<mallow::Heap> {
        mallow::read(&Bounded::new(memory, time), self.page.as_ref()?)
    }
}

/// Opening succeeds where reading does not.
fn can_read(memory: &ProcessMemory, process: &Process) -> bool {
    let plain = process.vmas.iter().find(|vma| vma.is_writable() && vma.rss > 0);
    plain.is_none_or(|vma| {
        (vma.start..vma.end)
            .step_by(page_size() as usize)
            .take(4096)
            .any(|at| memory.word(at).is_some())
    })
}

/// How often a heap that must be there is looked for again.
const TRIES: u32 = 3;

fn read_heap(
    memory: &dyn Memory,
    process: &Process,
    allocator: &str,
    is_static: bool,
    page: Option<&Page>,
) -> Heap {
    if let Some(page) = page {
        return mallow::read(memory, page).map_or(Heap::Unknown, Heap::Mallow);
    }
    let is_glibc = |name: &str| {
        let file = name.rsplit('/').next().unwrap_or(name);
        file.starts_with("libc.so.6") || file.starts_with("libc-2.")
    };
    if allocator == "glibc" || is_static {
        let is_libc = |name: &str| if is_static { name == process.exe } else { is_glibc(name) };
        let data = glibc::data_ranges(&process.vmas, is_libc);
        let read = || glibc::read(memory, &data, &process.vmas);
        // A thread may just have begun an arena, or the kernel be moving the page that it is in.
        let again = || {
            memory.refresh();
            std::thread::sleep(glibc::PAUSE);
            read()
        };
        let tries = if is_static { 0 } else { TRIES };
        if let Some(heaps) = read().or_else(|| (0..tries).find_map(|_| again())) {
            return Heap::Glibc(heaps);
        }
    }
    let is_served = |name: &str| allocator.starts_with(name) || allocator == UNTOLD;
    let vmas = &process.vmas;
    let is_musl = |name: &str| {
        let file = name.rsplit('/').next().unwrap_or(name);
        (is_static && name == process.exe)
            || file == "libc.so"
            || file.starts_with("ld-musl")
            || file.starts_with("libc.musl")
    };
    let jemalloc = || is_served("jemalloc").then(|| jemalloc::read(memory, vmas)).flatten();
    let mimalloc = || is_served("mimalloc").then(|| mimalloc::read(memory, vmas)).flatten();
    let musl = || is_served("musl").then(|| mallocng::read(memory, vmas, is_musl)).flatten();
    let found = jemalloc().or_else(mimalloc).or_else(musl);
    found.map_or(Heap::Unknown, Heap::Spans)
}

/// Heaps beside malloc's: Rust's and other programs link allocators with prefixed names.
fn beside(memory: &dyn Memory, vmas: &[Vma], main: &Heap) -> Vec<spans::Heap> {
    /// What is less may be an accident.
    const SMALLEST: u64 = 64 << 10;
    type Read = fn(&dyn Memory, &[Vma]) -> Option<spans::Heap>;
    let known: [(&str, Read); 2] = [("jemalloc", jemalloc::read), ("mimalloc", mimalloc::read)];
    let is_main = |name: &str| matches!(main, Heap::Spans(heap) if heap.allocator == name);
    let others = known.into_iter().filter(|(name, _)| !is_main(name));
    let found = others.filter_map(|(_, read)| read(memory, vmas));
    found.filter(|heap| heap.used() >= SMALLEST).collect()
}

fn name_of(heap: &Heap, served: String) -> String {
    match heap {
        Heap::Glibc(_) => "glibc".into(),
        Heap::Mallow(_) if !served.starts_with("mallow") => "mallow".into(),
        Heap::Spans(heap) if served == UNTOLD => heap.allocator.clone(),
        _ => served,
    }
}

fn read_only_data(process: &Process) -> Vec<(u64, u64)> {
    let of_program = process.vmas.iter().filter(|vma| vma.name == process.exe);
    let data = of_program.filter(|vma| vma.perms.starts_with('r') && !vma.is_executable());
    data.map(|vma| (vma.start, vma.end)).collect()
}

/// gperftools counts what it took from the system in an exported variable.
fn taken(memory: &dyn Memory, inspector: &mut Inspector, pid: u32) -> Option<u64> {
    memory.word(inspector.symbol(pid, "TCMalloc_SystemTaken")?)
}
