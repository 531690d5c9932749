// SPDX-License-Identifier: MIT
//! Names every mapping of a process: what the heaps told, where threads have their stacks, and what
//! files and permissions say. What is a guess is called one.

mod of_mallow;
mod stacks;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::heap::stats_page::Page;
use crate::heap::{Heap, spans};
use crate::memory::Memory;
use crate::page_size;
use crate::process::Process;
use crate::smaps::Vma;

/// Space without access up to this size is a guard, above it a reserve.
const GUARD_MAX: u64 = 1 << 20;
/// Python's small objects lie in pieces of this size before 3.10, and of 1 MiB since.
const PYTHON_ARENA: u64 = 256 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    GlibcHeap,
    GlibcArena,
    GlibcReserve,
    GlibcBlock,
    MallowRegion,
    MallowHuge,
    MallowMetadata,
    Allocator,
    OtherHeap,
    RuntimeHeap,
    Jit,
    Stack,
    ThreadStack,
    Program,
    Library,
    File,
    Shared,
    Anonymous,
    Reserved,
    Guard,
    Kernel,
}

impl Kind {
    pub fn title(self) -> &'static str {
        match self {
            Kind::GlibcHeap => "glibc main arena",
            Kind::GlibcArena => "glibc arenas of threads",
            Kind::GlibcReserve => "glibc arenas, reserved",
            Kind::GlibcBlock => "glibc large blocks (mmap)",
            Kind::MallowRegion => "Mallow regions",
            Kind::MallowHuge => "Mallow very large blocks",
            Kind::MallowMetadata => "Mallow metadata",
            Kind::Allocator => "allocator",
            Kind::OtherHeap => "heap beside malloc's",
            Kind::RuntimeHeap => "heap of the runtime",
            Kind::Jit => "generated code",
            Kind::Stack => "main stack",
            Kind::ThreadStack => "thread stacks",
            Kind::Program => "program file",
            Kind::Library => "libraries",
            Kind::File => "other files",
            Kind::Shared => "shared memory",
            Kind::Anonymous => "anonymous, unexplained",
            Kind::Reserved => "reserved, no access",
            Kind::Guard => "guard pages",
            Kind::Kernel => "from the kernel",
        }
    }

    /// Memory that malloc hands out.
    pub fn is_heap(self) -> bool {
        matches!(
            self,
            Kind::GlibcHeap
                | Kind::GlibcArena
                | Kind::GlibcBlock
                | Kind::MallowRegion
                | Kind::MallowHuge
                | Kind::MallowMetadata
                | Kind::Allocator
        )
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Group {
    pub kind: Option<Kind>,
    pub title: String,
    pub mappings: u64,
    pub size: u64,
    pub rss: u64,
    pub pss: u64,
    /// Resident, and in no file.
    #[serde(default)]
    pub anonymous: u64,
    pub swap: u64,
    pub huge: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub perms: String,
    pub kind: Kind,
    /// What it is, in a few words.
    pub label: String,
    pub rss: u64,
    pub pss: u64,
    #[serde(default)]
    pub anonymous: u64,
    pub swap: u64,
    pub huge: u64,
}

pub struct Context<'a> {
    pub process: &'a Process,
    pub heap: &'a Heap,
    pub allocator: &'a str,
    pub memory: Option<&'a dyn Memory>,
    pub page: Option<&'a Page>,
    /// What the runtime of a language keeps where.
    pub spaces: &'a [Space],
}

/// A range of addresses whose owner is known, whatever mappings it lies in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    pub start: u64,
    pub end: u64,
    pub kind: Kind,
    pub label: String,
}

pub fn name(context: &Context) -> Vec<Mapping> {
    let process = context.process;
    let runtime = runtime(process);
    let known = known(context);
    let mut mappings: Vec<Mapping> = Vec::new();
    for (index, whole) in process.vmas.iter().enumerate() {
        let guards = stacks::guards_in(context, whole);
        for part in parts(context, index, overlapping(&known, whole), &guards) {
            let begins = part.start == whole.start;
            let (kind, label) = begins
                .then(|| by_file(context, index))
                .flatten()
                .or_else(|| by_owner(&known, &part))
                .or_else(|| by_heap(context, &part))
                .or_else(|| stacks::by_stack(process, index, &part, &guards))
                .or_else(|| by_access(context, index))
                .unwrap_or_else(|| rest(context, &part, runtime));
            let Vma { start, end, perms, rss, pss, anonymous, swap, huge, .. } = part;
            mappings.push(Mapping {
                start,
                end,
                perms,
                kind,
                label,
                rss,
                pss,
                anonymous,
                swap,
                huge,
            });
        }
    }
    mappings
}

