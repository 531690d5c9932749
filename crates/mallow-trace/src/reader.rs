// SPDX-License-Identifier: MIT
//! Reads a trace, block by block.

use std::io::Read;

use serde::{Deserialize, Serialize};

use crate::block::{self, BlockInfo, END_MAGIC, FILE_MAGIC, Framing, HEADER_SIZE, Kind};
use crate::codec::{self, State};
use crate::error::{Error, Result};
use crate::model::*;

/// Blocks of a recording hold up to 30 times the bytes that they are stored in, and ten on the average. What
/// claims more would have its reader keep more than such a file is worth.
const LARGEST_RATIO: u64 = 64;
/// The same for the first blocks, which are few.
const UNPACKED_AT_ONCE: u64 = 16 << 20;
/// A header larger than this is damaged.
const LARGEST_HEADER: u32 = 16 << 20;

/// What a whole trace holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    pub calls: u64,
    /// Calls that are missing.
    pub dropped: u64,
    pub processes: u64,
    pub threads: u64,
    pub stacks: u64,
    /// The time of the last record.
    pub end: u64,
    /// Of the file, before the index.
    pub bytes: u64,
}

impl Totals {
    pub(crate) fn count(&mut self, record: &Record) {
        match &record.event {
            Event::Call(_) => self.calls += 1,
            Event::Dropped(count) => self.dropped = self.dropped.saturating_add(*count),
            Event::Process(_) => self.processes += 1,
            Event::Thread(_) => self.threads += 1,
            Event::Stack(_) => self.stacks += 1,
            _ => {}
        }
        self.end = self.end.max(record.time);
    }
}

/// Gives a trace's header at once, then its records: of one block after the other with
/// [`next_block`](Reader::next_block), or of all threads in time order with
/// [`merged`](Reader::merged).
pub struct Reader<R: Read> {
    input: R,
    header: Header,
    position: u64,
    /// Bytes that the blocks until now hold.
    unpacked: u64,
    totals: Option<Totals>,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the file's header. Give it a buffered input.
    pub fn new(mut input: R) -> Result<Reader<R>> {
        let mut start = [0; 20];
        let got = read_full(&mut input, &mut start)?;
        if got < 8 || start[..8] != FILE_MAGIC {
            return Err(Error::Foreign);
        }
        let cut_off = |bytes: usize| Error::CutOff { bytes: bytes as u64 };
        if got < start.len() {
            return Err(cut_off(got));
        }
        let version = u16::from_le_bytes([start[8], start[9]]);
        if !(1..=VERSION).contains(&version) {
            return Err(Error::Version { found: version, known: VERSION });
        }
        let length = u32::from_le_bytes([start[12], start[13], start[14], start[15]]);
        let checksum = u32::from_le_bytes([start[16], start[17], start[18], start[19]]);
        let lost = |what: &'static str| Error::Lost { at: 12, what };
        if length > LARGEST_HEADER {
            return Err(lost("its header is too large"));
        }
        let mut text = Vec::new();
        let length = length as usize;
        let got = (&mut input).take(length as u64).read_to_end(&mut text)?;
        if got < length {
            return Err(cut_off(start.len() + got));
        }
        if crc32fast::hash(&text) != checksum {
            return Err(lost("its header does not match its checksum"));
        }
        let header = serde_json::from_slice(&text).map_err(|_| lost("its header is not JSON"))?;
        let position = (start.len() + length) as u64;
        Ok(Reader { input, header, position, unpacked: 0, totals: None, ended: false })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Bytes read until now: progress, where the length of the file is known.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Known when the whole trace has been read.
    pub fn totals(&self) -> Option<&Totals> {
        self.totals.as_ref()
    }

    /// The next block, `None` behind the last. After an error that is not about the end of the
    /// file, go on: what can be read follows.
    pub fn next_block(&mut self) -> Option<Result<Block>> {
        if self.ended {
            return None;
        }
        match self.read_block() {
            Ok(block) if block.info.kind == Kind::Index => {
                self.ended = true;
                self.read_end(&block).err().map(Err)
            }
            Ok(block) => Some(Ok(block)),
            Err(error) => {
                self.ended = !matches!(error, Error::Damaged { .. });
                Some(Err(error))
            }
        }
    }

    fn read_block(&mut self) -> Result<Block> {
        let at = self.position;
        let mut header = [0; HEADER_SIZE];
        let got = read_full(&mut self.input, &mut header)?;
        if got < HEADER_SIZE {
            return Err(Error::CutOff { bytes: at });
        }
        let framing = Framing::from_bytes(&header).map_err(|what| Error::Lost { at, what })?;
        let unpacked = self.unpacked.saturating_add(framing.raw_size as u64);
        let most = (at + framing.stored_size as u64).saturating_mul(LARGEST_RATIO);
        if unpacked > most.saturating_add(UNPACKED_AT_ONCE) {
            return Err(Error::Lost {
                at,
                what: "its blocks claim to hold far more than they can",
            });
        }
        self.unpacked = unpacked;
        let mut stored = Vec::new();
        let size = framing.stored_size as u64;
        let got = (&mut self.input).take(size).read_to_end(&mut stored)?;
        if (got as u64) < size {
            return Err(Error::CutOff { bytes: at });
        }
        self.position += HEADER_SIZE as u64 + size;
        if crc32fast::hash(&stored) != framing.checksum {
            return Err(Error::Damaged { at, what: "a block does not match its checksum" });
        }
        Ok(Block { info: framing.info, at, raw_size: framing.raw_size, stored })
    }

    fn read_end(&mut self, index: &Block) -> Result<()> {
        let at = index.at;
        let raw = block::unpack(&index.stored, index.raw_size)
            .map_err(|what| Error::Lost { at, what })?;
        let text = raw.split_at_checked(4).and_then(|(length, rest)| {
            let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]);
            rest.get(..length as usize)
        });
        let totals = text.and_then(|text| serde_json::from_slice(text).ok());
        self.totals = Some(totals.ok_or(Error::Lost { at, what: "the index is not whole" })?);
        let mut end = [0; 16];
        let got = read_full(&mut self.input, &mut end)?;
        self.position += got as u64;
        if got < end.len() {
            return Err(Error::CutOff { bytes: self.position });
        }
        if end[8..] != END_MAGIC {
            return Err(Error::Lost { at: self.position, what: "the end mark is missing" });
        }
        Ok(())
    }
}

