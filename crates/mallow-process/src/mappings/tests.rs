// SPDX-License-Identifier: MIT

use super::*;
use crate::heap::{glibc, mallow};

/// Every second page is resident.
struct Half;

impl Memory for Half {
    fn read(&self, _address: u64, _buffer: &mut [u8]) -> Option<()> {
        None
    }

    fn resident(&self, start: u64, end: u64) -> Option<u64> {
        Some((end - start) / 2)
    }
}

fn process(text: &str) -> Process {
    Process { vmas: crate::smaps::parse(text).unwrap(), ..Process::default() }
}

fn named(process: &Process, heap: &Heap, memory: Option<&dyn Memory>) -> Vec<Mapping> {
    let (allocator, page, spaces) = ("", None, &[][..]);
    name(&Context { process, heap, allocator, memory, page, spaces })
}

fn kinds(text: &str, heap: &Heap) -> Vec<Kind> {
    named(&process(text), heap, None).iter().map(|mapping| mapping.kind).collect()
}

#[test]
fn files_in_memory_are_told_apart() {
    let text = "10000-20000 rw-s 0 00:01 7 /memfd:java_heap (deleted)\nRss: 4 kB\n\
                30000-40000 rw-s 0 00:01 8 /memfd:other (deleted)\nRss: 4 kB\n\
                50000-60000 r-xs 0 00:01 9 /memfd:code (deleted)\nRss: 4 kB\n\
                70000-80000 rw-p 0 00:01 10 /anon_hugepage (deleted)\nRss: 0 kB\n";
    let expected = [Kind::RuntimeHeap, Kind::Shared, Kind::Jit, Kind::Anonymous];
    assert_eq!(kinds(text, &Heap::Unknown), expected);
}

/// What nothing else explains is its runtime's where there is one that maps its own memory.
#[test]
fn memory_of_a_runtime_is_named_after_it() {
    let label = |exe: &str, library: &str| {
        let text = format!(
            "10000-20000 r-xp 0 00:01 7 {library}\nRss: 4 kB\n30000-40000 rw-p 0 00:00 0\nRss: 4 kB\n"
        );
        let process = Process { exe: exe.into(), ..process(&text) };
        let mapping = named(&process, &Heap::Unknown, None).remove(1);
        (mapping.kind, mapping.label.split(':').next().unwrap_or_default().to_owned())
    };
    let own = |name: &str| (Kind::RuntimeHeap, name.to_owned());
    assert_eq!(label("/usr/bin/guile", "/lib/libgc.so.1"), own("libgc"));
    assert_eq!(label("/usr/lib/erlang/erts-13/bin/beam.smp", "/lib/libc.so.6"), own("Erlang"));
    assert_eq!(label("/usr/bin/guile", "/lib/libgccpp.so.1").0, Kind::Anonymous);
}

#[test]
fn a_heap_inside_a_runtime_is_the_runtime_s() {
    let named = |owner: &str| {
        let (allocator, owner) = ("mimalloc".into(), owner.into());
        let ranges = vec![(0x1000, 0x2000)];
        let heap = spans::Heap { allocator, owner, ranges, ..spans::Heap::default() };
        let space = beside(&heap).next().unwrap();
        (space.kind, space.label)
    };
    assert_eq!(named(""), (Kind::OtherHeap, "mimalloc, beside malloc's heap".into()));
    assert_eq!(named("Python"), (Kind::RuntimeHeap, "Python: its own mimalloc".into()));
}

#[test]
fn heaps_of_huge_pages_are_the_heaps() {
    let text = "10000000-10200000 rw-p 0 00:01 7 /anon_hugepage (deleted)\nRss: 0 kB\n\
                10200000-10800000 ---p 0 00:01 7 /anon_hugepage (deleted)\nRss: 0 kB\n\
                10800000-10a00000 rw-p 0 00:01 8 /anon_hugepage (deleted)\nRss: 0 kB\n";
    let ranges = vec![(0x1000_0000, 0x1020_0000)];
    let arenas = vec![glibc::Arena { ranges, ..glibc::Arena::default() }];
    let heaps = glibc::Heaps { arenas, heap_max: 8 << 20, ..glibc::Heaps::default() };
    let expected = [Kind::GlibcArena, Kind::GlibcReserve, Kind::Anonymous];
    assert_eq!(kinds(text, &Heap::Glibc(heaps)), expected);
}

