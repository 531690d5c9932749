// SPDX-License-Identifier: MIT
//! Stacks of return addresses, as numbers that the trace defines once.

use mallow_trace::{Event, Frame, Stack};
use rustc_hash::FxHashMap;

use super::images::Images;
use super::script;
use super::unwind::{Copy, Unwinder};

/// Of one process; beyond, those known are forgotten (and, when met again, found by their frames).
const MOST_KNOWN: usize = 200_000;

/// The frames of an interpreter in a call: the function of C that runs them, and two words each.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptFrames<'a> {
    pub evaluation: u64,
    pub frames: &'a [u64],
}

#[derive(Default)]
pub struct Stacks {
    numbers: FxHashMap<(Box<[Frame]>, u64), u32>,
    unwinder: Unwinder,
    addresses: Vec<u64>,
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
            let frames = mixed(images, image, addresses, script);
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
        let mut addresses = std::mem::take(&mut self.addresses);
        self.unwinder.unwind(&images.get_mut(image).tables, copy, &mut addresses);
        if !images.knows_all(image, &addresses) {
            // A library that was loaded since is known now.
            self.unwinder.unwind(&images.get_mut(image).tables, copy, &mut addresses);
        }
        let frames = mixed(images, image, &addresses, script);
        self.addresses = addresses;
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
/// stand instead. What is left of them, where the frames of C end too early, comes last.
fn mixed(images: &mut Images, image: usize, addresses: &[u64], script: ScriptFrames) -> Vec<Frame> {
    let mut rest = script.frames.as_chunks::<2>().0.iter();
    let mut frames = Vec::with_capacity(addresses.len() + rest.len());
    let mut is_in_script = false;
    for &address in addresses {
        let Some(frame) = images.frame(image, address) else { break };
        if rest.len() > 0 && images.is_evaluation(image, address, script.evaluation) {
            for &[key, place] in rest.by_ref() {
                frames.push(images.script_frame(image, key, place));
                if script::is_entry(place) {
                    break;
                }
            }
            is_in_script = true;
        } else if !(is_in_script && images.is_jit(image, frame)) {
            // Else it is a trampoline of the same function, for profilers of another kind.
            frames.push(frame);
            is_in_script = false;
        }
    }
    frames.extend(rest.map(|&[key, place]| images.script_frame(image, key, place)));
    frames
}
