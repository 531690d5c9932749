// SPDX-License-Identifier: MIT
//! Values over time: their average, peak and end, and a picture of them in bounded memory.

use serde::{Deserialize, Serialize};

/// Of values over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    pub average: f64,
    pub peak: f64,
    pub end: f64,
}

/// Adds up values as they come, with straight lines between them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub count: u32,
    first: f64,
    last: f64,
    area: f64,
    figures: Figures,
}

impl Tally {
    pub fn add(&mut self, time: f64, value: f64) {
        if self.count == 0 {
            (self.first, self.last) = (time, time);
        }
        self.area += f64::midpoint(self.figures.end, value) * (time - self.last);
        self.count = self.count.saturating_add(1);
        self.last = time;
        self.figures.peak = self.figures.peak.max(value);
        self.figures.end = value;
    }

    /// From the first value to the last.
    pub fn time(&self) -> f64 {
        self.last - self.first
    }

    /// `None` of nothing.
    pub fn figures(&self) -> Option<Figures> {
        let time = self.time();
        let average = if time > 0.0 { self.area / time } else { self.figures.end };
        // What is added up is rounded.
        let average = average.min(self.figures.peak);
        (self.count > 0).then_some(Figures { average, ..self.figures })
    }
}

/// Keeps a list of points short: when it is full, neighbours are joined, and from then on so many
/// more points make one.
#[derive(Clone, Copy, Debug)]
pub struct Thinning {
    most: usize,
    stretch: u64,
    /// Of the stretch that the last point stands for.
    filled: u64,
}

impl Thinning {
    /// `most` is even.
    pub fn new(most: usize) -> Thinning {
        Thinning { most, stretch: 1, filled: 0 }
    }

    pub fn add<T: Copy>(&mut self, points: &mut Vec<T>, point: T, join: impl Fn(T, T) -> T) {
        if let Some(last) = points.last_mut().filter(|_| self.filled < self.stretch) {
            *last = join(*last, point);
            self.filled += 1;
            return;
        }
        if points.len() >= self.most {
            let pairs = points.chunks(2).filter_map(|pair| pair.iter().copied().reduce(&join));
            *points = pairs.collect();
            self.stretch *= 2;
        }
        points.push(point);
        self.filled = 1;
    }
}

/// Of two points (time, value) the higher one, so that no peak is lost.
pub fn higher(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    if b.1 > a.1 { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_of_what_stays_the_same_is_not_above_it() {
        for turns in 2..200u32 {
            let mut tally = Tally::default();
            (0..turns).for_each(|turn| tally.add(f64::from(turn) * 0.0011 + 0.0003, 106_414_080.0));
            let figures = tally.figures().unwrap();
            assert!(figures.average <= figures.peak, "{turns}: {figures:?}");
        }
    }

    fn figures(points: &[(f64, f64)]) -> Option<Figures> {
        let mut tally = Tally::default();
        points.iter().for_each(|(time, value)| tally.add(*time, *value));
        tally.figures()
    }

    #[test]
    fn average_is_over_time() {
        let found = figures(&[(0.0, 10.0), (1.0, 100.0), (4.0, 50.0)]);
        assert_eq!(found, Some(Figures { average: 70.0, peak: 100.0, end: 50.0 }));
        assert_eq!(figures(&[(3.0, 7.0)]).unwrap().average, 7.0);
        assert_eq!(figures(&[(5.0, 4.0), (7.0, 4.0)]).unwrap().average, 4.0);
        assert_eq!(figures(&[]), None);
    }

    #[test]
    fn long_lists_stay_short_and_keep_their_peaks() {
        let mut thinning = Thinning::new(8);
        let mut points = Vec::new();
        for n in 0..1000 {
            let value = if n == 777 { 9.0 } else { 1.0 };
            thinning.add(&mut points, (f64::from(n), value), higher);
            assert!(points.len() <= 8 && points.is_sorted_by_key(|point| point.0));
        }
        assert!(points.contains(&(777.0, 9.0)), "{points:?}");
        // 1,000 points of 128 each, all but the last one full.
        assert_eq!((points.len(), thinning.stretch, thinning.filled), (8, 128, 1000 - 7 * 128));
    }
}
