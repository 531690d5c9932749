// SPDX-License-Identifier: MIT
//! What a trace says.

use serde::{Deserialize, Serialize};

/// The version of the format that this crate writes. It reads all before, too.
pub const VERSION: u16 = 2;

/// The lane of what the collector itself notes: processes, modules, stacks, memory samples.
pub const COLLECTOR: u32 = 0;

/// How the recording was made, and on what machine. New fields get a default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Set by the writer.
    pub version: u16,
    /// The version of the command that recorded.
    pub mallow: String,
    /// Such as `x86_64`.
    pub architecture: String,
    pub cpu: String,
    pub cpu_count: u32,
    pub page_size: u32,
    pub kernel: String,
    /// Of the recorded command: `glibc` or `musl`, with its version where known.
    pub libc: String,
    /// The allocator's name, as `mallow list` prints it, and its file; none for libc's own.
    pub allocator: String,
    pub allocator_path: Option<String>,
    pub command: Vec<String>,
    /// The time 0 of the trace, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// Where times come from: `tsc` or `monotonic`.
    pub clock: String,
    pub source: Source,
    pub stacks: Stacks,
    /// With stacks: 0 if every allocation has one, else the mean distance in bytes between
    /// allocations that have one (Poisson sampling). An allocation of n bytes then has a stack with
    /// probability p = 1 - exp(-n / distance), and stands for 1 / p of its kind.
    pub stack_distance: u64,
}

/// How calls were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The preloaded recorder: every call from the start on.
    #[default]
    Preload,
    /// Probes of the kernel, from some moment on: frees of blocks that nobody saw allocated occur.
    Uprobes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stacks {
    #[default]
    None,
    /// By frame pointers, in the recorded program.
    Fp,
    /// By unwind tables, in the collector.
    Full,
}

/// One record of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Nanoseconds since the start of the recording. Allocations are stamped after the real call,
    /// frees before it, so that time order is right for each address across threads.
    pub time: u64,
    /// The thread, as numbered by the trace: from 1, never used twice; [`COLLECTOR`] for none.
    pub thread: u32,
    pub event: Event,
}

/// What is rare and larger than a call is in a box, so that a record takes one cache line.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Call(Call),

    // Definitions. They come before the first record that refers to them, both in the file and in
    // merged order, whatever their time.
    Process(Box<Process>),
    /// The record's `thread` is the number of the thread that is defined.
    Thread(Thread),
    Module(Box<Module>),
    Mapping(Mapping),
    Stack(Stack),
    /// The exception: it may come after the stacks that need it.
    Symbol(Box<Symbol>),

    // What happens, in time order.
    ThreadName(String),
    /// No more records of this thread follow.
    ThreadEnd,
    ProcessEnd(ProcessEnd),
    /// The program called `mw_trace_marker`.
    Marker(String),
    Memory(Box<Memory>),
    /// Where the anonymous resident memory lay at the time of the `Memory` record before it.
    Regions(Regions),
    /// So many calls of this thread are missing here, because the collector could not keep up.
    Dropped(u64),
}

impl Event {
    /// Says what later records refer to, instead of what happened.
    pub fn is_definition(&self) -> bool {
        matches!(
            self,
            Event::Process(_)
                | Event::Thread(_)
                | Event::Module(_)
                | Event::Mapping(_)
                | Event::Stack(_)
                | Event::Symbol(_)
        )
    }
}

const _: () = assert!(size_of::<Record>() <= 64);

/// A call of an allocation function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    pub op: Op,
    /// The allocator returned no memory, although asked for some.
    pub failed: bool,
    /// Bytes asked for (count times size; saturated on overflow); for sized frees, what the caller
    /// said; else 0.
    pub size: u64,
    /// Asked for, where the function takes one, else 0.
    pub alignment: u64,
    /// The block returned; for frees, the block freed. May be 0.
    pub address: u64,
    /// The block given to a realloc, else 0. It is freed unless the call failed; where it equals
    /// `address` the block stayed in place.
    pub old: u64,
    /// Nanoseconds between the begin of a realloc and its stamp, else 0: another thread may be
    /// given `old` in this time.
    pub took: u64,
    /// The number of the [`Stack`], 0 for none.
    pub stack: u32,
}

/// The entry point that a program called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    #[default]
    Malloc = 0,
    Calloc,
    Realloc,
    Reallocarray,
    PosixMemalign,
    AlignedAlloc,
    Memalign,
    Valloc,
    Pvalloc,
    New,
    NewArray,
    NewNothrow,
    NewArrayNothrow,
    NewAligned,
    NewArrayAligned,
    NewAlignedNothrow,
    NewArrayAlignedNothrow,
    Free,
    Cfree,
    FreeSized,
    FreeAlignedSized,
    Delete,
    DeleteArray,
    DeleteSized,
    DeleteArraySized,
    DeleteNothrow,
    DeleteArrayNothrow,
    DeleteAligned,
    DeleteArrayAligned,
    DeleteSizedAligned,
    DeleteArraySizedAligned,
    DeleteAlignedNothrow,
    DeleteArrayAlignedNothrow,
}

impl Op {
    pub const ALL: [Op; 33] = [
        Op::Malloc,
        Op::Calloc,
        Op::Realloc,
        Op::Reallocarray,
        Op::PosixMemalign,
        Op::AlignedAlloc,
        Op::Memalign,
        Op::Valloc,
        Op::Pvalloc,
        Op::New,
        Op::NewArray,
        Op::NewNothrow,
        Op::NewArrayNothrow,
        Op::NewAligned,
        Op::NewArrayAligned,
        Op::NewAlignedNothrow,
        Op::NewArrayAlignedNothrow,
        Op::Free,
        Op::Cfree,
        Op::FreeSized,
        Op::FreeAlignedSized,
        Op::Delete,
        Op::DeleteArray,
        Op::DeleteSized,
        Op::DeleteArraySized,
        Op::DeleteNothrow,
        Op::DeleteArrayNothrow,
        Op::DeleteAligned,
        Op::DeleteArrayAligned,
        Op::DeleteSizedAligned,
        Op::DeleteArraySizedAligned,
        Op::DeleteAlignedNothrow,
        Op::DeleteArrayAlignedNothrow,
    ];

