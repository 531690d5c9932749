// SPDX-License-Identifier: MIT
//! Lists of free chunks that glibc counts as in use: an arena's fast bins, and the caches of threads. Each
//! cache is a chunk of the heap itself:
//!
//! ```text
//!     one counter for each list | one head for each list
//! ```
//!
//! | glibc | chunk | lists | a counter says |
//! |---|---|---|---|
//! | 2.26 to 2.29 | 0x250 | 64 | how many chunks are in the list, in 8 bits |
//! | 2.30 to 2.41 | 0x290 | 64 | the same in 16 bits |
//! | since 2.42 | 0x300, 0x310 | 76 | how many more the list takes, in 16 bits |
//!
//! Each of the first 64 lists has chunks of one size. The other 12 have chunks of many sizes: each
//! begins where the one before ends, and ends at the next power of two.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use super::chunks::{CACHES, FLAGS, IS_MAPPED, SMALLEST, Walk};
use super::large::Counted;
use crate::memory::Memory;
use crate::page_size;

const FASTBINS: u64 = 10;
/// In a fast bin; a longer list is something else altogether.
const LONGEST_LIST: u64 = 1 << 28;

/// Lists whose chunks are all of one size, and the largest such size.
const LISTS_OF_ONE_SIZE: u64 = 64;
const LARGEST_OF_ONE_SIZE: u64 = SMALLEST + 16 * (LISTS_OF_ONE_SIZE - 1);
/// A counter has no room for more.
const MOST_IN_LIST: u64 = 1 << 16;

#[derive(Debug)]
struct Shape {
    lists: u64,
    /// Of a counter, in bytes.
    width: u64,
    counts_room: bool,
}

const SHAPES: [Shape; 4] = [
    Shape { lists: 64, width: 1, counts_room: false },
    Shape { lists: 64, width: 2, counts_room: false },
    Shape { lists: 76, width: 2, counts_room: true },
    Shape { lists: 76, width: 2, counts_room: true },
];

/// What waits in lists although it counts as in use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lists {
    pub fast: u64,
    pub cached: u64,
    pub count: u64,
    /// In caches too, but blocks with mappings of their own.
    pub mapped: Counted,
}

/// Follows the fast bins, where the arena has some, and the lists of the threads' caches that were met.
pub fn lists(walk: &mut Walk, fastbins: Option<u64>) -> Lists {
    let mut lists = Lists::default();
    let memory = walk.memory;
    for (bin, at) in (0..FASTBINS).zip(fastbins.into_iter().flat_map(|at| (at..).step_by(8))) {
        let size = SMALLEST + 16 * bin;
        let head = memory.word(at).unwrap_or(0);
        // Fast bins link chunks, caches link what the program got: 16 bytes further.
        let head = if head != 0 { head.wrapping_add(16) } else { 0 };
        let length = follow(memory, head, 16, &(size..=size), LONGEST_LIST, &mut |_| ());
        let length = length.unwrap_or(0);
        lists.count += length;
        lists.fast += length * size;
        walk.uncount(size, length);
    }
    for (at, chunk) in std::mem::take(&mut walk.caches) {
        let shape = CACHES.iter().zip(&SHAPES).find(|(cache, _)| **cache == chunk);
        let waiting = shape.and_then(|(_, shape)| shape.waiting(memory, at + 16));
        for (header, length) in waiting.unwrap_or_default() {
            let size = header & !FLAGS;
            if header & IS_MAPPED != 0 {
                lists.mapped.chunks += length;
                lists.mapped.bytes += length * size.next_multiple_of(page_size());
                continue;
            }
            lists.count += length;
            lists.cached += length * size;
            walk.uncount(size, length);
        }
    }
    lists
}

impl Shape {
    /// Sizes of the chunks in a list.
    fn sizes(list: u64) -> RangeInclusive<u64> {
        let Some(large) = list.checked_sub(LISTS_OF_ONE_SIZE) else {
            let size = SMALLEST + 16 * list;
            return size..=size;
        };
        let end = LARGEST_OF_ONE_SIZE.next_power_of_two() << large;
        LARGEST_OF_ONE_SIZE.max(end / 2 - 1) + 1..=end - 1
    }

    /// Chunks that wait in the cache at an address, by their headers' size and `IS_MAPPED`; `None` if this
    /// is something else, or if its thread is at work in it.
    fn waiting(&self, memory: &dyn Memory, at: u64) -> Option<HashMap<u64, u64>> {
        let mut found = HashMap::new();
        let mut places = None;
        for list in 0..self.lists {
            let count = memory.number(at + self.width * list, self.width)?;
            let head = memory.word(at + self.width * self.lists + 8 * list)?;
            let mut add =
                |header: u64| *found.entry(header & (!FLAGS | IS_MAPPED)).or_default() += 1;
            let length = follow(memory, head, 0, &Self::sizes(list), MOST_IN_LIST, &mut add)?;
            let fits = if self.counts_room {
                // All lists take as many.
                count + length == *places.get_or_insert(count + length)
            } else {
                count == length
            };
            if !fits {
                return None;
            }
        }
        Some(found)
    }
}

/// The length of a list of free chunks, by addresses as the program has them; `visit` is given the
/// header of each. A link points `before` bytes in front of the next such address. Since glibc 2.32 links
/// are mixed with their own place. `None` of a circle too, as old and new links make while the program changes the list:
/// one chunk is remembered, and another after twice as many (Brent, 1980).
fn follow(
    memory: &dyn Memory,
    head: u64,
    before: u64,
    sizes: &RangeInclusive<u64>,
    most: u64,
    visit: &mut dyn FnMut(u64),
) -> Option<u64> {
    let header = |address: u64| {
        let header = memory.word(address.checked_sub(8)?)?;
        (address.is_multiple_of(16) && sizes.contains(&(header & !FLAGS))).then_some(header)
    };
    let (mut at, mut length) = (head, 0_u64);
    let mut remembered = 0;
    while at != 0 {
        visit(header(at).filter(|_| length < most && at != remembered)?);
        length += 1;
        if length.is_power_of_two() {
            remembered = at;
        }
        let link = memory.word(at)?;
        let place = |pointer: u64| if pointer == 0 { 0 } else { pointer.wrapping_add(before) };
        let (mixed, plain) = (place(link ^ (at >> 12)), place(link));
        at = if mixed == 0 || header(mixed).is_some() { mixed } else { plain };
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks of 32 bytes from address 0x1000 on, whose links lead from one to the next.
    struct Ring(Vec<u64>);

    impl Memory for Ring {
        fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
            let index = usize::try_from(address.checked_sub(0x1000 - 8)? / 32).ok()?;
            let link = *self.0.get(index)?;
            let word = if address.is_multiple_of(32) { link } else { 32 | 1 };
            bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
            Some(())
        }
    }

    #[test]
    fn a_list_that_comes_back_to_itself_has_no_length() {
        let chunk = |index: u64| 0x1000 + 32 * index;
        let length = |links: Vec<u64>| {
            follow(&Ring(links), chunk(0), 0, &(32..=32), LONGEST_LIST, &mut |_| ())
        };
        assert_eq!(length(vec![chunk(1), chunk(2), 0]), Some(3));
        for back_to in 0..3 {
            assert_eq!(length(vec![chunk(1), chunk(2), chunk(back_to)]), None);
        }
    }
}
