// SPDX-License-Identifier: MIT
//! One process of a trace: its calls become operations, its threads lanes.
//!
//! Two orders are kept in one plan. *Lockstep* carries out all calls in the order of their times;
//! `Pass` hands over from lane to lane. In *free* mode each lane goes on as fast as it can, and a
//! `Wait` stands before an operation on a block that another lane touched last.

use std::collections::VecDeque;
use std::io::{self, Seek, Write};

use mallow_trace::{Call, Memory, Op as Entry, Regions};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::live::{Block, Live, Moment};
use crate::plan::{Kind, NO_SLOT, Op, Plan, PlanWriter};

/// The recorded clock goes on in steps of this, in nanoseconds.
const CLOCK_STEP: u64 = 1_000_000;
/// Memory is sampled this often at first, and half as often after each so many samples.
const SAMPLE_INTERVAL: u64 = 1_000_000;
const SAMPLES_PER_INTERVAL: u64 = 2048;
/// Slots that a lane reserves at a time, so that lanes do not share cache lines.
const SLOT_BATCH: u32 = 16;
/// A slot that another lane freed is used again only so many calls later, so that the order which
/// this brings in holds nobody up.
const FOREIGN_SLOT_DELAY: u64 = 1 << 16;
/// glibc's smallest alignment for posix_memalign.
const POINTER_SIZE: u64 = 8;

/// What of a process was seen, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    pub calls: u64,
    /// Calls that the recorder lost.
    pub dropped: u64,
    /// Frees (and reallocs) of blocks that nobody was seen to allocate.
    pub unmatched_frees: u64,
    /// Blocks whose address was given out again, so that their free is missing.
    pub lost_frees: u64,
    /// Calls that returned no memory; they are not made again.
    pub failed: u64,
}

impl Coverage {
    /// The part of the calls that is missing or means nothing.
    pub fn missing(&self) -> f64 {
        let missing = self.dropped + self.unmatched_frees + self.lost_frees;
        missing as f64 / (self.calls + self.dropped).max(1) as f64
    }
}

/// A measurement of the recorded process, and the player's sample that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RecordedSample {
    pub sample: usize,
    pub rss: u64,
    pub anonymous: u64,
    pub peak_rss: u64,
    /// What of it lay in mappings with live blocks, where that was looked at.
    pub heap: Option<u64>,
}

/// What a process did, as far as its trace says.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// As numbered by the trace.
    pub id: u32,
    pub pid: u32,
    pub command: Vec<String>,
    pub executable: String,
    pub allocator: String,
    pub is_fork: bool,
    /// It had switched transparent huge pages off for itself, and so does the player.
    pub no_huge_pages: bool,
    pub lanes: u32,
    pub slots: u32,
    pub coverage: Coverage,
    pub peak_live_bytes: u64,
    pub live_bytes: u64,
    pub live_blocks: usize,
    /// From the first call to the last record, recorded.
    pub duration_ns: u64,
    pub samples: u64,
    #[serde(skip)]
    pub recorded: Vec<RecordedSample>,
}

/// A slot that its owner may use again, once another lane has got that far.
struct Returned {
    slot: u32,
    freed: Moment,
    call: u64,
}

#[derive(Default)]
struct Lane {
    free_slots: Vec<u32>,
    returned: VecDeque<Returned>,
    batch: std::ops::Range<u32>,
    /// What this lane has waited for already, by lane.
    waited: FxHashMap<u32, u64>,
    has_ended: bool,
}

pub struct Process<W> {
    writer: PlanWriter<W>,
    pub summary: Summary,
    lanes: Vec<Lane>,
    /// By the trace's number of the thread.
    lane_of: FxHashMap<u32, u32>,
    /// The thread whose call came last, and its lane.
    recent: Option<(u32, u32)>,
    live: Live,
    /// Whose turn it is.
    current: u32,
    clock: u64,
    started: Option<u64>,
    sampled: u64,
    interval: u64,
    page_size: u64,
}

