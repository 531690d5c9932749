// SPDX-License-Identifier: MIT
//! Frames of Python and Ruby: which line of which function, and where among the frames of C they
//! belong.

use mallow_recorder::layout::{SCRIPT_ENTRY, SCRIPT_IS_LINE, script_part};
use mallow_trace::{Event, Frame, Module, ModuleKind, Symbol};
use rustc_hash::FxHashMap;

/// What is known of a code object.
#[derive(Default)]
struct Code {
    file: String,
    name: String,
    first_line: i64,
    /// Python's: which instructions belong to which line, as the interpreter keeps it.
    table: Vec<u8>,
}

/// A part of a code object, as the recorder sends it.
#[derive(Debug, PartialEq)]
pub struct Part<'a> {
    pub key: u64,
    pub part: u8,
    /// Bytes of a character; 0: UTF-8.
    pub width: u8,
    pub first_line: u32,
    pub bytes: &'a [u8],
}

/// The code of one process's interpreter. In the trace it is a module whose addresses are places in code,
/// numbered as they come.
#[derive(Default)]
pub struct Script {
    codes: FxHashMap<u64, Code>,
    places: FxHashMap<(u64, u32), u64>,
    module: Option<u32>,
    /// Where the function of C begins that runs it, and where it ends.
    evaluation: Option<(u64, u64)>,
}

/// Between two places, so that each has a range of its own.
const STEP: u64 = 16;

impl Script {
    pub fn learn(&mut self, part: &Part) {
        let code = self.codes.entry(part.key).or_default();
        code.first_line = part.first_line.into();
        match part.part {
            script_part::FILE => code.file = text(part.bytes, part.width),
            script_part::NAME => code.name = text(part.bytes, part.width),
            _ => code.table = part.bytes.to_vec(),
        }
    }

    /// Whether a return address is in the function that runs scripts; `range` finds out where
    /// that is.
    pub fn is_evaluation(
        &mut self,
        address: u64,
        begin: u64,
        range: impl FnOnce() -> Option<(u64, u64)>,
    ) -> bool {
        let (begin, end) =
            *self.evaluation.get_or_insert_with(|| range().unwrap_or((begin, begin)));
        begin < address && address <= end
    }

    /// The frame of an instruction; what is new comes as definitions. `next_module` gives a number.
    pub fn frame(
        &mut self,
        process: u32,
        (key, place): (u64, u64),
        next_module: impl FnOnce() -> u32,
        definitions: &mut Vec<Event>,
    ) -> Frame {
        let unknown = Code::default();
        let code = self.codes.get(&key).unwrap_or(&unknown);
        let (is_line, number) = (place & SCRIPT_IS_LINE != 0, (place & 0xffff_ffff) as u32);
        let (language, mark) = if is_line { ("Ruby", "rb") } else { ("Python", "py") };
        let line = if is_line { number } else { line_of(code, number) };
        let module = *self.module.get_or_insert_with(|| {
            let id = next_module();
            let path = format!("[{language} of process {process}]");
            let kind = ModuleKind::Jit;
            let module = Module { id, kind, path, build_id: Vec::new(), process };
            definitions.push(Event::Module(Box::new(module)));
            id
        });
        let next = (self.places.len() as u64 + 1) * STEP;
        let start = *self.places.entry((key, line)).or_insert_with(|| {
            // Names of Ruby's have colons: <class:Box>.
            let name = match (code.name.as_str(), is_line, line) {
                ("", ..) => format!("{mark}::?:"),
                (name, false, 0) => format!("py::{name}:{}", code.file),
                (name, false, line) => format!("py::{name}:{}:{line}", code.file),
                (name, true, line) => format!("rb::{name}@{}:{line}", code.file),
            };
            let symbol = Symbol { module, start: next, size: STEP, name };
            definitions.push(Event::Symbol(Box::new(symbol)));
            next
        });
        Frame { module, address: start + 1 }
    }
}

/// Whether a call from C began with this frame.
pub fn is_entry(place: u64) -> bool {
    place & SCRIPT_ENTRY != 0
}