/// What the heap and the runtime know of addresses, in order, without overlaps. The heap is
/// believed where both know something for certain.
fn known(context: &Context) -> Vec<Space> {
    let (mut owned, near) = match context.heap {
        Heap::Mallow(heap) => {
            let spaces = of_mallow::spaces(context, heap);
            (spaces.sure, spaces.near)
        }
        heap => (of_heap(heap), Vec::new()),
    };
    owned.extend_from_slice(context.spaces);
    owned.extend(near);
    let mut known: BTreeMap<u64, Space> = BTreeMap::new();
    for space in owned {
        for (start, end) in gaps(&known, space.start, space.end) {
            known.insert(start, Space { start, end, ..space.clone() });
        }
    }
    joined(known.into_values())
}

/// Neighbours of one owner are one space.
fn joined(spaces: impl Iterator<Item = Space>) -> Vec<Space> {
    let mut joined: Vec<Space> = Vec::new();
    for space in spaces {
        match joined.last_mut() {
            Some(last)
                if (last.end, last.kind) == (space.start, space.kind)
                    && last.label == space.label =>
            {
                last.end = space.end;
            }
            _ => joined.push(space),
        }
    }
    joined
}

/// The parts of a range that nothing is known of yet.
fn gaps(known: &BTreeMap<u64, Space>, start: u64, end: u64) -> Vec<(u64, u64)> {
    let before = known.range(..start).next_back().map(|(_, space)| space);
    let others = before.into_iter().chain(known.range(start..end.max(start)).map(|(_, s)| s));
    let (mut at, mut gaps) = (start, Vec::new());
    for other in others {
        gaps.extend((at < other.start).then_some((at, other.start)));
        at = at.max(other.end);
    }
    gaps.extend((at < end).then_some((at, end)));
    gaps
}

fn of_heap(heap: &Heap) -> Vec<Space> {
    let space = |kind, label: &str, &(start, end): &(u64, u64)| {
        let label = label.to_owned();
        Space { start, end, kind, label }
    };
    match heap {
        Heap::Glibc(heaps) => {
            let mut spaces = Vec::new();
            for (index, arena) in heaps.arenas.iter().enumerate() {
                let threads = match arena.threads {
                    None => String::new(),
                    Some(1) => ", 1 thread".into(),
                    Some(several) => format!(", {several} threads"),
                };
                let (kind, label) = if arena.is_main {
                    (Kind::GlibcHeap, format!("main arena{threads}"))
                } else {
                    (Kind::GlibcArena, format!("arena {index}{threads}"))
                };
                spaces.extend(arena.ranges.iter().map(|range| space(kind, &label, range)));
            }
            let blocks = heaps.mapped.ranges.iter();
            spaces.extend(blocks.map(|range| space(Kind::GlibcBlock, "large blocks", range)));
            spaces
        }
        Heap::Spans(heap) => {
            let pages = |range| space(Kind::Allocator, "blocks and free pages", range);
            let metadata = |range| space(Kind::Allocator, "metadata", range);
            let ranges = heap.ranges.iter().map(pages);
            ranges.chain(heap.metadata_at.iter().map(metadata)).collect()
        }
        _ => Vec::new(),
    }
}

/// Where a heap is that does not serve malloc.
pub fn beside(heap: &spans::Heap) -> impl Iterator<Item = Space> {
    let (kind, label) = match heap.owner.as_str() {
        "" => (Kind::OtherHeap, format!("{}, beside malloc's heap", heap.allocator)),
        owner => (Kind::RuntimeHeap, format!("{owner}: its own {}", heap.allocator)),
    };
    let space = move |&(start, end): &(u64, u64)| {
        let label = label.clone();
        Space { start, end, kind, label }
    };
    heap.ranges.iter().chain(&heap.metadata_at).map(space)
}

/// Those that have something in common with a mapping.
fn overlapping<'a>(known: &'a [Space], vma: &Vma) -> &'a [Space] {
    let first = known.partition_point(|space| space.end <= vma.start);
    let last = known.partition_point(|space| space.start < vma.end);
    &known[first.min(last)..last]
}

fn by_owner(known: &[Space], part: &Vma) -> Option<(Kind, String)> {
    let space = overlapping(known, part).first()?;
    Some((space.kind, space.label.clone()))
}

/// Where the zeroed data of a file ends, where it is known.
fn data_end(vma: &Vma) -> Option<u64> {
    let end = vma.start + vma.zeroed_data?.min(vma.size());
    Some(end.checked_next_multiple_of(page_size()).unwrap_or(vma.end))
}

