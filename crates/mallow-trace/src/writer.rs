// SPDX-License-Identifier: MIT
//! Writes a trace.

use std::io::Write;

use crate::block::{BLOCK_SIZE, BlockInfo, END_MAGIC, FILE_MAGIC, Kind, Packer};
use crate::call;
use crate::codec::{self, State};
use crate::error::{Error, Result};
use crate::model::*;
use crate::reader::Totals;

/// What lies between two watermarks at most, before compression: a reader holds about this much.
const WATERMARK_BYTES: usize = 8 << 20;
/// Blocks in the index: a reader takes no larger one, and threads that make few calls have a block a second each.
const MOST_INDEXED: usize = 1 << 20;
/// After a crash of the writer this much time is missing.
const WATERMARK_NS: u64 = 1_000_000_000;

/// Takes records of all threads, each thread's in time order, and sorts them into blocks.
pub struct Writer<W: Write> {
    out: W,
    packer: Packer,
    lanes: Lanes,
    definitions: Lane,
    /// No record is written with an earlier time.
    promised: u64,
    /// The last watermark in the file.
    watermark: u64,
    bytes_since_watermark: usize,
    totals: Totals,
    index: Vec<(u64, BlockInfo)>,
}

/// Records that wait for their block to be full.
#[derive(Default)]
struct Lane {
    bytes: Vec<u8>,
    state: State,
    info: BlockInfo,
}

impl Lane {
    /// A new block, if the one before was written.
    fn begin(&mut self, kind: Kind, thread: u32, time: u64) {
        if self.bytes.is_empty() {
            let first = if kind == Kind::Definitions { 0 } else { time.max(self.info.last) };
            self.state = State::at(first);
            self.info = BlockInfo { kind, thread, count: 0, first, last: first };
        }
    }

    /// Takes calls until the block is full; returns how many. None is earlier than `promised`.
    fn fill(
        &mut self,
        thread: u32,
        promised: u64,
        calls: &mut impl Iterator<Item = (u64, Call)>,
    ) -> u32 {
        // In variables of their own, which the bytes that are written cannot change. A block begins with its first
        // call; `begin` meets no bytes then.
        let (mut bytes, mut state) = (std::mem::take(&mut self.bytes), self.state);
        let mut count = 0;
        while bytes.len() < BLOCK_SIZE {
            let Some((time, mut next)) = calls.next() else { break };
            // A realloc that is moved up began when it did.
            if next.took > 0 {
                next.took += promised.saturating_sub(time);
            }
            let time = time.max(promised);
            if bytes.is_empty() {
                self.begin(Kind::Records, thread, time);
                state = self.state;
            }
            call::encode(&mut bytes, &mut state, time, &next);
            count += 1;
        }
        (self.bytes, self.state) = (bytes, state);
        self.info.count += count;
        self.info.last = state.time;
        count
    }
}

/// The lanes of all threads that have one, by number.
#[derive(Default)]
struct Lanes {
    all: Vec<(u32, Lane)>,
    /// Which was wanted last: a collector writes many calls of one thread behind each other.
    last: usize,
}

impl Lanes {
    fn find(&self, thread: u32) -> std::result::Result<usize, usize> {
        self.all.binary_search_by_key(&thread, |(thread, _)| *thread)
    }

    fn of(&mut self, thread: u32) -> &mut Lane {
        let is_last = self.all.get(self.last).is_some_and(|(last, _)| *last == thread);
        if !is_last {
            self.last = self.find(thread).unwrap_or_else(|at| {
                self.all.insert(at, (thread, Lane::default()));
                at
            });
        }
        &mut self.all[self.last].1
    }

    fn remove(&mut self, thread: u32) {
        if let Ok(at) = self.find(thread) {
            self.all.remove(at);
        }
    }
}

