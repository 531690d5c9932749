// SPDX-License-Identifier: MIT
//! The plan: the operations of each lane, in the layout of `player/plan.h`.

use std::io::{self, Seek, SeekFrom, Write};

const MAGIC: [u8; 8] = *b"MLWPLAN\0";
const VERSION: u32 = 1;
const CHUNK_OPS: usize = 4096;
const OP_SIZE: usize = 16;
#[cfg(test)]
const LANE_SIZE: usize = 24;
const HEADER_SIZE: usize = 72;
const LANE_ENDS: u32 = 1;

// As plan.h asserts for the other side.
const _: () = assert!(OP_SIZE == 1 + 1 + 2 + 4 + 8);
#[cfg(test)]
const _: () = assert!(LANE_SIZE == 8 + 8 + 4 + 4);
const _: () = assert!(HEADER_SIZE == 8 + 4 * 4 + 6 * 8);

/// The slot of `free(NULL)`.
pub const NO_SLOT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Malloc = 1,
    Calloc = 2,
    Realloc = 3,
    Free = 4,
    Memalign = 5,
    PosixMemalign = 6,
    AlignedAlloc = 7,
    /// In free mode: until lane `slot` has finished `value` operations.
    Wait = 16,
    /// In lockstep: lane `slot` is next.
    Pass = 17,
    Spawn = 18,
    Join = 19,
    Clock = 20,
    Sample = 21,
    /// The thread's last moment; nothing to do but to be there.
    End = 22,
}

impl Kind {
    pub fn is_call(self) -> bool {
        (self as u8) < Kind::Wait as u8
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    pub kind: Kind,
    pub align_log2: u8,
    pub slot: u32,
    pub value: u64,
}

impl Op {
    pub fn new(kind: Kind, slot: u32, value: u64) -> Op {
        Op { kind, align_log2: 0, slot, value }
    }

    fn bytes(self) -> [u8; OP_SIZE] {
        let mut bytes = [0; OP_SIZE];
        bytes[0] = self.kind as u8;
        bytes[1] = self.align_log2;
        bytes[4..8].copy_from_slice(&self.slot.to_le_bytes());
        bytes[8..].copy_from_slice(&self.value.to_le_bytes());
        bytes
    }
}

/// The same as in plan.h.
fn order_hash(hash: u64, lane: u32, op: Op) -> u64 {
    let place = u64::from(lane) << 32 | u64::from(op.slot);
    let word = place ^ (op.kind as u64) << 56 ^ op.value << 8;
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 29
}

#[derive(Default)]
struct Lane {
    /// Of the chunk that is not full yet.
    bytes: Vec<u8>,
    chunks: Vec<u64>,
    op_count: u64,
    ends: bool,
}

/// A written plan.
#[derive(Debug)]
pub struct Plan<W> {
    pub file: W,
    /// What the player's lockstep has to arrive at.
    pub order_hash: u64,
    /// Operations, the calls and what keeps their order.
    pub op_count: u64,
}

/// Writes operations in their recorded order.
pub struct PlanWriter<W> {
    file: W,
    position: u64,
    lanes: Vec<Lane>,
    order_hash: u64,
}

impl<W: Write + Seek> PlanWriter<W> {
    pub fn new(mut file: W) -> io::Result<PlanWriter<W>> {
        file.write_all(&[0; HEADER_SIZE])?;
        Ok(PlanWriter { file, position: HEADER_SIZE as u64, lanes: Vec::new(), order_hash: 0 })
    }

    pub fn add_lane(&mut self) -> u32 {
        self.lanes.push(Lane::default());
        self.lanes.len() as u32 - 1
    }

    /// The thread of this lane ends before its process does.
    pub fn set_ends(&mut self, lane: u32) {
        self.lanes[lane as usize].ends = true;
    }

    /// How many operations the lane has.
    pub fn op_count(&self, lane: u32) -> u64 {
        self.lanes[lane as usize].op_count
    }

    pub fn push(&mut self, number: u32, op: Op) -> io::Result<()> {
        if op.kind.is_call() {
            self.order_hash = order_hash(self.order_hash, number, op);
        }
        let lane = &mut self.lanes[number as usize];
        lane.bytes.extend_from_slice(&op.bytes());
        lane.op_count += 1;
        if lane.bytes.len() == CHUNK_OPS * OP_SIZE {
            self.write_chunk(number as usize)?;
        }
        Ok(())
    }

    fn write_chunk(&mut self, lane: usize) -> io::Result<()> {
        let lane = &mut self.lanes[lane];
        self.file.write_all(&lane.bytes)?;
        lane.chunks.push(self.position);
        self.position += lane.bytes.len() as u64;
        lane.bytes.clear();
        Ok(())
    }

    /// Writes what is left, the tables and the header.
    pub fn finish(mut self, slot_count: u32, sample_count: u64) -> io::Result<Plan<W>> {
        for lane in 0..self.lanes.len() {
            if !self.lanes[lane].bytes.is_empty() {
                self.write_chunk(lane)?;
            }
        }
        let lane_table = self.position;
        let mut bytes = Vec::new();
        let mut first_chunk = 0u64;
        for lane in &self.lanes {
            bytes.extend(first_chunk.to_le_bytes());
            bytes.extend(lane.op_count.to_le_bytes());
            bytes.extend(if lane.ends { LANE_ENDS } else { 0 }.to_le_bytes());
            bytes.extend([0; 4]);
            first_chunk += lane.chunks.len() as u64;
        }
        let chunk_table = lane_table + bytes.len() as u64;
        for offset in self.lanes.iter().flat_map(|lane| &lane.chunks) {
            bytes.extend(offset.to_le_bytes());
        }
        self.file.write_all(&bytes)?;

        let op_count = self.lanes.iter().map(|lane| lane.op_count).sum();
        let mut header = Vec::from(MAGIC);
        let lane_count = self.lanes.len() as u32;
        for number in [VERSION, HEADER_SIZE as u32, lane_count, slot_count] {
            header.extend(number.to_le_bytes());
        }
        let places = [op_count, first_chunk, sample_count, lane_table, chunk_table];
        for number in places.into_iter().chain([self.order_hash]) {
            header.extend(number.to_le_bytes());
        }
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&header)?;
        self.file.flush()?;
        Ok(Plan { file: self.file, order_hash: self.order_hash, op_count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn layout_is_that_of_the_header_file() {
        let mut writer = PlanWriter::new(Cursor::new(Vec::new())).unwrap();
        let lane = writer.add_lane();
        let op = Op { kind: Kind::Memalign, align_log2: 12, slot: 7, value: 0x1234 };
        writer.push(lane, op).unwrap();
        let plan = writer.finish(8, 3).unwrap();
        let bytes = plan.file.into_inner();
        assert_eq!(bytes.len(), HEADER_SIZE + OP_SIZE + LANE_SIZE + 8);
        assert_eq!(&bytes[..8], b"MLWPLAN\0");
        assert_eq!(bytes[HEADER_SIZE..][..8], [5, 12, 0, 0, 7, 0, 0, 0]);
        assert_eq!(bytes[HEADER_SIZE + 8..][..8], 0x1234u64.to_le_bytes());
        let number = |at: usize| u64::from_le_bytes(bytes[at..][..8].try_into().unwrap());
        assert_eq!((number(24), number(32), number(40)), (1, 1, 3));
        assert_eq!(number(48), (HEADER_SIZE + OP_SIZE) as u64);
        assert_eq!(number(56), (HEADER_SIZE + OP_SIZE + LANE_SIZE) as u64);
        assert_eq!(number(64), plan.order_hash);
    }
}
