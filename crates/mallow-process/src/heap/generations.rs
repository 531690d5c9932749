// SPDX-License-Identifier: MIT
//! One small process as three generations of glibc have it in memory: explain has to see the same.

use super::chunks::{IS_MAPPED, PREVIOUS_USED};
use super::glibc::{self, Heaps};
use super::made_up::MadeUp;
use crate::memory::Memory as _;
use crate::smaps;

const MAPS: &str = "\
    555500000000-555500021000 rw-p 0 00:00 0 [heap]\nRss: 132 kB\n\
    7d0000000000-7d0000021000 rw-p 0 00:00 0 [anon: glibc: malloc arena]\nRss: 132 kB\n\
    7d0000021000-7d0004000000 ---p 0 00:00 0 [anon: glibc: malloc arena]\nRss: 0 kB\n\
    7e0000000000-7e0000041000 rw-p 0 00:00 0 [anon: glibc: malloc]\nRss: 8 kB\n\
    7e0001000000-7e0001041000 rw-p 0 00:00 0 [anon: glibc: malloc]\nRss: 8 kB\n\
    7f0000000000-7f0000003000 rw-p 0 08:01 7 /lib/libc.so.6\nRss: 12 kB\n";
const HEAP: u64 = 0x5555_0000_0000;
const HEAP_SIZE: u64 = 0x2_1000;
const OTHER_HEAP: u64 = 0x7d00_0000_0000;
const BLOCK: u64 = 0x7e00_0000_0000;
const CACHED_BLOCK: u64 = 0x7e00_0100_0000;
const BLOCK_SIZE: u64 = 0x4_1000;
const DATA: u64 = 0x7f00_0000_0000;
const MAIN: u64 = DATA + 0x400;

struct Generation {
    /// From an arena's start to its bins.
    bins_at: u64,
    /// What `mp_` begins with, up to `mmapped_mem`.
    settings: &'static [u64],
    /// Behind a block's chunk.
    tail: u64,
    cache: Cache,
}

struct Cache {
    chunk: u64,
    lists: u64,
    /// Its counters go down from this; 0: they go up.
    places: u64,
}

const G2_36: Generation = Generation {
    bins_at: 112,
    settings: &[1 << 17, 1 << 17, 1 << 17, 8, 0, 0, 0, 2 << 32, 2 << 32 | 1 << 16, 0],
    tail: 0,
    cache: Cache { chunk: 0x290, lists: 64, places: 0 },
};
const G2_42: Generation =
    Generation { cache: Cache { chunk: 0x300, lists: 76, places: 7 }, ..G2_36 };
const G2_43: Generation = Generation {
    bins_at: 24,
    settings: &[1 << 17, 1 << 17, 1 << 17, 8, 0, 1, 0, 0, 2 << 32, 2 << 32 | 1 << 16, 0],
    tail: 16,
    cache: Cache { chunk: 0x300, lists: 76, places: 16 },
};

impl Generation {
    /// What explain makes of the process, in which some chunks wait in the cache of its first thread: sizes with
    /// flags, and the list that each is in.
    fn heaps(&self, waiting: &[(u64, u64)]) -> Heaps {
        let mut memory = MadeUp::default();
        self.draw_settings(&mut memory);
        for block in [BLOCK, CACHED_BLOCK] {
            memory.set(block + 8, (BLOCK_SIZE - self.tail) | IS_MAPPED);
        }
        let mut at = HEAP;
        let mut chunk = |memory: &mut MadeUp, size: u64| {
            memory.set(at + 8, size | PREVIOUS_USED);
            at += size;
            at - size + 16
        };
        let cache = chunk(&mut memory, self.cache.chunk);
        let mut length = [0; 76];
        for &(size, list) in waiting {
            let block =
                if size & IS_MAPPED != 0 { CACHED_BLOCK + 16 } else { chunk(&mut memory, size) };
            let head = cache + 2 * self.cache.lists + 8 * list;
            let next = memory.word(head).unwrap();
            memory.set(block, next ^ (block >> 12));
            memory.set(head, block);
            length[list as usize] += 1;
        }
        for (list, length) in (0..self.cache.lists).zip(length) {
            memory.set_short(cache + 2 * list, self.cache.places.abs_diff(length));
        }
        chunk(&mut memory, 0x1000);
        chunk(&mut memory, 0x500);
        // Behind a free one.
        memory.set(at + 8, 0x800);
        let top = at + 0x800;
        memory.set(top + 8, (HEAP + HEAP_SIZE - top) | PREVIOUS_USED);
        let other = OTHER_HEAP + 0x30;
        self.draw_arena(&mut memory, MAIN, top, other);
        let first = (other + self.bins_at + 8 * 261).next_multiple_of(16);
        memory.set_all(OTHER_HEAP, &[other, 0, HEAP_SIZE, HEAP_SIZE, 4096]);
        memory.set(first + 8, 0x200 | PREVIOUS_USED);
        let top = first + 0x200;
        memory.set(top + 8, (OTHER_HEAP + HEAP_SIZE - top) | PREVIOUS_USED);
        self.draw_arena(&mut memory, other, top, MAIN);
        let vmas = smaps::parse(MAPS).unwrap();
        glibc::read(&memory, &[(DATA, DATA + 0x3000)], &vmas).expect("a heap")
    }

