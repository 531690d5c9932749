// SPDX-License-Identifier: MIT
//! The most frequent values of a long sequence, exactly where there are not too many different
//! ones, else with a bound on the error (Misra and Gries' method, in batches).

use rustc_hash::FxHashMap;

#[derive(Clone, Debug)]
pub struct Frequent {
    counts: FxHashMap<u64, u64>,
    /// At most twice as many values are kept at any time.
    keep: usize,
    /// No count is too low by more than this; none is too high.
    pub missing_at_most: u64,
}

impl Frequent {
    pub fn new(keep: usize) -> Frequent {
        Frequent { counts: FxHashMap::default(), keep, missing_at_most: 0 }
    }

    pub fn add(&mut self, value: u64) {
        *self.counts.entry(value).or_insert(0) += 1;
        if self.counts.len() > 2 * self.keep {
            self.prune();
        }
    }

    /// Takes the count of the first value that is not kept off every value: for each call that is
    /// taken off a value, as many are taken off `keep` others, which bounds how often it can happen.
    fn prune(&mut self) {
        let mut counts: Vec<u64> = self.counts.values().copied().collect();
        let place = counts.len() - 1 - self.keep;
        let (_, cut, _) = counts.select_nth_unstable(place);
        let cut = *cut;
        self.counts.retain(|_, count| {
            *count = count.saturating_sub(cut);
            *count > 0
        });
        self.missing_at_most += cut;
    }

    /// The most frequent values with their counts, ties by value.
    pub fn top(&self, number: usize) -> Vec<(u64, u64)> {
        let mut all: Vec<(u64, u64)> = self.counts.iter().map(|(v, c)| (*v, *c)).collect();
        all.sort_unstable_by_key(|(value, count)| (std::cmp::Reverse(*count), *value));
        all.truncate(number);
        all
    }

    /// For a sequence that has ended: keeps no more than is going to be asked for.
    pub fn finish(&mut self, number: usize) {
        if self.counts.len() > number {
            self.counts = self.top(number).into_iter().collect();
        }
        self.counts.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_counted_exactly() {
        let mut frequent = Frequent::new(100);
        for n in 0..10_000u64 {
            frequent.add(n % 7 * (n % 3));
        }
        assert_eq!(frequent.missing_at_most, 0);
        let total: u64 = frequent.top(100).iter().map(|(_, count)| count).sum();
        assert_eq!(total, 10_000);
    }

    #[test]
    fn a_frequent_value_survives_a_flood_of_rare_ones() {
        let mut frequent = Frequent::new(64);
        for n in 0..1_000_000u64 {
            frequent.add(if n % 5 == 0 { 8225 } else { 1_000_000 + n });
            assert!(frequent.counts.len() <= 129);
        }
        let (value, count) = frequent.top(1)[0];
        assert_eq!(value, 8225);
        assert!(count <= 200_000 && count + frequent.missing_at_most >= 200_000, "{count}");
        assert!(frequent.missing_at_most <= 1_000_000 / 64, "{}", frequent.missing_at_most);
    }
}
