// SPDX-License-Identifier: MIT
//! Processes and threads while the trace is read.

use mallow_trace::{Ending, Op, Process, Start};

use crate::buckets::Buckets;
use crate::frequent::Frequent;
use crate::heap::Heap;
use crate::held::{Amount, Held};

/// Different sizes that are counted exactly: at least this many.
const SIZES_OF_THREAD: usize = 2048;
/// Sizes of a thread that has ended: what a report shows, and some more.
const SIZES_OF_ENDED_THREAD: usize = 64;

/// Calls by entry point.
pub type OpCounts = [OpCount; Op::ALL.len()];

#[derive(Clone, Copy, Debug, Default)]
pub struct OpCount {
    pub calls: u64,
    pub failed: u64,
    /// Asked for.
    pub bytes: u64,
}

/// Who allocates: one thread, or all together.
#[derive(Debug)]
pub struct Activity {
    pub ops: OpCounts,
    /// Reallocs included.
    pub allocated: Amount,
    /// Of new blocks.
    pub sizes: SizeCounts,
}

/// How often which sizes were asked for.
#[derive(Debug)]
pub struct SizeCounts {
    pub buckets: Buckets,
    pub frequent: Frequent,
}

impl SizeCounts {
    pub fn new(different: usize) -> SizeCounts {
        SizeCounts { buckets: Buckets::default(), frequent: Frequent::new(different) }
    }

    pub fn add(&mut self, size: u64) {
        self.buckets.add(size, size);
        self.frequent.add(size);
    }
}

impl Activity {
    pub fn new(sizes: usize) -> Activity {
        Activity {
            ops: [OpCount::default(); Op::ALL.len()],
            allocated: Amount::default(),
            sizes: SizeCounts::new(sizes),
        }
    }

    pub fn called(&mut self, op: Op, size: u64, failed: bool) {
        let count = &mut self.ops[op as usize];
        count.calls += 1;
        if failed {
            count.failed += 1;
        } else if !op.is_free() {
            count.bytes = count.bytes.saturating_add(size);
        }
    }

    pub fn allocated(&mut self, size: u64, is_new: bool) {
        self.allocated.add(size);
        if is_new {
            self.sizes.add(size);
        }
    }
}

#[derive(Debug)]
pub struct ThreadState {
    /// Of the trace.
    pub number: u32,
    /// Index of its process.
    pub process: u32,
    pub tid: u32,
    pub name: String,
    pub started_ns: u64,
    pub ended_ns: Option<u64>,
    pub activity: Activity,
    pub held: Held,
    pub leaked: Amount,
    pub temporary: Amount,
    /// Frees of blocks that another thread had allocated.
    pub foreign_frees: u64,
    pub dropped: u64,
    /// The block allocated last, while no other allocation of the thread followed; else 0.
    pub last_address: u64,
}

impl ThreadState {
    pub fn new(number: u32, process: u32) -> ThreadState {
        ThreadState {
            number,
            process,
            tid: 0,
            name: String::new(),
            started_ns: 0,
            ended_ns: None,
            activity: Activity::new(SIZES_OF_THREAD),
            held: Held::default(),
            leaked: Amount::default(),
            temporary: Amount::default(),
            foreign_frees: 0,
            dropped: 0,
            last_address: 0,
        }
    }

    /// There may be very many threads, so those that have ended keep only what is shown.
    pub fn end(&mut self, time_ns: u64) {
        self.ended_ns = Some(time_ns);
        self.activity.sizes.frequent.finish(SIZES_OF_ENDED_THREAD);
    }
}

#[derive(Debug, Default)]
pub struct ProcessState {
    pub definition: Process,
    pub started_ns: u64,
    pub ended: Option<(u64, Ending)>,
    pub heap: Heap,
    pub live: Amount,
    /// This process's own peak.
    pub peak: Amount,
    pub peak_time_ns: u64,
    pub leaked: Amount,
    pub rss: u64,
    pub peak_rss: u64,
    /// Frees of blocks that were not seen allocated.
    pub unknown_frees: u64,
    /// libstdc++ is mapped in it,
    pub has_libstdcxx: bool,
    /// and has a pool for exceptions that are thrown when memory is out. Never freed, on purpose.
    pub pool: Option<u64>,
}

impl ProcessState {
    pub fn was_forked(&self) -> bool {
        self.definition.start == Start::Fork
    }

    pub fn take(&mut self, size: u64, time_ns: u64) {
        self.live.add(size);
        if self.live.bytes > self.peak.bytes {
            (self.peak, self.peak_time_ns) = (self.live, time_ns);
        }
    }

    pub fn give(&mut self, size: u64) {
        self.live.blocks = self.live.blocks.saturating_sub(1);
        self.live.bytes = self.live.bytes.saturating_sub(size);
    }
}
