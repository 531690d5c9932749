// SPDX-License-Identifier: MIT
//! Memory that can be read for a limited time, so that no process keeps its reader busy for ever:
//! one whose structures lead in circles, or claim to be endless.

use std::time::{Duration, Instant};

use crate::memory::Memory;

pub struct Bounded<'a> {
    memory: &'a dyn Memory,
    end: Instant,
}

impl<'a> Bounded<'a> {
    pub fn new(memory: &'a dyn Memory, time: Duration) -> Bounded<'a> {
        Bounded { memory, end: Instant::now() + time }
    }
}

impl Memory for Bounded<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        if self.is_over() {
            return None;
        }
        self.memory.read(address, buffer)
    }

    fn refresh(&self) {
        self.memory.refresh();
    }

    fn reload(&self) {
        self.memory.reload();
    }

    fn loads(&self) -> u64 {
        self.memory.loads()
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    fn number_now(&self, address: u64, size: u64) -> Option<u64> {
        if self.is_over() {
            return None;
        }
        self.memory.number_now(address, size)
    }
}
