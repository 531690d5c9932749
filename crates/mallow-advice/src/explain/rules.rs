// SPDX-License-Identifier: MIT
//! The rules behind the findings of `explain`.

use std::collections::BTreeMap;

use super::report::{Finding, Report};
use crate::amounts::{MIB, NOTABLE, percent, size};
use crate::{arenas, commitment, findings};
use mallow_process::heap::Heap;
use mallow_process::heap::glibc::{Arena, Heaps};
use mallow_process::heap::mallow;
use mallow_process::heap::spans;
use mallow_process::mappings::{Kind, Runtime};
use mallow_process::page_size;
use mallow_process::runtimes::go;

struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, id: &str, evidence: String, remedy: &str, effect: String) {
        let title = findings::find(id).map_or("", |entry| entry.title).to_owned();
        let (id, remedy) = (id.to_owned(), remedy.to_owned());
        self.0.push(Finding { id, title, evidence, remedy, effect });
    }
}

pub fn findings(report: &Report) -> Vec<Finding> {
    let mut found = Findings(Vec::new());
    match &report.heap {
        Heap::Glibc(heaps) => {
            glibc_arenas(report, heaps, &mut found);
            glibc_blocks(heaps, &mut found);
            glibc_pinned(report, heaps, &mut found);
        }
        Heap::Mallow(heap) => mallow(heap, &mut found),
        Heap::Other(other) => {
            if other.rss >= NOTABLE {
                found.add(
                    "MLW2401",
                    format!("{} of {} is resident", size(other.rss), other.name),
                    "ask the allocator itself; mallow help MLW2401 says how",
                    "shows what of it is free".into(),
                );
            }
        }
        Heap::Spans(heap) => spans(heap, false, &mut found),
        Heap::Unknown => {}
    }
    for heap in &report.other_heaps {
        spans(heap, true, &mut found);
    }
    if report.allocator == "musl" && report.totals.threads > 1 {
        found.add(
            "MLW2402",
            format!("{} threads share one lock", report.totals.threads),
            "mallow compare -- COMMAND",
            "threads that allocate no longer wait for each other".into(),
        );
    }
    huge_pages(report, &mut found);
    kernel(report, &mut found);
    limits(report, &mut found);
    thread_stacks(report, &mut found);
    beside_malloc(report, &mut found);
    shared(report, &mut found);
    found.0.sort_by(|one, other| one.id.cmp(&other.id));
    found.0
}

fn glibc_arenas(report: &Report, heaps: &Heaps, found: &mut Findings) {
    let reserve = report.group(Kind::GlibcReserve).size;
    let count = heaps.arenas.len() as u64;
    // One arena beside the main one is what the setting leaves.
    let of_threads = count.saturating_sub(1);
    if of_threads > 1 && reserve >= 64 * MIB {
        found.add(
            "MLW2101",
            format!("{of_threads} arenas, {} of VIRT without memory behind it", size(reserve)),
            "MALLOC_ARENA_MAX=2, or mallow run; harmless unless address space is bounded",
            format!(
                "VIRT falls by about {}, RSS hardly at all",
                size(reserve - reserve / of_threads)
            ),
        );
    }
    let attached = heaps.sum(|arena| arena.threads.unwrap_or(0));
    let most = heaps.arenas.iter().filter_map(|arena| arena.threads).max().unwrap_or(0);
    let enough = arenas::enough(report.runtime, report.system.cpu_quota);
    let is_enough = enough.is_some_and(|enough| count >= enough);
    if most >= 4 && attached >= 2 * count && !is_enough {
        found.add(
            "MLW2104",
            format!("{attached} threads in {count} arenas, up to {most} in one"),
            "GLIBC_TUNABLES=glibc.malloc.arena_max=N, or mallow compare",
            "less waiting in malloc; measure it".into(),
        );
    }
    if let Some(quota) = report.system.cpu_quota
        && count as f64 > 4.0 * quota.max(1.0)
        && report.system.cpus as f64 > quota
    {
        found.add(
            "MLW2105",
            format!("{count} arenas, {quota:.1} CPUs allowed, {} counted", report.system.cpus),
            &format!("MALLOC_ARENA_MAX={}", arenas::for_quota(quota)),
            "free memory of the arenas comes together; measure it".into(),
        );
    }
}

