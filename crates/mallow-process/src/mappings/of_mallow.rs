// SPDX-License-Identifier: MIT
//! Where Mallow's memory is, by its own data: regions, very large blocks and metadata. The mappings of the
//! kernel say nothing of that: it joins each with its neighbours, whoever these are of, and splits it.
//!
//! ```text
//!     a mapping   |      fence | very large block | fence |       program's own      | metadata |
//!     known by                   page map          nearness                           descriptors in it
//! ```

use std::collections::BTreeSet;

use super::{Context, Kind, Space};
use crate::heap::mallow::{self, Heap, Huge};
use crate::page_size;

/// Metadata comes in pieces of this size, the first one and large objects apart.
const CHUNK: u64 = 512 << 10;
/// Of a fence, in front: 256 pages, of an aligned block.
const FENCE_MOST: u64 = 1 << 20;
/// A free block serves a smaller one: so many times that is left behind it. Of what is larger than 1 GiB the rest is
/// not looked through.
const LEFT_TIMES: u64 = 3;
const LEFT_MOST: u64 = 1 << 30;

/// What is known for certain, and what lies near to that and counts only where nobody else's is.
pub struct Spaces {
    pub sure: Vec<Space>,
    pub near: Vec<Space>,
}

fn space(kind: Kind, label: &str, (start, end): (u64, u64)) -> Space {
    Space { start, end, kind, label: label.into() }
}

fn very_large(range: (u64, u64)) -> Space {
    space(Kind::MallowHuge, "very large blocks", range)
}

pub fn spaces(context: &Context, heap: &Heap) -> Spaces {
    let huge = context.memory.zip(context.page);
    let huge = huge.and_then(|(memory, page)| mallow::huge(memory, page, &heap.regions));
    let huge = huge.unwrap_or_default();
    let region = |&range| space(Kind::MallowRegion, "regions of arenas", range);
    let other = |&range| space(Kind::MallowRegion, "guarded blocks", range);
    let leaf = |&range| space(Kind::MallowMetadata, "page map", range);
    let mut sure: Vec<Space> = heap.regions.iter().map(region).collect();
    sure.extend(heap.leaves.iter().map(leaf));
    sure.extend(huge.blocks.iter().copied().map(very_large));
    sure.extend(huge.others.iter().map(other));
    let mut near = metadata(context, heap, &huge, &sure);
    // The secure build alone has fences.
    if heap.build.ends_with("secure") {
        near.extend(fences(context, &huge.blocks));
    }
    Spaces { sure, near }
}

/// The mapping that an address lies in, if allocators make such ones, without the data of a file that it begins
/// with.
fn mapping(context: &Context, address: u64) -> Option<(u64, u64)> {
    let vmas = &context.process.vmas;
    let index = vmas.partition_point(|vma| vma.start <= address).checked_sub(1)?;
    let vma = &vmas[index];
    let start = match super::by_file(context, index) {
        Some(_) => super::data_end(vma)?,
        None => vma.start,
    };
    let is_in = (start..vma.end).contains(&address) && super::is_plain(vma);
    is_in.then_some((start, vma.end))
}

/// Of metadata it is known that it lies at some addresses: what is around these in their mapping, as far as
/// a piece of it can reach, and no more than the allocator counts.
fn metadata(context: &Context, heap: &Heap, huge: &Huge, sure: &[Space]) -> Vec<Space> {
    let leaves: u64 = heap.leaves.iter().map(|(start, end)| end.saturating_sub(*start)).sum();
    let counted = heap.metadata.saturating_sub(leaves);
    let rooms = rooms(context, heap.metadata_at.iter().chain(&huge.metadata_at), sure);
    let mut reach = CHUNK;
    loop {
        let ranges = around(&rooms, reach);
        let sum: u64 = ranges.iter().map(|(start, end)| end - start).sum();
        if sum <= counted || reach == 0 {
            let label = "descriptors and heaps";
            let space = |range| space(Kind::MallowMetadata, label, range);
            return ranges.into_iter().map(space).collect();
        }
        reach = if reach > page_size() { reach / 2 } else { 0 };
    }
}

/// An address of metadata, and between which others that may reach.
struct Room {
    at: u64,
    start: u64,
    end: u64,
}

/// The pages of addresses, in order: each may reach to the ends of its mapping, or to what is taken.
fn rooms<'a>(context: &Context, of: impl Iterator<Item = &'a u64>, sure: &[Space]) -> Vec<Room> {
    let mut taken: Vec<(u64, u64)> = sure.iter().map(|space| (space.start, space.end)).collect();
    taken.sort_unstable();
    let pages: BTreeSet<u64> = of.map(|at| at / page_size() * page_size()).collect();
    let room = |at: u64| {
        let (start, end) = mapping(context, at)?;
        let after = taken.partition_point(|(start, _)| *start <= at);
        let before = after.checked_sub(1).map_or(0, |index| taken[index].1);
        let next = taken.get(after).map_or(u64::MAX, |(start, _)| *start);
        (before <= at).then_some(Room { at, start: start.max(before), end: end.min(next) })
    };
    pages.into_iter().filter_map(room).collect()
}

/// What is at most so far behind such an address. A piece is used from its start on, so that little of it lies
/// in front of the first address that is known.
fn around(rooms: &[Room], reach: u64) -> Vec<(u64, u64)> {
    let page = page_size();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for room in rooms {
        let start = room.start.max(room.at.saturating_sub(reach / 8) / page * page);
        let end = room.end.min(room.at.saturating_add(page.saturating_add(reach)));
        match ranges.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => ranges.push((start, end)),
        }
    }
    ranges
}

