// SPDX-License-Identifier: MIT
//! Blocks: what a trace is written in. Each has a header with a checksum of its own, so that its
//! length can be trusted even where its content cannot.

use crate::error::{Error, Result};

pub const FILE_MAGIC: [u8; 8] = *b"MALLOWTR";
pub const BLOCK_MAGIC: [u8; 4] = *b"MLWb";
pub const END_MAGIC: [u8; 8] = *b"MALLOWEN";

/// A block is written when it holds this much.
pub const BLOCK_SIZE: usize = 64 << 10;
/// Before compression; a full block and the largest record.
const LARGEST_BLOCK: usize = BLOCK_SIZE + crate::codec::LARGEST_RECORD;
/// Of the index, which is one block: some 10 million blocks.
const LARGEST_INDEX: usize = 256 << 20;

pub const HEADER_SIZE: usize = 48;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Of one thread, in time order.
    #[default]
    Records = 0,
    /// Definitions, of any thread and time.
    Definitions,
    /// No record in a later block is earlier than `first`.
    Watermark,
    /// The last block.
    Index,
}

/// What a block's header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockInfo {
    pub(crate) kind: Kind,
    pub thread: u32,
    pub count: u32,
    /// Times of the first and the last record.
    pub first: u64,
    pub last: u64,
}

/// A block's header with the lengths and the checksum of what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    pub info: BlockInfo,
    pub raw_size: usize,
    pub stored_size: usize,
    pub checksum: u32,
}

impl Framing {
    pub fn to_bytes(self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[0..4].copy_from_slice(&BLOCK_MAGIC);
        bytes[4] = self.info.kind as u8;
        bytes[8..12].copy_from_slice(&self.info.thread.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.info.count.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.info.first.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.info.last.to_le_bytes());
        bytes[32..36].copy_from_slice(&(self.raw_size as u32).to_le_bytes());
        bytes[36..40].copy_from_slice(&(self.stored_size as u32).to_le_bytes());
        bytes[40..44].copy_from_slice(&self.checksum.to_le_bytes());
        let own = crc32fast::hash(&bytes[..44]);
        bytes[44..48].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8; HEADER_SIZE]) -> std::result::Result<Framing, &'static str> {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if bytes[0..4] != BLOCK_MAGIC {
            return Err("there is no block");
        }
        if u32_at(44) != crc32fast::hash(&bytes[..44]) {
            return Err("the header of a block does not match its checksum");
        }
        let kind = match bytes[4] {
            0 => Kind::Records,
            1 => Kind::Definitions,
            2 => Kind::Watermark,
            3 => Kind::Index,
            _ => return Err("a block of unknown kind"),
        };
        let (raw_size, stored_size) = (u32_at(32) as usize, u32_at(36) as usize);
        let largest = if kind == Kind::Index { LARGEST_INDEX } else { LARGEST_BLOCK };
        if raw_size > largest || stored_size > largest {
            return Err("a block that is too large");
        }
        let info = BlockInfo {
            kind,
            thread: u32_at(8),
            count: u32_at(12),
            first: u64_at(16),
            last: u64_at(24),
        };
        Ok(Framing { info, raw_size, stored_size, checksum: u32_at(40) })
    }
}

/// The content of a block, unpacked. A block that would not shrink is stored as it is.
pub fn unpack(stored: &[u8], raw_size: usize) -> std::result::Result<Vec<u8>, &'static str> {
    if stored.len() == raw_size {
        return Ok(stored.to_vec());
    }
    match zstd::bulk::decompress(stored, raw_size) {
        Ok(raw) if raw.len() == raw_size => Ok(raw),
        _ => Err("a block cannot be unpacked"),
    }
}

/// Compressing takes about 2.5 ns a byte. Of a thread that fills more than a byte in this time it would
/// take more than 3 % of what the thread itself takes.
const BYTE_NS: u64 = 80;
/// Of a trace, as long as it is no burden for a disk: about 200 million calls.
const MOST_UNCOMPRESSED: u64 = 1 << 30;

/// Packs blocks; keeps its working memory from one to the next.
pub struct Packer {
    compressor: zstd::bulk::Compressor<'static>,
    packed: Vec<u8>,
    /// How much may still be stored as it is for lack of time.
    uncompressed: u64,
}

impl Packer {
    pub fn new() -> Result<Packer> {
        // Level 1 gives 2 to 3 bytes an event; higher levels gain little and cost the collector.
        let compressor = zstd::bulk::Compressor::new(1)?;
        Ok(Packer { compressor, packed: Vec::new(), uncompressed: MOST_UNCOMPRESSED })
    }

    /// Whether the block comes from a thread that calls so often that compressing would slow it down.
    fn is_hasty(&mut self, info: BlockInfo, size: usize) -> bool {
        let size = size as u64;
        let elapsed = info.last.saturating_sub(info.first);
        let is_hasty = info.kind == Kind::Records
            && size * BYTE_NS > elapsed
            && size >= BLOCK_SIZE as u64
            && self.uncompressed >= size;
        if is_hasty {
            self.uncompressed -= size;
        }
        is_hasty
    }

    /// The block's header, and what follows it.
    pub fn pack<'a>(&'a mut self, info: BlockInfo, raw: &'a [u8]) -> Result<(Framing, &'a [u8])> {
        if u32::try_from(raw.len()).is_err() {
            return Err(Error::TooLarge { bytes: raw.len() });
        }
        let mut stored = raw;
        if !self.is_hasty(info, raw.len()) {
            self.packed.clear();
            self.packed.reserve(zstd::zstd_safe::compress_bound(raw.len()));
            self.compressor.compress_to_buffer(raw, &mut self.packed)?;
            if self.packed.len() < raw.len() {
                stored = self.packed.as_slice();
            }
        }
        let checksum = crc32fast::hash(stored);
        Ok((Framing { info, raw_size: raw.len(), stored_size: stored.len(), checksum }, stored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_too_fast_stays_as_it_is_and_not_for_ever() {
        let raw = vec![7; BLOCK_SIZE];
        let mut packer = Packer::new().unwrap();
        assert_eq!(packer.uncompressed, MOST_UNCOMPRESSED);
        packer.uncompressed = 5 * BLOCK_SIZE as u64;
        let mut stored = |kind, nanoseconds, raw: &[u8]| {
            let info = BlockInfo { kind, first: 5, last: 5 + nanoseconds, ..BlockInfo::default() };
            packer.pack(info, raw).unwrap().1.len()
        };
        let slow = BLOCK_SIZE as u64 * BYTE_NS;
        assert!(stored(Kind::Records, slow, &raw) < BLOCK_SIZE);
        assert!(stored(Kind::Definitions, 0, &raw) < BLOCK_SIZE);
        // A block that is written before it is full says little about how fast calls come.
        assert!(stored(Kind::Records, 0, &raw[1..]) < BLOCK_SIZE);
        let fast = (0..9).filter(|_| stored(Kind::Records, slow - 1, &raw) == BLOCK_SIZE).count();
        assert_eq!(fast, 5);
    }
}
