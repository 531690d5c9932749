// SPDX-License-Identifier: MIT
//! Calls from what probes see: the arguments when a function is entered, the result when it
//! returns.

use mallow_trace::{Call, Op};

/// A call that has not returned for so long, while its thread calls others, was left otherwise.
const LEFT_AFTER_NS: u64 = 1_000_000_000;

/// The calls of a thread that are under way, outermost first. Only those are recorded: what an
/// allocator calls of its own functions is no call of the program.
#[derive(Default)]
pub struct Calls {
    under_way: Vec<(Op, [u64; 3], u64)>,
}

impl Calls {
    /// Whether a call is one of the program's that has just been entered, or is about to be.
    pub fn is_of_program(&mut self, op: Op, arguments: [u64; 3], time: u64) -> bool {
        self.forget_left(time);
        let first = self.under_way.first();
        first.is_none_or(|&(entered, of_it, _)| {
            self.under_way.len() == 1 && (entered, of_it) == (op, arguments)
        })
    }

    fn forget_left(&mut self, time: u64) {
        let is_left =
            |&(_, _, begin): &(Op, [u64; 3], u64)| time.saturating_sub(begin) > LEFT_AFTER_NS;
        if self.under_way.first().is_some_and(is_left) {
            self.under_way.clear();
        }
    }

    /// The call, if it is one that is recorded before it happens.
    pub fn enter(&mut self, op: Op, arguments: [u64; 3], time: u64) -> Option<Call> {
        self.forget_left(time);
        if !op.is_free() {
            self.under_way.push((op, arguments, time));
            return None;
        }
        let size = match op {
            Op::DeleteSized | Op::DeleteArraySized => arguments[1],
            _ => 0,
        };
        let call = Call { op, address: arguments[0], size, ..Call::default() };
        self.under_way.is_empty().then_some(call)
    }

    /// The call, if it is the outermost. That of posix_memalign has the place of the result in
    /// `old`.
    pub fn leave(&mut self, op: Op, result: u64, time: u64) -> Option<Call> {
        let at = self.under_way.iter().rposition(|&(entered, _, _)| entered == op)?;
        let (_, [first, second, third], begin) = self.under_way[at];
        self.under_way.truncate(at);
        if at > 0 {
            return None;
        }
        let call =
            Call { op, address: result, size: first, failed: result == 0, ..Call::default() };
        Some(match op {
            Op::Calloc => Call { size: first.saturating_mul(second), ..call },
            Op::Realloc => Call {
                size: second,
                old: first,
                took: time.saturating_sub(begin),
                failed: result == 0 && !(first != 0 && second == 0),
                ..call
            },
            Op::AlignedAlloc | Op::Memalign => Call { size: second, alignment: first, ..call },
            Op::PosixMemalign => Call {
                size: third,
                alignment: second,
                old: first,
                // The result is an int, 0 for success.
                failed: result as u32 != 0,
                address: 0,
                ..call
            },
            _ => call,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_results_make_calls() {
        let mut calls = Calls::default();
        assert_eq!(calls.enter(Op::Calloc, [3, 5, 0], 1), None);
        // A malloc inside of the calloc is the allocator's own.
        assert_eq!(calls.enter(Op::Malloc, [15, 0, 0], 2), None);
        assert_eq!(calls.leave(Op::Malloc, 64, 3), None);
        let call = calls.leave(Op::Calloc, 64, 4).unwrap();
        assert_eq!((call.op, call.size, call.address, call.failed), (Op::Calloc, 15, 64, false));
        assert_eq!(calls.enter(Op::Realloc, [64, 100, 0], 5), None);
        let call = calls.leave(Op::Realloc, 128, 9).unwrap();
        assert_eq!((call.old, call.address, call.size, call.took), (64, 128, 100, 4));
        let call = calls.enter(Op::Free, [128, 0, 0], 10).unwrap();
        assert_eq!((call.op, call.address, call.size), (Op::Free, 128, 0));
    }

    /// Its stack may be told of before the call itself, or after.
    #[test]
    fn a_call_within_another_is_not_the_programs() {
        let mut calls = Calls::default();
        let (outer, inner) = ((Op::Realloc, [0, 100, 0]), (Op::Malloc, [100, 0, 0]));
        assert!(calls.is_of_program(outer.0, outer.1, 1));
        calls.enter(outer.0, outer.1, 1);
        assert!(calls.is_of_program(outer.0, outer.1, 1));
        assert!(!calls.is_of_program(inner.0, inner.1, 2));
        calls.enter(inner.0, inner.1, 2);
        assert!(!calls.is_of_program(inner.0, inner.1, 2));
        calls.leave(inner.0, 64, 3);
        calls.leave(outer.0, 64, 3);
        assert!(calls.is_of_program(inner.0, inner.1, 4));
        calls.enter(outer.0, outer.1, 5);
        assert!(
            calls.is_of_program(inner.0, inner.1, 6 + LEFT_AFTER_NS),
            "the one before was left"
        );
    }

    #[test]
    fn returns_that_are_missing_do_not_hide_later_calls() {
        let mut calls = Calls::default();
        calls.enter(Op::Malloc, [15, 0, 0], 0);
        assert_eq!(calls.leave(Op::Calloc, 64, 1), None);
        assert_eq!(calls.enter(Op::Free, [64, 0, 0], 2), None);
        assert!(calls.enter(Op::Free, [64, 0, 0], 2 * LEFT_AFTER_NS).is_some());
    }
}
