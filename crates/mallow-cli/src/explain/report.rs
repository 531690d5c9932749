//! What `explain` found out, as data: the source of the text, the page, the JSON, and of what is
//! saved and read back.

use serde::{Deserialize, Serialize};

use super::glibc::Heaps;
use super::mallow;

pub const SCHEMA: &str = "mallow.explain/1";

/// Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    pub schema: String,
    pub version: String,
    /// Seconds since 1970.
    pub taken_at: u64,
    pub pid: u32,
    pub command: String,
    pub program: String,
    /// Who serves malloc in the main program.
    pub allocator: String,
    pub totals: Totals,
    /// The sentence that answers "why so much".
    pub answer: String,
    pub findings: Vec<Finding>,
    pub groups: Vec<Group>,
    pub heap: Heap,
    pub threads: Vec<Thread>,
    pub system: System,
    /// What could not be read, and why.
    pub notes: Vec<String>,
    pub mappings: Vec<Mapping>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    pub virt: u64,
    pub rss: u64,
    pub pss: u64,
    pub swap: u64,
    pub private_dirty: u64,
    pub huge: u64,
    pub lazy_free: u64,
    pub locked: u64,
    pub page_tables: u64,
    pub peak_rss: u64,
    pub threads: u64,
    pub mappings: u64,
}

/// What a program's limits and the machine have to say.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct System {
    pub cpus: u64,
    pub cpu_quota: Option<f64>,
    pub stack_limit: Option<u64>,
    pub max_mappings: Option<u64>,
    pub huge_pages: String,
}

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
            Kind::GlibcHeap => "glibc heap (brk)",
            Kind::GlibcArena => "glibc arenas of threads",
            Kind::GlibcReserve => "glibc arenas, reserved",
            Kind::GlibcBlock => "glibc large blocks (mmap)",
            Kind::MallowRegion => "Mallow regions",
            Kind::MallowHuge => "Mallow very large blocks",
            Kind::MallowMetadata => "Mallow metadata",
            Kind::Allocator => "allocator",
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
    pub swap: u64,
    pub huge: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Thread {
    pub id: u32,
    pub name: String,
    pub stack_size: Option<u64>,
    pub stack_rss: Option<u64>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Heap {
    Glibc(Heaps),
    Mallow(mallow::Heap),
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
            _ => 0,
        }
    }

    /// Bytes with the program, and free ones that the allocator keeps resident.
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
            _ => None,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// `mallow help ID` explains it.
    pub id: String,
    pub title: String,
    /// What was seen, with figures.
    pub evidence: String,
    pub remedy: String,
    /// What the remedy is expected to change.
    pub effect: String,
}

impl Report {
    pub fn group(&self, kind: Kind) -> Group {
        let found = self.groups.iter().find(|group| group.kind == Some(kind));
        found.cloned().unwrap_or_default()
    }

    /// Sums over the groups that malloc serves from.
    pub fn heap_sums(&self) -> (u64, u64) {
        let heaps = self.groups.iter().filter(|group| group.kind.is_some_and(Kind::is_heap));
        heaps.fold((0, 0), |(size, rss), group| (size + group.size, rss + group.rss))
    }
}