    fn draw_settings(&self, memory: &mut MadeUp) {
        // The newest counts too much where it moved blocks.
        let bytes = 2 * BLOCK_SIZE + 3 * self.tail;
        memory.set_all(DATA + 0x100, self.settings);
        let rest = [bytes, bytes, HEAP, 64, 1041, 16];
        memory.set_all(DATA + 0x100 + 8 * self.settings.len() as u64, &rest);
    }

    /// Its bins are empty; it has one heap.
    fn draw_arena(&self, memory: &mut MadeUp, arena: u64, top: u64, next: u64) {
        let bins = arena + self.bins_at;
        memory.set(bins - 16, top);
        for bin in 0..127 {
            let itself = bins + 16 * bin - 16;
            memory.set_all(bins + 16 * bin, &[itself, itself]);
        }
        memory.set_all(bins + 8 * 256, &[next, 0, 1, HEAP_SIZE, HEAP_SIZE]);
    }
}

#[test]
fn each_generation_is_read_alike() {
    for (name, generation) in [("2.36", G2_36), ("2.42", G2_42), ("2.43", G2_43)] {
        let heaps = generation.heaps(&[(0x20, 0), (0x20, 0), (0x410, 63)]);
        assert_eq!((heaps.arenas.len(), heaps.incomplete), (2, 0), "{name}");
        let main = &heaps.arenas[0];
        assert_eq!((main.cached, main.chunks.free_bytes, main.fast), (0x450, 0x500, 0), "{name}");
        assert_eq!(main.used(), generation.cache.chunk + 0x1000 + 0x800, "{name}");
        assert_eq!((main.used_count(), heaps.arenas[1].used()), (3, 0x200), "{name}");
        let mapped = &heaps.mapped;
        assert_eq!((mapped.chunks, mapped.bytes), (2, 2 * BLOCK_SIZE), "{name}");
        assert_eq!((mapped.count(), mapped.in_use()), (2, 2 * BLOCK_SIZE), "{name}");
        // Else what glibc counts would be replaced by what was found.
        assert_eq!(mapped.counted.map(|counted| counted.drifts), Some(name == "2.43"), "{name}");
    }
}

#[test]
fn caches_of_large_blocks_are_read() {
    // Sizes up to the next power of two share a list.
    let waiting = [(0x420, 64), (0x7f0, 64), (0x430, 64), (0x800, 65), (0x1800, 66)];
    let heaps = G2_42.heaps(&waiting);
    assert_eq!(heaps.arenas[0].cached, 0x420 + 0x7f0 + 0x430 + 0x800 + 0x1800);
    assert_eq!(heaps.arenas[0].used_count(), 3);
    for outside in [(0x410, 64), (0x800, 64), (0x7f0, 65), (0x1000, 65)] {
        assert_eq!(G2_42.heaps(&[outside]).arenas[0].cached, 0, "{outside:x?}");
    }
}

#[test]
fn blocks_with_mappings_of_their_own_wait_in_caches_too() {
    let list = 64 + BLOCK_SIZE.ilog2() as u64 - 10;
    let heaps = G2_43.heaps(&[((BLOCK_SIZE - 16) | IS_MAPPED, list)]);
    let arena = &heaps.arenas[0];
    let used = G2_43.cache.chunk + 0x1000 + 0x800 + 0x200;
    assert_eq!((arena.cached, arena.cached_mapped.bytes), (0, BLOCK_SIZE));
    assert_eq!((heaps.used(), heaps.used_count()), (used + BLOCK_SIZE, 5));
    assert_eq!(heaps.free(), 0x500 + BLOCK_SIZE);
}

#[test]
fn a_cache_whose_counters_do_not_fit_is_none() {
    let torn = Generation { cache: Cache { places: 0, ..G2_42.cache }, ..G2_42 };
    assert_eq!(torn.heaps(&[(0x20, 0)]).arenas[0].cached, 0);
}

/// glibc 2.43 has it before the first call of malloc.
#[test]
fn an_arena_without_memory_is_unused() {
    assert!(!G2_43.heaps(&[]).is_unused);
    let mut memory = MadeUp::default();
    let bins = MAIN + G2_43.bins_at;
    // Its top is then a bin.
    G2_43.draw_arena(&mut memory, MAIN, bins - 16, MAIN);
    memory.set_all(bins + 8 * 259, &[0, 0]);
    let maps = MAPS.lines().skip(10).collect::<Vec<_>>().join("\n");
    let vmas = smaps::parse(&maps).unwrap();
    let read = |memory: &MadeUp| glibc::read(memory, &[(DATA, DATA + 0x3000)], &vmas);
    assert!(read(&memory).is_some_and(|heaps| heaps.is_unused && heaps.arenas.len() == 1));
    // One of its large blocks was a mapping of its own.
    for (most, most_bytes, is_unused) in [(0, 0, true), (1, 10 << 20, false)] {
        let mut settings = G2_43.settings.to_vec();
        settings[8] = 0;
        settings[9] = most << 32 | 1 << 16;
        settings.extend([0, most_bytes, 0, 64, 1041, 16]);
        memory.set_all(DATA + 0x100, &settings);
        assert_eq!(read(&memory).map(|heaps| heaps.is_unused), Some(is_unused), "{most_bytes}");
    }
}
