// SPDX-License-Identifier: MIT
//! What somebody holds now, and what he held at the moment of the overall peak.
//!
//! The peak moves on with nearly every call of a growing program, so nothing may be copied when it
//! does. Each holder remembers the number of the peak up to which its `at_peak` is right; when the
//! holder changes after a later peak, what it held until then is what it held at that peak.

use serde::Serialize;

/// Blocks and their requested bytes. Sums stay at the ends of their range: a trace may say anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    pub blocks: u64,
    pub bytes: u64,
}

impl Amount {
    pub fn add(&mut self, bytes: u64) {
        self.merge(Amount::one(bytes));
    }

    pub fn merge(&mut self, other: Amount) {
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    fn remove(&mut self, other: Amount) {
        self.blocks = self.blocks.saturating_sub(other.blocks);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }

    pub fn one(bytes: u64) -> Amount {
        Amount { blocks: 1, bytes }
    }
}

/// What one holder has: a stack, a thread, a process, a size.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    pub now: Amount,
    at_peak: Amount,
    /// `at_peak` is right for the peaks up to this number.
    settled: u64,
}

impl Held {
    pub fn take(&mut self, amount: Amount, peak: &Peak) {
        self.settle(peak);
        self.now.merge(amount);
    }

    pub fn give(&mut self, amount: Amount, peak: &Peak) {
        self.settle(peak);
        self.now.remove(amount);
    }

    fn settle(&mut self, peak: &Peak) {
        if self.settled < peak.number {
            self.at_peak = self.now;
            self.settled = peak.number;
        }
    }

    pub fn at_peak(&self, peak: &Peak) -> Amount {
        if self.settled < peak.number { self.now } else { self.at_peak }
    }
}

/// The largest sum of live bytes so far, over all processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peak {
    pub live: Amount,
    pub highest: Amount,
    pub time_ns: u64,
    /// Grows with each new peak; 0 before the first.
    number: u64,
}

impl Peak {
    pub fn take(&mut self, bytes: u64, time_ns: u64) {
        self.live.add(bytes);
        if self.live.bytes > self.highest.bytes {
            self.highest = self.live;
            self.time_ns = time_ns;
            self.number += 1;
        }
    }

    pub fn give(&mut self, bytes: u64) {
        self.live.remove(Amount::one(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random calls of several holders against copying everything at each peak.
    #[test]
    fn at_peak_is_what_a_copy_would_hold() {
        const HOLDERS: usize = 7;
        let seed = 0x5eed_u64;
        let mut random = seed;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % below
        };
        let mut held = [Held::default(); HOLDERS];
        let mut peak = Peak::default();
        let mut blocks: Vec<(usize, u64)> = Vec::new();
        let (mut model, mut copy, mut highest) = ([0u64; HOLDERS], [0u64; HOLDERS], 0);
        for time in 0..20_000 {
            if blocks.is_empty() || next(100) < 52 {
                let (holder, size) = (next(HOLDERS as u64) as usize, next(1000) + 1);
                held[holder].take(Amount::one(size), &peak);
                peak.take(size, time);
                blocks.push((holder, size));
                model[holder] += size;
            } else {
                let (holder, size) = blocks.swap_remove(next(blocks.len() as u64) as usize);
                held[holder].give(Amount::one(size), &peak);
                peak.give(size);
                model[holder] -= size;
            }
            let sum: u64 = model.iter().sum();
            if sum > highest {
                (highest, copy) = (sum, model);
            }
        }
        assert_eq!(peak.highest.bytes, highest, "seed {seed:#x}");
        let found = held.map(|holder| holder.at_peak(&peak).bytes);
        assert_eq!(found, copy, "seed {seed:#x}");
    }
}
