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

    fn reload(&self) {}

    fn loads(&self) -> u64 {
        0
    }

    fn number_now(&self, _address: u64, _size: u64) -> Option<u64> {
        None
    }
}

fn kinds(text: &str, heap: &Heap) -> Vec<Kind> {
    let vmas = crate::smaps::parse(text).unwrap();
    let process = Process { vmas, ..Process::default() };
    let context =
        Context { process: &process, heap, allocator: "", memory: None, page: None, spaces: &[] };
    name(&context).iter().map(|mapping| mapping.kind).collect()
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
