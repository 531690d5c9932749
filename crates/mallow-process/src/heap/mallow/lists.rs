// SPDX-License-Identifier: MIT
//! The lists of small slots that threads have, in memory that changes while it is read.

use crate::memory::Memory;

/// A list of a small class has the free slots of one slab, or fewer.
pub const LONGEST_LIST: u64 = 1 << 14;
/// How often a list is read that its thread changes meanwhile; to read it anew takes two.
const LIST_TRIES: u32 = 10;

/// The length of the list whose head lies at `head`. Its thread takes slots from it, and the program writes to
/// them: so the slots are copied first, and the head is read as it is then, behind what was taken. A list that a
/// link leads out of, or that is longer than can be, was filled anew meanwhile. `None` if it never rests.
pub fn list_length(memory: &dyn Memory, head: u64, keys: [u64; 2]) -> Option<u64> {
    let next = |slot: u64| Some(memory.word(slot)? ^ (slot ^ keys[0]).wrapping_mul(keys[1]));
    for _ in 0..LIST_TRIES {
        let copied = memory.loads();
        let mut at = memory.number_now(head, 8);
        let mut length = 0;
        while let Some(slot) = at.filter(|&slot| slot != 0 && length <= LONGEST_LIST) {
            length += 1;
            at = next(slot);
        }
        if memory.loads() != copied {
            continue; // now it is copied
        }
        if at == Some(0) {
            return Some(length);
        }
        memory.refresh();
    }
    None
}
