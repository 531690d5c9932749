// SPDX-License-Identifier: MIT
//! A process's memory made of any words, for tests and for the fuzz targets.

use std::cell::Cell;
use std::collections::BTreeMap;

use mallow_process::memory::Memory;
use mallow_process::process::Process;
use mallow_process::smaps::Vma;

pub const DATA: u64 = 0x7f00_0000_0000;
pub const HEAP: u64 = 0x5500_0000_0000;
pub const HEAP_SIZE: u64 = 0x21000;

/// A word of a main arena since glibc 2.27 whose bins are all empty.
pub fn arena_word(address: u64) -> u64 {
    let arena = DATA + 0x100;
    let bins = arena + 112;
    let behind = bins + 254 * 8;
    match address {
        _ if (bins..behind).contains(&address) => bins - 16 + (address - bins) / 16 * 16,
        _ if address == bins - 16 => HEAP + 0x1000,
        // The only arena of its list, with one thread.
        _ if address == behind + 16 => arena,
        _ if address == behind + 32 => 1,
        _ if address == behind + 40 => HEAP_SIZE,
        _ => 0,
    }
}

/// What stands at an address.
pub trait Content {
    fn read(&self, address: u64, buffer: &mut [u8]);
}

/// Any word may be anything.
impl<F: Fn(u64) -> u64> Content for F {
    fn read(&self, address: u64, buffer: &mut [u8]) {
        // Parts of a word.
        if !address.is_multiple_of(8) && buffer.len() as u64 <= 8 - address % 8 {
            let word = self(address & !7) >> (8 * (address % 8));
            buffer.copy_from_slice(&word.to_le_bytes()[..buffer.len()]);
            return;
        }
        for (index, part) in buffer.chunks_mut(8).enumerate() {
            let word = self(address.wrapping_add(8 * index as u64));
            part.copy_from_slice(&word.to_le_bytes()[..part.len()]);
        }
    }
}

/// Zeros but for these words, by address: they can be read by the MiB.
pub struct FewWords(pub BTreeMap<u64, u64>);

impl Content for FewWords {
    fn read(&self, address: u64, buffer: &mut [u8]) {
        buffer.fill(0);
        let end = address.saturating_add(buffer.len() as u64);
        for (&at, word) in self.0.range(address & !7..end) {
            for (byte, place) in word.to_le_bytes().into_iter().zip(at..) {
                if (address..end).contains(&place) {
                    buffer[(place - address) as usize] = byte;
                }
            }
        }
    }
}

/// Memory with any content.
pub struct Words<C: Content> {
    pub word: C,
    pub resident: u64,
    /// Reads until nothing more can be read.
    pub left: Cell<u32>,
}

impl<C: Content> Memory for Words<C> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        self.left.set(self.left.get().checked_sub(1)?);
        self.word.read(address, buffer);
        Some(())
    }

    fn resident(&self, start: u64, end: u64) -> Option<u64> {
        assert!(start <= end, "{start:x} {end:x}");
        Some(self.resident.min(end - start))
    }
}

/// Heaps of other allocators, each at an address of its own.
pub const JEMALLOC: u64 = 0x7f40_0000_0000;
pub const MIMALLOC: u64 = 0x7f50_0000_0000;
pub const MUSL: u64 = 0x7f60_0000_0000;
pub const SPANS_SIZE: u64 = 32 << 20;
const SLABS: u64 = JEMALLOC + (16 << 20);
/// Where the leaf of jemalloc's tree begins.
pub const JEMALLOC_LEAF: u64 = JEMALLOC + (4 << 20);

/// Data of a library with zeroed data behind it, and the heaps.
pub fn spans_vmas() -> Vec<Vma> {
    let vma = |start, size, inode| {
        let perms = "rw-p".into();
        Vma { start, end: start + size, perms, rss: size, inode, ..Vma::default() }
    };
    let heaps = [JEMALLOC, MIMALLOC, MUSL].map(|start| vma(start, SPANS_SIZE, 0));
    [vma(DATA, 0x1000, 1), vma(DATA + 0x1000, 4 << 20, 0)].into_iter().chain(heaps).collect()
}

