// SPDX-License-Identifier: MIT
//! What a thread wrote into its ring, message by message.

use mallow_recorder::layout::{SCRIPT_WORDS, SIZE_FOLLOWS, message};
use mallow_trace::{Call, Op};

/// A call. Times are of the recorder's clock.
#[derive(Debug, PartialEq)]
pub struct RawCall {
    pub stamp: u64,
    pub op: Op,
    pub address: u64,
    pub size: u64,
    pub alignment: u64,
    pub old: u64,
    /// Between begin and end of a realloc.
    pub ticks: u64,
}

/// What is not a call. Times are stamps of the recorder's clock.
#[derive(Debug, PartialEq)]
pub enum Message<'a> {
    Thread {
        stamp: u64,
        pid: u32,
        tid: u32,
        image: u64,
        name: String,
    },
    Process {
        stamp: u64,
        image: u64,
        parent_image: u64,
        pid: u32,
        parent_pid: u32,
        text: Vec<u8>,
    },
    Map {
        text: Vec<u8>,
    },
    Stack {
        fresh: &'a [u64],
        common: usize,
    },
    StackCopy {
        ip: u64,
        sp: u64,
        fp: u64,
        distance: u64,
        stack: &'a [u64],
    },
    /// A part of a code object, whose bytes lie in these words.
    ScriptCode {
        key: u64,
        part: u8,
        width: u8,
        first_line: u32,
        bytes: Vec<u8>,
    },
    /// The frames, two words each, of the stack that follows.
    Script {
        evaluation: u64,
        frames: &'a [u64],
    },
    Marker {
        stamp: u64,
        text: Vec<u8>,
    },
    MapsChanged,
}

#[inline]
fn has_alignment(op: Op) -> bool {
    matches!(
        op,
        Op::PosixMemalign
            | Op::AlignedAlloc
            | Op::Memalign
            | Op::Valloc
            | Op::Pvalloc
            | Op::NewAligned
            | Op::NewArrayAligned
            | Op::NewAlignedNothrow
            | Op::NewArrayAlignedNothrow
            | Op::FreeAlignedSized
            | Op::DeleteAligned
            | Op::DeleteArrayAligned
            | Op::DeleteSizedAligned
            | Op::DeleteArraySizedAligned
            | Op::DeleteAlignedNothrow
            | Op::DeleteArrayAlignedNothrow
    )
}

/// When the message was written that begins with this word.
pub fn stamp(word: u64) -> u64 {
    word >> 8
}

/// The call that comes first, and how many words it takes. `None`: it is none, or not whole.
#[inline]
pub fn call(words: &[u64]) -> Option<(RawCall, usize)> {
    let [first, second, rest @ ..] = words else { return None };
    let op = Op::from_number(*first as u8)?;
    let mut call = RawCall {
        stamp: stamp(*first),
        op,
        address: second >> 16,
        size: second & 0xffff,
        alignment: 0,
        old: 0,
        ticks: 0,
    };
    let mut more = rest.iter();
    if call.size == SIZE_FOLLOWS {
        call.size = *more.next()?;
    }
    if has_alignment(op) {
        call.alignment = *more.next()?;
    }
    if op.is_realloc() {
        (call.old, call.ticks) = (*more.next()?, *more.next()?);
    }
    Some((call, words.len() - more.as_slice().len()))
}

/// Takes the call that comes first, with its stamp, if it is of the kind that most are: of two words, with a size
/// that the second one holds, and without an alignment or an old block.
#[inline]
pub fn plain_call(words: &mut &[u64]) -> Option<(u64, Call)> {
    let [first, second, rest @ ..] = *words else { return None };
    let op = Op::from_number(*first as u8)?;
    let (address, size) = (second >> 16, second & 0xffff);
    if size == SIZE_FOLLOWS || has_alignment(op) || op.is_realloc() {
        return None;
    }
    *words = rest;
    let failed = address == 0 && !op.is_free();
    Some((stamp(*first), Call { op, failed, size, address, ..Call::default() }))
}

/// No block came, although one was asked for. (A realloc to size 0 is a free for some.)
pub fn is_failed(call: &RawCall) -> bool {
    let frees = call.op.is_free() || call.op.is_realloc() && call.old != 0 && call.size == 0;
    call.address == 0 && !frees
}

/// `size` bytes in the words from `at` on, and where they end.
fn bytes(words: &[u64], at: usize, size: u64) -> Option<(Vec<u8>, usize)> {
    let size = usize::try_from(size).ok()?;
    let end = at.checked_add(size.div_ceil(8))?;
    let mut text: Vec<u8> =
        words.get(at..end)?.iter().flat_map(|word| word.to_le_bytes()).collect();
    text.truncate(size);
    Some((text, end))
}

