// SPDX-License-Identifier: MIT
//! Damaged traces that are read nevertheless.

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + 4)?;
    Some(bytes.iter().rev().fold(0, |word, byte| word << 8 | usize::from(*byte)))
}

/// The trace with the checksums of all blocks right, so that their content is looked at.
pub fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let Some(length) = number(&bytes, 12) else { return bytes };
    let mut at = 20 + length;
    while bytes.get(at..at + 4) == Some(b"MLWb") {
        let Some(size) = number(&bytes, at + 36) else { break };
        let Some(stored) = bytes.get(at + 48..at + 48 + size) else { break };
        let checksum = crc32fast::hash(stored);
        bytes[at + 40..at + 44].copy_from_slice(&checksum.to_le_bytes());
        let own = crc32fast::hash(&bytes[at..at + 44]);
        bytes[at + 44..at + 48].copy_from_slice(&own.to_le_bytes());
        at += 48 + size;
    }
    bytes
}
