// SPDX-License-Identifier: MIT
//! The report on a process, living or saved.

use std::time::{SystemTime, UNIX_EPOCH};

use mallow_process::mappings::{self, Mapping};
use mallow_process::picture::{Gap, Picture};
use mallow_process::process::Process;
use mallow_process::smaps::Vma;
use mallow_stats::figures;

use super::answer::answer;
use super::report::{Report, SCHEMA, System, Thread, Totals};
use super::rules;

pub const NO_MEMORY: &str = "The memory of the process may not be read, so its heap is known by \
its mappings alone. Run mallow as root, or allow ptrace (in a container: --cap-add SYS_PTRACE).";
pub const REPLACED: &str = "The process started another program each time that it was looked at \
(exec), so the figures are of several programs.";
const UNUSED: &str = "The program has not allocated anything by malloc yet.";
const UNKNOWN_HEAP: &str = "The heap of the C library could not be read, so it is known by its \
mappings alone: either its structures are not those of glibc 2.26 to 2.43, or they changed all the time.";
const SWAPPED: &str = "Parts of the heap are swapped out and were left there; what they hold is \
not counted.";
const TORN: &str = "The mappings changed all the time while they were read, so their figures are of \
several moments.";
const ESTIMATED: &str = "What is resident of very large mappings is estimated from pieces of them.";

/// The report on a picture, and the process that it shows.
pub fn report(picture: Picture) -> (Process, Report) {
    let Picture { process, allocator, heap, others, mappings, kept, runtime_version, sparse, gaps } =
        picture;
    let mut report = assemble(&process, mappings, allocator);
    report.heap = heap;
    report.other_heaps = others;
    report.runtime_spaces = kept;
    report.runtime_version = runtime_version;
    report.sparse = sparse;
    report.is_without_memory = gaps.contains(&Gap::NoMemory);
    report.is_of_several = gaps.contains(&Gap::Replaced);
    report.notes = gaps.into_iter().map(sentence).collect();
    report.notes.extend(beside_rss(&process));
    conclude(&mut report);
    (process, report)
}

/// Memory that the kernel counts in no RSS.
fn beside_rss(process: &Process) -> Option<String> {
    let bytes = Some(process.bytes("HugetlbPages")).filter(|bytes| *bytes > 0)?;
    Some(format!(
        "{} more lie in huge pages of hugetlbfs (MAP_HUGETLB, vm.nr_hugepages), which the kernel counts in no RSS.",
        figures::bytes(bytes as f64)
    ))
}

fn sentence(gap: Gap) -> String {
    match gap {
        Gap::NoMemory => NO_MEMORY.into(),
        Gap::Swapped => SWAPPED.into(),
        Gap::Moved { before, after } => format!(
            "RSS went from {} to {} while the heap was read, so the figures of heap and mappings \
             are of two moments.",
            figures::bytes(before),
            figures::bytes(after)
        ),
        Gap::Torn => TORN.into(),
        Gap::Sampled { part, whole } => format!(
            "The heap is large: {} of its {} were visited, in pieces from all over it, and the \
             figures of its blocks are estimated from them.",
            figures::bytes(part as f64),
            figures::bytes(whole as f64)
        ),
        Gap::Estimated => ESTIMATED.into(),
        Gap::Unused => UNUSED.into(),
        Gap::UnknownHeap => UNKNOWN_HEAP.into(),
        Gap::Replaced => REPLACED.into(),
        Gap::Copies(copies) => format!(
            "{copies} copies of the C library are loaded (dlmopen), each with a heap of its own; all \
             of them are counted together."
        ),
        Gap::Foreign(bytes) => format!(
            "{} between the pieces of glibc's main arena are not glibc's: something else moves the \
             break too (brk, sbrk), and what it holds there is not known.",
            figures::bytes(bytes as f64)
        ),
        Gap::Unaccounted(bytes) => format!(
            "glibc counts {} more in its main arena than was found: what they lie in is named as \
             something else.",
            figures::bytes(bytes as f64)
        ),
    }
}

/// What follows from the facts in the report.
pub fn conclude(report: &mut Report) {
    report.answer = answer(report);
    report.findings = rules::findings(report);
}

/// A report without a heap, from the kernel's figures.
pub fn assemble(process: &Process, mappings: Vec<Mapping>, allocator: String) -> Report {
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
        peak_rss: process.peak_rss(),
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
        runtime: mappings::runtime(process),
        program: process.exe.clone(),
        totals,
        groups: mappings::groups(&mappings, &allocator),
        allocator,
        threads: threads.collect(),
        system: System {
            cpus: process.cpus,
            cpu_quota: process.cpu_quota,
            stack_limit: process.stack_limit,
            max_mappings: process.max_mappings,
            commitment: process.commitment,
            huge_pages: process.huge_pages.clone(),
        },
        mappings,
        ..Report::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_of_hugetlbfs_are_told_of() {
        let mut process = Process::default();
        assert_eq!(beside_rss(&process), None);
        process.status.insert("HugetlbPages".into(), (40 << 20).to_string());
        assert!(beside_rss(&process).unwrap().starts_with("40.0 MiB more lie in huge pages"));
    }
}
