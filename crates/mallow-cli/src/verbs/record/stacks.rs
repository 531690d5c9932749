//! Stacks of return addresses, as numbers that the trace defines once.

use mallow_trace::{Event, Frame, Stack};
use rustc_hash::FxHashMap;

use super::images::Images;
use super::unwind::{Copy, Unwinder};

/// Of one process; beyond, those known are forgotten (and, when met again, found by their frames).
const MOST_KNOWN: usize = 200_000;

#[derive(Default)]
pub struct Stacks {
    numbers: FxHashMap<Box<[Frame]>, u32>,
    unwinder: Unwinder,
    addresses: Vec<u64>,
}

impl Stacks {
    /// The number of the stack with these return addresses, innermost first; 0 if none is code.
    pub fn number(&mut self, images: &mut Images, image: usize, addresses: &[u64]) -> u32 {
        if let Some(&number) = images.get_mut(image).known_stacks.get(addresses) {
            return number;
        }
        let frames: Vec<Frame> =
            addresses.iter().map_while(|&address| images.frame(image, address)).collect();
        let number = self.define(images, frames);
        let known = &mut images.get_mut(image).known_stacks;
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(addresses.into(), number);
        number
    }

    /// The number of the stack that a copy shows.
    pub fn unwind(&mut self, images: &mut Images, image: usize, copy: &Copy) -> u32 {
        let mut addresses = std::mem::take(&mut self.addresses);
        self.unwinder.unwind(&images.get_mut(image).tables, copy, &mut addresses);
        if !images.knows_all(image, &addresses) {
            // A library that was loaded since is known now.
            self.unwinder.unwind(&images.get_mut(image).tables, copy, &mut addresses);
        }
        let number = self.number(images, image, &addresses);
        self.addresses = addresses;
        number
    }

    fn define(&mut self, images: &mut Images, frames: Vec<Frame>) -> u32 {
        if frames.is_empty() {
            return 0;
        }
        if let Some(&number) = self.numbers.get(frames.as_slice()) {
            return number;
        }
        let id = self.numbers.len() as u32 + 1;
        self.numbers.insert(frames.clone().into(), id);
        images.definitions.push(Event::Stack(Stack { id, frames }));
        id
    }
}