/// Around a very large block there are pages without access, in one mapping with it where these are marks in the
/// page tables. One that became smaller left memory behind it, which lies between two such marks.
fn fences(context: &Context, blocks: &[(u64, u64)]) -> Vec<Space> {
    let mut fences = Vec::new();
    for (index, &(start, end)) in blocks.iter().enumerate() {
        let Some((first, last)) = mapping(context, start) else { continue };
        let before = index.checked_sub(1).map_or(0, |index| blocks[index].1);
        let next = blocks.get(index + 1).map_or(u64::MAX, |block| block.0);
        let left = (end - start).saturating_mul(LEFT_TIMES).min(LEFT_MOST);
        let first = first.max(before).max(start.saturating_sub(FENCE_MOST));
        let last = last.min(next).min(end.saturating_add(left.max(FENCE_MOST)));
        let guards = |from: u64, to: u64| {
            context.memory?.guards(from, to.max(from)).filter(|g| !g.is_empty())
        };
        let front = guards(first, start).and_then(|guards| guards.last().copied());
        fences.extend(front.filter(|guard| guard.1 == start).map(very_large));
        let Some(tail) = guards(end, last).filter(|guards| guards[0].0 == end) else { continue };
        let tail_end = tail.get(1).map_or(tail[0].1, |guard| guard.0 + page_size());
        fences.push(very_large((end, tail_end)));
    }
    fences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::process::Process;

    /// A process with these mappings.
    fn with<T>(text: &str, of: impl Fn(&Context) -> T) -> T {
        let vmas = crate::smaps::parse(text).unwrap();
        let process = &Process { vmas, ..Process::default() };
        let heap = &crate::heap::Heap::Unknown;
        of(&Context { process, heap, allocator: "", memory: None, page: None, spaces: &[] })
    }

    fn ends(spaces: &[Space]) -> Vec<(u64, u64)> {
        spaces.iter().map(|space| (space.start, space.end)).collect()
    }

    #[test]
    fn metadata_takes_no_more_than_is_counted() {
        // Descriptors in the first pages of a piece, that the kernel joined with 24 MiB of others.
        let text = "10000000-11880000 rw-p 0 00:00 0 \nRss: 4 kB\n";
        let at = 0x1180_0000;
        let heap = Heap { metadata: 512 << 10, metadata_at: vec![at + 64], ..Heap::default() };
        let found = with(text, |process| metadata(process, &heap, &Huge::default(), &[]));
        assert!(found[0].end - found[0].start <= 512 << 10 && found[0].start <= at, "{found:?}");
        // What is a block's is none of it, and tells where it begins.
        let huge = Huge { blocks: vec![(0x1000_0000, at)], ..Huge::default() };
        let sure: Vec<Space> = huge.blocks.iter().copied().map(very_large).collect();
        let found = with(text, |process| metadata(process, &heap, &huge, &sure));
        assert_eq!(ends(&found), [(at, 0x1188_0000)]);
    }

    /// Some objects of the allocator lie in the data of its library.
    #[test]
    fn data_of_a_library_is_no_metadata() {
        let text = "10000-11000 rw-p 0 08:01 7 /lib/libmallow.so\nRss: 4 kB\n\
                    11000-51000 rw-p 0 00:00 0 \nRss: 128 kB\n";
        let heap = Heap { metadata: 512 << 10, metadata_at: vec![0x12000], ..Heap::default() };
        let found = with(text, |process| metadata(process, &heap, &Huge::default(), &[]));
        assert_eq!(ends(&found), []);
    }

    /// Pages of which these have no access.
    struct Guards(Vec<(u64, u64)>);

    impl Memory for Guards {
        fn read(&self, _address: u64, _buffer: &mut [u8]) -> Option<()> {
            None
        }

        fn guards(&self, start: u64, end: u64) -> Option<Vec<(u64, u64)>> {
            let parts = self.0.iter().map(|guard| (guard.0.max(start), guard.1.min(end)));
            Some(parts.filter(|(start, end)| start < end).collect())
        }
    }

    #[test]
    fn fences_are_a_part_of_their_blocks() {
        // A block with its fence, one that left something behind it, and the program's own memory.
        let text = "10000000-11000000 rw-p 0 00:00 0 \nRss: 4 kB\n";
        let blocks = [(0x1000_3000, 0x1010_0000), (0x1010_9000, 0x1020_0000)];
        let guards = [
            (0x1000_0000, 0x1000_3000),
            (0x1010_0000, 0x1010_1000),
            (0x1010_5000, 0x1010_9000),
            (0x1020_0000, 0x1020_1000),
            (0x1028_0000, 0x1028_1000),
        ];
        let expected = [
            (0x1000_0000, 0x1000_3000),
            (0x1010_0000, 0x1010_6000),
            (0x1010_5000, 0x1010_9000),
            (0x1020_0000, 0x1028_1000),
        ];
        let memory = Guards(guards.to_vec());
        let found =
            with(text, |process| fences(&Context { memory: Some(&memory), ..*process }, &blocks));
        assert_eq!(ends(&found), expected);
        assert_eq!(with(text, |process| ends(&fences(process, &blocks))), []);
    }
}