    #[inline]
    pub fn from_number(number: u8) -> Option<Op> {
        Op::ALL.get(usize::from(number)).copied()
    }

    /// Frees a block and returns none. A realloc is no free.
    #[inline]
    pub fn is_free(self) -> bool {
        self >= Op::Free
    }

    #[inline]
    pub fn is_realloc(self) -> bool {
        matches!(self, Op::Realloc | Op::Reallocarray)
    }

    /// As a programmer writes it.
    pub fn name(self) -> &'static str {
        match self {
            Op::Malloc => "malloc",
            Op::Calloc => "calloc",
            Op::Realloc => "realloc",
            Op::Reallocarray => "reallocarray",
            Op::PosixMemalign => "posix_memalign",
            Op::AlignedAlloc => "aligned_alloc",
            Op::Memalign => "memalign",
            Op::Valloc => "valloc",
            Op::Pvalloc => "pvalloc",
            Op::New => "operator new",
            Op::NewArray => "operator new[]",
            Op::NewNothrow => "operator new (nothrow)",
            Op::NewArrayNothrow => "operator new[] (nothrow)",
            Op::NewAligned => "operator new (aligned)",
            Op::NewArrayAligned => "operator new[] (aligned)",
            Op::NewAlignedNothrow => "operator new (aligned, nothrow)",
            Op::NewArrayAlignedNothrow => "operator new[] (aligned, nothrow)",
            Op::Free => "free",
            Op::Cfree => "cfree",
            Op::FreeSized => "free_sized",
            Op::FreeAlignedSized => "free_aligned_sized",
            Op::Delete => "operator delete",
            Op::DeleteArray => "operator delete[]",
            Op::DeleteSized => "operator delete (sized)",
            Op::DeleteArraySized => "operator delete[] (sized)",
            Op::DeleteNothrow => "operator delete (nothrow)",
            Op::DeleteArrayNothrow => "operator delete[] (nothrow)",
            Op::DeleteAligned => "operator delete (aligned)",
            Op::DeleteArrayAligned => "operator delete[] (aligned)",
            Op::DeleteSizedAligned => "operator delete (sized, aligned)",
            Op::DeleteArraySizedAligned => "operator delete[] (sized, aligned)",
            Op::DeleteAlignedNothrow => "operator delete (aligned, nothrow)",
            Op::DeleteArrayAlignedNothrow => "operator delete[] (aligned, nothrow)",
        }
    }
}

/// A program image: a process from its start or its exec on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// As numbered by the trace: from 1, never used twice. An exec gives a new number.
    pub id: u32,
    /// What the kernel called it.
    pub pid: u32,
    /// The image that forked it, or that it was before an exec; 0 for none that was recorded.
    pub parent: u32,
    pub start: Start,
    pub executable: String,
    pub command: Vec<String>,
    /// Who serves its malloc, behind the recorder: the library's path.
    pub allocator: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Start {
    /// The recorded command itself, or one that was running when the recording began.
    #[default]
    First = 0,
    /// A copy of its parent: blocks of the parent may be freed here too.
    Fork,
    /// A new program, with an empty heap.
    Exec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessEnd {
    pub process: u32,
    pub ending: Ending,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    #[default]
    Unknown,
    Code(i32),
    Signal(i32),
    /// It became another program.
    Exec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    pub process: u32,
    /// What the kernel called it; the first thread's equals the process's pid.
    pub tid: u32,
    pub name: String,
}

/// A file that code comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    pub id: u32,
    pub kind: ModuleKind,
    pub path: String,
    pub build_id: Vec<u8>,
    /// For `Jit`: the process whose memory it is; else 0.
    pub process: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ModuleKind {
    /// An ELF file; addresses of frames are those of its own symbol table.
    #[default]
    File = 0,
    /// Memory without a file, and what no module is known of; addresses are those of the process.
    Jit,
    /// The kernel's shared object.
    Vdso,
}

/// Where a module lay in a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    pub process: u32,
    pub module: u32,
    pub start: u64,
    pub end: u64,
    /// Address in the process minus this (wrapping) is the address in the module's symbol table.
    pub bias: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// From 1.
    pub id: u32,
    /// Mean number of bytes between allocations with such a stack; 0: as the header says.
    pub distance: u64,
    /// The caller of the allocation function first. All are return addresses: look up one less.
    pub frames: Vec<Frame>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    pub module: u32,
    pub address: u64,
}

/// A name from the perf map file of a process (`/tmp/perf-PID.map`), of those that stacks hit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbol {
    /// A `Jit` module.
    pub module: u32,
    pub start: u64,
    pub size: u64,
    pub name: String,
}

/// Memory of a process, in bytes; 0 where not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub process: u32,
    pub rss: u64,
    /// Anonymous resident memory: heaps and stacks.
    pub anonymous: u64,
    pub peak_rss: u64,
    pub pss: u64,
    pub swap: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
}

/// The anonymous mappings of a process that have resident memory, by address. Those that hold live
/// blocks are its heap, whichever allocator serves it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regions {
    pub process: u32,
    /// The process has switched transparent huge pages off for itself, as Ruby does.
    pub no_huge_pages: bool,
    pub regions: Vec<Region>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    pub start: u64,
    pub length: u64,
    /// Bytes that are resident and anonymous.
    pub resident: u64,
}
