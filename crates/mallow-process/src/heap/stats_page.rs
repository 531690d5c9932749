// SPDX-License-Identifier: MIT
//! Mallow's statistics page: where the allocator of another process keeps its counters and
//! descriptors, by name. The layout is never known here; `core/src/insight/stats_page.h` says what
//! the names mean.

use std::collections::{BTreeMap, HashMap};

use crate::memory::Memory;

/// All versions begin so; the number stands behind it.
const MAGIC: &[u8; 13] = b"mallow:stats:";
const NAME: usize = 24;
/// The first version had no counters and no lines.
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=2;
const LINE: usize = NAME + 16 + 8 + 8;
/// Tables of a page have a few dozen lines.
const MOST_LINES: u32 = 1000;

#[derive(Clone, Debug)]
pub struct Page {
    /// Such as `0.1.0 fast`.
    pub build: String,
    roots: HashMap<String, u64>,
    numbers: HashMap<String, u64>,
    /// Offset and size.
    fields: HashMap<String, (u64, u64)>,
    /// The figures that the allocator has words for; none in the first version.
    pub lines: Vec<Line>,
}

/// A figure of the allocator, as its own table describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub name: String,
    pub unit: String,
    /// Such as `class` or `lock`.
    pub level: String,
    /// `COUNTER`, `GAUGE`, `PEAK` or `FACT`.
    pub kind: String,
}

/// The options that rules of `advise` ask for.
const OPTIONS: [&str; 2] = ["dirty_decay_ms", "purge_thread"];

impl Page {
    /// The page at an address; `None` if there is none, or one of another version.
    pub fn read(memory: &dyn Memory, address: u64) -> Option<Page> {
        let mut head = [0u8; 96];
        memory.read(address, &mut head)?;
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
        let half = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap_or_default());
        let version = version(&head[..16])?;
        if half(16) != version || word(24) != address {
            return None;
        }
        let fields = table(memory, word(72), half(88))?;
        Some(Page {
            build: name(&head[32..32 + NAME]),
            roots: table(memory, word(56), half(80))?,
            numbers: table(memory, word(64), half(84))?,
            fields: fields.into_iter().map(|(k, v)| (k, (v & 0xffff_ffff, v >> 32))).collect(),
            lines: if version < 2 {
                Vec::new()
            } else {
                lines(memory, memory.word(address.checked_add(96)?)?, half(92))?
            },
        })
    }

    pub fn root(&self, name: &str) -> Option<u64> {
        self.roots.get(name).copied()
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.numbers.get(name).copied()
    }

    /// Offset and size of a field.
    pub fn field(&self, name: &str) -> Option<(u64, u64)> {
        self.fields.get(name).copied()
    }

    /// The value of a field of the structure at an address.
    pub fn get(&self, memory: &dyn Memory, structure: u64, name: &str) -> Option<u64> {
        let (offset, size) = self.field(name)?;
        memory.number(structure.checked_add(offset)?, size)
    }

    /// What holds now of [`OPTIONS`]; `None` in builds that do not tell.
    pub fn options(&self, memory: &dyn Memory) -> Option<BTreeMap<String, i64>> {
        let values = self.root("options")?;
        let value = |name: &str| self.get(memory, values, &format!("option.{name}"));
        let told =
            OPTIONS.iter().filter_map(|&name| Some((name.into(), value(name)?.cast_signed())));
        Some(told.collect())
    }
}

/// The version that the first bytes of a page name, if it is one that can be read.
fn version(magic: &[u8]) -> Option<u32> {
    let number = magic.strip_prefix(MAGIC)?.strip_suffix(b"\n\0")?;
    let version = std::str::from_utf8(number).ok()?.parse().ok()?;
    VERSIONS.contains(&version).then_some(version)
}

fn lines(memory: &dyn Memory, address: u64, count: u32) -> Option<Vec<Line>> {
    if count > MOST_LINES {
        return None;
    }
    let mut bytes = vec![0; count as usize * LINE];
    memory.read(address, &mut bytes)?;
    let line = |line: &[u8]| Line {
        name: name(&line[..NAME]),
        unit: name(&line[NAME..NAME + 16]),
        level: name(&line[NAME + 16..NAME + 24]),
        kind: name(&line[NAME + 24..]),
    };
    Some(bytes.chunks_exact(LINE).map(line).collect())
}

/// Lines of a name and a word each.
fn table(memory: &dyn Memory, address: u64, lines: u32) -> Option<HashMap<String, u64>> {
    if lines > MOST_LINES {
        return None;
    }
    let mut bytes = vec![0; lines as usize * (NAME + 8)];
    memory.read(address, &mut bytes)?;
    let line = |line: &[u8]| {
        let value = u64::from_le_bytes(line[NAME..].try_into().unwrap_or_default());
        (name(&line[..NAME]), value)
    };
    Some(bytes.chunks_exact(NAME + 8).map(line).collect())
}

fn name(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// Looks for a page in data of a program whose symbols were taken away.
pub fn search(memory: &dyn Memory, ranges: &[(u64, u64)]) -> Option<Page> {
    const STEP: usize = 64 * 1024;
    for &(start, end) in ranges {
        let mut at = start;
        while at < end {
            let length = STEP.min((end - at) as usize);
            let mut bytes = vec![0; length];
            if memory.read(at, &mut bytes).is_some() {
                let places =
                    bytes.chunks_exact(16).enumerate().filter(|(_, c)| version(c).is_some());
                for (index, _) in places {
                    if let Some(page) = Page::read(memory, at + 16 * index as u64) {
                        return Some(page);
                    }
                }
            }
            at += length as u64;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_the_page_are_known() {
        assert_eq!(version(b"mallow:stats:1\n\0"), Some(1));
        assert_eq!(version(b"mallow:stats:2\n\0"), Some(2));
        assert_eq!(version(b"mallow:stats:3\n\0"), None);
        assert_eq!(version(b"mallow:stats:x\n\0"), None);
        assert_eq!(version(b"mallow:states:1\0"), None);
    }
}
