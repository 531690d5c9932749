// SPDX-License-Identifier: MIT
//! What a process and its files say is not to be trusted: any bytes in the place of maps, smaps,
//! status, ELF files or heaps give a result or a refusal, never a panic.
#![allow(clippy::unwrap_used)]

mod words;

use std::cell::Cell;
use std::collections::BTreeMap;

use mallow_process::binding::Inspector;
use mallow_process::elf::{self, ElfInfo};
use mallow_process::heap::{
    Heap, glibc, jemalloc, mallocng, mallow, mimalloc, spans, stats_page::Page,
};
use mallow_process::mappings::{self, Context};
use mallow_process::memory::Memory;
use mallow_process::process::{Process, SAVED};
use mallow_process::runtimes;
use mallow_process::smaps::Vma;
use mallow_process::{maps, smaps};
use proptest::prelude::*;
use words::{
    DATA, FewWords, HEAP, HEAP_SIZE, RUNTIMES, Words, arena_word, runtime_process, runtimes_places,
    runtimes_words, spans_places, spans_vmas, spans_words,
};

type Edit = (usize, u8, bool);

/// Keeps most of the form, so that what lies behind a check is reached.
fn edited(text: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for &(at, byte, insert) in edits {
        let at = at % (bytes.len() + 1);
        if insert || at == bytes.len() {
            bytes.insert(at, byte);
        } else {
            bytes[at] = byte;
        }
    }
    bytes
}

/// Digits and signs matter more than other bytes.
fn any_edits(most: usize) -> impl Strategy<Value = Vec<Edit>> {
    let known = proptest::sample::select(b"f09- \n:k".to_vec());
    let byte = prop_oneof![known, any::<u8>()];
    proptest::collection::vec((any::<usize>(), byte, any::<bool>()), 0..most)
}

fn any_number() -> impl Strategy<Value = u64> {
    let near_the_end = (0..0x1_0000u64).prop_map(|n| u64::MAX - n);
    let powers = (0..64u32).prop_map(|bit| 1 << bit);
    prop_oneof![any::<u64>(), 0..0x1_0000u64, near_the_end, powers]
}

fn any_vma() -> impl Strategy<Value = Vma> {
    let names = proptest::sample::select(vec!["", "[heap]", "[stack]", "/lib/libc.so.6"]);
    let perms = proptest::sample::select(vec!["rw-p", "---p", "r-xp", "rw-s", ""]);
    let sizes = (any_number(), any_number(), any_number(), any_number());
    let zeroed_data = proptest::option::of(any_number());
    (sizes, names, perms, any::<bool>(), zeroed_data).prop_map(
        |((a, b, rss, pss), name, perms, has_file, zeroed_data)| {
            // As the reader of smaps makes them.
            let (start, end) = (a.min(b).min(u64::MAX - 1), a.max(b).max(1));
            let end = end.max(start + 1);
            let (rss, pss) = (rss.min(end - start), pss.min(end - start));
            let (perms, name) = (perms.into(), name.into());
            let inode = u64::from(has_file);
            Vma { start, end, perms, inode, name, rss, pss, zeroed_data, ..Vma::default() }
        },
    )
}