/// The kernel joins neighbours that are alike: a file's zeroed data, a region of the heap, a leaf
/// of its page map and what a runtime mapped may be one mapping, and so may be stacks of threads. Cuts
/// it where one of these is known to begin or end; what is resident in each part is counted, the other
/// figures are shared out by that.
fn parts(context: &Context, index: usize, known: &[Space], guards: &[(u64, u64)]) -> Vec<Vma> {
    let vma = &context.process.vmas[index];
    let data_end = data_end(vma);
    let ends = known.iter().flat_map(|space| [space.start, space.end]).chain(data_end);
    let ends = ends.chain(guards.iter().flat_map(|guard| [guard.0, guard.1]));
    let mut cuts: Vec<u64> = ends.filter(|&at| vma.start < at && at < vma.end).collect();
    cuts.extend([vma.start, vma.end]);
    cuts.sort_unstable();
    cuts.dedup();
    if cuts.len() == 2 || vma.rss == 0 {
        return vec![vma.clone()];
    }
    let pieces = cuts.windows(2).map(|cut| (cut[0], cut[1]));
    let resident: Option<Vec<u64>> =
        pieces.clone().map(|(start, end)| context.memory?.resident(start, end)).collect();
    let Some(resident) = resident else { return vec![vma.clone()] };
    let sum: u64 = resident.iter().sum();
    if sum == 0 {
        return vec![vma.clone()];
    }
    // By what lies before each end, so that the parts sum up to the whole.
    let mut before = 0;
    let part = |((start, end), present): ((u64, u64), u64)| {
        let upto = |bytes: u64, pages: u64| {
            (u128::from(bytes) * u128::from(pages) / u128::from(sum)) as u64
        };
        let share = |bytes: u64| upto(bytes, before + present) - upto(bytes, before);
        let (rss, pss, anonymous) = (share(vma.rss), share(vma.pss), share(vma.anonymous));
        let (swap, huge) = (share(vma.swap), share(vma.huge));
        let part = Vma { start, end, rss, pss, anonymous, swap, huge, ..vma.clone() };
        before += present;
        part
    };
    pieces.zip(resident).map(part).collect()
}

/// Sums by kind, the largest resident first.
pub fn groups(mappings: &[Mapping], allocator: &str) -> Vec<Group> {
    let mut groups: BTreeMap<Kind, Group> = BTreeMap::new();
    for mapping in mappings {
        let group = groups.entry(mapping.kind).or_default();
        group.kind = Some(mapping.kind);
        group.mappings += 1;
        group.size += mapping.end - mapping.start;
        group.rss += mapping.rss;
        group.pss += mapping.pss;
        group.anonymous += mapping.anonymous;
        group.swap += mapping.swap;
        group.huge += mapping.huge;
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    for group in &mut groups {
        group.title = match group.kind {
            Some(Kind::Allocator) if matches!(allocator, "none" | "unknown") => "heap".into(),
            Some(Kind::Allocator) => format!("{allocator} heap"),
            Some(kind) => kind.title().into(),
            None => String::new(),
        };
    }
    groups.sort_by_key(|group| std::cmp::Reverse((group.rss, group.size)));
    groups
}

fn file_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

fn is_library(name: &str) -> bool {
    let file = file_name(name);
    file.ends_with(".so") || file.contains(".so.") || file.starts_with("ld-")
}

fn by_file(context: &Context, index: usize) -> Option<(Kind, String)> {
    let process = context.process;
    let vma = &process.vmas[index];
    let name = vma.name.as_str();
    if name.starts_with("[v") {
        return Some((Kind::Kernel, name.trim_matches(['[', ']']).to_owned()));
    }
    if name == "[stack]" {
        return Some((Kind::Stack, "stack of the main thread".into()));
    }
    if vma.is_hugetlb() {
        return None;
    }
    if vma.inode != 0 || name.starts_with('/') {
        return Some(named_file(process, vma));
    }
    // Zeroed data right behind the file's own data; not the heap, which has a name.
    let (kind, label) = named_file(process, process.file_before(index)?);
    let has_some = vma.zeroed_data != Some(0);
    (has_some && matches!(kind, Kind::Program | Kind::Library)).then_some((kind, label))
}

fn named_file(process: &Process, vma: &Vma) -> (Kind, String) {
    let name = vma.name.as_str();
    let shared_names = ["/memfd:", "/dev/shm/", "/SYSV", "/dev/zero"];
    if vma.is_executable() && name.starts_with("/memfd:") {
        return (Kind::Jit, format!("generated code ({name})"));
    }
    if name.starts_with("/memfd:java_heap") {
        return (
            Kind::RuntimeHeap,
            "Java: heap of objects, which ZGC maps at up to three places".into(),
        );
    }
    if shared_names.iter().any(|start| name.starts_with(start)) {
        return (Kind::Shared, format!("shared memory ({name})"));
    }
    if name == process.exe {
        return (Kind::Program, file_name(name).to_owned());
    }
    if is_library(name) {
        return (Kind::Library, file_name(name).to_owned());
    }
    (Kind::File, name.to_owned())
}

/// The rest of what a heap of an arena of glibc reserves.
fn by_heap(context: &Context, vma: &Vma) -> Option<(Kind, String)> {
    let Heap::Glibc(heaps) = context.heap else { return None };
    let mut ranges = heaps.arenas.iter().filter(|a| !a.is_main).flat_map(|a| &a.ranges);
    let is_reserve = ranges.any(|&(start, _)| {
        vma.start > start
            && vma.end <= start.saturating_add(heaps.heap_max)
            && vma.is_without_access()
    });
    is_reserve.then(|| (Kind::GlibcReserve, "reserved for an arena".into()))
}

/// Private, writable, without a name but a stack's: what allocators map, and threads run on.
fn is_plain(vma: &Vma) -> bool {
    let is_nameless = vma.name.is_empty() || stacks::is_named(vma);
    vma.is_anonymous() && vma.is_private() && vma.is_writable() && is_nameless
}

fn by_access(context: &Context, index: usize) -> Option<(Kind, String)> {
    let vma = &context.process.vmas[index];
    if vma.is_without_access() {
        return Some(if vma.size() <= GUARD_MAX {
            (Kind::Guard, "guard".into())
        } else {
            (Kind::Reserved, "address space only".into())
        });
    }
    if vma.is_anonymous() && vma.is_executable() {
        return Some((Kind::Jit, "generated code".into()));
    }
    if vma.is_anonymous() && !vma.is_private() {
        return Some((Kind::Shared, "shared memory without a file".into()));
    }
    None
}

/// The language runtime of a process, which has memory of its own beside malloc's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    Java,
    Node,
    Python,
    Ruby,
    Go,
    Erlang,
    /// The collector of Boehm, Demers and Weiser, which Guile and others have as a library.
    Libgc,
    #[default]
    None,
}

