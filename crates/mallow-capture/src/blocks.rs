// SPDX-License-Identifier: MIT
//! Which addresses of a process may be a new block's: posix_memalign leaves its result in the program's memory, where
//! something else may stand when a probe's hit is looked at.

use std::ops::Range;

use mallow_process::maps::{self, Line};
use mallow_process::stat::folder;
use mallow_recorder::system_ns;
use mallow_trace::Call;
use rustc_hash::FxHashSet;

/// Of one process. Times are of CLOCK_MONOTONIC.
#[derive(Default)]
pub struct Blocks {
    live: FxHashSet<u64>,
    /// Where blocks may lie, by address, and when that was looked up.
    heap: Vec<Range<u64>>,
    looked: Option<u64>,
}

impl Blocks {
    /// What a call gives and takes.
    pub fn note(&mut self, call: &Call) {
        if call.op.is_free() {
            self.live.remove(&call.address);
            return;
        }
        if !call.failed {
            self.live.remove(&call.old);
        }
        if call.address != 0 {
            self.live.insert(call.address);
        }
    }

    /// Some calls are not known, frees perhaps among them.
    pub fn forget(&mut self) {
        self.live.clear();
    }

    /// Whether a call that returned at this time can have given this address.
    pub fn may_begin_at(&mut self, pid: u32, address: u64, alignment: u64, time: u64) -> bool {
        let is_free = address.is_multiple_of(alignment) && !self.live.contains(&address);
        if !is_free || self.holds(address) {
            return is_free;
        }
        // What was there at the time is known by a look that came later.
        if self.looked.is_none_or(|looked| looked <= time) {
            self.looked = Some(system_ns());
            self.heap = heap(&std::fs::read(folder(pid).join("maps")).unwrap_or_default());
        }
        self.holds(address)
    }

    fn holds(&self, address: u64) -> bool {
        let at = self.heap.partition_point(|range| range.end <= address);
        self.heap.get(at).is_some_and(|range| range.contains(&address))
    }
}

/// Writable memory without a file, but for the first thread's stack.
fn heap(maps: &[u8]) -> Vec<Range<u64>> {
    let text = String::from_utf8_lossy(maps);
    let is_anonymous = |line: &Line| {
        line.inode == 0 && line.name != "[stack]" || line.name.starts_with("/anon_hugepage")
    };
    let lines = text.lines().filter_map(maps::split);
    let writable = lines.filter(|line| line.perms.starts_with("rw") && is_anonymous(line));
    writable.map(|line| line.start..line.end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_trace::Op;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn heaps_are_writable_and_of_no_file() {
        let maps = b"1000-2000 rw-p 0 fe:01 42    /opt/lib.so\n2000-3000 rw-p 0 00:00 0 \n\
            3000-4000 rw-p 0 00:00 0    [heap]\n4000-5000 r--p 0 00:00 0 \n\
            5000-6000 rw-p 0 00:0f 9    /anon_hugepage (deleted)\n6000-7000 rw-p 0 00:00 0    [stack]\n";
        assert_eq!(heap(maps), [0x2000..0x3000, 0x3000..0x4000, 0x5000..0x6000]);
    }

    #[test]
    fn a_new_block_is_aligned_and_nobodys_and_lies_in_a_heap() {
        static OF_A_FILE: AtomicU64 = AtomicU64::new(7);
        let (own, mut blocks) = (std::process::id(), Blocks::default());
        let memory = vec![1u8; 1 << 20];
        let address = (memory.as_ptr() as u64).next_multiple_of(64);
        let is_new = |blocks: &mut Blocks, address: u64, alignment: u64| {
            blocks.may_begin_at(own, address, alignment, system_ns())
        };
        assert!(is_new(&mut blocks, address, 64));
        assert!(!is_new(&mut blocks, address + 8, 64), "not aligned");
        assert!(!is_new(&mut blocks, OF_A_FILE.as_ptr() as u64, 8), "of a file");
        assert!(!is_new(&mut blocks, 0, 8));
        blocks.note(&Call { op: Op::Malloc, address, ..Call::default() });
        assert!(!is_new(&mut blocks, address, 64), "live");
        let moved =
            Call { op: Op::Realloc, address: address + 64, old: address, ..Call::default() };
        blocks.note(&moved);
        assert!(is_new(&mut blocks, address, 64) && !is_new(&mut blocks, address + 64, 64));
        blocks.note(&Call { op: Op::Free, address: address + 64, ..Call::default() });
        assert!(is_new(&mut blocks, address + 64, 64));
        blocks.note(&Call { op: Op::Malloc, address, ..Call::default() });
        blocks.forget();
        assert!(is_new(&mut blocks, address, 64), "its free may be among those that were lost");
    }

    #[test]
    fn memory_that_came_since_the_last_look_is_found_once() {
        let (own, mut blocks) = (std::process::id(), Blocks::default());
        let memory = vec![1u8; 1 << 20];
        let address = (memory.as_ptr() as u64).next_multiple_of(64);
        let looked = system_ns();
        blocks.looked = Some(looked);
        assert!(!blocks.may_begin_at(own, address, 64, looked - 1), "the last look was later");
        assert!(blocks.may_begin_at(own, address, 64, looked));
    }
}