/// What is free, and what is not.
fn glibc_blocks(heaps: &Heaps, found: &mut Findings) {
    let free = heaps.sum(|arena| arena.chunks.free_resident);
    let used = heaps.used();
    if free >= NOTABLE && free >= used / 4 {
        found.add(
            "MLW2102",
            format!(
                "{} free but resident beside {} in use ({:.0} % of the heap is free)",
                size(free),
                size(used),
                percent(heaps.free(), heaps.free() + used)
            ),
            "malloc_trim(0) in the program, or an allocator that gives memory back: mallow compare",
            format!("malloc_trim gives back {} now", size(heaps.sum(Arena::trimmable))),
        );
    }
    let top = heaps.sum(|arena| arena.chunks.top_resident);
    if top >= NOTABLE && top >= used / 4 {
        let by_trim = heaps.sum(Arena::trimmable_top);
        let remedy = "GLIBC_TUNABLES=glibc.malloc.trim_threshold=131072";
        let or_trim = if by_trim > 0 { ", or malloc_trim(0)" } else { "" };
        found.add(
            "MLW2103",
            format!("{} at the ends of the heaps", size(top)),
            &format!("{remedy}{or_trim}"),
            format!("up to {} goes back, {} of it by malloc_trim", size(top), size(by_trim)),
        );
    }
    // One large block is no pattern; the mappings show it.
    if let Some(&(chunk, count)) = heaps.sizes.first()
        && count > 1
        && chunk * count >= NOTABLE
        && 2 * chunk * count > used
    {
        found.add(
            "MLW2106",
            format!(
                "{count} blocks of {chunk} bytes are {:.0} % of what is in use",
                percent(chunk * count, used)
            ),
            "mallow record and mallow report show who allocates them",
            "names the place, if it is a leak".into(),
        );
    }
    if heaps.mapped.chunks >= 1000 {
        found.add(
            "MLW2107",
            format!("{} blocks, {}", heaps.mapped.chunks, size(heaps.mapped.bytes)),
            "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=N, or mallow compare",
            "fewer calls to the kernel and page faults".into(),
        );
    }
}

/// Resident and free, but in no whole page.
fn glibc_pinned(report: &Report, heaps: &Heaps, found: &mut Findings) {
    // The whole break: others may have moved it too.
    let resident = report.group(Kind::GlibcHeap).rss + report.group(Kind::GlibcArena).rss;
    let resident = resident.saturating_sub(heaps.untold());
    let used = heaps.sum(Arena::used);
    let movable = heaps.sum(|arena| arena.chunks.free_resident + arena.chunks.top_resident);
    let pinned = resident.saturating_sub(used + movable);
    if pinned < NOTABLE || pinned < resident / 4 {
        return;
    }
    found.add(
        "MLW2108",
        format!(
            "{} of {} resident is free in pieces smaller than a page, beside {} in use ({:.0} % of \
             the heap is free)",
            size(pinned),
            size(resident),
            size(used),
            percent(resident - used.min(resident), resident)
        ),
        "allocate what lives long apart from what does not, or mallow compare",
        format!("malloc_trim would give back {} only", size(heaps.sum(Arena::trimmable))),
    );
}

