// SPDX-License-Identifier: MIT
//! Limits that have to hold, such as `rss<400M`.

use super::trial::Trial;
use crate::statistics;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    Rss,
    Time,
    Cpu,
}

/// The figure stays below the limit, in bytes or seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constraint {
    pub figure: Figure,
    pub limit: f64,
}

impl Constraint {
    pub fn value(self, trial: &Trial) -> f64 {
        match self.figure {
            Figure::Rss => trial.peak_rss,
            Figure::Time => trial.time_s,
            Figure::Cpu => trial.cpu_s,
        }
    }

    /// Memory has to hold in every run, for one that passes it is killed; the others in the middle.
    pub fn worst(self, trials: &[&Trial]) -> Option<f64> {
        let values: Vec<f64> = trials.iter().map(|trial| self.value(trial)).collect();
        match self.figure {
            Figure::Rss => values.into_iter().reduce(f64::max),
            Figure::Time | Figure::Cpu => statistics::median(&values),
        }
    }

    pub fn holds(self, trials: &[&Trial]) -> bool {
        self.worst(trials).is_some_and(|worst| worst < self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_holds_in_every_run_and_time_in_the_middle() {
        let trial =
            |time_s, peak_rss| Trial { time_s, cpu_s: 0.1, peak_rss, is_peak_of_start: false };
        let trials = [trial(1.0, 10.0), trial(9.0, 10.0), trial(1.0, 50.0)];
        let all: Vec<&Trial> = trials.iter().collect();
        let limit = |figure, limit| Constraint { figure, limit };
        assert!(limit(Figure::Time, 2.0).holds(&all));
        assert!(!limit(Figure::Rss, 20.0).holds(&all) && limit(Figure::Rss, 51.0).holds(&all));
        assert!(!limit(Figure::Rss, 20.0).holds(&[]), "nothing ran");
    }
}
