// SPDX-License-Identifier: MIT
//! What the runs of a measurement prove: figures with their spread, and verdicts against a
//! baseline.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::statistics::{self, Comparison, Interval, Verdict};

/// All claims of a report together are wrong with at most this probability.
const FAMILY_ALPHA: f64 = 0.05;
/// Of the intervals that are only shown.
const SHOWN_CONFIDENCE: f64 = 0.95;
/// Rounds of something that comes out the same each time differ by no more.
const SAME: f64 = 0.005;

/// A figure over all runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Metric {
    pub median: f64,
    /// 95 % for the median; `null` with fewer than 6 runs.
    pub interval: Option<Interval>,
    pub mean: f64,
    pub min: f64,
    pub max: f64,
}

impl Metric {
    /// `None` of nothing.
    pub fn of(values: &[f64]) -> Option<Metric> {
        Some(Metric {
            median: statistics::median(values)?,
            interval: statistics::median_interval(values, SHOWN_CONFIDENCE),
            mean: values.iter().sum::<f64>() / values.len() as f64,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

/// A figure against that of the baseline.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Versus {
    pub verdict: Verdict,
    #[serde(flatten)]
    pub comparison: Comparison,
}

impl Versus {
    /// Whether it holds too where one of the two, or each, is only known to be at most what was compared: less than
    /// something known, or something known that is more.
    pub fn holds(&self, is_known: bool, is_baseline_known: bool) -> bool {
        match (is_known, is_baseline_known) {
            (true, true) => true,
            (false, true) => self.verdict == Verdict::Less,
            (true, false) => self.verdict == Verdict::More,
            (false, false) => false,
        }
    }
}

/// The values of the rounds in which both ran. What is not positive has no ratio.
pub fn pairs(
    baseline: impl Iterator<Item = (u32, f64)>,
    other: impl Iterator<Item = (u32, f64)>,
) -> Vec<(f64, f64)> {
    let by_round: BTreeMap<u32, f64> = baseline.collect();
    let pair = |(round, value): (u32, f64)| Some((*by_round.get(&round)?, value));
    other.filter_map(pair).filter(|(base, other)| *base > 0.0 && *other > 0.0).collect()
}

/// Says which differences are proven.
#[derive(Clone, Copy, Debug)]
pub struct Judge {
    confidence: f64,
    /// A part: 0.02 for 2 %.
    margin: f64,
}

impl Judge {
    /// `claims` share the error probability; smaller differences than the margin do not matter.
    pub fn new(claims: usize, margin_percent: f64) -> Judge {
        let confidence = 1.0 - FAMILY_ALPHA / claims.max(1) as f64;
        Judge { confidence, margin: margin_percent / 100.0 }
    }

    /// Of each interval of a comparison.
    pub fn confidence(self) -> f64 {
        self.confidence
    }

    /// With fewer there is no verdict, whatever comes out.
    pub fn fewest_rounds(self) -> u32 {
        statistics::fewest_pairs(self.confidence) as u32
    }

    pub fn compare(self, pairs: &[(f64, f64)]) -> Option<Comparison> {
        statistics::compare_pairs(pairs, self.confidence)
    }

    pub fn versus(self, pairs: &[(f64, f64)]) -> Option<Versus> {
        Some(self.of(self.compare(pairs)?))
    }

    /// The same for what comes out the same each time, but for this part (0.07 for 7 %) where it is known to vary. No
    /// test is needed then, and one round will do: the ratio lies this near to that of each.
    pub fn versus_exact(self, pairs: &[(f64, f64)], varies: f64) -> Option<Versus> {
        let mut comparison = self.compare(pairs)?;
        comparison.interval = comparison.interval.or_else(|| exact_interval(pairs, varies));
        Some(self.of(comparison))
    }

    fn of(self, comparison: Comparison) -> Versus {
        Versus { verdict: statistics::verdict(&comparison, self.margin), comparison }
    }

    /// Whether a comparison is as exact as the margin asks for. Looks at the width only, not at the
    /// result, so that stopping here favours no verdict.
    pub fn is_narrow(self, comparison: &Comparison) -> bool {
        comparison
            .interval
            .is_some_and(|interval| interval.high / interval.low <= 1.0 + self.margin)
    }
}

fn exact_interval(pairs: &[(f64, f64)], varies: f64) -> Option<Interval> {
    let apart = 1.0 + varies.max(SAME);
    let ratios = || pairs.iter().map(|(base, other)| other / base);
    let low = ratios().fold(f64::INFINITY, f64::min);
    let high = ratios().fold(0.0, f64::max);
    let is_exact = !pairs.is_empty() && high <= low * apart;
    is_exact.then_some(Interval { low: high / apart, high: low * apart })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn of_what_is_known_to_be_at_most_so_much_only_less_holds() {
        let comparison = Comparison { ratio: 0.5, interval: None, p_value: 0.01, pairs: 9 };
        let holding = |is_known, is_baseline_known| -> Vec<Verdict> {
            let all = [Verdict::Less, Verdict::More, Verdict::NoDifference];
            let of = |verdict: &Verdict| Versus { verdict: *verdict, comparison };
            let holds = |verdict: &Verdict| of(verdict).holds(is_known, is_baseline_known);
            all.into_iter().filter(holds).collect()
        };
        assert_eq!(holding(true, true).len(), 3);
        assert_eq!(holding(false, true), [Verdict::Less]);
        assert_eq!(holding(true, false), [Verdict::More]);
        assert!(holding(false, false).is_empty());
    }

    #[test]
    fn equal_rounds_need_no_test() {
        let interval = exact_interval(&[(100.0, 90.0), (100.1, 90.0)], 0.0).unwrap();
        assert!(interval.low > 0.895 && interval.high < 0.904, "{interval:?}");
        let one = exact_interval(&[(100.0, 90.0)], 0.0).unwrap();
        assert!(one.low < 0.9 && one.high > 0.9 && one.high < 0.905, "{one:?}");
        assert_eq!(exact_interval(&[], 0.0), None);
        assert_eq!(verdict_of_one(90.0, 0.0), Some(Verdict::Less));
        assert_eq!(verdict_of_one(100.5, 0.0), Some(Verdict::NoDifference));
        assert_eq!(exact_interval(&[(100.0, 90.0), (100.0, 92.0)], 0.0), None);
    }

    /// Of a round with 100 for the baseline.
    fn verdict_of_one(other: f64, varies: f64) -> Option<Verdict> {
        Judge::new(10, 2.0).versus_exact(&[(100.0, other)], varies).map(|versus| versus.verdict)
    }

    #[test]
    fn what_varies_by_so_much_differs_by_more() {
        assert_eq!(verdict_of_one(95.0, 0.0), Some(Verdict::Less));
        assert_eq!(verdict_of_one(95.0, 0.07), Some(Verdict::Inconclusive));
        assert_eq!(verdict_of_one(100.0, 0.07), Some(Verdict::Inconclusive));
        assert_eq!(verdict_of_one(105.0, 0.07), Some(Verdict::Inconclusive));
        assert_eq!(verdict_of_one(90.0, 0.07), Some(Verdict::Less));
        assert_eq!(verdict_of_one(110.0, 0.07), Some(Verdict::More));
        let two = exact_interval(&[(100.0, 90.0), (100.0, 95.0)], 0.07).unwrap();
        assert!(two.low < 0.89 && two.high > 0.96 && two.high < 0.97, "{two:?}");
        assert_eq!(exact_interval(&[(100.0, 90.0), (100.0, 97.0)], 0.07), None);
    }

    #[test]
    fn rounds_that_one_of_two_missed_are_left_out() {
        let base = [(0, 1.0), (1, 2.0), (3, 0.0)];
        let other = [(0, 5.0), (2, 6.0), (1, 7.0), (3, 8.0)];
        assert_eq!(pairs(base.into_iter(), other.into_iter()), [(1.0, 5.0), (2.0, 7.0)]);
    }

    #[test]
    fn more_claims_ask_for_more() {
        let (few, many) = (Judge::new(1, 2.0), Judge::new(30, 2.0));
        assert!(many.confidence() > few.confidence());
        assert!(many.fewest_rounds() > few.fewest_rounds());
        let alike: Vec<(f64, f64)> = (0..20).map(|_| (1.0, 1.0)).collect();
        let versus = few.versus(&alike).unwrap();
        assert_eq!(versus.verdict, Verdict::NoDifference);
        assert!(few.is_narrow(&versus.comparison));
    }
    /// Two allocators against a baseline, by three metrics each.
    const OTHERS: usize = 2;
    const METRICS: usize = 3;
    const CLAIMS: usize = OTHERS * METRICS;
    const ROUNDS: usize = 12;
    const REPORTS: u32 = 1000;

    fn normal(random: &mut StdRng) -> f64 {
        let [radius, angle] = [(); 2].map(|()| 1.0 - random.random::<f64>());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }

    /// Of infinite variance.
    fn heavy_tailed(random: &mut StdRng) -> f64 {
        (1.0 - random.random::<f64>()).powf(-1.0 / 1.5)
    }

    /// In which share of reports something is said to differ, where all runs are of one distribution.
    fn wrong(judge: Judge, noise: fn(&mut StdRng) -> f64, scale: f64) -> f64 {
        let mut random = StdRng::seed_from_u64(20_261_130);
        let mut runs =
            || -> Vec<f64> { (0..ROUNDS).map(|_| 1.0 + scale * noise(&mut random)).collect() };
        let mut wrong_reports = 0;
        for _ in 0..REPORTS {
            let mut is_wrong = false;
            for _ in 0..METRICS {
                let baseline = runs();
                for _ in 0..OTHERS {
                    let pairs: Vec<(f64, f64)> = baseline.iter().copied().zip(runs()).collect();
                    let verdict = judge.versus(&pairs).expect("there are pairs").verdict;
                    is_wrong |= matches!(verdict, Verdict::Less | Verdict::More);
                }
            }
            wrong_reports += u32::from(is_wrong);
        }
        f64::from(wrong_reports) / f64::from(REPORTS)
    }

    #[test]
    fn few_reports_claim_a_difference_where_there_is_none() {
        // Three standard errors of the simulation above the promise.
        let most =
            FAMILY_ALPHA + 3.0 * (FAMILY_ALPHA * (1.0 - FAMILY_ALPHA) / f64::from(REPORTS)).sqrt();
        let judge = Judge::new(CLAIMS, 2.0);
        for noise in [normal, heavy_tailed] {
            let rate = wrong(judge, noise, 0.1);
            assert!(rate <= most, "{rate} > {most}");
            // Noise within the margin is never a difference.
            assert_eq!(wrong(judge, noise, 0.002), 0.0);
            // That is not for want of claims: one that ignores how many they are, or the margin, makes them.
            let careless = wrong(Judge::new(1, 2.0), noise, 0.1);
            assert!(careless > most, "{careless}");
            assert!(wrong(Judge::new(CLAIMS, 0.0), noise, 0.002) > 0.01);
        }
    }
}