fn mallow(heap: &mallow::Heap, found: &mut Findings) {
    let used = heap.allocated();
    let dirty = heap.sum(|arena| arena.dirty);
    if dirty >= NOTABLE && dirty >= used / 4 {
        found.add(
            "MLW2201",
            format!("{} free and resident beside {} in use", size(dirty), size(used)),
            "wait for dirty_decay_ms, or set it lower; purge_thread:true for a program at rest",
            format!("{} goes back", size(dirty)),
        );
    }
    let free = heap.free_slots();
    if free >= NOTABLE && free >= used / 2 {
        let worst =
            heap.classes.iter().max_by_key(|class| class.bytes - class.used * class.slot_size);
        let worst = worst.map_or(0, |class| class.slot_size);
        found.add(
            "MLW2202",
            format!(
                "{} of free slots beside {} in use, most of {worst} bytes",
                size(free),
                size(used)
            ),
            "allocate what lives long apart from what does not",
            "slabs become empty and go back".into(),
        );
    }
    let cached = heap.sum(|arena| arena.cached);
    if cached >= NOTABLE && cached >= used / 4 {
        found.add(
            "MLW2203",
            format!("{} in blocks that threads keep", size(cached)),
            "nothing; mw_collect() if it must go at once",
            format!("{} goes back within seconds", size(cached)),
        );
    }
}

/// A heap beside malloc's is bounded by the program that brings it along, not by the variables of
/// the allocator's own name.
fn spans(heap: &spans::Heap, is_beside: bool, found: &mut Findings) {
    let (used, free) = (heap.used(), heap.free_resident());
    if free >= NOTABLE && free >= used / 4 {
        found.add(
            "MLW2403",
            format!("{} of free pages resident beside {} in use", size(free), size(used)),
            match heap.allocator.as_str() {
                "jemalloc" if is_beside => {
                    "background_thread:true or dirty_decay_ms in the variable with the program's \
                     own prefix (_RJEM_MALLOC_CONF of Rust's)"
                }
                "jemalloc" => "MALLOC_CONF=background_thread:true, or dirty_decay_ms lower",
                "mimalloc" => "MIMALLOC_PURGE_DELAY lower, or mi_collect(true) in the program",
                _ => "an allocator that gives memory back: mallow compare",
            },
            format!("up to {} goes back", size(free)),
        );
    }
    let free = heap.free_blocks();
    if free >= NOTABLE && free >= used / 2 {
        let worst = heap.classes.iter().max_by_key(|class| {
            class.capacity.saturating_sub(class.used).saturating_mul(class.slot_size)
        });
        let worst = worst.map_or(0, |class| class.slot_size);
        found.add(
            "MLW2404",
            format!(
                "{} of free blocks beside {} in use, most of {worst} bytes",
                size(free),
                size(used)
            ),
            "allocate what lives long apart from what does not",
            "pages become free and go back".into(),
        );
    }
}

/// Elsewhere the kernel gives huge pages to who asks for them alone.
fn are_huge_pages_unasked(report: &Report) -> bool {
    report.system.huge_pages == "always"
}

fn huge_pages(report: &Report, found: &mut Findings) {
    let (_, heap_rss) = report.heap_sums();
    let huge = report.groups.iter().filter(|g| g.kind.is_some_and(Kind::is_heap));
    let huge: u64 = huge.map(|group| group.huge).sum();
    let free = report.heap.free_resident().unwrap_or(0);
    let sparse = report
        .sparse
        .filter(|sparse| sparse.empty_bytes() >= NOTABLE && sparse.empty >= sparse.looked / 2);
    if let Some(sparse) = sparse {
        found.add(
            "MLW2302",
            format!(
                "{} in huge pages; of {} pages of {} KiB looked at in them {} hold zeros alone",
                size(sparse.huge),
                sparse.looked,
                page_size() >> 10,
                sparse.empty
            ),
            match (are_huge_pages_unasked(report), report.runtime) {
                (true, Runtime::Python) => {
                    "transparent_hugepage=madvise, and NUMPY_MADVISE_HUGEPAGE=0 where numpy asks"
                }
                (false, Runtime::Python) => "NUMPY_MADVISE_HUGEPAGE=0 where numpy asks for them",
                (true, _) => "transparent_hugepage=madvise",
                (false, _) => "no madvise(MADV_HUGEPAGE) there",
            },
            format!(
                "{} goes back if nothing was written there; measure time as well",
                size(sparse.empty_bytes())
            ),
        );
    } else if huge >= NOTABLE && free >= heap_rss / 4 {
        found.add(
            "MLW2302",
            format!("{} of the heap in huge pages; {} free but resident", size(huge), size(free)),
            if are_huge_pages_unasked(report) {
                "transparent_hugepage=madvise, or an allocator that gives whole huge pages back"
            } else {
                "no madvise(MADV_HUGEPAGE) there, or an allocator that gives whole huge pages back"
            },
            "up to the free part goes back; measure time as well".into(),
        );
    }
}

