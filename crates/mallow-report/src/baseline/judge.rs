// SPDX-License-Identifier: MIT
//! The verdicts. What differs between the runs of now, or differed between those of the baseline, or
//! with an environment that is not the baseline's, is left out where it is counted by stack, unless too little would be left: then the sums are judged, as peak and
//! RSS are, where they are far apart.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

use super::Baseline;
use super::identity;
use super::metric::{Metric, Range};
use super::runs::{Measured, Place};

/// When more of a metric than this is left out, the rest says nothing.
const MOST_LEFT_OUT: f64 = 0.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    Regressed,
    Improved,
    Inconclusive,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Regressed => "regressed",
            Verdict::Improved => "improved",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}

/// Counts are sums over the stacks that are the same in each run.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    pub metric: Metric,
    pub before: Range,
    pub after: Range,
    pub tolerance_percent: f64,
    pub verdict: Verdict,
    pub left_out_stacks: usize,
    /// Of the metric now, from 0 to 1.
    pub left_out_share: f64,
    /// Stacks of which nobody can say how often they run, as those that start Go's threads: they are
    /// in no sum.
    pub by_nature_stacks: usize,
}

impl Judged {
    /// From which run of the baseline to the highest of now: what the verdict looks at first. `None`
    /// where that is among the runs of the baseline.
    pub fn change(&self) -> Option<(u64, u64)> {
        let (low, high) = (self.before.low, self.before.high);
        match self.after.high {
            highest if highest > high => Some((high, highest)),
            highest if highest < low => Some((low, highest)),
            _ => None,
        }
    }
}

/// A stack that does more, or less, than the baseline says.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    pub stack: String,
    pub metric: Metric,
    pub before: u64,
    pub after: Range,
    /// Where it is in the source that is here.
    #[serde(flatten, serialize_with = "named")]
    pub place: Option<Place>,
}

fn named<S: Serializer>(place: &Option<Place>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Named<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        file: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<u32>,
    }
    let place = place.as_ref();
    Named { file: place.map(|p| p.file.as_str()), line: place.map(|p| p.line) }
        .serialize(serializer)
}

impl Change {
    /// How far it is from the baseline.
    pub fn size(&self) -> u64 {
        self.before.abs_diff(self.after.low).max(self.before.abs_diff(self.after.high))
    }

    pub fn is_more(&self) -> bool {
        self.after.high > self.before
    }
}

/// The worst of all: what regressed first, then what is not known.
pub fn overall(metrics: &[Judged]) -> Verdict {
    let has = |verdict| metrics.iter().any(|judged| judged.verdict == verdict);
    let order = [Verdict::Regressed, Verdict::Inconclusive, Verdict::Improved];
    order.into_iter().find(|verdict| has(*verdict)).unwrap_or(Verdict::Ok)
}

/// The metrics, and the stacks that changed, the largest change first. `place` chooses of the places
/// of a stack, innermost first, the one to show.
pub fn judge(
    baseline: &Baseline,
    measured: &Measured,
    tolerance: impl Fn(Metric) -> f64,
    place: impl Fn(&[Place]) -> Option<Place>,
) -> (Vec<Judged>, Vec<Change>) {
    let stacks = measured.stacks();
    let known = baseline.stacks.keys().map(String::as_str);
    let stacks: BTreeSet<&str> = known.chain(stacks).collect();
    let mut changes = Vec::new();
    let metrics = Metric::ALL.map(|metric| {
        let moved = measured.moved_by_environment(metric);
        if !Metric::BY_STACK.contains(&metric) {
            let before = baseline.head.metrics.get(&metric).copied().unwrap_or_default();
            let after = measured.total(metric);
            let by_nature = if metric == Metric::Peak { of_nature(measured) } else { 0 };
            let left_out = LeftOut { moved: moved.max(by_nature), ..LeftOut::default() };
            return judged(metric, before, after, tolerance(metric), left_out);
        }
        let (before, after, left_out, changed) =
            by_stack(baseline, measured, &stacks, metric, &place);
        changes.extend(changed);
        let totals = (baseline.head.metrics.get(&metric).copied(), measured.total(metric));
        if let (Some(before), after) = totals
            && left_out.share > MOST_LEFT_OUT
            && is_far(before, after, moved)
        {
            return judged(metric, before, after, tolerance(metric), LeftOut::default());
        }
        let before = Range { low: before, high: before };
        judged(metric, before, after, tolerance(metric), left_out)
    });
    changes.sort_by(|a, b| (b.size(), &a.stack).cmp(&(a.size(), &b.stack)));
    let rank = |change: &Change| Metric::ALL.iter().position(|metric| *metric == change.metric);
    changes.sort_by_key(rank);
    (metrics.into(), changes)
}