impl<W: Write> Writer<W> {
    /// Writes the file's header.
    pub fn new(mut out: W, header: &Header) -> Result<Writer<W>> {
        let header = Header { version: VERSION, ..header.clone() };
        let text = serde_json::to_vec(&header).map_err(std::io::Error::from)?;
        let length =
            u32::try_from(text.len()).map_err(|_| Error::TooLarge { bytes: text.len() })?;
        let mut start = Vec::from(FILE_MAGIC);
        start.extend(VERSION.to_le_bytes());
        start.extend([0; 2]);
        start.extend(length.to_le_bytes());
        start.extend(crc32fast::hash(&text).to_le_bytes());
        start.extend(text);
        out.write_all(&start)?;
        Ok(Writer {
            out,
            packer: Packer::new()?,
            lanes: Lanes::default(),
            definitions: Lane::default(),
            promised: 0,
            watermark: 0,
            bytes_since_watermark: 0,
            totals: Totals { bytes: start.len() as u64, ..Totals::default() },
            index: Vec::new(),
        })
    }

    /// A time before the thread's last record or before a promised time is moved up to it.
    pub fn write(&mut self, record: &Record) -> Result<()> {
        if let Event::Call(call) = &record.event {
            return self.write_call(record.time, record.thread, call);
        }
        self.totals.count(record);
        let kind = if record.event.is_definition() { Kind::Definitions } else { Kind::Records };
        let lane = match kind {
            Kind::Definitions => &mut self.definitions,
            _ => self.lanes.of(record.thread),
        };
        let time = match kind {
            // Each definition stands alone and may be of any time.
            Kind::Definitions => record.time,
            _ => record.time.max(self.promised),
        };
        lane.begin(kind, record.thread, time);
        if kind == Kind::Definitions {
            lane.state = State::default();
        }
        codec::encode(&mut lane.bytes, &mut lane.state, time, record)?;
        lane.info.count += 1;
        lane.info.last = lane.state.time;
        let is_full = lane.bytes.len() >= BLOCK_SIZE;
        let ends = matches!(record.event, Event::ThreadEnd);
        if is_full || ends {
            self.write_lane(kind, record.thread)?;
        }
        if ends {
            self.lanes.remove(record.thread);
        }
        Ok(())
    }

    /// The same for a call.
    pub fn write_call(&mut self, time: u64, thread: u32, call: &Call) -> Result<()> {
        self.write_calls(thread, std::iter::once((time, *call)))
    }

    /// The same for calls of one thread behind each other, which most records are, with their times.
    pub fn write_calls(
        &mut self,
        thread: u32,
        mut calls: impl Iterator<Item = (u64, Call)>,
    ) -> Result<()> {
        loop {
            let lane = self.lanes.of(thread);
            let count = lane.fill(thread, self.promised, &mut calls);
            self.totals.calls += u64::from(count);
            self.totals.end = self.totals.end.max(lane.info.last);
            if lane.bytes.len() < BLOCK_SIZE {
                return Ok(());
            }
            self.write_lane(Kind::Records, thread)?;
        }
    }

    /// Promises that all records to come have this time or a later one, which lets a reader bring
    /// the threads into one order without looking further ahead. Call it now and then.
    pub fn promise(&mut self, time: u64) -> Result<()> {
        self.promised = self.promised.max(time);
        let waiting: usize = self.lanes.all.iter().map(|(_, lane)| lane.bytes.len()).sum();
        let elapsed = self.promised - self.watermark;
        let due =
            self.bytes_since_watermark + waiting >= WATERMARK_BYTES || elapsed >= WATERMARK_NS;
        if due { self.flush() } else { Ok(()) }
    }

    /// Writes everything that waits. A reader can then read all that was written until now.
    pub fn flush(&mut self) -> Result<()> {
        let threads: Vec<u32> = self.lanes.all.iter().map(|(thread, _)| *thread).collect();
        self.write_lane(Kind::Definitions, COLLECTOR)?;
        for thread in threads {
            self.write_lane(Kind::Records, thread)?;
        }
        let time = self.promised;
        let info =
            BlockInfo { kind: Kind::Watermark, first: time, last: time, ..BlockInfo::default() };
        self.write_block(info, &[])?;
        self.watermark = self.promised;
        self.bytes_since_watermark = 0;
        self.out.flush()?;
        Ok(())
    }

