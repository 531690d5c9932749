// SPDX-License-Identifier: MIT
//! V8's heap pages: 256 KiB at a multiple of that, or more for one large object. Each begins with a
//! header (`MemoryChunk`):
//!
//! ```text
//!     size | flags | heap | start of the objects | their end | ...
//! ```

use std::collections::BTreeMap;

use super::{Found, Kept, MOST_PLACES, own_mappings, places, space, word};
use crate::mappings::Kind;
use crate::memory::Memory;
use crate::process::Process;
use crate::smaps::Vma;

const PAGE: u64 = 256 << 10;
const HEADER_WITHIN: u64 = 32 << 10;
const LARGEST: u64 = 1 << 36;
/// The two halves of the space of young objects.
const YOUNG: u64 = 3 << 3;
const CONVINCING: usize = 4;

pub fn find(process: &Process, memory: &dyn Memory) -> Found {
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut found, mut left) = (Found::default(), MOST_PLACES);
    for vma in own_mappings(process).filter(|vma| vma.perms.starts_with('r')) {
        let first = vma.start.next_multiple_of(PAGE);
        // A page may be cut into several mappings; what is shorter than one may begin one.
        let begins_one = first < vma.end && vma.end - first < PAGE;
        let starts = places(vma, PAGE, &mut left).chain(begins_one.then_some(first));
        for at in starts {
            let Some((what, end)) = page(process, memory, at) else { continue };
            *sizes.entry(what).or_default() += end - at;
            let kind = if what == CODE { Kind::Jit } else { Kind::RuntimeHeap };
            found.spaces.push(space((at, end), kind, what));
        }
    }
    if found.spaces.len() < CONVINCING {
        return Found::default();
    }
    let kept = |(what, size): (&str, u64)| Kept { what: what.into(), size, ..Kept::default() };
    found.kept = sizes.into_iter().map(kept).collect();
    found
}

const CODE: &str = "V8: code space";

/// What the page at an address holds, and where it ends.
fn page(process: &Process, memory: &dyn Memory, at: u64) -> Option<(&'static str, u64)> {
    let mut header = [0; 40];
    memory.read(at, &mut header)?;
    let [size, flags, heap, start, end] = [0, 1, 2, 3, 4].map(|index| word(&header, index));
    let is_size = size.is_multiple_of(4096) && (1..=LARGEST).contains(&size);
    let is_area = (at + 40..at + HEADER_WITHIN).contains(&start) && start < end && end <= at + size;
    if !is_size || !is_area || !heap.is_multiple_of(8) {
        return None;
    }
    let holds_code = |vma: &&Vma| vma.contains(start) && vma.is_executable();
    let what = match () {
        () if process.vmas.iter().any(|vma| holds_code(&vma)) => CODE,
        () if heap == 0 => "V8: read-only space",
        () if size > PAGE => "V8: large objects",
        () if flags & YOUNG != 0 => "V8: young objects",
        () => "V8: old objects",
    };
    Some((what, at + size))
}
