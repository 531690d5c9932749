// SPDX-License-Identifier: MIT

use std::cell::Cell;

use super::*;
use crate::heap::made_up::MadeUp;

/// A list of three slots, whose last one leads back to the first until it is read anew.
struct Circle {
    refreshes: Cell<u32>,
    closed: u32,
}

impl Memory for Circle {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let next = match address {
            8 | 16 | 24 => address + 8,
            _ if self.refreshes.get() < self.closed => 16,
            _ => 0,
        };
        buffer.copy_from_slice(&u64::to_le_bytes(next));
        Some(())
    }

    fn refresh(&self) {
        self.refreshes.set(self.refreshes.get() + 1);
    }
}

#[test]
fn a_circle_is_read_again() {
    let length = |closed| list_length(&Circle { refreshes: Cell::new(0), closed }, 8, [0; 2]);
    assert_eq!((length(0), length(2), length(u32::MAX)), (Some(3), Some(3), None));
}

const KEYS: [u64; 2] = [0x1234_5678_9abc_def0, 0xfedc_ba98_7654_3211];

/// A list of three slots whose links are encoded; nothing else can be read.
struct Coded;

impl Memory for Coded {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let coded = |next: u64| next ^ (address ^ KEYS[0]).wrapping_mul(KEYS[1]);
        let word = match address {
            8 => 16,
            16 => coded(24),
            24 => coded(32),
            32 => coded(0),
            _ => return None,
        };
        buffer.copy_from_slice(&u64::to_le_bytes(word));
        Some(())
    }
}

#[test]
fn encoded_links_are_followed() {
    assert_eq!(list_length(&Coded, 8, KEYS), Some(3));
    assert_eq!(list_length(&Coded, 8, [0; 2]), None, "a link that leads nowhere is no end");
}

/// A list of three slots. The program takes the first one and writes to it, before it is copied.
struct Taken(Cell<bool>);

impl Memory for Taken {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let word = match address {
            8 => 16,
            24 => 32,
            16 | 32 => 0,
            _ => return None,
        };
        self.0.set(self.0.get() || address != 8);
        buffer.copy_from_slice(&u64::to_le_bytes(word));
        Some(())
    }

    fn loads(&self) -> u64 {
        self.0.get().into()
    }

    fn number_now(&self, _head: u64, _size: u64) -> Option<u64> {
        Some(if self.0.get() { 24 } else { 16 })
    }
}

#[test]
fn a_slot_that_is_taken_while_the_list_is_copied_is_not_of_it() {
    assert_eq!(list_length(&Taken(Cell::new(false)), 8, [0; 2]), Some(2));
}

const PAGE: u64 = 0x10_0000;
const ARENA: u64 = 0x100_0000;
const ARENA_SIZE: u64 = 0x100;
const HEAP: u64 = 0x200_0000;
const SHARED_HEAP: u64 = 0x300_0000;
const MAP: u64 = 0x400_0000;
const REGION: u64 = 0x500_0000;
const EXTENTS: u64 = 0x600_0000;
const START: u64 = 1 << 40;
const SLAB: u64 = 4096;
const BLOCK: u64 = 9 * 4096;

/// Where numbers lie: arenas, log2 of a page, the first heap, sizes of classes, bytes of metadata, keys.
const NUMBERS: u64 = 0x1000;

/// Structures of words.
const FIELDS: [(&str, &[&str]); 4] = [
    (
        "arena",
        &[
            "lock_state",
            "lock_turns",
            "regions",
            "region_bytes",
            "active_pages",
            "huge_active_pages",
            "huge_active_count",
            "dirty_pages",
            "huge_pages",
            "muzzy_pages",
            "retained_pages",
        ],
    ),
    ("region", &["next", "start", "size"]),
    ("extent", &["start", "pages", "state", "slot_size", "capacity", "left", "bias", "remote"]),
    ("heap", &["next", "arena", "outboxes", "large_counts"]),
];
/// Arrays of a heap, an element for a small class, a medium one and one of blocks.
const PUTS: u64 = 32;
const FREE: u64 = 56;
const ROOMS: u64 = 80;

/// Writes a table of names and words, and where it is and how long.
fn set_table(memory: &mut MadeUp, index: u64, lines: &[(String, u64)]) {
    let table = PAGE + 0x1_0000 * (index + 1);
    memory.set(PAGE + 56 + 8 * index, table);
    memory.set(PAGE + 80 + 4 * index, lines.len() as u64);
    for (at, (name, word)) in (table..).step_by(32).zip(lines) {
        let mut bytes = [0u8; 24];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        for (at, part) in (at..).step_by(8).zip(bytes.as_chunks().0) {
            memory.set(at, u64::from_le_bytes(*part));
        }
        memory.set(at + 24, *word);
    }
}

fn named(lines: &[(&str, u64)]) -> Vec<(String, u64)> {
    lines.iter().map(|&(name, word)| (name.to_owned(), word)).collect()
}