fn kernel(report: &Report, found: &mut Findings) {
    let totals = &report.totals;
    if totals.swap >= NOTABLE {
        found.add(
            "MLW2303",
            format!("{} is swapped out", size(totals.swap)),
            "more memory, or less of it: the table says whose it is",
            "no waiting for the disk".into(),
        );
    }
    if totals.lazy_free >= NOTABLE {
        found.add(
            "MLW2305",
            format!("{} can be taken by the kernel at any time", size(totals.lazy_free)),
            match report.runtime {
                Runtime::Go => "nothing, or GODEBUG=madvdontneed=1",
                _ if report.allocator == "jemalloc" => {
                    "nothing, or muzzy_decay_ms:0 in MALLOC_CONF"
                }
                _ => "nothing",
            },
            format!("RSS shows {} less", size(totals.lazy_free)),
        );
    }
}

fn limits(report: &Report, found: &mut Findings) {
    let mappings = report.totals.mappings;
    if let Some(limit) = report.system.max_mappings
        && mappings * 10 >= limit * 8
    {
        found.add(
            "MLW2304",
            format!("{mappings} of {limit} mappings"),
            &format!("sysctl vm.max_map_count={}", limit * 4),
            "mmap and malloc go on working".into(),
        );
    }
    if let Some(tight) = report.system.commitment.as_ref().and_then(commitment::tight) {
        found.add("MLW2308", tight.evidence, &tight.set, tight.effect.into());
    }
}

fn thread_stacks(report: &Report, found: &mut Findings) {
    let totals = &report.totals;
    let stacks = report.group(Kind::ThreadStack);
    if stacks.size >= 256 * MIB && stacks.size >= totals.virt / 4 {
        found.add(
            "MLW2301",
            format!(
                "{} for {} stacks, {} of it resident",
                size(stacks.size),
                stacks.mappings,
                size(stacks.rss)
            ),
            match report.runtime {
                Runtime::Java => "a smaller stack: -Xss; harmless unless address space is bounded",
                _ => "a smaller stack: ulimit -s; harmless unless address space is bounded",
            },
            "VIRT falls, RSS does not".into(),
        );
    }
    if stacks.rss >= 2 * NOTABLE && stacks.rss >= totals.rss / 4 {
        found.add(
            "MLW2306",
            format!("{} resident in {} stacks", size(stacks.rss), stacks.mappings),
            "fewer threads, or no large arrays and deep recursion on their stacks",
            "RSS falls by what the stacks no longer touch".into(),
        );
    }
    if stacks.huge >= NOTABLE {
        found.add(
            "MLW2307",
            format!(
                "{} of {} resident stacks are huge pages",
                size(stacks.huge),
                size(stacks.rss.max(stacks.huge))
            ),
            if are_huge_pages_unasked(report) {
                "transparent_hugepage=madvise, or glibc.pthread.stack_hugetlb=0 from glibc 2.39 on"
            } else {
                "no madvise(MADV_HUGEPAGE) there"
            },
            "each stack takes only the pages that it touches".into(),
        );
    }
}

