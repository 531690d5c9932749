// SPDX-License-Identifier: MIT
//! Records as bytes. Within a block the time and the address of a record are written as the
//! difference to the record before; each block begins anew, so that it can be read alone.

use crate::error::{Error, Result};
use crate::model::*;

/// Of one record; the collector cuts names and command lines long before.
pub const LARGEST_RECORD: usize = 512 << 10;

// Numbers below are those of Op.
const PROCESS: u8 = 64;
const THREAD: u8 = 65;
const MODULE: u8 = 66;
const MAPPING: u8 = 67;
const STACK: u8 = 68;
const SYMBOL: u8 = 69;
const THREAD_NAME: u8 = 70;
const THREAD_END: u8 = 71;
const PROCESS_END: u8 = 72;
const MARKER: u8 = 73;
const MEMORY: u8 = 74;
const DROPPED: u8 = 75;
const REGIONS: u8 = 76;

// The second byte of a call. The lowest three bits are those of the address.
pub(crate) const LOW_BITS: u8 = 7;
pub(crate) const FAILED: u8 = 8;
pub(crate) const HAS_ALIGNMENT: u8 = 16;
pub(crate) const HAS_STACK: u8 = 32;
pub(crate) const NO_ADDRESS: u8 = 64;
pub(crate) const IN_PLACE: u8 = 128;

/// The bit of the first byte that says that the call is in the short form, which most have: its numbers are of
/// the lengths that the second byte says.
pub(crate) const SHORT: u8 = 128;

/// What the records of one block are relative to.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    pub time: u64,
    pub(crate) address: u64,
}

impl State {
    pub fn at(time: u64) -> State {
        State { time, address: 0 }
    }
}

#[inline]
pub(crate) fn has_size(op: Op) -> bool {
    !op.is_free()
        || matches!(
            op,
            Op::FreeSized
                | Op::FreeAlignedSized
                | Op::DeleteSized
                | Op::DeleteArraySized
                | Op::DeleteSizedAligned
                | Op::DeleteArraySizedAligned
        )
}

/// Appends the record, which is not a call, as one of this time, or of the state's if that is later.
pub fn encode(out: &mut Vec<u8>, state: &mut State, time: u64, record: &Record) -> Result<()> {
    let start = out.len();
    let elapsed = time.saturating_sub(state.time);
    state.time += elapsed;
    out.push(0);
    put(out, elapsed);
    out[start] = encode_rare(out, record.thread, &record.event);
    let bytes = out.len() - start;
    if bytes > LARGEST_RECORD {
        out.truncate(start);
        return Err(Error::TooLarge { bytes });
    }
    Ok(())
}

/// Returns the record's number.
fn encode_rare(out: &mut Vec<u8>, thread: u32, event: &Event) -> u8 {
    match event {
        Event::Call(_) => unreachable!("call::encode writes them"),
        Event::Process(process) => {
            put_process(out, process);
            PROCESS
        }
        Event::Thread(defined) => {
            put32(out, &[thread, defined.process, defined.tid]);
            put_text(out, &defined.name);
            THREAD
        }
        Event::Module(module) => {
            put_module(out, module);
            MODULE
        }
        Event::Mapping(m) => {
            put32(out, &[m.process, m.module]);
            [m.start, m.end, m.bias].iter().for_each(|&value| put(out, value));
            MAPPING
        }
        Event::Stack(stack) => {
            put_stack(out, stack);
            STACK
        }
        Event::Symbol(symbol) => {
            put32(out, &[symbol.module]);
            put(out, symbol.start);
            put(out, symbol.size);
            put_text(out, &symbol.name);
            SYMBOL
        }
        Event::ThreadName(name) => {
            put_text(out, name);
            THREAD_NAME
        }
        Event::ThreadEnd => THREAD_END,
        Event::ProcessEnd(end) => {
            put_process_end(out, end);
            PROCESS_END
        }
        Event::Marker(text) => {
            put_text(out, text);
            MARKER
        }
        Event::Memory(m) => {
            put_memory(out, m);
            MEMORY
        }
        Event::Regions(regions) => {
            put_regions(out, regions);
            REGIONS
        }
        Event::Dropped(count) => {
            put(out, *count);
            DROPPED
        }
    }
}