/// What does not count because it differs between equal runs.
#[derive(Clone, Copy, Debug, Default)]
struct LeftOut {
    stacks: usize,
    by_nature: usize,
    /// Of the metric, from 0 to 1.
    share: f64,
    /// What the environment may make in a sum that nothing is left out of.
    moved: u64,
}

/// Before, the range of the runs now, what is left out, and the changes.
fn by_stack(
    baseline: &Baseline,
    measured: &Measured,
    stacks: &BTreeSet<&str>,
    metric: Metric,
    place: &impl Fn(&[Place]) -> Option<Place>,
) -> (u64, Range, LeftOut, Vec<Change>) {
    let (mut before_sum, mut left_out, mut changes) = (0u64, LeftOut::default(), Vec::new());
    let mut sums = vec![0u64; measured.runs.len()];
    let mut left_sum = 0u64;
    let mut natural = 0u64;
    for &stack in stacks {
        if identity::is_of_go_threads(stack) {
            left_out.by_nature += 1;
            natural = natural.saturating_add(measured.of_stack(stack, metric).high);
            continue;
        }
        let after = measured.of_stack(stack, metric);
        // A stack that the baseline does not have allocated nothing then.
        let before = baseline.stacks.get(stack).map_or(Some(0), |known| known.of(metric));
        let is_known = |before: &u64| {
            is_clear(*before, after) && !measured.is_moved_by_environment(stack, metric)
        };
        let Some(before) = before.filter(is_known) else {
            left_out.stacks += 1;
            left_sum = left_sum.saturating_add(after.high);
            continue;
        };
        before_sum = before_sum.saturating_add(before);
        for (sum, run) in sums.iter_mut().zip(&measured.runs) {
            *sum = sum.saturating_add(run.value(stack, metric));
        }
        if after.exact() != Some(before) {
            let place = measured.places.get(stack).and_then(|places| place(places));
            changes.push(Change { stack: stack.into(), metric, before, after, place });
        }
    }
    let all = measured.total(metric).high.saturating_sub(natural);
    left_out.share = if all > 0 { (left_sum as f64 / all as f64).min(1.0) } else { 0.0 };
    (before_sum, Range::of(sums), left_out, changes)
}

/// So many bytes more or less may be live at the peak by what is in no sum.
fn of_nature(measured: &Measured) -> u64 {
    let stacks = measured.stacks();
    let natural = stacks.iter().filter(|stack| identity::is_of_go_threads(stack));
    natural.map(|stack| measured.of_stack(stack, Metric::Bytes).high).sum()
}

/// Whether the runs of a stack say something although they may differ: all do what the baseline
/// says, or all are away from it by more than they differ among each other.
fn is_clear(before: u64, after: Range) -> bool {
    let spread = after.high - after.low;
    spread == 0 || after.distance(before) > spread
}

/// How many times farther than equal runs are from each other sums have to be: three runs of the same are
/// now and then apart by once.
const FAR: u64 = 4;

/// Whether sums say something although most of what they count differs between equal runs.
fn is_far(before: Range, after: Range, moved: u64) -> bool {
    let spread = (before.high - before.low).max(after.high - after.low).max(moved);
    let distance = after.low.saturating_sub(before.high).max(before.low.saturating_sub(after.high));
    distance > FAR.saturating_mul(spread)
}

