// SPDX-License-Identifier: MIT
//! Successive halving over three figures, time, CPU and memory: all candidates run a few rounds, the better
//! half goes on with twice as many. How many candidates there are, the budget decides.
//!
//! Nothing here is proof: of many candidates some look better by chance. The few that are left are
//! measured anew (`confirm`).

use super::trial::Trial;
use crate::statistics;
use crate::verdict::{self, Judge};

/// So many are confirmed at the most.
pub const FINALISTS: usize = 3;
/// Time, CPU and memory are judged of each.
pub const JUDGED: usize = 3;
/// Rounds of the first step, where there is time for so many.
const FIRST_ROUNDS: u32 = 2;

/// Against the defaults, as ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    pub time: f64,
    /// Where other programs keep the machine busy, it tells settings apart and time does not.
    pub cpu: f64,
    pub memory: f64,
    /// Whether the limits that the user gave are kept.
    pub keeps_limits: bool,
}

impl Score {
    /// Of the rounds in which both ran; `None` if there is none.
    pub fn of(
        defaults: &[(u32, Trial)],
        own: &[(u32, Trial)],
        keeps_limits: bool,
    ) -> Option<Score> {
        let ratio = |value: fn(&Trial) -> f64| {
            let values = |runs: &[(u32, Trial)]| -> Vec<(u32, f64)> {
                runs.iter().map(|(round, trial)| (*round, value(trial))).collect()
            };
            let pairs = verdict::pairs(values(defaults).into_iter(), values(own).into_iter());
            let ratios: Vec<f64> = pairs.iter().map(|(base, other)| other / base).collect();
            statistics::median(&ratios)
        };
        let (time, memory) = (ratio(|trial| trial.time_s)?, ratio(|trial| trial.peak_rss)?);
        // What took less than a tick of the kernel's clock says nothing.
        let cpu = ratio(|trial| trial.cpu_s).filter(|cpu| cpu.is_finite()).unwrap_or(time);
        Some(Score { time, cpu, memory, keeps_limits })
    }

    /// Better in all.
    pub fn dominates(&self, other: &Score) -> bool {
        self.time < other.time && self.cpu < other.cpu && self.memory < other.memory
    }

    fn product(&self) -> f64 {
        (self.time * self.cpu).sqrt() * self.memory
    }
}

/// Which are dominated by none.
pub fn front(scores: &[Score]) -> Vec<bool> {
    scores.iter().map(|score| !scores.iter().any(|other| other.dominates(score))).collect()
}

/// The best first. Those that keep the limits come before those that do not; of each, the front
/// comes first, then the front of the rest. Within a front its ends, the fastest, the one with the
/// least CPU and the smallest, then who gains most in all together.
pub fn ranked(scores: &[Score]) -> Vec<usize> {
    let mut order = Vec::new();
    for keeps in [true, false] {
        let all = 0..scores.len();
        let mut left: Vec<usize> = all.filter(|i| scores[*i].keeps_limits == keeps).collect();
        while !left.is_empty() {
            let of_left: Vec<Score> = left.iter().map(|&index| scores[index]).collect();
            let is_front = front(&of_left);
            let (layer, rest): (Vec<_>, Vec<_>) =
                left.iter().zip(&is_front).partition(|(_, is_front)| **is_front);
            let indices = |part: Vec<(&usize, &bool)>| part.iter().map(|(i, _)| **i).collect();
            order.extend(of_layer(scores, indices(layer)));
            left = indices(rest);
        }
    }
    order
}

fn of_layer(scores: &[Score], mut layer: Vec<usize>) -> Vec<usize> {
    let least = |layer: &[usize], value: fn(&Score) -> f64| {
        layer.iter().copied().min_by(|a, b| value(&scores[*a]).total_cmp(&value(&scores[*b])))
    };
    let figures: [fn(&Score) -> f64; 3] =
        [|score| score.time, |score| score.cpu, |score| score.memory];
    let ends: Vec<usize> = figures.into_iter().filter_map(|figure| least(&layer, figure)).collect();
    layer.sort_by(|a, b| scores[*a].product().total_cmp(&scores[*b].product()));
    let mut order = Vec::new();
    for index in ends.into_iter().chain(layer) {
        if !order.contains(&index) {
            order.push(index);
        }
    }
    order
}

/// How the budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub candidates: usize,
    /// Rounds of the first step; each later one has twice as many.
    pub first_rounds: u32,
    /// Fewer rounds of the confirmation prove nothing.
    pub fewest_rounds: u32,
}

/// As many candidates as the time allows, the confirmation included; `None` if it is too short for
/// even one.
pub fn schedule(available: usize, run_s: f64, budget_s: f64, margin: f64) -> Option<Schedule> {
    let of = |candidates: usize, first_rounds: u32| {
        let fewest_rounds = fewest_rounds(candidates.min(FINALISTS), margin);
        let schedule = Schedule { candidates, first_rounds, fewest_rounds };
        (schedule.runs() as f64 * run_s <= budget_s).then_some(schedule)
    };
    let all = (1..=FIRST_ROUNDS).rev().find_map(|rounds| of(available, rounds));
    all.or_else(|| (1..available).rev().find_map(|candidates| of(candidates, 1)))
}

pub fn fewest_rounds(finalists: usize, margin: f64) -> u32 {
    Judge::new(JUDGED * finalists, margin).fewest_rounds()
}

impl Schedule {
    /// All that it comes to, if the confirmation makes no more rounds than it must.
    pub fn runs(&self) -> usize {
        // The first run, and the one that looks at who serves malloc.
        2 + self.search_runs() + self.confirmation_runs()
    }

