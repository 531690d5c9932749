// SPDX-License-Identifier: MIT
//! A search as its user sees it while it runs.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use mallow_launch::settings::Candidate;
use mallow_measure::search::Progress;
use mallow_measure::search::halving::Schedule;
use mallow_measure::search::trial::Trial;
use mallow_stats::figures::counted;

use crate::output::{self, Notes};

pub struct Bar {
    notes: Notes,
    bar: ProgressBar,
    /// The first run follows.
    since: Instant,
    has_prepare: bool,
}

impl Bar {
    pub fn new(notes: Notes, has_prepare: bool) -> Bar {
        Bar { notes, bar: notes.progress(0), since: Instant::now(), has_prepare }
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn begins(&self, schedule: Schedule, left_out: usize, first: Trial) {
        let all = match left_out {
            0 => String::new(),
            count => format!(" ({count} more are left out for want of time; see --budget)"),
        };
        // With what came before it; of a search that goes on the first run is not made again.
        let run_s = self.since.elapsed().as_secs_f64().max(first.time_s);
        self.notes.note(&format!(
            "{} to try{all}, {} runs at least of about {} each{}: {}.",
            counted(schedule.candidates as u64, "setting"),
            schedule.runs(),
            output::seconds(run_s),
            included(self.has_prepare),
            output::seconds(schedule.runs() as f64 * run_s)
        ));
        self.bar.set_length(schedule.runs() as u64);
    }

    fn runs(&self, candidate: Option<&Candidate>, run_time: Duration) {
        let name = candidate.map_or("the defaults".into(), Candidate::name);
        let left = self.bar.length().unwrap_or(0).saturating_sub(self.bar.position());
        let left = run_time * u32::try_from(left).unwrap_or(u32::MAX);
        self.bar.set_message(format!("{name}, about {} left", output::duration(left)));
    }

    fn has_run(&self) {
        self.bar.inc(1);
    }
}

/// What the time of a run has in it.
pub fn included(has_prepare: bool) -> &'static str {
    if has_prepare { ", --prepare included" } else { "" }
}
