// SPDX-License-Identifier: MIT
//! Calls, which most records are, as bytes. `codec` reads them.

use crate::codec::{
    FAILED, HAS_ALIGNMENT, HAS_STACK, IN_PLACE, LOW_BITS, NO_ADDRESS, SHORT, State, has_size,
    zigzag,
};
use crate::model::Call;

/// Two bytes and at most six numbers; room for these that is a power of two. Half is more than the short form takes.
const LARGEST_CALL: usize = 64;

/// Bits of a time and of a size that have the short form.
const SHORT_BITS: u32 = 24;
/// Of a step from one address to the next.
const STEP_BITS: u32 = 56;

/// Appends the call as one of this time, or of the state's if that is later. Inlined, what it asks of the call is
/// known where all calls of a loop are of a kind.
#[inline(always)]
pub fn encode(out: &mut Vec<u8>, state: &mut State, time: u64, call: &Call) {
    let elapsed = time.saturating_sub(state.time);
    state.time += elapsed;
    let begin = out.len();
    out.extend_from_slice(&[0; LARGEST_CALL]);
    let Some(bytes) = out.last_chunk_mut() else { return };
    let word = call.address >> 3;
    let step = word.wrapping_sub(state.address).cast_signed();
    let end = match put_short(bytes, elapsed, step, call) {
        Some(end) => end,
        None => put_long_call(bytes, elapsed, step, call),
    };
    if call.address != 0 {
        state.address = word;
    }
    out.truncate(begin + end);
}

/// Writes a call of the most frequent kind, which ends where is said. No branch depends on how long a number is: no
/// processor could foresee that.
#[inline(always)]
fn put_short(
    bytes: &mut [u8; LARGEST_CALL],
    elapsed: u64,
    step: i64,
    call: &Call,
) -> Option<usize> {
    let size = if has_size(call.op) { call.size } else { 0 };
    let is_rare = call.failed || call.alignment != 0 || call.stack != 0 || call.op.is_realloc();
    let is_odd = call.address == 0 || call.address & u64::from(LOW_BITS) != 0 || step & 1 != 0;
    let step = zigzag(step >> 1);
    if is_rare || is_odd || (elapsed | size) >> SHORT_BITS != 0 || step >> STEP_BITS != 0 {
        return None;
    }
    let (for_time, for_size) = (short_length(elapsed), short_length(size));
    let for_step = (u64::BITS - step.leading_zeros()).div_ceil(8) as usize;
    bytes[0] = SHORT | call.op as u8;
    bytes[1] = (for_time | for_size << 2 | for_step << 4) as u8;
    put_word(bytes, 2, elapsed);
    put_word(bytes, 2 + for_time, size);
    put_word(bytes, 2 + for_time + for_size, step);
    Some(2 + for_time + for_size + for_step)
}

/// The bytes that a number of at most [`SHORT_BITS`] takes.
#[inline]
fn short_length(value: u64) -> usize {
    usize::from(value > 0) + usize::from(value > 0xff) + usize::from(value > 0xffff)
}

/// Eight bytes, of which the next number overwrites what is too much.
#[inline]
fn put_word(bytes: &mut [u8; LARGEST_CALL], at: usize, word: u64) {
    // The mask tells the compiler what is so anyway.
    let at = at & (LARGEST_CALL / 2 - 1);
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// Any call.
#[inline(never)]
fn put_long_call(bytes: &mut [u8; LARGEST_CALL], elapsed: u64, step: i64, call: &Call) -> usize {
    let in_place = call.op.is_realloc() && call.old == call.address;
    let flag = |condition: bool, bit: u8| if condition { bit } else { 0 };
    bytes[0] = call.op as u8;
    bytes[1] = (call.address & u64::from(LOW_BITS)) as u8
        | flag(call.failed, FAILED)
        | flag(call.alignment != 0, HAS_ALIGNMENT)
        | flag(call.stack != 0, HAS_STACK)
        | flag(call.address == 0, NO_ADDRESS)
        | flag(in_place, IN_PLACE);
    let mut end = put_at(bytes, 2, elapsed);
    if has_size(call.op) {
        end = put_at(bytes, end, call.size);
    }
    if call.address != 0 {
        end = put_at(bytes, end, zigzag(step));
    }
    if call.alignment != 0 {
        end = put_at(bytes, end, call.alignment);
    }
    if call.stack != 0 {
        end = put_at(bytes, end, u64::from(call.stack));
    }
    if call.op.is_realloc() {
        if !in_place {
            end = put_at(bytes, end, call.old);
        }
        end = put_at(bytes, end, call.took);
    }
    end
}

/// Writes a number where a call is being written, and returns where it ends.
#[inline]
fn put_at(bytes: &mut [u8; LARGEST_CALL], mut at: usize, mut value: u64) -> usize {
    // The mask tells the compiler what is so anyway.
    const MASK: usize = LARGEST_CALL - 1;
    while value >= 0x80 {
        bytes[at & MASK] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    bytes[at & MASK] = value as u8;
    at + 1
}