fn put_module(out: &mut Vec<u8>, module: &Module) {
    put32(out, &[module.id, module.process]);
    out.push(module.kind as u8);
    put_text(out, &module.path);
    put_bytes(out, &module.build_id);
}

fn put_memory(out: &mut Vec<u8>, m: &Memory) {
    put32(out, &[m.process]);
    let values = [m.rss, m.anonymous, m.peak_rss, m.pss, m.swap, m.minor_faults, m.major_faults];
    values.iter().for_each(|&value| put(out, value));
}

fn put_process(out: &mut Vec<u8>, process: &Process) {
    put32(out, &[process.id, process.pid, process.parent]);
    out.push(process.start as u8);
    put_text(out, &process.executable);
    put_text(out, &process.allocator);
    put(out, process.command.len() as u64);
    process.command.iter().for_each(|word| put_text(out, word));
}

fn put_process_end(out: &mut Vec<u8>, end: &ProcessEnd) {
    put32(out, &[end.process]);
    let (kind, value) = match end.ending {
        Ending::Unknown => (0, 0),
        Ending::Code(code) => (1, code),
        Ending::Signal(signal) => (2, signal),
        Ending::Exec => (3, 0),
    };
    out.push(kind);
    put(out, zigzag(i64::from(value)));
}

fn put_stack(out: &mut Vec<u8>, stack: &Stack) {
    put32(out, &[stack.id]);
    put(out, stack.frames.len() as u64 + u64::from(stack.distance > 0));
    if stack.distance > 0 {
        // A frame of no module stands for it.
        put32(out, &[0]);
        put(out, stack.distance);
    }
    for frame in &stack.frames {
        put32(out, &[frame.module]);
        put(out, frame.address);
    }
}

fn put_regions(out: &mut Vec<u8>, regions: &Regions) {
    put32(out, &[regions.process]);
    put(out, u64::from(regions.no_huge_pages));
    put(out, regions.regions.len() as u64);
    for region in &regions.regions {
        [region.start, region.length, region.resident].iter().for_each(|&value| put(out, value));
    }
}

#[inline]
fn put(out: &mut Vec<u8>, value: u64) {
    let mut rest = value;
    if rest >> 56 != 0 {
        return put_long(out, rest);
    }
    let (mut word, mut shift) = (0, 0);
    while rest >= 0x80 {
        word |= (rest & 0x7f | 0x80) << shift;
        shift += 8;
        rest >>= 7;
    }
    word |= rest << shift;
    // One store of a known length, of which the end is cut off, costs less than one for each byte.
    let end = out.len() + shift / 8 + 1;
    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(end);
}