    /// Writes what waits and the index, and gives the output back.
    pub fn finish(mut self) -> Result<W> {
        self.flush()?;
        let at = self.totals.bytes;
        let mut text = serde_json::to_vec(&self.totals).map_err(std::io::Error::from)?;
        let mut index = Vec::with_capacity(text.len() + self.index.len() * 36 + 4);
        index.extend((text.len() as u32).to_le_bytes());
        index.append(&mut text);
        for (offset, info) in std::mem::take(&mut self.index) {
            index.extend(offset.to_le_bytes());
            index.extend(info.thread.to_le_bytes());
            index.extend(info.count.to_le_bytes());
            index.extend(info.first.to_le_bytes());
            index.extend(info.last.to_le_bytes());
        }
        self.write_block(BlockInfo { kind: Kind::Index, ..BlockInfo::default() }, &index)?;
        self.out.write_all(&at.to_le_bytes())?;
        self.out.write_all(&END_MAGIC)?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// What was written until now.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Definitions go first, so that no record comes before what it refers to.
    fn write_lane(&mut self, kind: Kind, thread: u32) -> Result<()> {
        if !self.definitions.bytes.is_empty() {
            let mut bytes = std::mem::take(&mut self.definitions.bytes);
            self.write_block(self.definitions.info, &bytes)?;
            bytes.clear();
            self.definitions.bytes = bytes;
        }
        if kind == Kind::Definitions {
            return Ok(());
        }
        let lane = self.lanes.of(thread);
        if lane.bytes.is_empty() {
            return Ok(());
        }
        let info = lane.info;
        let mut bytes = std::mem::take(&mut lane.bytes);
        self.write_block(info, &bytes)?;
        bytes.clear();
        self.lanes.of(thread).bytes = bytes;
        Ok(())
    }

    fn write_block(&mut self, info: BlockInfo, raw: &[u8]) -> Result<()> {
        let (framing, stored) = self.packer.pack(info, raw)?;
        self.out.write_all(&framing.to_bytes())?;
        self.out.write_all(stored)?;
        if info.kind == Kind::Records && self.index.len() < MOST_INDEXED {
            self.index.push((self.totals.bytes, info));
        }
        self.totals.bytes += (crate::block::HEADER_SIZE + stored.len()) as u64;
        self.bytes_since_watermark += raw.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Reader;

    fn call(op: Op, took: u64) -> Call {
        Call { op, size: 8, address: 64, took, ..Call::default() }
    }

    fn read_whole(bytes: &[u8]) -> (Vec<Record>, Totals) {
        let mut reader = Reader::new(bytes).unwrap();
        let mut records = Vec::new();
        while let Some(block) = reader.next_block() {
            records.extend(block.unwrap().records().map(Result::unwrap));
        }
        (records, *reader.totals().unwrap())
    }

    /// A few threads that make a call now and then for hours, with the hours before them left out.
    #[test]
    fn an_index_of_too_many_blocks_ends_before_them() {
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        // What would be packed too well is taken for damaged.
        let offset = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let blocks = (1..MOST_INDEXED as u64).map(|number| (offset(number), BlockInfo::default()));
        writer.index = blocks.collect();
        for thread in [1, 2, 3] {
            writer.write_call(1, thread, &call(Op::Malloc, 0)).unwrap();
            writer.flush().unwrap();
        }
        assert_eq!(writer.index.len(), MOST_INDEXED);
        let (records, totals) = read_whole(&writer.finish().unwrap());
        assert_eq!((records.len(), totals.calls), (3, 3));
    }

    #[test]
    fn a_realloc_that_is_moved_up_began_when_it_did() {
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        writer.promise(1_000).unwrap();
        writer.write_call(900, 1, &call(Op::Realloc, 50)).unwrap();
        writer.write_call(950, 1, &call(Op::Malloc, 0)).unwrap();
        writer.write_call(1_200, 1, &call(Op::Realloc, 50)).unwrap();
        let (records, _) = read_whole(&writer.finish().unwrap());
        let times = records.iter().map(|record| match record.event {
            Event::Call(call) => (record.time, call.took),
            _ => (0, 0),
        });
        assert_eq!(times.collect::<Vec<_>>(), [(1_000, 150), (1_000, 0), (1_200, 50)]);
    }
}
