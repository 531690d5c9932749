// SPDX-License-Identifier: MIT
//! The runs of a comparison, and how exact they are so far.

use std::time::Duration;

use mallow_measure::run::{Outcome, Sample};
use mallow_measure::verdict::{self, Judge};

use super::Wish;
use super::plan::{Place, Plan};

#[derive(Clone, Debug)]
pub struct Run {
    pub round: u32,
    /// The place within the round, from 0.
    pub place: u32,
    pub sample: Sample,
}

/// One allocator under one condition.
#[derive(Clone, Debug)]
pub struct Cell {
    pub condition: usize,
    pub contender: usize,
    pub place: Place,
    pub runs: Vec<Run>,
}

#[derive(Clone, Debug)]
pub struct Measured {
    pub cells: Vec<Cell>,
    pub seed: u64,
    pub rounds: u32,
    pub took: Duration,
}

/// Time, CPU and peak memory are judged against the baseline,
const METRICS_JUDGED: usize = 3;
/// and with --timeline average, peak and end of memory over time too.
const LEVELS_JUDGED: usize = 3;

/// All comparisons of the report share the error probability.
pub fn judge(plan: &Plan, wish: &Wish) -> Judge {
    let others = plan.rows().saturating_sub(1);
    let judged = METRICS_JUDGED + if wish.timeline { LEVELS_JUDGED } else { 0 };
    Judge::new(others * plan.tables() * judged, wish.margin)
}

/// Whether every comparison of time is as exact as the margin asks for.
pub fn is_narrow(cells: &[Cell], judge: Judge) -> bool {
    cells.iter().filter(|cell| cell.place.row != 0).all(|cell| {
        let Some(baseline) = baseline_of(cells, cell.place.table) else { return true };
        let comparison = judge.compare(&pairs_of(baseline, cell, |sample| sample.wall_s));
        comparison.is_none_or(|comparison| judge.is_narrow(&comparison))
    })
}

fn baseline_of(cells: &[Cell], table: usize) -> Option<&Cell> {
    cells.iter().find(|cell| cell.place == Place { table, row: 0 })
}

pub fn finished(cell: &Cell) -> impl Iterator<Item = &Run> {
    cell.runs.iter().filter(|run| run.sample.outcome == Outcome::Finished)
}

/// Over the rounds in which both finished.
pub fn pairs_of(baseline: &Cell, other: &Cell, metric: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
    let value = |run: &Run| (run.round, metric(&run.sample));
    verdict::pairs(finished(baseline).map(value), finished(other).map(value))
}