/// The message that comes first if it is no call. `None`: the words are none of the recorder's.
pub fn message(words: &[u64]) -> Option<(Message<'_>, usize)> {
    let (stamp, kind) = (stamp(*words.first()?), words[0] as u8);
    let word = |at: usize| words.get(at).copied();
    match kind {
        message::THREAD => {
            let ids = word(1)?;
            let (name, end) = bytes(words, 3, 16)?;
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            let (pid, tid) = ((ids >> 32) as u32, ids as u32);
            Some((Message::Thread { stamp, pid, tid, image: word(2)?, name }, end))
        }
        message::PROCESS => {
            let ids = word(4)?;
            let (text, end) = bytes(words, 5, word(1)?)?;
            let (pid, parent_pid) = ((ids >> 32) as u32, ids as u32);
            let (image, parent_image) = (word(2)?, word(3)?);
            Some((Message::Process { stamp, image, parent_image, pid, parent_pid, text }, end))
        }
        message::MAP => {
            let (text, end) = bytes(words, 2, word(1)?)?;
            Some((Message::Map { text }, end))
        }
        message::STACK => {
            let counts = word(1)?;
            let (fresh, common) = ((counts & 0xffff) as usize, (counts >> 16) as usize);
            Some((Message::Stack { fresh: words.get(2..2 + fresh)?, common }, 2 + fresh))
        }
        message::STACK_COPY => {
            let count = usize::try_from(word(1)? / 8).ok()?;
            let stack = words.get(6..count.checked_add(6)?)?;
            let (ip, sp, fp, distance) = (word(2)?, word(3)?, word(4)?, word(5)?);
            Some((Message::StackCopy { ip, sp, fp, distance, stack }, 6 + count))
        }
        message::MARKER => {
            let (text, end) = bytes(words, 2, word(1)?)?;
            Some((Message::Marker { stamp, text }, end))
        }
        message::MAPS_CHANGED => Some((Message::MapsChanged, 1)),
        message::SCRIPT_CODE => {
            let (bytes, end) = bytes(words, 5, word(1)?)?;
            let (key, what, first_line) = (word(2)?, word(3)?, word(4)? as u32);
            let (part, width) = (what as u8, (what >> 8) as u8);
            Some((Message::ScriptCode { key, part, width, first_line, bytes }, end))
        }
        message::SCRIPT => {
            let count = usize::try_from(word(1)?).ok()?.checked_mul(SCRIPT_WORDS)?;
            let frames = words.get(3..count.checked_add(3)?)?;
            Some((Message::Script { evaluation: word(2)?, frames }, 3 + count))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_take_the_words_that_they_need() {
        let address = 0x7f12_3456_7890u64;
        let small = [5 << 8 | Op::Malloc as u64, address << 16 | 100];
        let (found, used) = call(&small).unwrap();
        assert_eq!(used, 2);
        let expected = RawCall {
            stamp: 5,
            op: Op::Malloc,
            address,
            size: 100,
            alignment: 0,
            old: 0,
            ticks: 0,
        };
        assert_eq!(found, expected);
        let large = [Op::Realloc as u64, address << 16 | 0xffff, 1 << 40, 77, 9, 1234];
        let (found, used) = call(&large).unwrap();
        assert_eq!(used, 5);
        assert_eq!((found.size, found.old, found.ticks), (1 << 40, 77, 9));
        assert_eq!(call(&large[..4]), None);
    }

    #[test]
    fn plain_calls_are_what_any_call_is() {
        for op in Op::ALL {
            for second in [0, 7 << 16, 7 << 16 | 100, 0xffff, 7 << 16 | 0xffff] {
                let words = [9 << 8 | op as u64, second, 16, 17, 18];
                let (any, used) = call(&words).unwrap();
                let mut rest = &words[..];
                let Some((stamp, plain)) = plain_call(&mut rest) else {
                    assert!(used > 2, "{op:?} {second}");
                    continue;
                };
                assert_eq!((used, words.len() - rest.len()), (2, 2), "{op:?} {second}");
                assert_eq!((stamp, plain.op, plain.failed), (any.stamp, any.op, is_failed(&any)));
                assert_eq!((plain.size, plain.address), (any.size, any.address));
            }
        }
        assert_eq!(plain_call(&mut &[Op::Malloc as u64][..]), None);
        assert_eq!(plain_call(&mut &[u64::from(message::STACK), 1][..]), None);
    }

    #[test]
    fn any_words_are_taken_without_harm() {
        for kind in 0..=255u64 {
            for filling in [0, 1, 7, u64::MAX, 1 << 16, 0xffff_ffff] {
                for length in 0..8 {
                    let mut words = vec![filling; length + 1];
                    words[0] = kind;
                    let calls = call(&words).map(|(_, used)| used);
                    let used = calls.or_else(|| message(&words).map(|(_, used)| used));
                    assert!(used.is_none_or(|used| used > 0 && used <= words.len()));
                }
            }
        }
    }
}
