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

    /// Memory has to hold in every run, for one that passes it is killed; the others in the middle. Of a run
    /// whose peak is not known it is what that was at most (`is_bound`).
    pub fn worst(self, trials: &[&Trial]) -> Option<f64> {
        let values: Vec<f64> = trials.iter().map(|trial| self.value(trial)).collect();
        match self.figure {
            Figure::Rss => values.into_iter().reduce(f64::max),
            Figure::Time | Figure::Cpu => statistics::median(&values),
        }
    }

    /// Whether the figure was at most `worst`, and nobody knows what it was.
    pub fn is_bound(self, trials: &[&Trial]) -> bool {
        let worst = self.worst(trials);
        let is_it = |trial: &&&Trial| Some(trial.peak_rss) == worst;
        let mut worst_ones = trials.iter().filter(is_it).peekable();
        self.figure == Figure::Rss
            && worst_ones.peek().is_some()
            && worst_ones.all(|trial| trial.is_peak_of_start)
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
        let rss = limit(Figure::Rss, 20.0);
        assert!(!rss.is_bound(&all) && !rss.is_bound(&[]));
        let small = Trial { is_peak_of_start: true, ..trial(1.0, 50.0) };
        assert!(
            rss.is_bound(&[&small, &trials[0]]) && !limit(Figure::Time, 20.0).is_bound(&[&small])
        );
        assert!(!rss.is_bound(&[&small, &trials[2]]), "one run is known to have had as much");
    }
}
