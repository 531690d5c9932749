// SPDX-License-Identifier: MIT
//! Whether memory grows or shrinks, how fast, and since when: the longest stretch up to now that a
//! straight line describes well.

use serde::{Deserialize, Serialize};

/// A stretch has at least so many points, and of all there are not more are looked at.
const FEWEST: usize = 8;
const MOST: usize = 500;
/// From one stretch to the next shorter one.
const SHORTER: f64 = 0.93;
/// What part of the ups and downs the line has to explain.
const EXPLAINED: f64 = 0.98;
/// What changes less than this over the stretch is at rest.
const LEAST_PART: f64 = 0.02;
const LEAST_BYTES: f64 = 1024.0 * 1024.0;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    pub bytes_per_s: f64,
    /// For how long up to now.
    pub duration_s: f64,
}

/// The trend of so many points (seconds, bytes), if there is one: of all, or of the last ones.
pub fn of(count: usize, point: impl Fn(usize) -> (f64, f64)) -> Option<Trend> {
    let step = count.div_ceil(MOST).max(1);
    let every = |step: usize| -> Vec<(f64, f64)> {
        let mut points: Vec<_> = (0..count).rev().step_by(step).take(MOST).map(&point).collect();
        points.reverse();
        points
    };
    up_to_now(&every(step)).or_else(|| (step > 1).then(|| up_to_now(&every(1))).flatten())
}

fn up_to_now(points: &[(f64, f64)]) -> Option<Trend> {
    let mut length = points.len();
    while length >= FEWEST {
        if let Some(trend) = line(&points[points.len() - length..]) {
            return Some(trend);
        }
        length = (length as f64 * SHORTER) as usize;
    }
    None
}

/// The line through a stretch, if it describes it and rises or falls.
fn line(points: &[(f64, f64)]) -> Option<Trend> {
    let (first, last) = (points.first()?, points.last()?);
    let mean =
        |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let (time, value) = (mean(|point| point.0), mean(|point| point.1));
    let (mut across, mut both, mut up) = (0.0, 0.0, 0.0);
    for point in points {
        let (x, y) = (point.0 - time, point.1 - value);
        across += x * x;
        both += x * y;
        up += y * y;
    }
    if across <= 0.0 || up <= 0.0 {
        return None;
    }
    let (slope, duration) = (both / across, last.0 - first.0);
    let change = (slope * duration).abs();
    let is_change = change >= LEAST_BYTES && change >= LEAST_PART * last.1;
    let is_line = both * both >= EXPLAINED * across * up;
    (is_change && is_line).then_some(Trend { bytes_per_s: slope, duration_s: duration })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1024.0 * 1024.0;

    fn points(value: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..100).map(|n| (f64::from(n), value(f64::from(n)) * MIB)).collect()
    }

    fn of(points: &[(f64, f64)]) -> Option<Trend> {
        super::of(points.len(), |index| points[index])
    }

    #[test]
    fn growth_is_seen_from_its_start_on() {
        let grown = points(|time| 200.0 + (time - 60.0).max(0.0) * 9.0 + (time % 3.0));
        let trend = of(&grown).unwrap();
        assert!((trend.bytes_per_s / MIB - 9.0).abs() < 1.0, "{trend:?}");
        assert!((trend.duration_s - 40.0).abs() < 13.0, "{trend:?}");
        let falling = of(&points(|time| 1000.0 - 2.0 * time)).unwrap();
        assert_eq!((falling.bytes_per_s.round(), falling.duration_s), (-2.0 * MIB, 99.0));
    }

    #[test]
    fn long_runs_are_looked_at_as_a_whole_and_at_their_end() {
        let rss = |n: f64| (n, 500.0 * MIB + n * MIB / 10.0);
        assert_eq!(super::of(40_000, |n| rss(n as f64)).unwrap().duration_s.round(), 39_920.0);
        let late = |n: f64| (n, 500.0 * MIB + (n - 39_900.0).max(0.0) * MIB);
        let trend = super::of(40_000, |n| late(n as f64)).unwrap();
        assert!((80.0..130.0).contains(&trend.duration_s), "{trend:?}");
    }

    #[test]
    fn rest_and_noise_are_no_trend() {
        assert_eq!(of(&points(|_| 100.0)), None);
        assert_eq!(of(&points(|time| 100.0 + time % 7.0)), None);
        assert_eq!(of(&points(|time| 1000.0 + time / 1000.0)), None, "too little");
        assert_eq!(of(&points(|time| 50.0 * time)[..3]), None, "too short");
    }
}