fn text(bytes: &[u8], width: u8) -> String {
    let character = |value: u32| char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER);
    match width {
        0 => String::from_utf8_lossy(bytes).into_owned(),
        1 => bytes.iter().map(|&byte| char::from(byte)).collect(),
        2 => bytes
            .as_chunks::<2>()
            .0
            .iter()
            .map(|pair| character(u16::from_le_bytes(*pair).into()))
            .collect(),
        _ => bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|four| character(u32::from_le_bytes(*four)))
            .collect(),
    }
}

/// The line of an instruction, 0 if it has none. The table has an entry for each run of
/// instructions: a byte with kind and length, then what changes (`Objects/locations.md` of CPython).
fn line_of(code: &Code, instruction: u32) -> u32 {
    const NO_LINE: u8 = 15;
    let (mut line, mut at) = (code.first_line, 0u32);
    let mut bytes = code.table.iter().copied();
    while let Some(head) = bytes.next() {
        let kind = head >> 3 & 15;
        let change = match kind {
            13 | 14 => signed(varint(&mut bytes)),
            10..=12 => i64::from(kind - 10),
            _ => 0,
        };
        let rest = match kind {
            0..=9 => 1,
            10..=12 => 2,
            _ => 0,
        };
        for _ in 0..rest {
            bytes.next();
        }
        if kind == 14 {
            for _ in 0..3 {
                varint(&mut bytes);
            }
        }
        line = line.wrapping_add(change);
        at = at.saturating_add(u32::from(head & 7) + 1);
        if instruction < at {
            return if kind == NO_LINE { 0 } else { u32::try_from(line).unwrap_or(0) };
        }
    }
    0
}

/// Six bits a byte, lowest first; bit 6 says that more follow.
fn varint(bytes: &mut impl Iterator<Item = u8>) -> u64 {
    let (mut value, mut shift) = (0, 0);
    for byte in bytes {
        value |= u64::from(byte & 63) << shift;
        shift += 6;
        if byte & 64 == 0 || shift > 57 {
            break;
        }
    }
    value
}

fn signed(value: u64) -> i64 {
    let magnitude = (value >> 1).cast_signed();
    if value & 1 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(first_line: i64, table: &[u8]) -> Code {
        Code { first_line, table: table.to_vec(), ..Code::default() }
    }

    #[test]
    fn lines_are_those_of_the_interpreter() {
        // One line with columns (2 instructions, +1), short form (3, +0), long form (1, +10; three
        // more numbers), no columns (8, -3), no line at all (1).
        let table =
            [0x80 | 11 << 3 | 1, 4, 9, 0x80 | 2 << 3 | 2, 0x21, 0x80 | 14 << 3, 20, 0, 1, 1];
        let more = [0x80 | 13 << 3 | 7, 7, 0x80 | 15 << 3];
        let code = code(100, &[&table[..], &more].concat());
        let lines: Vec<u32> = [0, 1, 2, 4, 5, 6, 13, 14, 15].map(|at| line_of(&code, at)).to_vec();
        assert_eq!(lines, [101, 101, 101, 101, 111, 108, 108, 0, 0]);
    }

    #[test]
    fn any_table_is_read_without_harm() {
        for byte in 0..=255u8 {
            for length in 0..9 {
                line_of(&code(i64::MAX / 2, &vec![byte; length]), 1 << 20);
            }
        }
    }

    #[test]
    fn places_are_numbered_and_named_once() {
        let mut script = Script::default();
        let part =
            |part, bytes: &'static [u8]| Part { key: 7, part, width: 1, first_line: 5, bytes };
        script.learn(&part(script_part::FILE, b"/a.py"));
        script.learn(&part(script_part::NAME, b"rd"));
        script.learn(&part(script_part::TABLE, &[0x80 | 11 << 3 | 1, 4, 9]));
        let mut definitions = Vec::new();
        let mut frame = |place| script.frame(3, (7, place), || 9, &mut definitions);
        let first = frame(0);
        assert_eq!((first, frame(SCRIPT_ENTRY | 1)), (Frame { module: 9, address: 17 }, first));
        let names: Vec<&str> = definitions
            .iter()
            .filter_map(|event| match event {
                Event::Symbol(symbol) => Some(symbol.name.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!((definitions.len(), names), (2, vec!["py::rd:/a.py:6"]));
        assert_eq!(text(&[0x65, 0, 0xac, 0x20], 2), "e€");
    }
}
