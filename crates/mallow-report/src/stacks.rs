// SPDX-License-Identifier: MIT
//! Costs by stack.

use mallow_trace::{Frame, Stack};
use rustc_hash::FxHashMap;

use crate::held::{Amount, Held, Peak};
use crate::profile::Costs;

/// All stacks of the trace, by their numbers there; 0 stands for calls without a stack.
#[derive(Debug)]
pub struct Stacks {
    costs: FxHashMap<u32, StackCosts>,
    pub frames: FxHashMap<u32, Box<[Frame]>>,
    /// Of stacks that say themselves how many allocations they stand for.
    own_weights: FxHashMap<u32, Weights>,
    weights: Weights,
}

#[derive(Clone, Copy, Debug, Default)]
struct StackCosts {
    allocated: Amount,
    temporary: Amount,
    leaked: Amount,
    held: Held,
    freed: u64,
    lifetime_ns: u64,
    samples: u64,
}

/// Where only some allocations have a stack, each stands for others of its size.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    /// Mean distance in bytes between two samples; 0 when every allocation has a stack.
    distance: u64,
}

impl Weights {
    pub fn new(distance: u64) -> Weights {
        Weights { distance }
    }

    /// For how many blocks this one stands. The fraction is rounded up or down by the address, so
    /// that many blocks have the right mean and each gives at its free what it took before.
    fn blocks(self, address: u64, size: u64) -> u64 {
        if self.distance == 0 {
            return 1;
        }
        let chance = -(-(size.max(1) as f64) / self.distance as f64).exp_m1();
        let blocks = 1.0 / chance;
        let fraction = (blocks.fract() * 65_536.0) as u64;
        let dice = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        (blocks as u64).saturating_add(u64::from(dice < fraction))
    }

    fn amount(self, address: u64, size: u64) -> Amount {
        let blocks = self.blocks(address, size);
        Amount { blocks, bytes: size.saturating_mul(blocks) }
    }
}

impl Stacks {
    pub fn new(weights: Weights) -> Stacks {
        Stacks {
            costs: FxHashMap::default(),
            frames: FxHashMap::default(),
            own_weights: FxHashMap::default(),
            weights,
        }
    }

    pub fn define(&mut self, stack: &Stack) {
        self.frames.insert(stack.id, stack.frames.as_slice().into());
        if stack.distance > 0 {
            self.own_weights.insert(stack.id, Weights::new(stack.distance));
        }
    }

    fn weights(&self, stack: u32) -> Weights {
        *self.own_weights.get(&stack).unwrap_or(&self.weights)
    }

    fn amount(&self, stack: u32, address: u64, size: u64) -> Amount {
        self.weights(stack).amount(address, size)
    }

    /// `None` for a call that was not sampled: another one stands for it.
    fn of(&mut self, stack: u32) -> Option<&mut StackCosts> {
        if stack == 0 && self.weights.distance > 0 {
            return None;
        }
        Some(self.costs.entry(stack).or_default())
    }

    pub fn take(&mut self, stack: u32, address: u64, size: u64, peak: &Peak) {
        let weights = self.weights(stack);
        let amount = weights.amount(address, size);
        if let Some(costs) = self.of(stack) {
            costs.samples += u64::from(weights.distance > 0);
            costs.allocated.merge(amount);
            costs.held.take(amount, peak);
        }
    }

    /// A block is gone; `lifetime_ns` unless a realloc lets it live on elsewhere.
    pub fn give(&mut self, stack: u32, address: u64, size: u64, end: BlockEnd, peak: &Peak) {
        let amount = self.amount(stack, address, size);
        let Some(costs) = self.of(stack) else { return };
        costs.held.give(amount, peak);
        match end {
            BlockEnd::Resized | BlockEnd::OfRuntime => {}
            BlockEnd::Freed { lifetime_ns, temporary } => {
                costs.freed = costs.freed.saturating_add(amount.blocks);
                let lifetime_ns = lifetime_ns.saturating_mul(amount.blocks);
                costs.lifetime_ns = costs.lifetime_ns.saturating_add(lifetime_ns);
                if temporary {
                    costs.temporary.merge(amount);
                }
            }
            BlockEnd::Leaked => costs.leaked.merge(amount),
        }
    }

    pub fn costs(&self, peak: &Peak) -> impl Iterator<Item = (u32, Costs)> + use<'_> {
        let peak = *peak;
        self.costs.iter().map(move |(stack, costs)| {
            let costs = Costs {
                allocated: costs.allocated,
                peak: costs.held.at_peak(&peak),
                leaked: costs.leaked,
                temporary: costs.temporary,
                freed: costs.freed,
                lifetime_ns: costs.lifetime_ns,
                samples: costs.samples,
            };
            (*stack, costs)
        })
    }
}

/// How a block ended.
#[derive(Clone, Copy, Debug)]
pub enum BlockEnd {
    Freed {
        lifetime_ns: u64,
        temporary: bool,
    },
    Resized,
    Leaked,
    /// Never freed, as a language's own library means it.
    OfRuntime,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stand_for_their_kind() {
        let weights = Weights::new(4096);
        for size in [16u64, 1000, 4096, 10_000] {
            let chance = 1.0 - (-(size as f64) / 4096.0).exp();
            let sum: u64 = (0..10_000u64).map(|n| weights.blocks(n * 48, size)).sum();
            let mean = sum as f64 / 10_000.0;
            assert!((mean * chance - 1.0).abs() < 0.02, "{size}: {mean}");
        }
        assert_eq!(Weights::new(0).amount(7, 100), Amount { blocks: 1, bytes: 100 });
        let mut stacks = Stacks::new(weights);
        stacks.define(&Stack { id: 2, distance: 1 << 30, frames: Vec::new() });
        let blocks = [1, 2].map(|stack| stacks.amount(stack, 0, 4096).blocks);
        assert!(blocks[0] < 3 && blocks[1] > 200_000, "{blocks:?}");
    }

    #[test]
    fn samples_are_counted_where_not_every_allocation_has_a_stack() {
        let samples = |distance| {
            let mut stacks = Stacks::new(Weights::new(distance));
            let peak = Peak::default();
            (0..3).for_each(|n| stacks.take(1, n * 64, 40, &peak));
            stacks.costs(&peak).map(|(_, costs)| costs.samples).sum::<u64>()
        };
        assert_eq!((samples(0), samples(4096)), (0, 3));
    }
}