/// What neither malloc nor a thread has: a runtime's own heap, files, and what other processes map too.
fn beside_malloc(report: &Report, found: &mut Findings) {
    let totals = &report.totals;
    let runtime = report.group(Kind::RuntimeHeap).rss;
    if runtime >= NOTABLE && 2 * runtime > totals.rss {
        found.add(
            "MLW2501",
            format!("{} of {} resident is not malloc's", size(runtime), size(totals.rss)),
            runtime_remedy(report.runtime),
            "another allocator changes nothing here".into(),
        );
    }
    runtime_free(report, found);
    // Not the pages of theirs that the program wrote to: the kernel can only swap those out.
    let files = [Kind::Program, Kind::Library, Kind::File].map(|kind| {
        let group = report.group(kind);
        group.rss.saturating_sub(group.anonymous)
    });
    let files: u64 = files.iter().sum();
    if files >= 2 * NOTABLE && 2 * files > totals.rss {
        found.add(
            "MLW2502",
            format!("{} of {} resident is files", size(files), size(totals.rss)),
            "nothing: the kernel takes it when it needs memory",
            "none".into(),
        );
    }
    if totals.rss >= totals.pss + NOTABLE && totals.rss >= 2 * totals.pss {
        found.add(
            "MLW2503",
            format!("RSS {}, PSS {}", size(totals.rss), size(totals.pss)),
            "add up PSS, not RSS",
            "the same memory is counted once".into(),
        );
    }
}

/// Pages that a runtime could give back.
fn runtime_free(report: &Report, found: &mut Findings) {
    let sum = |start: &str| {
        let kept = report.runtime_spaces.iter().filter(|kept| kept.what.starts_with(start));
        kept.fold((0, 0), |(rss, used), kept| {
            (rss + kept.rss.unwrap_or(0), used + kept.used.unwrap_or(0))
        })
    };
    let (free, used) = (sum(go::FREE).0, sum("Go: objects").1);
    if report.runtime == Runtime::Go && free >= NOTABLE && free >= used / 4 {
        found.add(
            "MLW2505",
            format!("{} of free pages resident beside {} of objects", size(free), size(used)),
            "GOMEMLIMIT, or debug.FreeOSMemory() in the program after a peak",
            format!("up to {} goes back", size(free)),
        );
    }
}

/// The largest first, by what they are called.
fn shared(report: &Report, found: &mut Findings) {
    const MOST_NAMES: usize = 3;
    let rss = report.group(Kind::Shared).rss;
    if rss < NOTABLE || rss < report.totals.rss / 4 {
        return;
    }
    let mut names: BTreeMap<&str, u64> = BTreeMap::new();
    for mapping in report.mappings.iter().filter(|mapping| mapping.kind == Kind::Shared) {
        *names.entry(&mapping.label).or_default() += mapping.rss;
    }
    let mut names: Vec<(&str, u64)> = names.into_iter().filter(|(_, rss)| *rss > 0).collect();
    names.sort_by_key(|(_, rss)| std::cmp::Reverse(*rss));
    let first = names.iter().take(MOST_NAMES);
    let parts: Vec<String> = first.map(|(name, rss)| format!("{name} {}", size(*rss))).collect();
    found.add(
        "MLW2504",
        format!("{} of {} resident: {}", size(rss), size(report.totals.rss), parts.join(", ")),
        "bound it where it is configured; the other processes that map it hold it too",
        "RSS of all of them falls".into(),
    );
}

/// What bounds, or shows, the memory that a runtime takes for itself.
fn runtime_remedy(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Java => "-Xmx bounds the heap; jcmd PID VM.native_memory shows the rest",
        Runtime::Node => "--max-old-space-size bounds the heap",
        Runtime::Go => "GOMEMLIMIT bounds the heap, GOGC says how much of it may be garbage",
        Runtime::Python => "tracemalloc shows which lines hold the objects",
        Runtime::Ruby => {
            "GC.stat and ObjectSpace.count_objects show what is in it; GC.compact packs it"
        }
        Runtime::Erlang => {
            "erlang:memory() shows what is in it; the flags +M say how carriers are kept"
        }
        Runtime::Libgc => "GC_MAXIMUM_HEAP_SIZE bounds it; GC_PRINT_STATS=1 shows each collection",
        Runtime::None => "the runtime's own limits",
    }
}

#[cfg(test)]
mod tests;
