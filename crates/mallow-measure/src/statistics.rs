// SPDX-License-Identifier: MIT
//! The statistics of `compare`: medians with exact intervals, and paired comparisons by the
//! Wilcoxon signed-rank test with the interval that belongs to it.
//!
//! Runs are paired by round: in each round every allocator runs once, in random order. If two
//! allocators do not differ, swapping them within a round changes nothing, so the differences are
//! symmetric about zero whatever the noise looks like, which is all that the test assumes.

use std::f64::consts::{LN_2, TAU};

use serde::Serialize;

/// Of more pairs the sums of ranks are taken as nearly normal: to count them takes the third power of the
/// number of pairs.
const MOST_EXACT: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// The median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    middle(&sorted(values))
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// An interval that holds the true median with at least this confidence, from order statistics:
/// the number of values below the median is binomial. `None` where there are too few values.
pub fn median_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    let sorted = sorted(values);
    let n = sorted.len();
    // Half to the power of n, with which it begins, is too small for a number from 1,075 values on.
    let mut logarithm = -LN_2 * n as f64;
    let mut tail = 0.0;
    let mut cut = 0;
    while cut < n / 2 {
        tail += logarithm.exp();
        if 2.0 * tail > 1.0 - confidence {
            break;
        }
        logarithm += ((n - cut) as f64 / (cut + 1) as f64).ln();
        cut += 1;
    }
    (cut > 0).then(|| Interval { low: sorted[cut - 1], high: sorted[n - cut] })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// A paired comparison as a ratio to the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Hodges-Lehmann estimate: the median of all means of two log ratios.
    pub ratio: f64,
    /// `None` where there are too few pairs for this confidence.
    pub interval: Option<Interval>,
    /// Two-sided, of the single test; exact up to 200 pairs.
    pub p_value: f64,
    pub pairs: usize,
}

/// Compares pairs of (baseline, other); both positive. `None` of nothing.
pub fn compare_pairs(pairs: &[(f64, f64)], confidence: f64) -> Option<Comparison> {
    let differences: Vec<f64> = pairs.iter().map(|(base, other)| (other / base).ln()).collect();
    let mut means = walsh_averages(&differences);
    means.sort_unstable_by(f64::total_cmp);
    let estimate = middle(&means)?;
    let cut = signed_rank_cut(differences.len(), 1.0 - confidence);
    let interval = (cut > 0)
        .then(|| Interval { low: means[cut - 1].exp(), high: means[means.len() - cut].exp() });
    Some(Comparison {
        ratio: estimate.exp(),
        interval,
        p_value: signed_rank_p(&differences),
        pairs: pairs.len(),
    })
}

fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let mut means = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (index, a) in values.iter().enumerate() {
        means.extend(values[index..].iter().map(|b| f64::midpoint(*a, *b)));
    }
    means
}

/// Probabilities of the sums that random signs give to these weights.
fn sum_distribution(weights: &[usize]) -> Vec<f64> {
    let mut distribution = vec![1.0];
    for &weight in weights {
        let mut next = vec![0.0; distribution.len() + weight];
        for (sum, probability) in distribution.iter().enumerate() {
            next[sum] += probability / 2.0;
            next[sum + weight] += probability / 2.0;
        }
        distribution = next;
    }
    distribution
}

/// The sums that random signs give to many weights, as nearly normal.
///
/// Far ones are rarer than normal ones by the fourth cumulant, which is taken into account (the expansion
/// of Cornish and Fisher). The cut of 200 pairs is then what it is, or at high confidence one in thousands
/// lower, which makes the interval wider; p-values down to 0.0001 are right to half a percent.
struct Normal {
    mean: f64,
    deviation: f64,
    /// Kurtosis: below zero.
    excess: f64,
}

impl Normal {
    fn of(weights: &[usize]) -> Normal {
        let powers = |power| weights.iter().map(|weight| (*weight as f64).powi(power)).sum::<f64>();
        let variance = powers(2) / 4.0;
        let excess = -powers(4) / 8.0 / (variance * variance);
        Normal { mean: powers(1) / 2.0, deviation: variance.sqrt(), excess }
    }

