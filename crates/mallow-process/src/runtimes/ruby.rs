// SPDX-License-Identifier: MIT
//! Ruby's heap pages: 64 KiB at a multiple of that, 16 KiB before Ruby 3.2. Each begins with the
//! address of its description (`struct heap_page` of gc.c), which tells where its first slot is:
//!
//! ```text
//!     page:        description | slots ...
//!     description: [slot size] slots free ... | ... | first slot
//! ```

use super::{Found, Kept, MOST_PLACES, joined, own_mappings, places, space, word};
use crate::mappings::Kind;
use crate::memory::Memory;
use crate::page_size;
use crate::process::Process;

const PAGES: [u64; 2] = [16 << 10, 64 << 10];
/// Of the description, as far as it is read.
const WORDS: usize = 12;
/// Where the first slot may be in its page.
const FIRST_WITHIN: u64 = 512;
const SLOT: u64 = 40;
const CONVINCING: usize = 4;
const LARGEST_STACK: u64 = 1 << 20;

pub fn find(process: &Process, memory: &dyn Memory) -> Found {
    let mut kept = Kept { what: "Ruby: heap pages".into(), ..Kept::default() };
    let (mut found, mut used, mut pages) = (Found::default(), 0, 0);
    let mut left = MOST_PLACES;
    for vma in own_mappings(process).filter(|vma| vma.is_writable()) {
        let mut ranges = Vec::new();
        for at in places(vma, PAGES[0], &mut left) {
            let Some(page) = page(memory, at) else { continue };
            pages += 1;
            ranges.push((at, (at + page.size).min(vma.end)));
            used += page.used;
        }
        for range in joined(&ranges, 0) {
            kept.size += range.1 - range.0;
            found.spaces.push(space(range, Kind::RuntimeHeap, &kept.what));
        }
    }
    if pages < CONVINCING {
        return Found::default();
    }
    kept.used = Some(used).filter(|_| left > 0);
    found.kept.push(kept);
    fibers(process, &mut found);
    found
}

/// Stacks of fibers, each behind one page of guard, which Ruby makes many of at a time.
fn fibers(process: &Process, found: &mut Found) {
    let mut kept = Kept { what: "Ruby: stacks of fibers".into(), ..Kept::default() };
    for pair in process.vmas.windows(2) {
        let [guard, stack] = pair else { continue };
        let is_guard = guard.is_without_access() && guard.size() == page_size();
        let is_plain = stack.is_writable() && stack.is_private() && stack.is_anonymous();
        let is_owned =
            process.threads.iter().any(|t| t.stack_pointer.is_some_and(|p| stack.contains(p)));
        let is_stack = guard.end == stack.start && stack.size() <= LARGEST_STACK;
        if is_guard && is_stack && is_plain && stack.name.is_empty() && !is_owned {
            kept.size += stack.size();
            found.spaces.push(space((stack.start, stack.end), Kind::RuntimeHeap, &kept.what));
        }
    }
    if kept.size > 0 {
        found.kept.push(kept);
    }
}

struct Page {
    size: u64,
    /// Bytes of the slots in use.
    used: u64,
}

/// The page that begins at an address.
fn page(memory: &dyn Memory, at: u64) -> Option<Page> {
    let description = memory.word(at).filter(|&d| d != 0 && d.is_multiple_of(8))?;
    let mut bytes = [0; 8 * WORDS];
    memory.read(description, &mut bytes)?;
    let is_first = |address: u64| (at + 8..=at + FIRST_WITHIN).contains(&address);
    if !(1..WORDS).any(|index| is_first(word(&bytes, index))) {
        return None;
    }
    let short =
        |index: usize| u64::from(u16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]]));
    let (slot, slots, free) = match short(0) {
        // Since Ruby 3.1 pages have slots of several sizes, and say which.
        0 => return None,
        size if size.is_multiple_of(SLOT) && size * short(1) <= PAGES[1] => {
            (size, short(1), short(2))
        }
        slots => (SLOT, slots, short(1)),
    };
    let size = PAGES.into_iter().find(|&size| slots * slot <= size)?;
    (free <= slots).then(|| Page { size, used: (slots - free) * slot })
}
