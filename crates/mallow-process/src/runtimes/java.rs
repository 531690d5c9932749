// SPDX-License-Identifier: MIT
//! Spaces of the Java machine HotSpot, by the table that it exports for debuggers
//! (`gHotSpotVMStructs`), and what of them is used, by its counters (`hsperf`):
//!
//! ```text
//!     type name | field name | type of the field | is static | offset | address
//! ```

use std::collections::HashMap;

use super::hsperf::Counters;
use super::{Found, Kept, space};
use crate::binding::Inspector;
use crate::mappings::Kind;
use crate::memory::Memory;
use crate::process::Process;

const ENTRY: u64 = 48;
const MOST_ENTRIES: u64 = 20_000;
const LONGEST_NAME: usize = 64;
const LARGEST: u64 = 1 << 46;
/// Generations, and spaces of each.
const MOST_SPACES: u64 = 8;
/// G1 names spaces that it does not have, and gives them a few bytes.
const SMALLEST_SPACE: u64 = 4096;

/// Offsets of fields, addresses of static ones.
struct Table(HashMap<String, u64>);

pub fn find(process: &Process, memory: &dyn Memory, inspector: &mut Inspector) -> Found {
    let mut found = Found::default();
    let symbol = inspector.symbol(process.pid, "gHotSpotVMStructs");
    let table = symbol.and_then(|at| Table::read(memory, at));
    let (heap, code) = match table {
        Some(table) => (table.heap(memory), table.code(memory)),
        None => (None, None),
    };
    let spaces = [
        ("Java: heap of objects", Kind::RuntimeHeap, heap),
        ("Java: compiled code", Kind::Jit, code),
    ];
    for (what, kind, range) in spaces {
        let is_range = |&(start, end): &(u64, u64)| start < end && end - start <= LARGEST;
        let Some(range) = range.filter(is_range) else { continue };
        found.spaces.push(space(range, kind, what));
        let size = range.1 - range.0;
        found.kept.push(Kept { what: what.into(), size, ..Kept::default() });
    }
    if let Some(counters) = Counters::of(process, memory) {
        let after = 1.min(found.kept.len());
        found.kept.splice(after..after, generations(&counters));
        found.kept.extend(classes(&counters));
        found.version = counters.text("java.property.java.version").map(|v| format!("Java {v}"));
    }
    found
}

/// What the collector gave each of its spaces, and how much of it had objects when it was last
/// counted, which most collectors do at the end of a collection.
fn generations(counters: &Counters) -> Vec<Kept> {
    let mut kept = Vec::new();
    let is_collected = has_collected(counters);
    for generation in 0..MOST_SPACES {
        let generation = format!("sun.gc.generation.{generation}");
        for space in 0..MOST_SPACES {
            let space = format!("{generation}.space.{space}");
            let number = |name: &str| counters.number(&format!("{space}.{name}"));
            let Some(size) = number("capacity").filter(|size| *size >= SMALLEST_SPACE) else {
                continue;
            };
            let text = |at: &str| counters.text(&format!("{at}.name")).unwrap_or_default();
            let name = match text(&space) {
                "space" | "" => text(&generation),
                name => name,
            };
            let what = format!("Java: {name}, at the last collection");
            let used = number("used").filter(|used| is_collected || *used > 0);
            kept.push(Kept { what, size, used, ..Kept::default() });
        }
    }
    kept
}

/// Before the first collection a 0 may say that nothing was counted yet.
fn has_collected(counters: &Counters) -> bool {
    (0..MOST_SPACES).any(|collector| {
        let name = format!("sun.gc.collector.{collector}.invocations");
        counters.number(&name).is_some_and(|collections| collections > 0)
    })
}

/// They are never without any: a 0 says that they were not counted yet.
fn classes(counters: &Counters) -> Option<Kept> {
    let number = |name: &str| {
        counters.number(&format!("sun.gc.metaspace.{name}")).filter(|bytes| *bytes > 0)
    };
    let what = "Java: classes (metaspace)".into();
    Some(Kept { what, size: number("capacity")?, used: number("used"), ..Kept::default() })
}

impl Table {
    fn read(memory: &dyn Memory, symbol: u64) -> Option<Table> {
        let mut fields = HashMap::new();
        let mut entry = memory.word(symbol)?;
        for _ in 0..MOST_ENTRIES {
            let words = memory.words(entry, 6)?;
            if words[0] == 0 {
                return Some(Table(fields));
            }
            let is_static = words[3] & 0xffff_ffff != 0;
            let value = if is_static { words[5] } else { words[4] };
            let name = format!("{}.{}", text(memory, words[0])?, text(memory, words[1])?);
            fields.insert(name, value);
            entry += ENTRY;
        }
        None
    }

    fn field(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    fn static_word(&self, memory: &dyn Memory, name: &str) -> Option<u64> {
        memory.word(self.field(name)?)
    }

    fn heap(&self, memory: &dyn Memory) -> Option<(u64, u64)> {
        let heap = self.static_word(memory, "Universe._collectedHeap")?;
        let region = heap.checked_add(self.field("CollectedHeap._reserved")?)?;
        let start = memory.word(region.checked_add(self.field("MemRegion._start")?)?)?;
        let words = memory.word(region.checked_add(self.field("MemRegion._word_size")?)?)?;
        Some((start, start.checked_add(words.checked_mul(8)?)?))
    }

    fn code(&self, memory: &dyn Memory) -> Option<(u64, u64)> {
        let bound = |name| self.static_word(memory, name);
        Some((bound("CodeCache._low_bound")?, bound("CodeCache._high_bound")?))
    }
}

fn text(memory: &dyn Memory, at: u64) -> Option<String> {
    let mut bytes = Vec::new();
    while bytes.len() < LONGEST_NAME {
        let mut byte = [0];
        memory.read(at.checked_add(bytes.len() as u64)?, &mut byte)?;
        if byte[0] == 0 {
            break;
        }
        bytes.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::hsperf::Value;
    use super::*;

    /// Used bytes of a space and of classes.
    fn used(collections: u64, space: u64, classes: u64) -> [Option<u64>; 2] {
        let numbers = [
            ("sun.gc.collector.0.invocations", 0),
            ("sun.gc.collector.1.invocations", collections),
            ("sun.gc.generation.0.space.0.capacity", 1 << 20),
            ("sun.gc.generation.0.space.0.used", space),
            ("sun.gc.metaspace.capacity", 1 << 20),
            ("sun.gc.metaspace.used", classes),
        ];
        let numbers = numbers.map(|(name, number)| (name.to_owned(), Value::Number(number)));
        let counters = Counters(numbers.into());
        [generations(&counters)[0].used, super::classes(&counters).and_then(|kept| kept.used)]
    }

    #[test]
    fn what_was_never_counted_is_not_told() {
        assert_eq!(used(0, 0, 0), [None, None]);
        assert_eq!(used(1, 0, 7), [Some(0), Some(7)], "an empty space");
        assert_eq!(used(0, 5, 7), [Some(5), Some(7)], "some collectors count all the time");
    }
}