impl<W: Write + Seek> Process<W> {
    pub fn new(file: W, summary: Summary, page_size: u64) -> io::Result<Process<W>> {
        let mut process = Process {
            writer: PlanWriter::new(file)?,
            summary,
            lanes: Vec::new(),
            lane_of: FxHashMap::default(),
            recent: None,
            live: Live::default(),
            current: 0,
            clock: 0,
            started: None,
            sampled: 0,
            interval: SAMPLE_INTERVAL,
            page_size,
        };
        process.add_lane();
        Ok(process)
    }

    fn add_lane(&mut self) -> u32 {
        self.lanes.push(Lane::default());
        self.summary.lanes += 1;
        self.writer.add_lane()
    }

    /// The player's first thread is the recorded program's first. The others start with their first
    /// call: who started them is not known.
    fn lane(&mut self, thread: u32, is_first: bool) -> io::Result<u32> {
        if let Some((recent, lane)) = self.recent
            && recent == thread
        {
            return Ok(lane);
        }
        if let Some(&lane) = self.lane_of.get(&thread) {
            self.recent = Some((thread, lane));
            return Ok(lane);
        }
        let lane = if is_first { 0 } else { self.add_lane() };
        self.lane_of.insert(thread, lane);
        if lane != 0 {
            self.emit(0, Op::new(Kind::Spawn, lane, 0))?;
        }
        Ok(lane)
    }

    /// Appends an operation to the recorded order.
    fn emit(&mut self, lane: u32, op: Op) -> io::Result<()> {
        if lane != self.current {
            self.writer.push(self.current, Op::new(Kind::Pass, lane, 0))?;
            self.current = lane;
        }
        self.writer.push(lane, op)
    }

    fn advance(&mut self, lane: u32, time: u64) -> io::Result<()> {
        let started = *self.started.get_or_insert(time);
        let elapsed = time.saturating_sub(started);
        self.summary.duration_ns = self.summary.duration_ns.max(elapsed);
        if elapsed >= self.clock + CLOCK_STEP {
            self.set_clock(lane, elapsed)?;
        }
        if elapsed >= self.sampled + self.interval {
            self.sample(lane, elapsed)?;
        }
        Ok(())
    }

    fn set_clock(&mut self, lane: u32, elapsed: u64) -> io::Result<()> {
        self.clock = self.clock.max(elapsed);
        self.emit(lane, Op::new(Kind::Clock, 0, self.clock))
    }

    fn sample(&mut self, lane: u32, elapsed: u64) -> io::Result<()> {
        self.set_clock(lane, elapsed)?;
        self.emit(lane, Op::new(Kind::Sample, 0, 0))?;
        self.sampled = elapsed;
        self.summary.samples += 1;
        if self.summary.samples.is_multiple_of(SAMPLES_PER_INTERVAL) {
            self.interval *= 2;
        }
        Ok(())
    }

    /// A measurement of the recorded process. Before its first call there is nothing to compare.
    pub fn memory(&mut self, time: u64, memory: &Memory) -> io::Result<()> {
        let Some(started) = self.started else { return Ok(()) };
        let recorded = RecordedSample {
            sample: self.summary.samples as usize,
            rss: memory.rss,
            anonymous: memory.anonymous,
            peak_rss: memory.peak_rss,
            heap: None,
        };
        self.summary.recorded.push(recorded);
        self.sample(self.current, time.saturating_sub(started))
    }

    /// Where the memory lay that was measured last.
    pub fn regions(&mut self, regions: &Regions) {
        self.summary.no_huge_pages = regions.no_huge_pages;
        if let Some(last) = self.summary.recorded.last_mut() {
            last.heap = Some(self.live.resident_in(&regions.regions));
        }
    }

