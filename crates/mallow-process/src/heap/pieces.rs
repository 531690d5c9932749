// SPDX-License-Identifier: MIT
//! The pieces of a main arena of glibc that lie outside of the break.
//!
//! Where the break cannot grow (something is mapped behind it, huge pages are asked for, or the C
//! library is a second copy), the main arena takes mappings instead, each a piece of its own:
//!
//! ```text
//!     page                                                          page
//!     | chunk | chunk | ...                   | fence 16 | fence 16 |     an older piece
//!     | chunk | chunk | ...                   | top                 |     the newest
//! ```
//!
//! The kernel joins them with neighbours, so a piece may begin at any page.

use super::chunks::{self, FLAGS, PREVIOUS_USED, is_plausible};
use super::large::may_hold_blocks;
use crate::memory::Memory;
use crate::page_size;
use crate::smaps::Vma;

/// Pages whose start is looked at: those of 4 GiB.
const MOST_PAGES: u64 = 1 << 20;
/// Chunks that are visited: a second or two.
const MOST_CHUNKS: u64 = 1 << 25;
/// What is less may be missing: it can be padding. A piece is larger, unless the program asks for less.
pub const SLACK: u64 = 64 << 10;

pub struct Search<'a> {
    pub memory: &'a dyn Memory,
    pub vmas: &'a [Vma],
    /// Of the arena: the chunk at the end of the newest piece.
    pub top: u64,
    /// Memory by the break, where none is looked for.
    pub brk: (u64, u64),
}

impl Search<'_> {
    /// Pieces that come to as many bytes, or all that there are, by address.
    pub fn run(&self, wanted: u64) -> Vec<(u64, u64)> {
        let mut found: Vec<(u64, u64)> = Vec::new();
        let (mut pages, mut chunks) = (MOST_PAGES, MOST_CHUNKS);
        let is_free = |vma: &&Vma| {
            let is_brk = vma.start < self.brk.1 && self.brk.0 < vma.end;
            vma.is_writable() && may_hold_blocks(vma) && !is_brk
        };
        let mut vmas: Vec<&Vma> = self.vmas.iter().filter(is_free).collect();
        // The kernel places what is mapped later below what was there.
        vmas.sort_by_key(|vma| (!vma.contains(self.top), vma.start < self.top, vma.start));
        let mut bytes = 0;
        for vma in vmas {
            let mut at = vma.start;
            while at < vma.end && pages > 0 && chunks > 0 && bytes + SLACK <= wanted {
                pages -= 1;
                at = match self.end_of(at, vma.end, &mut chunks) {
                    Some(end) => {
                        bytes += end - at;
                        found.push((at, end));
                        end
                    }
                    None => at + page_size(),
                };
            }
        }
        found.sort_unstable();
        found
    }

    /// Where the piece ends that begins here, if one does.
    fn end_of(&self, start: u64, limit: u64, chunks: &mut u64) -> Option<u64> {
        let mut at = start;
        if self.memory.word(at + 8)? & FLAGS != PREVIOUS_USED {
            return None;
        }
        while at + 16 <= limit && *chunks > 0 {
            *chunks -= 1;
            let header = self.memory.word(at + 8)?;
            if !is_plausible(header, limit - at) || header & FLAGS & !PREVIOUS_USED != 0 {
                return None;
            }
            let next = at + (header & !FLAGS);
            if at == self.top {
                return next.is_multiple_of(page_size()).then_some(next);
            }
            if next.is_multiple_of(page_size()) && chunks::is_behind_fences(self.memory, next) {
                return Some(next);
            }
            at = next;
        }
        None
    }
}