fn set_page(memory: &mut MadeUp, is_coded: bool) {
    let [magic, version] = [*b"mallow:s", *b"tats:2\n\0"].map(u64::from_le_bytes);
    memory.set_all(PAGE, &[magic, version, 2, PAGE]);
    let mut roots = vec![
        ("arenas", ARENA),
        ("arenas_used", NUMBERS),
        ("page_shift", NUMBERS + 8),
        ("heaps", NUMBERS + 16),
        ("class_sizes", NUMBERS + 24),
        ("meta_bytes", NUMBERS + 40),
        ("pagemap", MAP),
        ("heap_shared", SHARED_HEAP),
    ];
    roots.extend(is_coded.then_some(("link_keys", NUMBERS + 48)));
    let numbers = [
        ("pagemap_root_at", 0),
        ("root_shift", 40),
        ("granule_shift", 12),
        ("leaf_mask", (1 << 28) - 1),
        ("remote_count_shift", 48),
        ("small_classes", 1),
        ("classes", 2),
        ("lists", 3),
        ("outboxes", 0),
        ("large_classes", 0),
        ("state_active", 1),
        ("state_cached", 2),
    ];
    let field = |offset: u64, size: u64| size << 32 | offset;
    let mut fields = vec![
        ("sizeof.arena".to_owned(), field(0, ARENA_SIZE)),
        ("heap.puts".to_owned(), field(PUTS, 8)),
        ("heap.free".to_owned(), field(FREE, 8)),
        ("heap.rooms".to_owned(), field(ROOMS, 2)),
    ];
    for (structure, names) in FIELDS {
        let words = names.iter().map(|name| format!("{structure}.{name}"));
        fields.extend(words.zip((0..).step_by(8).map(|offset| field(offset, 8))));
    }
    // Each count is written over the end of the one before.
    set_table(memory, 0, &named(&roots));
    set_table(memory, 1, &named(&numbers));
    set_table(memory, 2, &fields);
}

/// Two arenas, the second of which is empty. The first has a slab of four slots and four blocks of pages, all of
/// which it takes for the program's. A heap of `owner` has three of each in its lists, by its counts: their first
/// words are the program's by now.
fn process(owner: u64, is_coded: bool) -> MadeUp {
    let mut memory = MadeUp::default();
    set_page(&mut memory, is_coded);
    let sizes = 16 | 1024 << 32;
    memory.set_all(NUMBERS, &[2, 12, HEAP, sizes, BLOCK]);
    let pages = (SLAB + 4 * BLOCK) >> 12;
    memory.set_all(ARENA, &[0, 8, REGION, pages << 12, pages]);
    memory.set_all(REGION, &[0, START, pages << 12]);
    memory.set(MAP + 8, 0x1000);
    let mut at = START;
    for (index, bytes) in (0..).zip([SLAB, BLOCK, BLOCK, BLOCK, BLOCK]) {
        let extent = EXTENTS + 64 * index;
        let slots = if bytes == SLAB { [1024, 4, 4] } else { [0; 3] };
        memory.set_all(extent, &[at, bytes >> 12, 1]);
        memory.set_all(extent + 24, &slots);
        memory.set(MAP + 0x1000 + 8 * ((at - START) >> 12), extent - MAP);
        memory.set(at, 0x1234_5678);
        at += bytes;
    }
    memory.set_all(HEAP, &[0, owner]);
    memory.set(HEAP + PUTS + 16, 10);
    memory.set_all(HEAP + FREE, &[0, START, START + SLAB]);
    for class in [1, 2] {
        memory.set_short(HEAP + ROOMS + 2 * class, (-3i64).cast_unsigned());
    }
    memory
}

fn heap_of(memory: &MadeUp) -> Heap {
    read(memory, &Page::read(memory, PAGE).expect("a page")).expect("a heap")
}

#[test]
fn what_lies_in_a_list_is_free_though_the_program_wrote_where_it_was() {
    for owner in [ARENA, ARENA + ARENA_SIZE] {
        let heap = heap_of(&process(owner, false));
        assert_eq!((heap.arenas.len(), heap.heaps, heap.incomplete), (2, 1, 0));
        assert_eq!((heap.sum(|arena| arena.slots_used), heap.listed), (4096, 3 * 1024));
        let large = (heap.sum(|arena| arena.large), heap.sum(|arena| arena.large_count));
        assert_eq!(large, (BLOCK, 1), "of the arena at {owner:#x}");
        let pages = (heap.sum(|arena| arena.active), heap.sum(|arena| arena.cached));
        assert_eq!(pages, (SLAB + BLOCK, 3 * BLOCK));
        assert_eq!((heap.allocated(), heap.large_allocations), (1024 + BLOCK, Some(7)));
    }
}

#[test]
fn blocks_in_lists_of_descriptors_are_what_these_say() {
    let heap = heap_of(&process(ARENA, true));
    assert_eq!((heap.sum(|arena| arena.large), heap.sum(|arena| arena.cached)), (4 * BLOCK, 0));
    assert_eq!((heap.listed, heap.incomplete), (3 * 1024, 0));
}

#[test]
fn a_list_that_never_ends_counts_for_nothing() {
    let mut memory = process(ARENA + ARENA_SIZE, false);
    memory.set(HEAP + FREE, START);
    memory.set(START, START);
    let heap = heap_of(&memory);
    assert_eq!((heap.incomplete, heap.listed), (0, 3 * 1024));
}
