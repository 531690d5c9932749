// SPDX-License-Identifier: MIT
//! Counters of the Java machine HotSpot, which it keeps in a file that it has mapped
//! (`/tmp/hsperfdata_USER/PID`), so that they can be read in its memory, whatever it sees as `/tmp`.
//!
//! ```text
//!     0 ca fe c0 c0  order, version  8 bytes used  24 first entry, entries
//!     entry: length, name, elements | type  .. | value     where name and value are offsets in it
//! ```

use std::collections::BTreeMap;

use super::half;
use crate::memory::Memory;
use crate::process::Process;

const MAGIC: [u8; 4] = [0xca, 0xfe, 0xc0, 0xc0];
const LITTLE_ENDIAN: u8 = 1;
const MAJOR: u8 = 2;
const HEADER: usize = 32;
const ENTRY: usize = 20;
const MOST_BYTES: u64 = 1 << 20;
const LONGEST: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Number(u64),
    Text(String),
}

/// Counters by name.
#[derive(Debug, Default)]
pub struct Counters(pub(super) BTreeMap<String, Value>);

impl Counters {
    pub fn of(process: &Process, memory: &dyn Memory) -> Option<Counters> {
        let is_it = |name: &str| name.contains("/hsperfdata_") && !name.ends_with('/');
        let vma = process.vmas.iter().find(|vma| is_it(&vma.name))?;
        let mut bytes = vec![0; vma.size().min(MOST_BYTES) as usize];
        memory.read(vma.start, &mut bytes)?;
        Counters::parse(&bytes)
    }

    pub fn parse(bytes: &[u8]) -> Option<Counters> {
        let is_known = bytes.len() >= HEADER && bytes[..4] == MAGIC;
        if !is_known || bytes[4] != LITTLE_ENDIAN || bytes[5] != MAJOR {
            return None;
        }
        let used = (half(bytes, 2) as usize).min(bytes.len());
        let (mut at, count) = (half(bytes, 6) as usize, half(bytes, 7));
        let mut counters = BTreeMap::new();
        for _ in 0..count {
            let Some(entry) = bytes.get(at..used).filter(|entry| entry.len() >= ENTRY) else {
                break;
            };
            let length = half(entry, 0) as usize;
            if length < ENTRY || length > entry.len() {
                break;
            }
            counters.extend(counter(&entry[..length]));
            at += length;
        }
        Some(Counters(counters))
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        match self.0.get(name)? {
            Value::Number(number) => Some(*number),
            Value::Text(_) => None,
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name)? {
            Value::Text(text) => Some(text),
            Value::Number(_) => None,
        }
    }
}

fn counter(entry: &[u8]) -> Option<(String, Value)> {
    let name = text(entry.get(half(entry, 1) as usize..)?);
    let (elements, kind) = (half(entry, 2) as usize, entry[12]);
    let value = entry.get(half(entry, 4) as usize..)?;
    let value = match kind {
        b'J' if elements == 0 => {
            Value::Number(u64::from_le_bytes(value.get(..8)?.try_into().ok()?))
        }
        b'B' if elements > 0 => Value::Text(text(value.get(..elements.min(value.len()))?)),
        _ => return None,
    };
    Some((name, value))
}

/// Up to its zero.
fn text(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(LONGEST)];
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(entries: &[(&str, u8, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[..4].copy_from_slice(&MAGIC);
        (bytes[4], bytes[5]) = (LITTLE_ENDIAN, MAJOR);
        let put = |bytes: &mut [u8], index: usize, value: usize| {
            bytes[4 * index..4 * index + 4].copy_from_slice(&(value as u32).to_le_bytes());
        };
        for (name, kind, value) in entries {
            let at = (ENTRY + name.len() + 1).next_multiple_of(8);
            let mut entry = vec![0; at];
            entry[ENTRY..ENTRY + name.len()].copy_from_slice(name.as_bytes());
            entry.extend_from_slice(value);
            let length = entry.len();
            put(&mut entry, 0, length);
            put(&mut entry, 1, ENTRY);
            put(&mut entry, 2, if *kind == b'B' { value.len() } else { 0 });
            entry[12] = *kind;
            put(&mut entry, 4, at);
            bytes.extend(entry);
        }
        let length = bytes.len();
        put(&mut bytes, 2, length);
        put(&mut bytes, 6, HEADER);
        put(&mut bytes, 7, entries.len());
        bytes
    }

    #[test]
    fn counters_are_read_by_name() {
        let number = 77u64.to_le_bytes();
        let bytes = file(&[("a.number", b'J', &number), ("a.text", b'B', b"old\0\0\0")]);
        let counters = Counters::parse(&bytes).unwrap();
        assert_eq!((counters.number("a.number"), counters.text("a.text")), (Some(77), Some("old")));
        assert_eq!((counters.number("a.text"), counters.text("a.number")), (None, None));
    }

    #[test]
    fn what_is_damaged_is_left_out() {
        let number = 77u64.to_le_bytes();
        let whole = file(&[("one", b'J', &number), ("two", b'J', &number)]);
        for cut in 0..whole.len() {
            if let Some(counters) = Counters::parse(&whole[..cut]) {
                assert_eq!(counters.number("two"), None);
            }
        }
        let mut looped = whole.clone();
        looped[HEADER..HEADER + 4].fill(0);
        assert!(Counters::parse(&looped).unwrap().0.is_empty(), "an entry without a length");
        assert!(Counters::parse(b"text").is_none());
    }
}
