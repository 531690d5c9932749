// SPDX-License-Identifier: MIT
//! Counting over many orders of magnitude: four buckets for each doubling.

use serde::Serialize;

use crate::held::Amount;

/// Calls and bytes by a quantity; used for sizes and for lifetimes.
#[derive(Clone, Debug, Default)]
pub struct Buckets {
    /// Grows up to the highest bucket in use.
    counts: Vec<Amount>,
}

/// One bucket that is not empty: the quantity is `low..=high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    pub low: u64,
    pub high: u64,
    pub calls: u64,
    pub bytes: u64,
}

impl Buckets {
    pub fn add(&mut self, quantity: u64, bytes: u64) {
        let index = index(quantity);
        if index >= self.counts.len() {
            self.counts.resize(index + 1, Amount::default());
        }
        self.counts[index].add(bytes);
    }

    pub fn filled(&self) -> Vec<Bucket> {
        let filled = self.counts.iter().enumerate().filter(|(_, amount)| amount.blocks > 0);
        filled
            .map(|(index, amount)| Bucket {
                low: low(index),
                high: low(index + 1) - 1,
                calls: amount.blocks,
                bytes: amount.bytes,
            })
            .collect()
    }

    pub fn total(&self) -> Amount {
        let mut total = Amount::default();
        self.counts.iter().for_each(|amount| total.merge(*amount));
        total
    }

    /// The upper end of the bucket below which this part of the calls lies; `None` when empty.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let wanted = (self.total().blocks as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, amount) in self.counts.iter().enumerate() {
            seen += amount.blocks;
            if seen >= wanted {
                return Some(low(index + 1) - 1);
            }
        }
        None
    }
}

/// 0, 1, 2, 3, then four buckets for each doubling.
fn index(quantity: u64) -> usize {
    if quantity < 4 {
        return quantity as usize;
    }
    let doubling = 63 - quantity.leading_zeros();
    let quarter = (quantity >> (doubling - 2)) & 3;
    4 * (doubling as usize - 1) + quarter as usize
}

/// The smallest quantity of a bucket; saturates behind the last one.
fn low(index: usize) -> u64 {
    if index < 4 {
        return index as u64;
    }
    let doubling = index / 4 + 1;
    let quarters = (4 + index % 4) as u128;
    u64::try_from(quarters << (doubling - 2)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quantity_lies_in_its_bucket() {
        for shift in 0..64 {
            for offset in [-1i64, 0, 1] {
                let quantity = (1u64 << shift).wrapping_add_signed(offset);
                let index = index(quantity);
                assert!(low(index) <= quantity, "{quantity} in {index}");
                assert!(quantity < low(index + 1) || low(index + 1) == u64::MAX, "{quantity}");
            }
        }
        assert_eq!([0, 1, 3, 4, 5, 7, 8, 9, 10].map(index), [0, 1, 3, 4, 5, 7, 8, 8, 9]);
    }

    #[test]
    fn quantiles_and_totals() {
        let mut buckets = Buckets::default();
        assert_eq!(buckets.quantile(0.5), None);
        for quantity in 1..=100 {
            buckets.add(quantity, 10);
        }
        assert_eq!(buckets.total(), Amount { blocks: 100, bytes: 1000 });
        let median = buckets.quantile(0.5).unwrap();
        assert!((50..=56).contains(&median), "{median}");
        assert_eq!(buckets.filled().iter().map(|b| b.calls).sum::<u64>(), 100);
    }
}
