// SPDX-License-Identifier: MIT
//! The axis of a picture: what it spans, and where its marks stand.

use mallow_stats::figures::{bytes, seconds};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    Seconds,
    Bytes,
}

impl Quantity {
    pub fn show(self, value: f64) -> String {
        match self {
            Quantity::Seconds => seconds(value),
            Quantity::Bytes => bytes(value),
        }
    }
}

/// The axis begins at zero unless all values lie close together.
pub struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// `None` of nothing.
    pub fn over<'a>(values: impl Iterator<Item = &'a f64>) -> Option<Scale> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            low = low.min(*value);
            high = high.max(*value);
        }
        if !low.is_finite() {
            return None;
        }
        let margin = ((high - low) * 0.06).max(high * 0.01);
        let low = if low < 0.5 * high { 0.0 } else { low - margin };
        Some(Scale { low, high: high + margin })
    }

    /// Where on the axis a value stands, from 0 to 1.
    pub fn part(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    /// Round numbers of the unit, about five of them.
    pub fn ticks(&self, quantity: Quantity) -> Vec<f64> {
        let unit = match quantity {
            Quantity::Seconds => 1.0,
            Quantity::Bytes if self.high < 1048576.0 => 1024.0,
            Quantity::Bytes => 1048576.0,
        };
        let rough = (self.high - self.low) / unit / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|s| *s >= rough);
        let step = unit * step.unwrap_or(rough);
        let first = (self.low / step).ceil();
        let ticks = (0..20).map(|n| (first + f64::from(n)) * step);
        ticks.take_while(|tick| *tick <= self.high).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_is_round_and_holds_everything() {
        let scale = Scale::over([0.41, 0.47, 0.44].iter()).unwrap();
        assert!(scale.low > 0.0, "close values use the whole width");
        assert!(scale.part(0.41) >= 0.0 && scale.part(0.47) <= 1.0);
        let ticks = scale.ticks(Quantity::Seconds);
        assert!((3..=8).contains(&ticks.len()), "{ticks:?}");
        assert_eq!(Scale::over([1.0, 10.0].iter()).unwrap().low, 0.0);
        assert!(Scale::over([].iter()).is_none());
        assert!(!Scale::over([5.0].iter()).unwrap().ticks(Quantity::Seconds).is_empty());
    }
}
