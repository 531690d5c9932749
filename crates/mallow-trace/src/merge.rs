// SPDX-License-Identifier: MIT
//! All threads of a trace in one time order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io::Read;

use crate::error::{Error, Result};
use crate::model::Record;
use crate::reader::{Block, Reader, Records};

/// Holds the blocks between two watermarks, packed, and one unpacked block of each thread.
///
/// An error does not end the iteration: what can be read follows it.
pub struct Merged<R: Read> {
    reader: Reader<R>,
    /// All but the current one.
    lanes: BTreeMap<u32, Lane>,
    /// The times of their waiting records.
    order: BinaryHeap<Reverse<(u64, u32)>>,
    /// The thread whose records come next while none of another thread is earlier.
    current: Option<(u32, Lane)>,
    /// Of the block that was read last.
    definitions: Option<Records>,
    /// Records before this time can be given out: the next block holds none that is earlier.
    horizon: u64,
    /// Records of the current lane before this time come next, whatever the others hold.
    undisputed: u64,
    damage: VecDeque<Error>,
    /// What was wrong with the end of the file; comes last.
    end: Option<Error>,
    last_time: u64,
}

#[derive(Default)]
struct Lane {
    packed: VecDeque<Block>,
    records: Option<Records>,
    next: Option<Record>,
}

impl<R: Read> Reader<R> {
    /// All records in time order, each definition before what needs it.
    pub fn merged(self) -> Merged<R> {
        Merged::new(self)
    }
}

impl<R: Read> Merged<R> {
    fn new(reader: Reader<R>) -> Merged<R> {
        Merged {
            reader,
            lanes: BTreeMap::new(),
            order: BinaryHeap::new(),
            current: None,
            definitions: None,
            horizon: 0,
            undisputed: 0,
            damage: VecDeque::new(),
            end: None,
            last_time: 0,
        }
    }

    /// For the header, the progress, and at the end the totals.
    pub fn reader(&self) -> &Reader<R> {
        &self.reader
    }

    /// The time of the record given out last.
    pub fn time(&self) -> u64 {
        self.last_time
    }

    /// Reads blocks up to the next watermark, to definitions, or to the end.
    fn read_group(&mut self) {
        loop {
            match self.reader.next_block() {
                None => self.horizon = u64::MAX,
                Some(Ok(block)) => match block.watermark() {
                    Some(time) => self.horizon = time,
                    None if block.is_definitions() => self.definitions = Some(block.records()),
                    None => {
                        self.take_block(block);
                        continue;
                    }
                },
                Some(Err(error @ Error::Damaged { .. })) => {
                    self.damage.push_back(error);
                    continue;
                }
                Some(Err(error)) => {
                    self.end = Some(error);
                    self.horizon = u64::MAX;
                }
            }
            return;
        }
    }

    fn take_block(&mut self, block: Block) {
        let thread = block.info.thread;
        let lane = self.lanes.entry(thread).or_default();
        lane.packed.push_back(block);
        if lane.next.is_none() {
            lane.advance(&mut self.damage);
            if let Some(time) = lane.time() {
                self.order.push(Reverse((time, thread)));
            } else {
                self.lanes.remove(&thread);
            }
        }
    }

    /// The earliest waiting record before the horizon.
    fn take_record(&mut self) -> Option<Record> {
        let waiting = self.order.peek().map(|Reverse(key)| *key);
        let current =
            self.current.as_ref().and_then(|(thread, lane)| Some((lane.time()?, *thread)));
        let (time, thread) = current.into_iter().chain(waiting).min()?;
        if time >= self.horizon && self.horizon != u64::MAX {
            return None;
        }
        if current.is_none_or(|(_, own)| own != thread) {
            self.park_current();
            self.order.pop();
            self.current = Some((thread, self.lanes.remove(&thread)?));
            let next = self.order.peek().map_or(u64::MAX, |Reverse((time, _))| *time);
            self.undisputed = next.min(self.horizon);
        }
        self.take_current()
    }

    /// The record that waits in the current lane.
    #[inline]
    fn take_current(&mut self) -> Option<Record> {
        let (_, lane) = self.current.as_mut()?;
        let record = lane.next.take();
        lane.advance(&mut self.damage);
        if lane.next.is_none() {
            self.park_current();
        }
        record
    }

    /// The current lane waits with the others: those who read blocks find it there.
    fn park_current(&mut self) {
        self.undisputed = 0;
        let Some((thread, lane)) = self.current.take() else { return };
        if let Some(time) = lane.time() {
            self.order.push(Reverse((time, thread)));
            self.lanes.insert(thread, lane);
        }
    }
}

impl Lane {
    /// Of the record that waits.
    fn time(&self) -> Option<u64> {
        self.next.as_ref().map(|record| record.time)
    }

    /// Puts the lane's next record into `next`, if there is one.
    #[inline]
    fn advance(&mut self, damage: &mut VecDeque<Error>) {
        loop {
            if let Some(records) = &mut self.records {
                match records.next() {
                    Some(Ok(record)) => {
                        self.next = Some(record);
                        return;
                    }
                    Some(Err(error)) => damage.push_back(error),
                    None => {}
                }
            }
            match self.packed.pop_front() {
                Some(block) => self.records = Some(block.records()),
                None => {
                    self.records = None;
                    return;
                }
            }
        }
    }
}

impl<R: Read> Iterator for Merged<R> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        let waiting = self.current.as_ref().and_then(|(_, lane)| lane.time());
        if waiting.is_some_and(|time| time < self.undisputed) && self.damage.is_empty() {
            let record = self.take_current()?;
            self.last_time = record.time;
            return Some(Ok(record));
        }
        loop {
            if !self.damage.is_empty() {
                return self.damage.pop_front().map(Err);
            }
            if let Some(definition) = self.definitions.as_mut().and_then(Records::next) {
                return Some(definition);
            }
            if let Some(record) = self.take_record() {
                self.last_time = record.time;
                return Some(Ok(record));
            }
            if self.horizon == u64::MAX {
                return self.end.take().map(Err);
            }
            self.park_current();
            self.read_group();
        }
    }
}