fn judged(metric: Metric, before: Range, after: Range, percent: f64, left_out: LeftOut) -> Judged {
    let verdict = if left_out.share > MOST_LEFT_OUT {
        Verdict::Inconclusive
    } else {
        verdict(before, after, percent, metric.slack().max(left_out.moved as f64))
    };
    Judged {
        metric,
        before,
        after,
        tolerance_percent: percent,
        verdict,
        left_out_stacks: left_out.stacks,
        left_out_share: left_out.share,
        by_nature_stacks: left_out.by_nature,
    }
}

fn verdict(before: Range, after: Range, percent: f64, slack: f64) -> Verdict {
    let room = |value: u64| (value as f64 * percent / 100.0).max(slack);
    let most = before.high as f64 + room(before.high);
    let least = before.low as f64 - room(before.low);
    if after.low as f64 > most {
        Verdict::Regressed
    } else if after.high as f64 > most {
        Verdict::Inconclusive
    } else if (after.high as f64) < least {
        Verdict::Improved
    } else {
        Verdict::Ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(low: u64, high: u64) -> Range {
        Range { low, high }
    }

    #[test]
    fn a_verdict_takes_all_runs() {
        let before = range(100, 100);
        assert_eq!(verdict(before, range(100, 100), 0.0, 0.0), Verdict::Ok);
        assert_eq!(verdict(before, range(101, 101), 0.0, 0.0), Verdict::Regressed);
        assert_eq!(verdict(before, range(99, 99), 0.0, 0.0), Verdict::Improved);
        assert_eq!(verdict(before, range(99, 101), 0.0, 0.0), Verdict::Inconclusive);
        assert_eq!(verdict(before, range(99, 105), 5.0, 0.0), Verdict::Ok);
        assert_eq!(verdict(before, range(100, 106), 5.0, 0.0), Verdict::Inconclusive);
        assert_eq!(verdict(before, range(106, 120), 5.0, 0.0), Verdict::Regressed);
        assert_eq!(verdict(before, range(80, 94), 5.0, 0.0), Verdict::Improved);
        assert_eq!(verdict(range(90, 110), range(91, 112), 5.0, 0.0), Verdict::Ok);
        assert_eq!(verdict(range(0, 0), range(1, 1), 50.0, 0.0), Verdict::Regressed);
        assert_eq!(verdict(before, range(110, 110), 5.0, 10.0), Verdict::Ok);
        assert_eq!(verdict(before, range(111, 111), 5.0, 10.0), Verdict::Regressed);
        // Nothing is worse where only some of the runs are better.
        assert_eq!(verdict(before, range(80, 100), 5.0, 0.0), Verdict::Ok);
    }

    #[test]
    fn the_change_is_beyond_the_tolerance_where_the_verdict_says_so() {
        let (before, percent) = (range(100, 200), 10.0);
        for (low, high) in (0..240).flat_map(|high| [(high, high), (high / 2, high)]) {
            let judged =
                judged(Metric::Bytes, before, range(low, high), percent, LeftOut::default());
            let change = judged.change();
            let change =
                change.map_or(0.0, |(from, to)| (to as f64 - from as f64) * 100.0 / from as f64);
            let expected = match judged.verdict {
                Verdict::Regressed | Verdict::Inconclusive => change > percent,
                Verdict::Improved => change < -percent,
                Verdict::Ok => change.abs() <= percent,
            };
            assert!(expected, "{low} to {high}: {change}, {:?}", judged.verdict);
        }
    }

    #[test]
    fn sums_of_what_differs_count_where_they_are_far_away() {
        assert!(
            is_far(range(100, 110), range(151, 160), 0)
                && is_far(range(151, 160), range(100, 110), 10)
        );
        assert!(
            !is_far(range(100, 110), range(150, 160), 0)
                && !is_far(range(100, 110), range(90, 105), 0)
        );
        assert!(!is_far(range(5, 5), range(5, 5), 0) && !is_far(range(5, 5), range(9, 9), 1));
    }

    #[test]
    fn runs_that_differ_count_where_they_are_far_from_the_baseline() {
        assert!(is_clear(5, range(5, 5)) && is_clear(5, range(9, 9)));
        assert!(!is_clear(5, range(4, 9)) && !is_clear(0, range(1, 2)));
        assert!(is_clear(100, range(150, 160)) && is_clear(100, range(10, 20)));
    }
}