    /// Nothing is left out of this many candidates, and none has fewer rounds.
    pub fn is_whole(&self, available: usize) -> bool {
        self.candidates == available && self.first_rounds == FIRST_ROUNDS
    }

    pub fn confirmation_runs(&self) -> usize {
        (self.candidates.min(FINALISTS) + 1) * self.fewest_rounds as usize
    }

    fn search_runs(&self) -> usize {
        let steps = steps(self.candidates, self.first_rounds);
        let of_steps: usize =
            steps.iter().map(|(left, rounds)| (left + 1) * *rounds as usize).sum();
        let joined = joined_runs(self.candidates, steps.last().map_or(0, |step| step.1));
        of_steps + joined
    }
}

/// How many candidates each step has, and for how many rounds. A single one is confirmed at once.
pub fn steps(candidates: usize, first_rounds: u32) -> Vec<(usize, u32)> {
    let mut steps = Vec::new();
    let (mut left, mut rounds) = (candidates, first_rounds);
    while left > 1 && (left > FINALISTS || steps.is_empty()) {
        steps.push((left, rounds));
        left = left.div_ceil(2).max(FINALISTS.min(left));
        rounds *= 2;
    }
    steps
}

/// The finalists, each two of them joined, and the defaults.
fn joined_runs(candidates: usize, rounds: u32) -> usize {
    match candidates.min(FINALISTS) {
        0 | 1 => 0,
        finalists => (finalists + finalists * (finalists - 1) / 2 + 1) * rounds as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(time: f64, memory: f64) -> Score {
        Score { time, cpu: time, memory, keeps_limits: true }
    }

    /// Other programs made its runs slow.
    #[test]
    fn what_takes_little_cpu_goes_on_whatever_its_time_is() {
        let mut scores = [score(0.9, 0.99), score(1.0, 0.5), score(0.95, 0.98), score(1.3, 1.0)];
        scores[3].cpu = 0.2;
        assert_eq!(front(&scores), [true; 4]);
        assert_eq!(ranked(&scores), [0, 3, 1, 2]);
        let trial = |time_s, cpu_s| Trial { time_s, cpu_s, peak_rss: 1.0, is_peak_of_start: false };
        let of = |cpu_s| Score::of(&[(0, trial(1.0, cpu_s))], &[(0, trial(3.0, 0.5))], true);
        assert_eq!((of(1.0).unwrap().cpu, of(0.0).unwrap().cpu), (0.5, 3.0));
    }

    #[test]
    fn a_candidate_stays_unless_another_is_better_in_all() {
        let scores = [score(1.0, 1.0), score(0.9, 1.5), score(1.2, 0.5), score(1.3, 1.6)];
        assert_eq!(front(&scores), [true, true, true, false]);
        // The ends of the front first, then the middle, then what is dominated.
        assert_eq!(ranked(&scores), [1, 2, 0, 3]);
        let equal = [score(1.0, 1.0), score(1.0, 1.0)];
        assert_eq!(front(&equal), [true, true]);
        assert_eq!(ranked(&equal), [0, 1]);
        assert!(ranked(&[]).is_empty());
    }

    #[test]
    fn what_breaks_a_limit_comes_last() {
        let mut scores = [score(0.5, 0.5), score(1.0, 1.0), score(1.1, 1.1)];
        scores[0].keeps_limits = false;
        assert_eq!(ranked(&scores), [1, 2, 0]);
    }

    #[test]
    fn each_step_has_half_the_candidates_and_twice_the_rounds() {
        assert_eq!(steps(12, 1), [(12, 1), (6, 2)]);
        assert_eq!(steps(10, 2), [(10, 2), (5, 4)]);
        assert_eq!(steps(25, 1), [(25, 1), (13, 2), (7, 4), (4, 8)]);
        assert_eq!(steps(3, 2), [(3, 2)]);
        assert_eq!(steps(1, 2), []);
        assert_eq!(steps(0, 2), []);
    }

    #[test]
    fn the_budget_decides_how_many() {
        let all = schedule(12, 0.1, 600.0, 2.0).unwrap();
        assert_eq!((all.candidates, all.first_rounds), (12, FIRST_ROUNDS));
        assert!(schedule(12, 5.0, 600.0, 2.0).unwrap().candidates <= 12);
        let mut last = usize::MAX;
        for run_s in [0.1, 5.0, 8.0, 12.0, 20.0, 30.0] {
            let Some(fits) = schedule(12, run_s, 600.0, 2.0) else { continue };
            assert!(fits.runs() as f64 * run_s <= 600.0);
            assert!(fits.candidates <= last, "{run_s}");
            last = fits.candidates;
        }
        assert_eq!(schedule(12, 30.0, 600.0, 2.0).unwrap().candidates, 1);
        assert_eq!(schedule(12, 60.0, 600.0, 2.0), None);
    }

    #[test]
    fn scores_are_of_the_rounds_in_which_both_ran() {
        let trial =
            |time_s, peak_rss| Trial { time_s, cpu_s: 1.0, peak_rss, is_peak_of_start: false };
        let defaults = [(0, trial(1.0, 100.0)), (1, trial(2.0, 100.0))];
        let own = [(1, trial(1.0, 50.0)), (2, trial(9.0, 900.0))];
        let score = Score::of(&defaults, &own, true).unwrap();
        assert_eq!((score.time, score.memory), (0.5, 0.5));
        assert_eq!(Score::of(&defaults, &[(7, trial(1.0, 1.0))], true), None);
    }
}