#[test]
fn joined_mappings_are_told_apart() {
    let text = "10000-11000 rw-p 0 08:01 7 /lib/libone.so\nRss: 4 kB\n\
                11000-51000 rw-p 0 00:00 0 \nRss: 128 kB\nPss: 64 kB\n";
    let mut vmas = crate::smaps::parse(text).unwrap();
    vmas[1].zeroed_data = Some(0xf80);
    let process = Process { vmas, ..Process::default() };
    let heap = mallow::Heap {
        regions: vec![(0x20000, 0x30000)],
        leaves: vec![(0x40000, 0x50000)],
        ..mallow::Heap::default()
    };
    let context = Context {
        process: &process,
        heap: &Heap::Mallow(heap),
        allocator: "mallow",
        memory: Some(&Half),
        page: None,
        spaces: &[],
    };
    let seen: Vec<_> =
        name(&context).iter().map(|m| (m.start, m.end, m.kind, m.rss, m.pss)).collect();
    let expected = [
        (0x10000, 0x11000, Kind::Library, 4 << 10, 0),
        (0x11000, 0x12000, Kind::Library, 2 << 10, 1 << 10),
        (0x12000, 0x20000, Kind::Anonymous, 28 << 10, 14 << 10),
        (0x20000, 0x30000, Kind::MallowRegion, 32 << 10, 16 << 10),
        (0x30000, 0x40000, Kind::Anonymous, 32 << 10, 16 << 10),
        (0x40000, 0x50000, Kind::MallowMetadata, 32 << 10, 16 << 10),
        (0x50000, 0x51000, Kind::Anonymous, 2 << 10, 1 << 10),
    ];
    assert_eq!(seen, expected);
}

/// The kernel's marks at these addresses; what else there is says `Half`.
struct Marked(Vec<(u64, u64)>);

impl Memory for Marked {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        Half.read(address, buffer)
    }

    fn resident(&self, start: u64, end: u64) -> Option<u64> {
        Half.resident(start, end)
    }

    fn guards(&self, start: u64, end: u64) -> Option<Vec<(u64, u64)>> {
        let within = |&(from, to): &(u64, u64)| (from.max(start), to.min(end));
        Some(self.0.iter().map(within).filter(|(from, to)| from < to).collect())
    }
}

fn thread(id: u32, stack_pointer: Option<u64>) -> crate::process::Thread {
    crate::process::Thread { id, name: "w".into(), stack_pointer }
}

#[test]
fn stacks_behind_guards_that_are_marks_are_told_apart() {
    const SIZE: u64 = (8 << 20) + 4096;
    let text = "10000000-11803000 rw-p 0 00:00 0 \nRss: 100 kB\n\
                20000000-20801000 rw-p 0 00:00 0 \nRss: 100 kB\n\
                fffffffffffff800-ffffffffffffffff rw-p 0 00:00 0 \nRss: 0 kB\n";
    let mut process = process(text);
    process.threads = vec![thread(1, None), thread(2, Some(0x1000_0000 + SIZE + 8192))];
    let guards = (0..3).map(|n| 0x1000_0000 + n * SIZE).map(|at| (at, at + 4096));
    let memory = Marked(guards.clone().collect());
    let found = named(&process, &Heap::Unknown, Some(&memory));
    let seen: Vec<_> = found.iter().map(|m| (m.start, m.kind, m.label.as_str())).collect();
    let other = "stack of a running or ended thread";
    let expected = guards.zip([other, "thread 2 w", other]).flat_map(|((start, end), label)| {
        [(start, Kind::Guard, "guard"), (end, Kind::ThreadStack, label)]
    });
    assert_eq!(seen[..6], expected.collect::<Vec<_>>());
    assert_eq!(seen[6].1, Kind::Anonymous, "as large as a stack, and without a mark");
    assert_eq!(seen[7].1, Kind::Anonymous, "where no page ends");
}

#[test]
fn stacks_that_the_kernel_names_are_known() {
    let text = "10000000-10801000 rw-p 0 00:00 0 [anon: glibc: pthread stack: 9]\nRss: 8 kB\n\
                10801000-11001000 rw-p 0 00:00 0 [anon: glibc: pthread stack: 8]\nRss: 8 kB\n";
    let mut process = process(text);
    process.threads = vec![thread(7, None), thread(8, Some(0x10f0_0000))];
    let found = named(&process, &Heap::Unknown, None);
    let seen: Vec<_> = found.iter().map(|m| (m.kind, m.label.as_str())).collect();
    let other = "stack of a running or ended thread";
    assert_eq!(seen, [(Kind::ThreadStack, other), (Kind::ThreadStack, "thread 8 w")]);
}
