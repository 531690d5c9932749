//! CPython's arenas for objects of up to 512 bytes. They hold pools, one size each, that begin with
//! a header (`struct pool_header` of obmalloc.c):
//!
//! ```text
//!     count | free block | next pool | previous pool | arena size | next offset last offset
//! ```
//!
//! Pools have 16 KiB since Python 3.10, and a page before.

use super::{Found, Kept, MOST_PLACES, half, joined, own_mappings, places, space, word};
use crate::mappings::Kind;
use crate::memory::Memory;
use crate::process::Process;

const POOLS: [u64; 2] = [16 << 10, 4 << 10];
/// Space between two pools of an arena that have been used.
const ARENA: u64 = 1 << 20;
const HEADER: u64 = 48;
const LARGEST: u64 = 512;
/// So many pools are no accident.
const CONVINCING: usize = 4;

pub fn find(process: &Process, memory: &dyn Memory) -> Found {
    POOLS.iter().find_map(|&size| of_size(process, memory, size)).unwrap_or_default()
}

fn of_size(process: &Process, memory: &dyn Memory, size: u64) -> Option<Found> {
    let mut found = Found::default();
    let mut kept =
        Kept { what: "Python: arenas of objects up to 512 bytes".into(), ..Kept::default() };
    let (mut used, mut pools, mut left) = (0, 0, MOST_PLACES);
    for vma in own_mappings(process).filter(|vma| vma.is_writable()) {
        let mut ranges = Vec::new();
        for at in places(vma, size, &mut left) {
            if let Some(bytes) = pool(memory, at, size) {
                used += bytes;
                pools += 1;
                ranges.push((at, at + size));
            }
        }
        for (start, end) in joined(&ranges, ARENA) {
            // What of the first and the last arena was never used, or not aligned.
            let start = if start - vma.start < ARENA { vma.start } else { start };
            let end = if vma.end - end < ARENA { vma.end } else { end };
            kept.size += end - start;
            found.spaces.push(space((start, end), Kind::RuntimeHeap, &kept.what));
        }
    }
    kept.used = Some(used).filter(|_| left > 0);
    found.kept.push(kept);
    (pools >= CONVINCING).then_some(found)
}

/// Bytes in use of the pool at an address.
fn pool(memory: &dyn Memory, at: u64, size: u64) -> Option<u64> {
    let mut header = [0; HEADER as usize];
    memory.read(at, &mut header)?;
    let (count, free) = (half(&header, 0), word(&header, 1));
    let (next, previous) = (word(&header, 2), word(&header, 3));
    let (class, next_offset, last_offset) =
        (half(&header, 9), half(&header, 10), half(&header, 11));
    // Multiples of 16 bytes since Python 3.7, of 8 before.
    [16, 8].into_iter().find_map(|step| {
        let block = (class + 1) * step;
        let fits = block <= LARGEST && last_offset == size - block;
        let is_free = free == 0 || (at + HEADER..at + size).contains(&free);
        let is_offset = (HEADER..=size).contains(&next_offset);
        let is_linked = next != 0 && previous != 0;
        let most = (size - HEADER) / block;
        (fits && is_free && is_offset && is_linked && (1..=most).contains(&count))
            .then(|| count * block)
    })
}