/// Where jemalloc's tree begins.
pub const JEMALLOC_ROOT: u64 = DATA + 0x1100 + 8 * (JEMALLOC >> 30);

/// jemalloc: sixteen slabs of 64 regions of 64 bytes, three of each free.
fn jemalloc_word(address: u64) -> u64 {
    let leaf = JEMALLOC_LEAF;
    let extents = JEMALLOC + (8 << 20);
    let page = (address.wrapping_sub(leaf) / 8).wrapping_sub((SLABS >> 12) & 0x3_ffff);
    if address == JEMALLOC_ROOT {
        return leaf;
    }
    if address >= leaf && page < 16 {
        return 4 << 48 | (extents + 128 * page) | 1;
    }
    let (number, field) = (address.wrapping_sub(extents) / 128, address % 128);
    match field {
        0 if number < 16 => 1 << 12 | 4 << 20 | 3 << 28,
        8 if number < 16 => SLABS + (number << 12),
        16 if number < 16 => 4096,
        64 if number < 16 => 0b111,
        _ => 0,
    }
}

/// mimalloc: a segment with a page of 100 blocks of 512 bytes, of which 40 are used.
fn mimalloc_word(address: u64) -> u64 {
    match address - MIMALLOC {
        216 => 1,
        224 => MIMALLOC ^ 0x1234,
        248 | 272 => 512,
        256 => 1,
        288 => 1,
        384 => 1,
        392 => 100 << 16 | 100 << 32,
        416 => 40,
        424 => 512,
        480 => 510,
        _ => 0,
    }
}

/// musl: a group of ten slots of 64 bytes, three of them free.
fn musl_word(address: u64) -> u64 {
    const SECRET: u64 = 0xfeed_5eed;
    let context = DATA + 0x40;
    match address {
        _ if address == context || address == MUSL => SECRET,
        _ if address == context + 8 => 1,
        _ if address == context + 56 => MUSL,
        _ if address == MUSL + 16 => 1,
        _ if address == MUSL + 40 => MUSL + 0x10000,
        _ if address == MUSL + 48 => 0b11 | 0b100 << 32,
        _ if address == MUSL + 56 => 9 | 3 << 6 | 1 << 12,
        _ if address == MUSL + 0x10000 => MUSL + 24,
        _ => 0,
    }
}

/// A word of the three heaps.
fn spans_word(address: u64) -> u64 {
    match address {
        MIMALLOC..MUSL => mimalloc_word(address),
        JEMALLOC..MIMALLOC => jemalloc_word(address),
        _ => jemalloc_word(address) | musl_word(address),
    }
}

/// Where words of these heaps lie that mean something.
pub fn spans_places() -> Vec<u64> {
    let ranges = [
        (DATA, DATA + 0x100),
        (JEMALLOC + (4 << 20) + 8 * 4096, JEMALLOC + (4 << 20) + 8 * 4112),
        (JEMALLOC + (8 << 20), JEMALLOC + (8 << 20) + 16 * 128),
        (MIMALLOC, MIMALLOC + 0x300),
        (MUSL, MUSL + 0x80),
        (MUSL + 0x10000, MUSL + 0x10008),
    ];
    ranges.into_iter().flat_map(|(start, end)| (start..end).step_by(8)).collect()
}

/// The three heaps.
pub fn spans_words() -> BTreeMap<u64, u64> {
    let places = spans_places().into_iter().chain([JEMALLOC_ROOT]);
    places.map(|at| (at, spans_word(at))).collect()
}

/// Programs of runtimes, each of which keeps something of its own.
pub const RUNTIMES: [&str; 5] = ["go", "java", "python3", "ruby", "node"];

