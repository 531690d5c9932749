//! Takes the picture of a living process.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::binding::{Failure, Inspector, Report as Served};
use crate::output;

use super::classify::{self, Context};
use super::glibc;
use super::mallow;
use super::memory::{Memory, ProcessMemory};
use super::page::{self, Page};
use super::process::Process;
use super::report::{Heap, Kind, Other, Report, SCHEMA, System, Thread, Totals};
use super::rules;
use super::smaps::Vma;

pub const NO_MEMORY: &str = "The memory of the process may not be read, so its heap is known by \
its mappings alone. Run mallow as root, or allow ptrace (in a container: --cap-add SYS_PTRACE).";
const SWAPPED: &str = "Parts of the heap are swapped out and were left there; what they hold is \
not counted.";

/// Reads the heap again if the process changed so much meanwhile that heap and mappings do not fit
/// together.
const TRIES: u32 = 3;
const LARGEST_CHANGE: f64 = 0.02;

pub fn live(pid: u32) -> Result<(Process, Report), Failure> {
    let mut process = Process::live(pid)?;
    let mut inspector = Inspector::default();
    let mut notes = Vec::new();
    let mut attempt = 1;
    let found = loop {
        let mut found = find_heap(&process, &mut inspector);
        let before = rss(&process);
        process = Process::live(pid)?;
        if let Some(memory) = &mut found.memory {
            memory.remap(&process.vmas);
        }
        let (low, high) = (before.min(rss(&process)), before.max(rss(&process)));
        if high - low <= LARGEST_CHANGE * high {
            break found;
        }
        if attempt == TRIES {
            notes.push(format!(
                "RSS went from {} to {} while the heap was read, so the figures of heap and \
                 mappings are of two moments.",
                output::bytes(before),
                output::bytes(rss(&process))
            ));
            break found;
        }
        attempt += 1;
    };
    let memory = found.memory.as_ref();
    match memory {
        None => notes.push(NO_MEMORY.to_owned()),
        Some(memory) if memory.met_swap() => notes.push(SWAPPED.to_owned()),
        Some(_) => {}
    }
    let mappings = classify::mappings(&Context {
        process: &process,
        heap: &found.heap,
        allocator: &found.allocator,
        memory: memory.map(|memory| memory as &dyn Memory),
        page: found.page.as_ref(),
    });
    let mut report = assemble(&process, mappings, found.allocator);
    report.heap = found.heap;
    if let Heap::Other(other) = &mut report.heap {
        let group = classify::groups(&report.mappings, "");
        let group = group.into_iter().find(|group| group.kind == Some(Kind::Allocator));
        (other.size, other.rss) = group.map_or((0, 0), |group| (group.size, group.rss));
    }
    report.notes = notes;
    conclude(&mut report);
    Ok((process, report))
}

/// The allocator's name and its heap alone.
pub fn heap_of(pid: u32, inspector: &mut Inspector) -> Option<(String, Heap)> {
    let found = find_heap(&Process::live(pid).ok()?, inspector);
    Some((found.allocator, found.heap))
}

struct Found {
    allocator: String,
    heap: Heap,
    page: Option<Page>,
    /// `None` where it may not be read.
    memory: Option<ProcessMemory>,
}

fn find_heap(process: &Process, inspector: &mut Inspector) -> Found {
    let pid = process.pid;
    let served = inspector.inspect(pid);
    let allocator = served.as_ref().map_or_else(|_| String::new(), Served::summary);
    let is_static = matches!(served, Ok(Served::Static { .. }));
    let memory = ProcessMemory::open(pid, &process.vmas).ok();
    let memory = memory.filter(|memory| can_read(memory, process));
    let (mut heap, mut page, mut counter) = (Heap::Unknown, None, None);
    if let Some(memory) = &memory {
        let symbol = inspector.symbol(pid, "mw_stats_page");
        page = symbol.and_then(|address| Page::read(memory, address));
        if page.is_none() && is_static {
            page = page::search(memory, &read_only_data(process));
        }
        heap = read_heap(memory, process, &allocator, is_static, page.as_ref());
        counter = taken(memory, inspector, pid);
    }
    let mut allocator = name_of(&heap, allocator);
    if matches!(heap, Heap::Unknown) && !matches!(allocator.as_str(), "" | "none" | "glibc") {
        let name = allocator.clone();
        heap = Heap::Other(Other { name, taken: counter, ..Other::default() });
    }
    if allocator.is_empty() {
        allocator = "unknown".into();
    }
    Found { allocator, heap, page, memory }
}

fn rss(process: &Process) -> f64 {
    process.vmas.iter().map(|vma| vma.rss).sum::<u64>() as f64
}

/// What follows from the facts in the report.
pub fn conclude(report: &mut Report) {
    report.answer = rules::answer(report);
    report.findings = rules::findings(report);
}

/// A report without a heap, from the kernel's figures.
pub fn assemble(
    process: &Process,
    mappings: Vec<super::report::Mapping>,
    allocator: String,
) -> Report {
    let sum = |of: fn(&Vma) -> u64| process.vmas.iter().map(of).sum::<u64>();
    let totals = Totals {
        virt: sum(|vma| vma.size()),
        rss: sum(|vma| vma.rss),
        pss: sum(|vma| vma.pss),
        swap: sum(|vma| vma.swap),
        private_dirty: sum(|vma| vma.private_dirty),
        huge: sum(|vma| vma.huge),
        lazy_free: sum(|vma| vma.lazy_free),
        locked: sum(|vma| vma.locked),
        page_tables: process.bytes("VmPTE"),
        peak_rss: process.bytes("VmHWM"),
        threads: process.thread_count(),
        mappings: process.vmas.len() as u64,
    };
    let threads = process.threads.iter().map(|thread| {
        let stack = thread
            .stack_pointer
            .and_then(|pointer| process.vmas.iter().find(|vma| vma.contains(pointer)));
        Thread {
            id: thread.id,
            name: thread.name.clone(),
            stack_size: stack.map(Vma::size),
            stack_rss: stack.map(|vma| vma.rss),
        }
    });
    Report {
        schema: SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        taken_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        pid: process.pid,
        command: process.command.clone(),
        program: process.exe.clone(),
        totals,
        groups: classify::groups(&mappings, &allocator),
        allocator,
        threads: threads.collect(),
        system: System {
            cpus: process.cpus,
            cpu_quota: process.cpu_quota,
            stack_limit: process.stack_limit,
            max_mappings: process.max_mappings,
            huge_pages: process.huge_pages.clone(),
        },
        mappings,
        ..Report::default()
    }
}

/// Opening succeeds where reading does not.
fn can_read(memory: &ProcessMemory, process: &Process) -> bool {
    let plain = process.vmas.iter().find(|vma| vma.is_writable() && vma.rss > 0);
    plain.is_none_or(|vma| {
        (vma.start..vma.end).step_by(4096).take(4096).any(|at| memory.word(at).is_some())
    })
}

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
        if let Some(heaps) = glibc::read(memory, &data, &process.vmas) {
            return Heap::Glibc(heaps);
        }
    }
    Heap::Unknown
}

fn name_of(heap: &Heap, served: String) -> String {
    match heap {
        Heap::Glibc(_) => "glibc".into(),
        Heap::Mallow(_) if !served.starts_with("mallow") => "mallow".into(),
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