    pub fn thread_end(&mut self, thread: u32) -> io::Result<()> {
        self.recent = None;
        // The first thread's lane leads the player until the process ends.
        let Some(lane) = self.lane_of.remove(&thread).filter(|lane| *lane != 0) else {
            return Ok(());
        };
        self.emit(lane, Op::new(Kind::End, 0, 0))?;
        self.writer.set_ends(lane);
        self.emit(0, Op::new(Kind::Join, lane, 0))?;
        // Its slots serve the first lane, which in free mode waits where it takes one.
        let freed = Moment { lane, done: self.writer.op_count(lane) };
        let left = std::mem::take(&mut self.lanes[lane as usize]);
        self.lanes[lane as usize].has_ended = true;
        let call = self.summary.coverage.calls;
        let slots = left.free_slots.into_iter().chain(left.batch);
        let orphans = slots.map(|slot| Returned { slot, freed, call });
        self.lanes[0].returned.extend(orphans);
        self.lanes[0].returned.extend(left.returned);
        Ok(())
    }

    pub fn call(&mut self, time: u64, thread: u32, is_first: bool, call: &Call) -> io::Result<()> {
        self.summary.coverage.calls += 1;
        if call.failed {
            self.summary.coverage.failed += 1;
            return Ok(());
        }
        let lane = self.lane(thread, is_first)?;
        self.advance(lane, time)?;
        while let Some(block) = self.live.take_lost(time) {
            self.summary.coverage.lost_frees += 1;
            self.release(lane, block)?;
        }
        if call.op.is_free() {
            self.free(lane, call.address)
        } else if call.op.is_realloc() && call.old != 0 {
            self.realloc(time, lane, call)
        } else {
            self.allocate(time, lane, call)
        }
    }

    fn free(&mut self, lane: u32, address: u64) -> io::Result<()> {
        if address == 0 {
            return self.emit(lane, Op::new(Kind::Free, NO_SLOT, 0));
        }
        match self.live.remove(address) {
            Some(block) => self.release(lane, block),
            None => {
                self.summary.coverage.unmatched_frees += 1;
                Ok(())
            }
        }
    }

    fn release(&mut self, lane: u32, block: Block) -> io::Result<()> {
        self.wait(lane, block.last)?;
        self.emit(lane, Op::new(Kind::Free, block.slot, 0))?;
        self.count_live(block.size, 0);
        if block.owner == lane {
            self.lanes[lane as usize].free_slots.push(block.slot);
            return Ok(());
        }
        let freed = self.now(lane);
        let call = self.summary.coverage.calls;
        // A lane that has ended left its slots to the first.
        let has_ended = self.lanes[block.owner as usize].has_ended;
        let owner = if has_ended { 0 } else { block.owner as usize };
        self.lanes[owner].returned.push_back(Returned { slot: block.slot, freed, call });
        Ok(())
    }

    fn realloc(&mut self, time: u64, lane: u32, call: &Call) -> io::Result<()> {
        // One that took no time let nobody in between.
        let begun = if call.took == 0 { u64::MAX } else { time.saturating_sub(call.took) };
        let Some(mut block) = self.live.remove_for_realloc(call.old, begun) else {
            self.summary.coverage.unmatched_frees += 1;
            return if call.address == 0 { Ok(()) } else { self.allocate(time, lane, call) };
        };
        if call.address == 0 {
            return self.release(lane, block);
        }
        self.wait(lane, block.last)?;
        // A size of 0 would free the block on some allocators.
        let size = call.size.max(1);
        self.emit(lane, Op::new(Kind::Realloc, block.slot, size))?;
        self.count_live(block.size, size);
        block.size = size;
        block.last = self.now(lane);
        self.live.insert(time, call.address, block);
        Ok(())
    }

    fn allocate(&mut self, time: u64, lane: u32, call: &Call) -> io::Result<()> {
        if call.address == 0 {
            return Ok(());
        }
        let mut op = self.operation(call);
        op.slot = self.take_slot(lane)?;
        self.emit(lane, op)?;
        self.count_live(0, op.value);
        let last = self.now(lane);
        let block = Block { slot: op.slot, size: op.value, last, owner: lane };
        self.live.insert(time, call.address, block);
        Ok(())
    }

