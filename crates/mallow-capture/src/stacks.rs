// SPDX-License-Identifier: MIT
//! Stacks of return addresses, as numbers that the trace defines once.

use mallow_recorder::layout::SCRIPT_WORDS;
use mallow_trace::{Event, Frame, Stack};
use rustc_hash::FxHashMap;

use super::images::Images;
use super::script;
use super::unwind::{Copy, Unwinder, Unwound};

/// Of one process; beyond, those known are forgotten (and, when met again, found by their frames).
const MOST_KNOWN: usize = 200_000;

/// The frames of an interpreter in a call: the function of C that runs them, and SCRIPT_WORDS each.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptFrames<'a> {
    pub evaluation: u64,
    pub frames: &'a [u64],
}

#[derive(Default)]
pub struct Stacks {
    numbers: FxHashMap<(Box<[Frame]>, u64), u32>,
    unwinder: Unwinder,
    unwound: Unwound,
}

impl Stacks {
    /// The number of the stack with these return addresses, innermost first; 0 if none is code.
    pub fn number(
        &mut self,
        images: &mut Images,
        image: usize,
        addresses: &[u64],
        script: ScriptFrames,
    ) -> u32 {
        if !script.frames.is_empty() {
            let number = |stack: u64| usize::try_from(stack).ok()?.checked_sub(1);
            let frames = mixed(images, image, addresses, script, number);
            return self.define(images, frames, 0);
        }
        if let Some(&number) = images.get_mut(image).known_stacks.get(addresses) {
            return number;
        }
        let frames: Vec<Frame> =
            addresses.iter().map_while(|&address| images.frame(image, address)).collect();
        let number = self.define(images, frames, 0);
        let known = &mut images.get_mut(image).known_stacks;
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(addresses.into(), number);
        number
    }

    /// The number of the stack that a copy shows.
    pub fn unwind(
        &mut self,
        images: &mut Images,
        image: usize,
        copy: &Copy,
        script: ScriptFrames,
    ) -> u32 {
        let stack = &mut self.unwound;
        self.unwinder.unwind(&images.get_mut(image).tables, copy, stack);
        if !images.knows_all(image, &stack.addresses) {
            // A library that was loaded since is known now.
            self.unwinder.unwind(&images.get_mut(image).tables, copy, stack);
        }
        let number = |address: u64| {
            let frame = stack.ends.partition_point(|end| *end <= address);
            (copy.sp <= address).then_some(frame)
        };
        let frames = mixed(images, image, &stack.addresses, script, number);
        self.define(images, frames, copy.distance)
    }

    fn define(&mut self, images: &mut Images, frames: Vec<Frame>, distance: u64) -> u32 {
        if frames.is_empty() {
            return 0;
        }
        let next = self.numbers.len() as u32 + 1;
        *self.numbers.entry((frames.into(), distance)).or_insert_with_key(|(frames, _)| {
            let frames = frames.to_vec();
            images.definitions.push(Event::Stack(Stack { id: next, distance, frames }));
            next
        })
    }
}

/// Where the interpreter's own function stands among the frames of C, the frames that it runs
/// stand instead. What is left of them, where the frames of C end too early, comes last. `number`
/// tells which frame of C that is from what the recorder says of it. Where that is none of these, the
/// function's symbol tells where its code is: not all of it, if the compiler has split it.
fn mixed(
    images: &mut Images,
    image: usize,
    addresses: &[u64],
    script: ScriptFrames,
    number: impl Fn(u64) -> Option<usize>,
) -> Vec<Frame> {
    let mut rest = script.frames.as_chunks::<SCRIPT_WORDS>().0;
    let mut frames = Vec::with_capacity(addresses.len() + rest.len());
    let mut is_in_script = false;
    for (at, &address) in addresses.iter().enumerate() {
        let Some(frame) = images.frame(image, address) else { break };
        let count = rest.iter().position(|[_, place, _]| script::is_entry(*place));
        let (run, others) = rest.split_at(count.map_or(rest.len(), |index| index + 1));
        let mut evaluates = |address| images.is_evaluation(image, address, script.evaluation);
        let runs_here = run.last().is_some_and(|[_, _, stack]| match number(*stack) {
            Some(number) if number == at => true,
            // Of compilers that have a function's locals above its frame pointer, one too far out.
            Some(number) if number == at + 1 && number < addresses.len() => {
                evaluates(address) && !evaluates(addresses[number])
            }
            Some(number) if number < addresses.len() => false,
            _ => evaluates(address),
        });
        if runs_here {
            // A function without a frame pointer hides its caller, which is the interpreter's.
            if !images.is_beside(image, frame, script.evaluation) {
                frames.push(frame);
            }
            frames
                .extend(run.iter().map(|[key, place, _]| images.script_frame(image, *key, *place)));
            rest = others;
            is_in_script = true;
        } else if !(is_in_script && images.is_jit(image, frame)) {
            // Else it is a trampoline of the same function, for profilers of another kind.
            frames.push(frame);
            is_in_script = false;
        }
    }
    frames.extend(rest.iter().map(|[key, place, _]| images.script_frame(image, *key, *place)));
    frames
}