    /// The probability of at most this sum, where the next one is a step more.
    fn tail(&self, sum: usize, step: f64) -> f64 {
        let at = (sum as f64 + step / 2.0 - self.mean) / self.deviation;
        normal_tail(at - self.excess / 24.0 * (at.powi(3) - 3.0 * at))
    }
}

/// The probability of less than this in the standard normal distribution: by its series near the middle,
/// by its continued fraction farther out.
fn normal_tail(at: f64) -> f64 {
    let density = (-at * at / 2.0).exp() / TAU.sqrt();
    if at < -3.0 {
        return density / (1..=60).rev().fold(-at, |rest, n| f64::from(n) / rest - at);
    }
    let mut term = at;
    let mut sum = at;
    for n in 1..=100 {
        term *= at * at / f64::from(2 * n + 1);
        sum += term;
    }
    0.5 + density * sum
}

/// How many of the smallest (and largest) Walsh averages lie outside the interval.
fn signed_rank_cut(n: usize, alpha: f64) -> usize {
    if n > MOST_EXACT { normal_cut(n, alpha) } else { exact_cut(n, alpha) }
}

fn normal_cut(n: usize, alpha: f64) -> usize {
    let ranks: Vec<usize> = (1..=n).collect();
    let sums = Normal::of(&ranks);
    // The first sum whose tail is too much; half of all sums is.
    let (mut low, mut high) = (0, n * (n + 1) / 4);
    while low < high {
        let middle = usize::midpoint(low, high);
        if 2.0 * sums.tail(middle, 1.0) > alpha {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

fn exact_cut(n: usize, alpha: f64) -> usize {
    let ranks: Vec<usize> = (1..=n).collect();
    let mut tail = 0.0;
    for (sum, probability) in sum_distribution(&ranks).iter().enumerate() {
        tail += probability;
        if 2.0 * tail > alpha {
            return sum;
        }
    }
    0
}

/// The two-sided p-value; ties share their mean rank, zeros are left out.
fn signed_rank_p(differences: &[f64]) -> f64 {
    let mut nonzero: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    nonzero.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    // Ranks are doubled so that the mean rank of a tie is whole.
    let mut doubled = vec![0usize; nonzero.len()];
    let mut start = 0;
    while start < nonzero.len() {
        let equal = |other: &&f64| other.abs() == nonzero[start].abs();
        let count = nonzero[start..].iter().take_while(equal).count();
        doubled[start..start + count].fill(2 * start + count + 1);
        start += count;
    }
    let positive: usize =
        nonzero.iter().zip(&doubled).filter(|(d, _)| **d > 0.0).map(|(_, r)| r).sum();
    let total: usize = doubled.iter().sum();
    let extreme = positive.min(total - positive);
    let tail = if doubled.len() > MOST_EXACT {
        Normal::of(&doubled).tail(extreme, 2.0)
    } else {
        sum_distribution(&doubled)[..=extreme].iter().sum()
    };
    (2.0 * tail).min(1.0)
}

/// The fewest pairs that can show anything at this confidence.
pub fn fewest_pairs(confidence: f64) -> usize {
    (1..64).find(|&n| signed_rank_cut(n, 1.0 - confidence) > 0).unwrap_or(64)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Shown to be less (faster, smaller), by the margin or more.
    Less,
    /// Shown to be more.
    More,
    /// Shown to differ by less than the margin.
    NoDifference,
    Inconclusive,
}

/// A difference counts when the interval excludes "equal" and the estimate reaches the margin; no
/// difference is a result only when the whole interval lies within the margin.
pub fn verdict(comparison: &Comparison, margin: f64) -> Verdict {
    let Some(interval) = comparison.interval else { return Verdict::Inconclusive };
    let (low, high) = (1.0 / (1.0 + margin), 1.0 + margin);
    if interval.low > low && interval.high < high {
        Verdict::NoDifference
    } else if interval.high < 1.0 && comparison.ratio <= low {
        Verdict::Less
    } else if interval.low > 1.0 && comparison.ratio >= high {
        Verdict::More
    } else {
        Verdict::Inconclusive
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn median_interval_matches_the_binomial_table() {
        // For n = 10 and 95 %, the table gives the 2nd and the 9th value (97.9 %).
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let interval = median_interval(&values, 0.95);
        assert_eq!(interval, Some(Interval { low: 2.0, high: 9.0 }));
        // Five values reach 93.75 % at most.
        assert_eq!(median_interval(&values[..5], 0.95), None);
        assert!(median_interval(&values[..6], 0.95).is_some());
    }

    #[test]
    fn median_interval_stays_what_it_is_with_many_values() {
        // By sums of whole binomial coefficients.
        for (n, cut) in
            [(999, 469), (1000, 469), (1074, 505), (1075, 505), (2000, 956), (10_000, 4902)]
        {
            let values: Vec<f64> = (1..=n).map(f64::from).collect();
            let (low, high) = (f64::from(cut), f64::from(n + 1 - cut));
            assert_eq!(median_interval(&values, 0.95), Some(Interval { low, high }), "n = {n}");
        }
    }

    #[test]
    fn sums_of_many_ranks_are_as_good_as_normal() {
        for (claims, most) in [(1, 0), (3, 0), (10, 0), (30, 1), (1000, 1)] {
            let alpha = 0.05 / f64::from(claims);
            let (exact, normal) = (exact_cut(MOST_EXACT, alpha), normal_cut(MOST_EXACT, alpha));
            assert!((normal..=normal + most).contains(&exact), "{claims}: {normal}, not {exact}");
        }
        assert_eq!(signed_rank_cut(MOST_EXACT, 0.05), 8445);
        assert_eq!(signed_rank_cut(MOST_EXACT + 1, 0.05), 8533);
        assert_eq!(signed_rank_cut(10_000, 0.05), 24_436_672);
        let ranks: Vec<usize> = (1..=MOST_EXACT).collect();
        let (exact, normal) = (sum_distribution(&ranks), Normal::of(&ranks));
        for sum in [6800, 7000, 8000, 9000, 10_000, 10_050] {
            let tail: f64 = exact[..=sum].iter().sum();
            assert!((normal.tail(sum, 1.0) / tail - 1.0).abs() < 0.01, "{sum}");
        }
    }

    #[test]
    fn many_pairs_are_compared_too() {
        let pairs: Vec<(f64, f64)> =
            (0..1200).map(|n| (1.0, 0.9 + 0.1 * f64::from(n % 11) / 10.0)).collect();
        let comparison = compare_pairs(&pairs, 0.95).unwrap();
        let interval = comparison.interval.unwrap();
        assert!(0.945 < interval.low && interval.low < interval.high && interval.high < 0.955);
        assert!(comparison.p_value < 1e-9, "{}", comparison.p_value);
        let turned: Vec<(f64, f64)> = pairs
            .iter()
            .enumerate()
            .map(|(n, (a, b))| if n % 2 == 0 { (*a, *b) } else { (*b, *a) })
            .collect();
        assert!(compare_pairs(&turned, 0.95).unwrap().p_value > 0.05);
    }

    #[test]
    fn signed_rank_matches_the_published_tables() {
        // Critical values of the two-sided test at 5 %: n = 6: 0, 8: 3, 10: 8, 20: 52.
        for (n, critical) in [(6, 0), (8, 3), (10, 8), (20, 52)] {
            assert_eq!(signed_rank_cut(n, 0.05), critical + 1, "n = {n}");
        }
        assert_eq!(signed_rank_cut(5, 0.05), 0);
        assert_eq!(fewest_pairs(0.95), 6);
        // All of one sign: 2 / 2^n.
        let same_sign: Vec<f64> = (1..=10).map(f64::from).collect();
        assert!((signed_rank_p(&same_sign) - 2.0 / 1024.0).abs() < 1e-12);
        // R: wilcox.test(c(1.1,2.2,3.3,4.4,-0.5), exact=TRUE)$p.value is 0.125.
        assert!((signed_rank_p(&[1.1, 2.2, 3.3, 4.4, -0.5]) - 0.125).abs() < 1e-12);
        assert_eq!(signed_rank_p(&[0.0, 0.0]), 1.0);
    }

    #[test]
    fn known_ratio_is_found() {
        let pairs: Vec<(f64, f64)> = (0..20)
            .map(|n| (1.0 + f64::from(n) / 100.0, 0.9 + 0.9 * f64::from(n) / 100.0))
            .collect();
        let comparison = compare_pairs(&pairs, 0.95).unwrap();
        assert!((comparison.ratio - 0.9).abs() < 1e-9);
        assert_eq!(verdict(&comparison, 0.02), Verdict::Less);
        let turned: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
        assert_eq!(verdict(&compare_pairs(&turned, 0.95).unwrap(), 0.02), Verdict::More);
    }

    #[test]
    fn verdicts_need_evidence() {
        let of = |ratio, low, high| {
            let interval = Some(Interval { low, high });
            verdict(&Comparison { ratio, interval, p_value: 0.5, pairs: 10 }, 0.02)
        };
        assert_eq!(of(1.0, 0.99, 1.01), Verdict::NoDifference);
        assert_eq!(of(0.995, 0.99, 0.998), Verdict::NoDifference);
        assert_eq!(of(1.0, 0.95, 1.05), Verdict::Inconclusive);
        assert_eq!(of(0.985, 0.97, 0.999), Verdict::Inconclusive);
        assert_eq!(of(0.9, 0.85, 0.97), Verdict::Less);
        let few = compare_pairs(&[(1.0, 0.5); 5], 0.95).unwrap();
        assert_eq!(verdict(&few, 0.02), Verdict::Inconclusive);
    }

    const TRIALS: u32 = 1500;

    /// Skewed noise with a drift that all runs of a round share, and spikes.
    fn noisy(random: &mut StdRng, round: usize) -> f64 {
        let drift = 1.0 + 0.1 * (round as f64 / 7.0).sin();
        let spike = if random.random_bool(0.05) { 1.5 } else { 1.0 };
        drift * spike * (1.0 + 0.03 * -random.random::<f64>().ln())
    }

    /// How often a difference is claimed between two allocators that are equal, over many trials,
    /// with `rounds` rounds, or more while the interval is wide as the adaptive mode does.
    fn false_positive_rate(seed: u64, confidence: f64, rounds: usize, adaptive: bool) -> f64 {
        let mut random = StdRng::seed_from_u64(seed);

        let mut claimed = 0;
        for _ in 0..TRIALS {
            let mut pairs = Vec::new();
            let comparison = loop {
                let round = pairs.len();
                pairs.push((noisy(&mut random, round), noisy(&mut random, round)));
                if pairs.len() < rounds {
                    continue;
                }
                let comparison = compare_pairs(&pairs, confidence).unwrap();
                let narrow = comparison.interval.is_some_and(|i| i.high / i.low < 1.02);
                if !adaptive || narrow || pairs.len() >= 2 * rounds {
                    break comparison;
                }
            };
            // No margin: every exclusion of "equal" counts.
            let excludes = comparison.interval.is_some_and(|i| i.low > 1.0 || i.high < 1.0);
            claimed += u32::from(excludes);
        }
        f64::from(claimed) / f64::from(TRIALS)
    }

    #[test]
    fn false_positives_stay_within_the_confidence() {
        let seed = 20_261_121;
        eprintln!("seed {seed}");
        for (confidence, rounds) in [(0.95, 10), (0.99, 12)] {
            for adaptive in [false, true] {
                let rate = false_positive_rate(seed, confidence, rounds, adaptive);
                let alpha = 1.0 - confidence;
                // Three standard errors of the simulation above the promise.
                let bound = alpha + 3.0 * (alpha * confidence / f64::from(TRIALS)).sqrt();
                assert!(rate <= bound, "{rate} > {bound} at {confidence}, adaptive {adaptive}");
            }
        }
    }
}
