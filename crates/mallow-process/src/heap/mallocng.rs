// SPDX-License-Identifier: MIT
//! musl's heap (mallocng, since musl 1.2.1, on 64 bits), read from outside: every group of slots, by
//! the pages that describe them.
//!
//! ```text
//!     context, in the C library's data, written at the first malloc:
//!         secret | page size, on some machines | 1, counter | two lists, three sizes | first page | ...
//!     page:   secret | next page | number, then 40 bytes of each group
//!     group:  previous | next | slots | free bits | freed bits | last slot 5, 1, size class 6, pages
//! ```
//!
//! The slots begin with a word that points back to the group. A group may lie in a slot of another
//! one; that slot is not the program's.

use super::spans::{Heap, Sums};
use crate::memory::Memory;
use crate::smaps::Vma;

const PAGE: u64 = 4096;
/// From the secret to the address of the first page, where the page size is built in and not.
const FIRST_PAGE: [u64; 2] = [56, 64];
const GROUP: u64 = 40;
const GROUPS_AT: u64 = 24;
const MOST_GROUPS: u64 = (PAGE - GROUPS_AT) / GROUP;
const UNIT: u64 = 16;
/// Each block has a header of so many bytes.
const HEADER: u64 = 4;
/// Slots of the classes, in units.
const CLASSES: [u64; 48] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 31, 36, 42, 50, 63, 72, 84, 102, 127, 146,
    170, 204, 255, 292, 340, 409, 511, 584, 682, 818, 1023, 1169, 1364, 1637, 2047, 2340, 2730,
    3276, 4095, 4680, 5460, 6552, 8191,
];
/// Of a block with a mapping of its own.
const SINGLE: u64 = 63;
/// Of addresses of a program.
const MOST_ADDRESS: u64 = 1 << 48;
const MOST_PAGES: usize = 1 << 20;
/// The data of a C library, or of a static program.
const MOST_DATA: u64 = 16 << 20;

#[derive(Clone, Copy, Debug)]
struct Group {
    start: u64,
    end: u64,
    slot: u64,
    slots: u64,
    used: u64,
    is_single: bool,
    /// With mappings of its own.
    is_mapped: bool,
}

/// `None` where there is no such heap. `is_libc` tells whose data it may be in.
pub fn read(memory: &dyn Memory, vmas: &[Vma], is_libc: impl Fn(&str) -> bool) -> Option<Heap> {
    let (secret, first) =
        super::glibc::data_ranges(vmas, is_libc).into_iter().find_map(|(start, end)| {
            context(memory, start, end.min(start.saturating_add(MOST_DATA)))
        })?;
    let mut groups = Vec::new();
    let mut metadata = Vec::new();
    let mut unread = 0;
    let mut page = first;
    for _ in 0..MOST_PAGES {
        if page == 0 {
            break;
        }
        if page % PAGE != 0 || memory.word(page)? != secret {
            return None;
        }
        metadata.push((page, page.saturating_add(PAGE)));
        let count = memory.number(page + 16, 4)?.min(MOST_GROUPS);
        for index in 0..count {
            let at = page + GROUPS_AT + index * GROUP;
            match group(memory, at) {
                Some(group) => groups.push(group),
                None if memory.word(at + 16)? != 0 => unread += UNIT,
                None => {}
            }
        }
        page = memory.word(page + 8)?;
    }
    Some(sums(memory, groups, metadata, unread))
}

/// The secret and the first page of groups.
fn context(memory: &dyn Memory, start: u64, end: u64) -> Option<(u64, u64)> {
    const PIECE: u64 = 1 << 13;
    let last = FIRST_PAGE[1] / 8;
    for piece in (start..end).step_by(8 * (PIECE - last) as usize) {
        let count = PIECE.min((end - piece) / 8);
        let Some(words) = memory.words_unless_zero(piece, count as usize) else { continue };
        for index in 0..words.len() {
            let found = FIRST_PAGE.iter().find_map(|&distance| {
                let page = *words.get(index + distance as usize / 8)?;
                let is_started =
                    words.get(index + (distance - 48) as usize / 8)? & 0xffff_ffff == 1;
                let is_page = page != 0 && page % PAGE == 0 && words[index] != 0 && is_started;
                (is_page && memory.word(page) == Some(words[index])).then_some(page)
            });
            if let Some(page) = found {
                return Some((words[index], page));
            }
        }
    }
    None
}

/// The group that is described at an address, if one is.
fn group(memory: &dyn Memory, at: u64) -> Option<Group> {
    let start = memory.word(at + 16).filter(|start| *start != 0 && start % UNIT == 0)?;
    if memory.word(start)? != at {
        return None;
    }
    let (masks, bits) = (memory.word(at + 24)?, memory.word(at + 32)?);
    let (slots, class, pages) = ((bits & 31) + 1, bits >> 6 & 63, bits >> 12);
    let slot = if slots == 1 && pages > 0 {
        pages.checked_mul(PAGE)?.checked_sub(UNIT)?
    } else {
        UNIT * CLASSES.get(class as usize)?
    };
    let free = (masks | masks >> 32) & ((1 << slots) - 1);
    let end = start.checked_add(UNIT)?.checked_add(slots.checked_mul(slot)?)?;
    if end > MOST_ADDRESS {
        return None;
    }
    Some(Group {
        start,
        end,
        slot,
        slots,
        used: slots - u64::from(free.count_ones()),
        is_single: class == SINGLE,
        is_mapped: pages > 0,
    })
}

fn sums(
    memory: &dyn Memory,
    mut groups: Vec<Group>,
    metadata: Vec<(u64, u64)>,
    unread: u64,
) -> Heap {
    groups.sort_unstable_by_key(|group| (group.start, std::cmp::Reverse(group.end)));
    // Those that the group lies in, the innermost last.
    let mut around: Vec<usize> = Vec::new();
    for index in 0..groups.len() {
        let inner = groups[index];
        while around.last().is_some_and(|&outer| groups[outer].end <= inner.start) {
            around.pop();
        }
        if let Some(&outer) = around.last().filter(|_| !inner.is_mapped) {
            groups[outer].used = groups[outer].used.saturating_sub(1);
            groups[outer].slots = groups[outer].slots.saturating_sub(1);
        }
        if groups[index].slots > 0 {
            around.push(index);
        }
    }
    let mut sums = Sums::default();
    for group in &groups {
        let bytes = group.slots.saturating_mul(group.slot);
        if group.is_single {
            let arena = sums.arena(0);
            arena.active = arena.active.saturating_add(bytes);
            arena.large = arena.large.saturating_add(group.used * (group.slot - HEADER));
            arena.large_count += group.used;
        } else {
            sums.run(0, bytes, group.slot - HEADER, group.slots, group.used.min(group.slots));
        }
        if group.is_mapped {
            let end = group.end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
            sums.pages(group.start, end);
        }
    }
    let mut heap = sums.finish(memory);
    heap.allocator = "musl".into();
    heap.layout = "musl (mallocng)".into();
    heap.unread = unread;
    heap.metadata = metadata.len() as u64 * PAGE;
    heap.metadata_at = metadata;
    heap
}