fn name_all(process: &Process, heap: &Heap, memory: Option<&dyn Memory>) -> usize {
    let mut spaces = Vec::new();
    if let Some(memory) = memory {
        for program in RUNTIMES {
            let process = Process {
                exe: program.into(),
                is_go: program == "go",
                vmas: process.vmas.clone(),
                ..Process::default()
            };
            spaces.extend(runtimes::find(&process, memory, &mut Inspector::default()).spaces);
        }
    }
    let spaces = spaces.as_slice();
    let context = Context { process, heap, allocator: "glibc", memory, page: None, spaces };
    let named = mappings::name(&context);
    mappings::groups(&named, "glibc");
    named.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_maps_and_smaps(edits in any_edits(200)) {
        let text = std::fs::read("/proc/self/smaps").unwrap();
        let bytes = edited(&text[..text.len().min(8000)], &edits);
        let text = String::from_utf8_lossy(&bytes);
        maps::parse(&bytes);
        smaps::parse_fields(&text);
        if let Some(mut vmas) = smaps::parse(&text) {
            smaps::drop_overlaps(&mut vmas);
            prop_assert!(smaps::is_whole(&vmas));
            prop_assert!(vmas.iter().all(|vma| vma.size() > 0));
        }
    }

    #[test]
    fn any_saved_process(edits in any_edits(60), changed in 0..SAVED.len()) {
        let folder = tempfile::tempdir().unwrap();
        for (index, file) in SAVED.iter().enumerate() {
            let bytes = std::fs::read(format!("/proc/self/{file}")).unwrap();
            let bytes = if index == changed { edited(&bytes, &edits) } else { bytes };
            std::fs::write(folder.path().join(file), bytes).unwrap();
        }
        if let Ok(process) = Process::saved(folder.path()) {
            prop_assert_eq!(name_all(&process, &Heap::Unknown, None), process.vmas.len());
            process.peak_rss();
        }
    }

    #[test]
    fn any_elf_file(edits in any_edits(60), near_the_start in any::<bool>()) {
        let shell = std::fs::read("/bin/sh").unwrap();
        let part = if near_the_start { shell.len().min(1200) } else { shell.len() };
        // Bytes that move would only make it no ELF file.
        let edits: Vec<Edit> = edits.iter().map(|edit| (edit.0 % part, edit.1, false)).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, edited(&shell, &edits)).unwrap();
        if let Ok(Some(info)) = ElfInfo::read(&path) {
            info.libc();
            info.machine_name();
            elf::identify(&path, &info);
        }
        elf::loaded_size(&path);
    }

    /// Words that are the same few everywhere, or point to where they stand.
    #[test]
    fn any_memory(
        words in proptest::collection::vec(any_number(), 1..40),
        mut vmas in proptest::collection::vec(any_vma(), 1..8),
        at in any_number(),
    ) {
        vmas.sort_by_key(|vma| vma.start);
        smaps::drop_overlaps(&mut vmas);
        let word = |address: u64| {
            words.get(address as usize / 8 % (words.len() + 1)).copied().unwrap_or(address)
        };
        let memory = Words { word, resident: words[0], left: Cell::new(20_000) };
        let data = glibc::data_ranges(&vmas, |name| name.ends_with("libc.so.6"));
        let found = glibc::read(&memory, &data, &vmas);
        let heap = found.map_or(Heap::Unknown, Heap::Glibc);
        heap.used_and_free();
        if let Some(page) = Page::read(&memory, at) {
            mallow::read(&memory, &page);
        }
        // Pieces of 64 KiB are read here.
        for read in [jemalloc::read, mimalloc::read, of_musl] {
            memory.left.set(20);
            let found = read(&memory, &vmas);
            memory.left.set(20);
            let heap = found.map_or(Heap::Unknown, Heap::Spans);
            heap.used_and_free();
            name_all(&Process { vmas: vmas.clone(), ..Process::default() }, &heap, Some(&memory));
        }
        name_all(&Process { vmas, ..Process::default() }, &heap, Some(&memory));
    }

    /// An arena that looks right, and any chunks in its heap.
    #[test]
    fn any_chunks(words in proptest::collection::vec(any_number(), 1..60)) {
        let word = |address: u64| match address.wrapping_sub(HEAP) {
            at @ 0..HEAP_SIZE => words[at as usize / 8 % words.len()],
            _ => arena_word(address),
        };
        let memory = Words { word, resident: 4096, left: Cell::new(400_000) };
        let heap = Vma {
            start: HEAP,
            end: HEAP + HEAP_SIZE,
            perms: "rw-p".into(),
            name: "[heap]".into(),
            rss: HEAP_SIZE,
            ..Vma::default()
        };
        let vmas = vec![heap];
        let heaps = glibc::read(&memory, &[(DATA, DATA + 0x2000)], &vmas).expect("empty bins");
        prop_assert_eq!(heaps.arenas.len(), 1);
        let heap = Heap::Glibc(heaps);
        heap.used_and_free();
        name_all(&Process { vmas, ..Process::default() }, &heap, Some(&memory));
    }

    /// The same with any word of the arena wrong, such as how much it has from the system.
    #[test]
    fn any_arena(wrong in 0..300u64, value in any_number()) {
        let word = |address: u64| match address.wrapping_sub(DATA + 0x100) {
            at if at / 8 == wrong => value,
            _ => arena_word(address),
        };
        let memory = Words { word, resident: 4096, left: Cell::new(100_000) };
        let heap = Vma { start: HEAP, end: HEAP + HEAP_SIZE, perms: "rw-p".into(),
            name: "[heap]".into(), rss: HEAP_SIZE, ..Vma::default() };
        if let Some(heaps) = glibc::read(&memory, &[(DATA, DATA + 0x2000)], &[heap]) {
            Heap::Glibc(heaps).used_and_free();
        }
    }
}