    /// The same call in C: what C++ calls is malloc or posix_memalign in all allocators.
    fn operation(&self, call: &Call) -> Op {
        let mut kind = match call.op {
            Entry::Calloc => Kind::Calloc,
            // Of a null pointer, or of a block that is not known.
            Entry::Realloc | Entry::Reallocarray => Kind::Realloc,
            Entry::PosixMemalign => Kind::PosixMemalign,
            Entry::AlignedAlloc => Kind::AlignedAlloc,
            Entry::Memalign | Entry::Valloc | Entry::Pvalloc => Kind::Memalign,
            op if call.alignment > 1 && !op.is_free() => Kind::PosixMemalign,
            _ => Kind::Malloc,
        };
        let mut size = call.size;
        let mut alignment = call.alignment;
        match call.op {
            Entry::Valloc => alignment = self.page_size,
            Entry::Pvalloc => {
                alignment = self.page_size;
                size = size.checked_next_multiple_of(self.page_size).unwrap_or(size);
            }
            // Some allocators insist on what the standard once demanded.
            Entry::AlignedAlloc if !size.is_multiple_of(alignment.max(1)) => {
                kind = Kind::PosixMemalign;
            }
            Entry::Realloc | Entry::Reallocarray => size = size.max(1),
            _ => {}
        }
        let aligned = matches!(kind, Kind::Memalign | Kind::PosixMemalign | Kind::AlignedAlloc);
        let alignment = if aligned { alignment.max(POINTER_SIZE) } else { 1 };
        // Allocators round an alignment up to a power of two.
        let align_log2 =
            alignment.checked_next_power_of_two().unwrap_or(1 << 63).trailing_zeros() as u8;
        Op { kind, align_log2, slot: 0, value: size }
    }

    fn count_live(&mut self, before: u64, after: u64) {
        // More than all of memory is in no real trace.
        let live = self.summary.live_bytes.wrapping_sub(before).wrapping_add(after);
        self.summary.live_bytes = live;
        self.summary.peak_live_bytes = self.summary.peak_live_bytes.max(live);
    }

    fn now(&self, lane: u32) -> Moment {
        Moment { lane, done: self.writer.op_count(lane) }
    }

    /// In free mode, what follows in the lane comes after that moment.
    fn wait(&mut self, lane: u32, moment: Moment) -> io::Result<()> {
        if moment.lane == lane {
            return Ok(());
        }
        let waited = self.lanes[lane as usize].waited.entry(moment.lane).or_default();
        if *waited >= moment.done {
            return Ok(());
        }
        *waited = moment.done;
        self.emit(lane, Op::new(Kind::Wait, moment.lane, moment.done))
    }

    fn take_slot(&mut self, lane: u32) -> io::Result<u32> {
        let calls = self.summary.coverage.calls;
        let own = &mut self.lanes[lane as usize];
        if let Some(slot) = own.free_slots.pop() {
            return Ok(slot);
        }
        let is_old = |returned: &Returned| calls - returned.call >= FOREIGN_SLOT_DELAY;
        if own.returned.front().is_some_and(is_old)
            && let Some(returned) = own.returned.pop_front()
        {
            self.wait(lane, returned.freed)?;
            return Ok(returned.slot);
        }
        if own.batch.is_empty() {
            let first = self.summary.slots;
            self.summary.slots = first.checked_add(SLOT_BATCH).ok_or_else(too_many_blocks)?;
            own.batch = first..self.summary.slots;
        }
        own.batch.next().ok_or_else(too_many_blocks)
    }

    pub fn finish(mut self) -> io::Result<(Summary, Plan<W>)> {
        // The last word is the first lane's: the player ends when it has ended.
        let elapsed = self.summary.duration_ns;
        self.sample(0, elapsed)?;
        self.summary.live_blocks = self.live.len();
        let plan = self.writer.finish(self.summary.slots, self.summary.samples)?;
        Ok((self.summary, plan))
    }
}

fn too_many_blocks() -> io::Error {
    io::Error::other("the trace has more than 4 billion blocks at once")
}
