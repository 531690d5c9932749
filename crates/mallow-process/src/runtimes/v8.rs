// SPDX-License-Identifier: MIT
//! V8's heap pages: 256 KiB at a multiple of that, or more for one large object. Each begins with a
//! header (`MemoryChunk`), whose last part lies elsewhere since V8 13:
//!
//! ```text
//!     Node.js 20: size | flags | heap | start of the objects | their end | ...
//!     Node.js 22: flags | the page's address | size | heap | start of the objects | their end | ...
//!     Node.js 24: flags | description ...
//!     description: 6 words | size | end of the objects | heap | their start | ...
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
/// Where the size stands in a description.
const DESCRIBED_SIZE: u64 = 6 * 8;
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
    let header = header(memory, at)?;
    let holds_code = |vma: &&Vma| vma.contains(header.start) && vma.is_executable();
    let what = match () {
        () if process.vmas.iter().any(|vma| holds_code(&vma)) => CODE,
        () if header.heap == 0 => "V8: read-only space",
        () if header.size > PAGE => "V8: large objects",
        () if header.flags & YOUNG != 0 => "V8: young objects",
        () => "V8: old objects",
    };
    Some((what, at + header.size))
}

#[derive(Debug, PartialEq)]
struct Header {
    size: u64,
    flags: u64,
    heap: u64,
    /// Of the objects.
    start: u64,
    end: u64,
}

fn header(memory: &dyn Memory, at: u64) -> Option<Header> {
    let mut bytes = [0; 48];
    memory.read(at, &mut bytes)?;
    let words = [0, 1, 2, 3, 4, 5].map(|index| word(&bytes, index));
    let node_20 = || {
        let [size, flags, heap, start, end, _] = words;
        Some(Header { size, flags, heap, start, end })
    };
    let node_22 = || {
        let [flags, own, size, heap, start, end] = words;
        (own == at).then_some(Header { size, flags, heap, start, end })
    };
    let node_24 = || {
        let mut bytes = [0; 32];
        memory.read(words[1].checked_add(DESCRIBED_SIZE)?, &mut bytes)?;
        let [size, end, heap, start] = [0, 1, 2, 3].map(|index| word(&bytes, index));
        Some(Header { size, flags: words[0], heap, start, end })
    };
    let is_page = |header: &Header| header.is_of_page(at);
    node_20()
        .filter(is_page)
        .or_else(|| node_22().filter(is_page))
        .or_else(|| node_24().filter(is_page))
}

impl Header {
    fn is_of_page(&self, at: u64) -> bool {
        let objects = at + 16..at + HEADER_WITHIN;
        self.size.is_multiple_of(4096)
            && (1..=LARGEST).contains(&self.size)
            && objects.contains(&self.start)
            && self.start < self.end
            && self.end <= at + self.size
            && self.heap.is_multiple_of(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::made_up::MadeUp;

    const AT: u64 = 0x12_3400_0000;
    const HEAP: u64 = 0x5555_0000_1000;

    /// The first words of pages of Node.js 20.19, 22.23 and 24 (V8 11.3, 12.4 and 13.6).
    #[test]
    fn headers_of_three_versions_are_read() {
        let (size, flags, end) = (0x40000, 0xa, AT + 0x40000);
        let made = |words: &[u64], description: &[u64]| {
            let mut memory = MadeUp::default();
            memory.set_all(AT, words);
            memory.set_all(0x7000, description);
            header(&memory, AT)
        };
        let expected = |start| Some(Header { size, flags, heap: HEAP, start, end });
        let start = AT + 0x1140;
        assert_eq!(made(&[size, flags, HEAP, start, end], &[]), expected(start));
        assert_eq!(made(&[flags, AT, size, HEAP, start, end], &[]), expected(start));
        let description = [0x7fa0, AT, size, 0x3fff0, 0, 16, size, end, HEAP, AT + 16];
        assert_eq!(made(&[flags, 0x7000, 0x5a63, 0x7ffe], &description), expected(AT + 16));

        // A page names itself, its objects lie in it, and its description is there.
        assert_eq!(made(&[flags, AT + 8, size, HEAP, start, end], &[]), None);
        assert_eq!(made(&[flags, AT, size, HEAP, start, end + 8], &[]), None);
        assert_eq!(made(&[flags, 0x7000, 0x5a63, 0x7ffe], &[]), None);
        assert_eq!(made(&[flags, u64::MAX, 0x5a63, 0x7ffe], &description), None);
    }
}
