// SPDX-License-Identifier: MIT
//! How many stacks are unwound: as many as cost little beside the program.

use std::time::{Duration, Instant};

/// Parts of the time that stacks may take: above the first there will be fewer of them, below the
/// second more again.
const MOST: f64 = 0.03;
const LEAST: f64 = 0.01;
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// What a thread takes to copy its stack, about.
const COPYING: Duration = Duration::from_micros(4);
/// A distance of more bytes than this is not needed.
const FARTHEST: u64 = 1 << 40;

pub struct Pace {
    /// What the user asked for; 0: every allocation has a stack, whatever it costs.
    nearest: u64,
    /// Mean number of bytes between two stacks.
    distance: u64,
    busy: Duration,
    since: Instant,
}

impl Pace {
    pub fn new(nearest: u64) -> Pace {
        Pace { nearest, distance: nearest, busy: Duration::ZERO, since: Instant::now() }
    }

    /// A stack was unwound in this time.
    pub fn took(&mut self, time: Duration) {
        self.busy += time + COPYING;
    }

    /// The distance to be kept from now on, if it is another one.
    pub fn look(&mut self) -> Option<u64> {
        let elapsed = self.since.elapsed();
        if self.nearest == 0 || elapsed < LOOK_EVERY {
            return None;
        }
        self.since = Instant::now();
        self.judge(elapsed)
    }

    fn judge(&mut self, elapsed: Duration) -> Option<u64> {
        let part = self.busy.as_secs_f64() / elapsed.as_secs_f64();
        self.busy = Duration::ZERO;
        let wanted = if part > MOST {
            // The part falls as the distance grows.
            let times = (part / MOST).ceil().clamp(2.0, 8.0) as u64;
            self.distance.saturating_mul(times).min(FARTHEST.max(self.nearest))
        } else if part < LEAST {
            (self.distance / 2).max(self.nearest)
        } else {
            self.distance
        };
        let is_other = wanted != self.distance;
        self.distance = wanted;
        is_other.then_some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pace: &mut Pace, busy_ms: u64) -> Option<u64> {
        pace.busy = Duration::from_millis(busy_ms);
        pace.judge(Duration::from_millis(100))
    }

    #[test]
    fn what_costs_too_much_becomes_rarer_and_comes_back() {
        let mut pace = Pace::new(1 << 16);
        assert_eq!(after(&mut pace, 2), None);
        assert_eq!(after(&mut pace, 4), Some(1 << 17));
        assert_eq!(after(&mut pace, 8), Some((1 << 17) * 3));
        assert_eq!(after(&mut pace, 100), Some((1 << 17) * 24));
        assert_eq!(after(&mut pace, 2), None);
        assert_eq!(after(&mut pace, 0), Some((1 << 16) * 24));
        let mut last = None;
        while let Some(distance) = after(&mut pace, 0) {
            last = Some(distance);
        }
        assert_eq!(last, Some(1 << 16));
    }

    #[test]
    fn all_stays_all() {
        let mut pace = Pace::new(0);
        pace.since = Instant::now() - Duration::from_secs(1);
        pace.took(Duration::from_secs(9));
        assert_eq!(pace.look(), None);
    }
}