fn of_musl(memory: &dyn Memory, vmas: &[Vma]) -> Option<spans::Heap> {
    mallocng::read(memory, vmas, |_| true)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Heaps of other allocators with any of their words wrong.
    #[test]
    fn any_spans(wrong in proptest::collection::vec((any::<usize>(), any_number()), 1..6)) {
        let places = spans_places();
        let mut words = spans_words();
        words.extend(wrong.iter().map(|&(at, value)| (places[at % places.len()], value)));
        let memory = Words { word: FewWords(words), resident: u64::MAX, left: Cell::new(100_000) };
        let vmas = spans_vmas();
        for read in [jemalloc::read, mimalloc::read, of_musl] {
            memory.left.set(1000);
            let found = read(&memory, &vmas);
            memory.left.set(100);
            let heap = found.map_or(Heap::Unknown, Heap::Spans);
            heap.used_and_free();
            name_all(&Process { vmas: vmas.clone(), ..Process::default() }, &heap, Some(&memory));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Tables of runtimes with any of their words wrong.
    #[test]
    fn any_runtime(wrong in proptest::collection::vec((any::<usize>(), any_number()), 1..6)) {
        let places = runtimes_places();
        let mut words = runtimes_words();
        words.extend(wrong.iter().map(|&(at, value)| (places[at % places.len()], value)));
        let memory = Words { word: FewWords(words), resident: u64::MAX, left: Cell::new(1_000_000) };
        for program in RUNTIMES {
            let process = runtime_process(program);
            let found = runtimes::find(&process, &memory, &mut Inspector::default());
            let sum: u64 = found.kept.iter().skip(1).map(|kept| kept.size).sum();
            prop_assert!(program != "go" || sum == 0 || sum == found.kept[0].size);
        }
    }
}

#[test]
fn tables_of_runtimes_are_read() {
    let memory =
        Words { word: FewWords(runtimes_words()), resident: u64::MAX, left: Cell::new(1_000_000) };
    let find = |program| {
        runtimes::find(&runtime_process(program), &memory, &mut Inspector::default()).kept
    };
    let go = find("go").into_iter().map(|kept| (kept.what, kept.size, kept.used));
    let size = 4 << 20;
    let expected = [
        ("Go: heap, with stacks of goroutines", size, None),
        ("Go: objects", 12 * 8192, Some(12 * 60 * 128)),
        ("Go: stacks of goroutines", 4 * 8192, None),
        ("Go: free pages of the heap", size - 16 * 8192, None),
    ];
    let expected = expected.map(|(what, size, used)| (what.to_owned(), size, used));
    assert_eq!(go.collect::<Vec<_>>(), expected);
    let classes = find("java");
    assert_eq!((classes.len(), classes[0].size), (1, 7 << 20));
    let of = |program| find(program).into_iter().map(|kept| (kept.size, kept.used));
    assert_eq!(of("python3").collect::<Vec<_>>(), [(1 << 20, Some(8 * 10 * 32))]);
    assert_eq!(of("ruby").collect::<Vec<_>>(), [(8 << 16, Some(8 * 900 * 40))]);
    let page = 256 << 10;
    assert_eq!(of("node").collect::<Vec<_>>(), [(4 * page, None), (2 * page, None)]);
}

/// In use, in how many blocks, and free blocks beside them.
fn figures(heap: &spans::Heap) -> (u64, u64, u64) {
    (heap.used(), heap.used_count(), heap.free_blocks())
}

#[test]
fn heaps_of_other_allocators_are_read() {
    let memory =
        Words { word: FewWords(spans_words()), resident: u64::MAX, left: Cell::new(1_000_000) };
    let vmas = spans_vmas();
    let heap = jemalloc::read(&memory, &vmas).expect("a tree");
    assert_eq!(heap.layout, "jemalloc 5.3");
    assert_eq!(figures(&heap), (16 * 61 * 64, 16 * 61, 16 * 3 * 64));
    let heap = mimalloc::read(&memory, &vmas).expect("a segment");
    assert_eq!(figures(&heap), (40 * 512, 40, 60 * 512));
    assert_eq!((heap.free_pages(), heap.free_resident()), (510 << 16, 510 << 16));
    let heap = mallocng::read(&memory, &vmas, |_| true).expect("a context");
    assert_eq!(figures(&heap), (7 * 60, 7, 3 * 60));
    assert_eq!(heap.ranges, [(words::MUSL + 0x10000, words::MUSL + 0x11000)]);
}

/// Words that look like a root by chance are given up soon.
#[test]
fn what_only_looks_like_a_tree_is_not_walked() {
    const READS: u32 = 20_000;
    let left_after = |change: &dyn Fn(&mut BTreeMap<u64, u64>)| {
        let mut words = spans_words();
        change(&mut words);
        let memory = Words { word: FewWords(words), resident: u64::MAX, left: Cell::new(READS) };
        let heap = jemalloc::read(&memory, &spans_vmas());
        (heap.map(|heap| heap.used_count()), memory.left.get())
    };
    let root = words::JEMALLOC_ROOT;
    let (found, left) = left_after(&|_| {});
    assert!(found == Some(16 * 61) && left > READS / 2, "{left}");
    // Tables where nothing is mapped.
    let (found, left) = left_after(&|words| {
        words.extend((1..=4000).map(|n| (root + 16 * n, 0x1000 + (n << 20))));
    });
    assert!(found.is_none() && left > READS / 2, "{left}");
    let leaf = words::JEMALLOC_LEAF;
    // Entries behind those of the slabs that lead to nothing.
    let (found, left) = left_after(&|words| {
        words.extend((5_000..65_000).map(|n| (leaf + 8 * n, words::JEMALLOC | 0x1000)));
    });
    assert!(found.is_none() && left > READS / 2, "{left}");
}

/// Before glibc 2.27 the bins of the library's arena begin at an odd multiple of 8.
#[test]
fn an_arena_of_an_old_glibc_is_found() {
    let arena_word = |address: u64| match arena_word(address + 8) {
        word if (DATA..DATA + 0x2000).contains(&word) => word - 8,
        word => word,
    };
    let old = DATA + 0x100;
    let word = |address: u64| {
        // From the bins on all lies 8 bytes further down; the list's pointer is to the start.
        if address == old + 104 + 254 * 8 + 16 { old } else { arena_word(address) }
    };
    let memory = Words { word, resident: 4096, left: Cell::new(100_000) };
    let heaps = glibc::read(&memory, &[(DATA, DATA + 0x2000)], &[]).expect("empty bins");
    assert_eq!((heaps.arenas.len(), heaps.arenas[0].address), (1, old));
}

/// A heap in many pieces: all bins but one hold chunks, the rarely used ones for large chunks too.
#[test]
fn an_arena_is_known_by_its_full_bins() {
    let bins = DATA + 0x100 + 112;
    let chunk = |bin: u64| HEAP + 0x2000 + bin * 64;
    let word = |address: u64| match address {
        _ if (bins + 16..bins + 254 * 8).contains(&address) => chunk((address - bins) / 16),
        // The last word of a chunk's header: the list that it is in.
        _ if (chunk(0)..chunk(127)).contains(&address) && (address - chunk(0)) % 64 == 24 => {
            bins - 16 + (address - chunk(0)) / 64 * 16
        }
        _ => arena_word(address),
    };
    let memory = Words { word, resident: 4096, left: Cell::new(100_000) };
    let heaps = glibc::read(&memory, &[(DATA, DATA + 0x2000)], &[]).expect("full bins");
    assert_eq!(heaps.arenas.len(), 1);
    // The same bins, of which no chunk knows.
    let word = |address: u64| if address < HEAP + HEAP_SIZE { 0 } else { word(address) };
    let memory = Words { word, resident: 4096, left: Cell::new(100_000) };
    assert!(glibc::read(&memory, &[(DATA, DATA + 0x2000)], &[]).is_none());
}

/// More than an address space from the system.
#[test]
fn an_arena_of_any_size_is_no_overflow() {
    let system = DATA + 0x100 + 112 + 254 * 8 + 40;
    let word = |address: u64| if address == system { u64::MAX } else { arena_word(address) };
    let memory = Words { word, resident: 4096, left: Cell::new(100_000) };
    let (start, end) = (HEAP, HEAP + HEAP_SIZE);
    let (perms, name) = ("rw-p".into(), "[heap]".into());
    let heap = Vma { start, end, perms, name, rss: HEAP_SIZE, ..Vma::default() };
    glibc::read(&memory, &[(DATA, DATA + 0x2000)], &[heap]);
}