/// Fills the buffer unless the input ends before.
fn read_full(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match input.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(got)
}

/// A block of records, still packed.
#[derive(Debug)]
pub struct Block {
    pub info: BlockInfo,
    at: u64,
    raw_size: usize,
    stored: Vec<u8>,
}

impl Block {
    /// Where in the file it begins.
    pub fn offset(&self) -> u64 {
        self.at
    }

    /// Definitions, of any thread and time, instead of records of one thread.
    pub fn is_definitions(&self) -> bool {
        self.info.kind == Kind::Definitions
    }

    /// No record in a later block is earlier than this. Such a block has no records.
    pub fn watermark(&self) -> Option<u64> {
        (self.info.kind == Kind::Watermark).then_some(self.info.first)
    }

    /// Unpacks the block. The iterator ends after an error.
    pub fn records(&self) -> Records {
        let unpacked = match self.info.kind {
            Kind::Records | Kind::Definitions => block::unpack(&self.stored, self.raw_size),
            Kind::Watermark | Kind::Index => Ok(Vec::new()),
        };
        let (raw, fault) = match unpacked {
            Ok(raw) => (raw, None),
            Err(what) => (Vec::new(), Some(what)),
        };
        let state = State::at(self.info.first);
        Records { info: self.info, block_at: self.at, raw, at: 0, state, fault }
    }
}

/// The records of one block.
#[derive(Debug)]
pub struct Records {
    info: BlockInfo,
    block_at: u64,
    raw: Vec<u8>,
    at: usize,
    state: State,
    fault: Option<codec::Fault>,
}

impl Iterator for Records {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        if let Some(what) = self.fault.take() {
            self.at = self.raw.len();
            return Some(Err(Error::Damaged { at: self.block_at, what }));
        }
        if self.at >= self.raw.len() {
            return None;
        }
        if self.info.kind == Kind::Definitions {
            self.state = State::default();
        }
        match codec::decode(&self.raw, &mut self.at, &mut self.state, self.info.thread) {
            Ok(record) => Some(Ok(record)),
            Err(what) => {
                self.at = self.raw.len();
                Some(Err(Error::Damaged { at: self.block_at, what }))
            }
        }
    }
}