/// What they keep, each at an address of its own: an arena of Go with its index, Java's counters, and pages
/// of the others, of which some have descriptions elsewhere.
const GO: u64 = 0xc0_0000_0000;
const GO_INDEX: u64 = 0x7f70_0000_0000;
const GO_ARENA: u64 = GO_INDEX + (40 << 20);
const GO_SPANS: u64 = GO_ARENA + (1 << 20);
const GO_BASE_OFFSET: u64 = if cfg!(target_arch = "x86_64") { 1 << 47 } else { 0 };
const GO_ENTRY: u64 = GO_INDEX + 8 * ((GO + GO_BASE_OFFSET) >> 26);
const COUNTERS: u64 = 0x7f80_0000_0000;
const PYTHON: u64 = 0x7f90_0000_0000;
const PYTHON_POOL: u64 = 16 << 10;
const PYTHON_POOLS: u64 = 8;
const RUBY: u64 = 0x7fa0_0000_0000;
const RUBY_PAGE: u64 = 64 << 10;
const RUBY_PAGES: u64 = 8;
const RUBY_DESCRIPTIONS: u64 = RUBY + (1 << 20);
const V8: u64 = 0x7fb0_0000_0000;
const V8_PAGE: u64 = 256 << 10;
const V8_PAGES: u64 = 6;
const V8_DESCRIPTIONS: u64 = V8 + (16 << 20);
/// From one description to the next.
const DESCRIPTION: u64 = 128;

/// A process of a runtime.
pub fn runtime_process(program: &str) -> Process {
    let vma = |start, size, perms: &str, name: &str| {
        let (perms, name) = (perms.into(), name.into());
        Vma { start, end: start + size, perms, name, rss: size, ..Vma::default() }
    };
    let counters = Vma { inode: 7, ..vma(COUNTERS, 0x1000, "rw-s", "/tmp/hsperfdata_me/7") };
    let library = Vma { inode: 9, ..vma(1 << 12, 1 << 12, "", "/libjvm.so") };
    let go = [
        vma(GO, 4 << 20, "rw-p", ""),
        vma(GO + (4 << 20), 60 << 20, "---p", ""),
        vma(GO_INDEX, 48 << 20, "rw-p", ""),
        counters,
    ];
    let vmas = match program {
        "go" => go.to_vec(),
        "java" => [library].into_iter().chain(go).collect(),
        "python3" => vec![vma(PYTHON, 1 << 20, "rw-p", "")],
        "ruby" => vec![vma(RUBY, RUBY_PAGES * RUBY_PAGE, "rw-p", "")],
        _ => vec![vma(V8, V8_PAGES * V8_PAGE, "rw-p", "")],
    };
    Process { exe: program.into(), is_go: program == "go", vmas, ..Process::default() }
}

/// Go since 1.22: sixteen spans of a page, of which the last four are a stack each, the others have
/// sixty objects of 128 bytes.
fn go_word(address: u64) -> u64 {
    if address == GO_ENTRY {
        return GO_ARENA;
    }
    let (entry, at) = (address.wrapping_sub(GO_ARENA), address.wrapping_sub(GO_SPANS));
    let number = at / 256;
    match at % 256 {
        _ if entry < 8 * 16 => GO_SPANS + entry * 32,
        _ if number >= 16 => 0,
        24 => GO + number * 8192,
        32 => 1,
        96 if number >= 12 => 2 << 24 | 4,
        96 => 1 << 24 | 60,
        104 if number >= 12 => 2048,
        104 => 128,
        _ => 0,
    }
}

/// A header and one entry: classes have 7 MiB.
fn counters() -> [u8; 88] {
    const NAME: &[u8] = b"sun.gc.metaspace.capacity";
    let mut bytes = [0; 88];
    bytes[..6].copy_from_slice(&[0xca, 0xfe, 0xc0, 0xc0, 1, 2]);
    // Bytes used, the first entry, how many; its length, where its name and its value are.
    for (at, value) in [(8, 88), (24, 32), (28, 1), (32, 56), (36, 20), (48, 48)] {
        bytes[at] = value;
    }
    bytes[44] = b'J';
    bytes[52..52 + NAME.len()].copy_from_slice(NAME);
    bytes[80..].copy_from_slice(&(7u64 << 20).to_le_bytes());
    bytes
}

