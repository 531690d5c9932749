// SPDX-License-Identifier: MIT
//! What is held against the baseline, and how much more of it may be.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Calls that allocate, those of realloc included.
    Allocations,
    /// That they asked for.
    Bytes,
    /// The most bytes that were live at a time.
    Peak,
    /// Bytes that were never freed.
    Leaks,
    /// The most memory that a process had, without the recorder.
    Rss,
}

impl Metric {
    pub const ALL: [Metric; 5] =
        [Metric::Allocations, Metric::Bytes, Metric::Peak, Metric::Leaks, Metric::Rss];
    /// Those that are counted by stack.
    pub const BY_STACK: [Metric; 3] = [Metric::Allocations, Metric::Bytes, Metric::Leaks];

    pub fn name(self) -> &'static str {
        match self {
            Metric::Allocations => "allocations",
            Metric::Bytes => "bytes",
            Metric::Peak => "peak",
            Metric::Leaks => "leaks",
            Metric::Rss => "rss",
        }
    }

    /// So many bytes less or more mean nothing, whatever the tolerance: where the kernel places a
    /// program, and which pages of its files it has at hand, makes as much.
    pub fn slack(self) -> f64 {
        if self == Metric::Rss { f64::from(1 << 20) } else { 0.0 }
    }

    /// In percent, where nobody says another.
    pub fn default_tolerance(self) -> f64 {
        match self {
            Metric::Allocations | Metric::Bytes | Metric::Leaks => 0.0,
            Metric::Peak => 5.0,
            Metric::Rss => 10.0,
        }
    }
}

/// `peak=5%`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    pub metric: Metric,
    pub percent: f64,
}

impl FromStr for Tolerance {
    type Err = String;

    fn from_str(text: &str) -> Result<Tolerance, String> {
        let metric = |name: &str| Metric::ALL.into_iter().find(|metric| metric.name() == name);
        let parsed = text.split_once('=').and_then(|(name, percent)| {
            let percent: f64 = percent.trim().trim_end_matches('%').parse().ok()?;
            Some(Tolerance { metric: metric(name.trim())?, percent })
        });
        match parsed {
            Some(tolerance) if (0.0..=10_000.0).contains(&tolerance.percent) => Ok(tolerance),
            _ => Err(
                "a tolerance is written like peak=5%, of allocations, bytes, peak, leaks or rss"
                    .into(),
            ),
        }
    }
}

/// The least and the most of several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    pub low: u64,
    pub high: u64,
}

impl Range {
    pub fn of(values: impl IntoIterator<Item = u64>) -> Range {
        let mut values = values.into_iter();
        let Some(first) = values.next() else { return Range::default() };
        values.fold(Range { low: first, high: first }, |range, value| Range {
            low: range.low.min(value),
            high: range.high.max(value),
        })
    }

    /// How far a value is from the nearest of the range.
    pub fn distance(self, value: u64) -> u64 {
        self.low.saturating_sub(value).max(value.saturating_sub(self.high))
    }

    /// The value that all runs have.
    pub fn exact(self) -> Option<u64> {
        (self.low == self.high).then_some(self.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances_name_a_metric_and_a_percentage() {
        let peak = Tolerance { metric: Metric::Peak, percent: 5.0 };
        assert_eq!("peak=5%".parse(), Ok(peak));
        assert_eq!("peak = 5".parse(), Ok(peak));
        for wrong in ["peak", "speed=5%", "peak=-1%", "peak=NaN", "peak=much", ""] {
            assert!(wrong.parse::<Tolerance>().is_err(), "{wrong}");
        }
    }
}