/// By the program's name, its libraries and the names of its mappings.
pub fn runtime(process: &Process) -> Runtime {
    let program = file_name(&process.exe).to_owned();
    if process.has_library("libjvm.so") {
        Runtime::Java
    } else if process.is_go || process.vmas.iter().any(|vma| vma.name.starts_with("[anon: Go:")) {
        Runtime::Go // also node_exporter
    } else if program.starts_with("node") || process.has_library("libnode.so") {
        Runtime::Node
    } else if program.starts_with("python") || process.has_library("libpython") {
        Runtime::Python
    } else if program.starts_with("ruby") || process.has_library("libruby") {
        Runtime::Ruby
    } else if program == "beam" || program.starts_with("beam.") {
        Runtime::Erlang // beam.smp, also where Elixir started it
    } else if process.has_library("libgc.so") {
        Runtime::Libgc
    } else {
        Runtime::None
    }
}

/// Anonymous memory that neither heap nor stack explains.
fn rest(context: &Context, vma: &Vma, runtime: Runtime) -> (Kind, String) {
    if vma.name == "[heap]" {
        return (Kind::Allocator, "heap by brk".into());
    }
    if vma.is_hugetlb() {
        return (Kind::Anonymous, "huge pages of hugetlbfs, in no RSS".into());
    }
    if let Some(name) = vma.name.strip_prefix("[anon:") {
        let name = name.trim_end_matches(']').trim();
        let kind = if name.starts_with("Go:") { Kind::RuntimeHeap } else { Kind::Anonymous };
        return (kind, name.to_owned());
    }
    // What lies in arenas was found by their pools, if the memory could be read.
    let python = vma.size() >= PYTHON_ARENA && context.memory.is_none();
    match runtime {
        Runtime::Java if context.memory.is_some() => {
            (Kind::RuntimeHeap, "Java: classes, the collector's or the VM's own".into())
        }
        Runtime::Java => (Kind::RuntimeHeap, "Java: objects, classes or the VM's own".into()),
        Runtime::Node => (Kind::RuntimeHeap, "V8: heap pages or the VM's own".into()),
        Runtime::Go => (Kind::RuntimeHeap, "Go: the runtime's own".into()),
        Runtime::Ruby => (Kind::RuntimeHeap, "Ruby: transient heap or the VM's own".into()),
        Runtime::Erlang => (Kind::RuntimeHeap, "Erlang: carriers or the VM's own".into()),
        Runtime::Libgc => {
            (Kind::RuntimeHeap, "libgc: collected objects or its own, by elimination".into())
        }
        Runtime::Python if python => {
            (Kind::RuntimeHeap, "Python: objects up to 512 bytes, by elimination".into())
        }
        _ if matches!(context.heap, Heap::Other(_)) => {
            (Kind::Allocator, format!("{}, by elimination", context.allocator))
        }
        _ => (Kind::Anonymous, "no name and no owner that could be told".into()),
    }
}

#[cfg(test)]
mod tests;