/// Python: each pool has ten blocks of 32 bytes in use.
fn python_word(address: u64) -> u64 {
    match (address - PYTHON) % PYTHON_POOL {
        0 => 10,
        16 | 24 => 1,
        32 => 1 << 32,
        40 => 1024 | (PYTHON_POOL - 32) << 32,
        _ => 0,
    }
}

/// Ruby since 3.2: each page has a thousand slots of 40 bytes, of which a hundred are free.
fn ruby_word(address: u64) -> u64 {
    let Some(at) = address.checked_sub(RUBY_DESCRIPTIONS) else {
        return RUBY_DESCRIPTIONS + (address - RUBY) / RUBY_PAGE * DESCRIPTION;
    };
    match at % DESCRIPTION {
        0 => 40 | 1000 << 16 | 100 << 32,
        8 => RUBY + at / DESCRIPTION * RUBY_PAGE + 16,
        _ => 0,
    }
}

/// V8 of Node.js 20 (young objects), 22 and 24 (old ones): two pages each.
fn v8_word(address: u64) -> u64 {
    const HEAP: u64 = 0x5555_0000_1000;
    let described = address.checked_sub(V8_DESCRIPTIONS);
    let at = described.unwrap_or(address - V8);
    let number = described.map_or(at / V8_PAGE, |at| 4 + at / DESCRIPTION);
    let page = V8 + number * V8_PAGE;
    let (start, end) = (page + 0x1140, page + V8_PAGE);
    let words = match number {
        _ if described.is_some() => vec![0, 0, 0, 0, 0, 0, V8_PAGE, end, HEAP, start],
        0 | 1 => vec![V8_PAGE, 8, HEAP, start, end],
        2 | 3 => vec![0, page, V8_PAGE, HEAP, start, end],
        _ => vec![0, V8_DESCRIPTIONS + (number - 4) * DESCRIPTION],
    };
    let size = if described.is_some() { DESCRIPTION } else { V8_PAGE };
    words.get((at % size / 8) as usize).copied().unwrap_or(0)
}

/// A word of these.
fn runtimes_word(address: u64) -> u64 {
    match address {
        PYTHON..RUBY => return python_word(address),
        RUBY..V8 => return ruby_word(address),
        V8.. => return v8_word(address),
        _ => {}
    }
    let bytes = counters();
    let at = address.wrapping_sub(COUNTERS) as usize;
    let word = bytes.get(at..at.saturating_add(8)).and_then(|word| word.try_into().ok());
    word.map_or_else(|| go_word(address), u64::from_le_bytes)
}

/// Where words of these lie that mean something.
pub fn runtimes_places() -> Vec<u64> {
    let ranges = [
        (GO_ENTRY, GO_ENTRY + 8),
        (GO_ARENA, GO_ARENA + 8 * 16),
        (GO_SPANS, GO_SPANS + 256 * 16),
        (COUNTERS, COUNTERS + 88),
    ];
    let each = |start: u64, stride: u64, count: u64, size: u64| {
        (0..count).map(move |number| (start + number * stride, start + number * stride + size))
    };
    let pages = each(PYTHON, PYTHON_POOL, PYTHON_POOLS, 48)
        .chain(each(RUBY, RUBY_PAGE, RUBY_PAGES, 8))
        .chain(each(RUBY_DESCRIPTIONS, DESCRIPTION, RUBY_PAGES, 96))
        .chain(each(V8, V8_PAGE, V8_PAGES, 48))
        .chain(each(V8_DESCRIPTIONS, DESCRIPTION, 2, 80));
    ranges.into_iter().chain(pages).flat_map(|(start, end)| (start..end).step_by(8)).collect()
}

/// The runtimes.
pub fn runtimes_words() -> BTreeMap<u64, u64> {
    runtimes_places().into_iter().map(|at| (at, runtimes_word(at))).collect()
}
