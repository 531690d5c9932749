//! Spaces of the Java machine HotSpot, by the table that it exports for debuggers
//! (`gHotSpotVMStructs`):
//!
//! ```text
//!     type name | field name | type of the field | is static | offset | address
//! ```

use std::collections::HashMap;

use super::{Found, Kept, space};
use crate::binding::Inspector;
use crate::mappings::Kind;
use crate::memory::Memory;
use crate::process::Process;

const ENTRY: u64 = 48;
const MOST_ENTRIES: u64 = 20_000;
const LONGEST_NAME: usize = 64;
const LARGEST: u64 = 1 << 46;

/// Offsets of fields, addresses of static ones.
struct Table(HashMap<String, u64>);

pub fn find(process: &Process, memory: &dyn Memory, inspector: &mut Inspector) -> Found {
    let mut found = Found::default();
    let symbol = inspector.symbol(process.pid, "gHotSpotVMStructs");
    let Some(table) = symbol.and_then(|at| Table::read(memory, at)) else { return found };
    let spaces = [
        ("Java: heap of objects", Kind::RuntimeHeap, table.heap(memory)),
        ("Java: compiled code", Kind::Jit, table.code(memory)),
    ];
    for (what, kind, range) in spaces {
        let is_range = |&(start, end): &(u64, u64)| start < end && end - start <= LARGEST;
        let Some(range) = range.filter(is_range) else { continue };
        found.spaces.push(space(range, kind, what));
        found.kept.push(Kept { what: what.into(), size: range.1 - range.0, used: None });
    }
    found
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