#[cold]
fn put_long(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put32(out: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|&value| put(out, u64::from(value)));
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

#[inline]
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Why bytes are no record.
pub type Fault = &'static str;

const SHORT_RECORD: Fault = "a record ends too early";
const UNKNOWN: Fault = "a record of unknown kind";
const NUMBER: Fault = "a number out of range";

/// Reads the record at `at`, and moves `at` behind it.
pub fn decode(
    bytes: &[u8],
    at: &mut usize,
    state: &mut State,
    thread: u32,
) -> std::result::Result<Record, Fault> {
    let mut input = Input { bytes, at: *at };
    let kind = input.byte()?;
    let record = match Op::from_number(kind & !SHORT) {
        Some(op) if kind & SHORT != 0 => decode_short(&mut input, state, op, thread)?,
        Some(op) => decode_call(&mut input, state, op, thread)?,
        None => {
            state.time = state.time.saturating_add(input.number()?);
            decode_rare(&mut input, state.time, kind, thread)?
        }
    };
    *at = input.at;
    Ok(record)
}

fn decode_short(
    input: &mut Input,
    state: &mut State,
    op: Op,
    thread: u32,
) -> std::result::Result<Record, Fault> {
    let lengths = usize::from(input.byte()?);
    if lengths >= 1 << 7 {
        return Err(UNKNOWN);
    }
    state.time = state.time.saturating_add(input.word(lengths & 3)?);
    let size = input.word(lengths >> 2 & 3)?;
    let step = unzigzag(input.word(lengths >> 4)?) << 1;
    state.address = state.address.wrapping_add_signed(step);
    let call = Call { op, size, address: state.address << 3, ..Call::default() };
    Ok(Record { time: state.time, thread, event: Event::Call(call) })
}

fn decode_call(
    input: &mut Input,
    state: &mut State,
    op: Op,
    thread: u32,
) -> std::result::Result<Record, Fault> {
    let flags = input.byte()?;
    state.time = state.time.saturating_add(input.number()?);
    let mut call = Call { op, failed: flags & FAILED != 0, ..Call::default() };
    if has_size(op) {
        call.size = input.number()?;
    }
    if flags & NO_ADDRESS == 0 {
        let step = unzigzag(input.number()?);
        state.address = state.address.wrapping_add_signed(step);
        call.address = (state.address << 3) | u64::from(flags & LOW_BITS);
    }
    if flags & HAS_ALIGNMENT != 0 {
        call.alignment = input.number()?;
    }
    if flags & HAS_STACK != 0 {
        call.stack = input.number32()?;
    }
    if op.is_realloc() {
        call.old = if flags & IN_PLACE != 0 { call.address } else { input.number()? };
        call.took = input.number()?;
    }
    Ok(Record { time: state.time, thread, event: Event::Call(call) })
}

fn decode_rare(
    input: &mut Input,
    time: u64,
    kind: u8,
    mut thread: u32,
) -> std::result::Result<Record, Fault> {
    let event = match kind {
        PROCESS => Event::Process(Box::new(decode_process(input)?)),
        THREAD => {
            thread = input.number32()?;
            let (process, tid) = (input.number32()?, input.number32()?);
            Event::Thread(Thread { process, tid, name: input.text()? })
        }
        MODULE => Event::Module(Box::new(Module {
            id: input.number32()?,
            process: input.number32()?,
            kind: match input.byte()? {
                0 => ModuleKind::File,
                1 => ModuleKind::Jit,
                2 => ModuleKind::Vdso,
                _ => return Err(NUMBER),
            },
            path: input.text()?,
            build_id: input.slice()?.to_vec(),
        })),
        MAPPING => Event::Mapping(Mapping {
            process: input.number32()?,
            module: input.number32()?,
            start: input.number()?,
            end: input.number()?,
            bias: input.number()?,
        }),
        STACK => Event::Stack(decode_stack(input)?),
        SYMBOL => Event::Symbol(Box::new(Symbol {
            module: input.number32()?,
            start: input.number()?,
            size: input.number()?,
            name: input.text()?,
        })),
        THREAD_NAME => Event::ThreadName(input.text()?),
        THREAD_END => Event::ThreadEnd,
        PROCESS_END => Event::ProcessEnd(decode_end(input)?),
        MARKER => Event::Marker(input.text()?),
        MEMORY => Event::Memory(Box::new(Memory {
            process: input.number32()?,
            rss: input.number()?,
            anonymous: input.number()?,
            peak_rss: input.number()?,
            pss: input.number()?,
            swap: input.number()?,
            minor_faults: input.number()?,
            major_faults: input.number()?,
        })),
        REGIONS => Event::Regions(decode_regions(input)?),
        DROPPED => Event::Dropped(input.number()?),
        _ => return Err(UNKNOWN),
    };
    Ok(Record { time, thread, event })
}

fn decode_regions(input: &mut Input) -> std::result::Result<Regions, Fault> {
    let mut regions = Regions {
        process: input.number32()?,
        no_huge_pages: input.number()? != 0,
        regions: Vec::new(),
    };
    for _ in 0..input.number()? {
        regions.regions.push(Region {
            start: input.number()?,
            length: input.number()?,
            resident: input.number()?,
        });
    }
    Ok(regions)
}

fn decode_process(input: &mut Input) -> std::result::Result<Process, Fault> {
    let mut process = Process {
        id: input.number32()?,
        pid: input.number32()?,
        parent: input.number32()?,
        start: match input.byte()? {
            0 => Start::First,
            1 => Start::Fork,
            2 => Start::Exec,
            _ => return Err(NUMBER),
        },
        executable: input.text()?,
        allocator: input.text()?,
        command: Vec::new(),
    };
    for _ in 0..input.count()? {
        process.command.push(input.text()?);
    }
    Ok(process)
}

fn decode_stack(input: &mut Input) -> std::result::Result<Stack, Fault> {
    let mut stack = Stack { id: input.number32()?, ..Stack::default() };
    let count = input.count()?;
    stack.frames.reserve_exact(count);
    for at in 0..count {
        let frame = Frame { module: input.number32()?, address: input.number()? };
        match frame.module {
            0 if at == 0 => stack.distance = frame.address,
            _ => stack.frames.push(frame),
        }
    }
    Ok(stack)
}

fn decode_end(input: &mut Input) -> std::result::Result<ProcessEnd, Fault> {
    let process = input.number32()?;
    let kind = input.byte()?;
    let value = i32::try_from(unzigzag(input.number()?)).map_err(|_| NUMBER)?;
    let ending = match kind {
        0 => Ending::Unknown,
        1 => Ending::Code(value),
        2 => Ending::Signal(value),
        3 => Ending::Exec,
        _ => return Err(NUMBER),
    };
    Ok(ProcessEnd { process, ending })
}

/// Joins the lower seven bits of each byte.
#[inline]
fn join_sevens(word: u64) -> u64 {
    let pairs = (word & 0x007f_007f_007f_007f) | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = (pairs & 0x0000_3fff_0000_3fff) | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    (fours & 0x0fff_ffff) | (fours & 0x0fff_ffff_0000_0000) >> 4
}

/// Bytes that may be anything.
struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn byte(&mut self) -> std::result::Result<u8, Fault> {
        let byte = *self.bytes.get(self.at).ok_or(SHORT_RECORD)?;
        self.at += 1;
        Ok(byte)
    }

    /// A number of so many bytes, at most seven.
    #[inline]
    fn word(&mut self, length: usize) -> std::result::Result<u64, Fault> {
        let rest = self.bytes.get(self.at..).ok_or(SHORT_RECORD)?;
        let word = match rest.first_chunk() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => {
                let mut bytes = [0; 8];
                bytes[..rest.len()].copy_from_slice(rest);
                u64::from_le_bytes(bytes)
            }
        };
        if length > rest.len() {
            return Err(SHORT_RECORD);
        }
        self.at += length;
        Ok(word & ((1 << (8 * length)) - 1))
    }

    #[inline]
    fn number(&mut self) -> std::result::Result<u64, Fault> {
        // The bytes that end a number have no highest bit. With eight bytes at hand the length of the
        // number decides no branch: lengths are mixed, and a branch on them would be mispredicted.
        let word = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk());
        let word = word.map_or(u64::MAX, |word| u64::from_le_bytes(*word));
        let ends = !word & 0x8080_8080_8080_8080;
        if ends == 0 {
            return self.number_by_byte();
        }
        let bits = ends.trailing_zeros() + 1;
        self.at += bits as usize / 8;
        Ok(join_sevens(word & u64::MAX >> (64 - bits)))
    }

    /// A number near the end of the bytes, or one of nine bytes and more.
    #[cold]
    fn number_by_byte(&mut self) -> std::result::Result<u64, Fault> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(NUMBER);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(NUMBER)
    }

    fn number32(&mut self) -> std::result::Result<u32, Fault> {
        u32::try_from(self.number()?).map_err(|_| NUMBER)
    }

    /// Of things that take at least a byte each.
    fn count(&mut self) -> std::result::Result<usize, Fault> {
        let count = usize::try_from(self.number()?).map_err(|_| NUMBER)?;
        if count > self.bytes.len() - self.at { Err(SHORT_RECORD) } else { Ok(count) }
    }

    fn slice(&mut self) -> std::result::Result<&'a [u8], Fault> {
        let length = self.count()?;
        let slice = &self.bytes[self.at..self.at + length];
        self.at += length;
        Ok(slice)
    }

    fn text(&mut self) -> std::result::Result<String, Fault> {
        Ok(String::from_utf8_lossy(self.slice()?).into_owned())
    }
}
