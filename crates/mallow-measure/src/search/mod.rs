// SPDX-License-Identifier: MIT
//! A search for the settings that suit a program: the first run, the steps, the best joined, the
//! confirmation. `halving` chooses, `trial` is one run, `state` all that were made, `limit` what has to
//! hold. What is in the state is not run again: all that is decided follows from the runs and the
//! seed, so that a search that goes on decides the same again.
//!
//! Runs are made by a `Bench`, the state is written by `keep`, and `Progress` is told of it: nothing here
//! reads or writes a file.

pub mod halving;
pub mod limit;
pub mod state;
pub mod trial;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mallow_launch::settings::Candidate;

use self::halving::{FINALISTS, JUDGED, Schedule, Score};
use self::limit::Constraint;
use self::state::State;
use self::trial::{DEFAULTS, Failure, Index, Outcome, Place, Stage, Trial};
use crate::Error;
use crate::rounds::{self, Turn};
use crate::verdict::{self, Judge};

/// Rounds of a confirmation whose number is not given: at least, and at most.
const ROUNDS: (u32, u32) = (10, 30);
/// A run that takes so many times what the defaults take is given up.
const PATIENCE: f64 = 10.0;
/// But not before this.
const SHORTEST_LIMIT: Duration = Duration::from_secs(10);

/// A first run that leaves no time to prove anything is made again only if the budget has time for so many.
const SECOND_RUN: f64 = 10.0;

/// Where settings are tried.
pub trait Bench {
    /// Why a run could not even be begun; it ends the search.
    type Error: From<Error>;

    /// `None`: interrupted.
    fn run(
        &mut self,
        index: Index,
        candidate: Option<&Candidate>,
    ) -> Result<Option<Outcome>, Self::Error>;

    /// A run that takes longer is given up.
    fn set_timeout(&mut self, _timeout: Duration) {}
}

/// Who is told how a search goes on.
pub trait Progress {
    /// So many candidates are left out for want of time; `first` is what the defaults took.
    fn begins(&self, schedule: Schedule, left_out: usize, first: Trial);

    /// A run begins, of the defaults where there is no candidate; one takes about so long.
    fn runs(&self, candidate: Option<&Candidate>, run_time: Duration);

    fn has_run(&self);
}

/// Whether there is anything to search.
pub enum Begun {
    Searching(Schedule),
    /// It was interrupted.
    Stopped,
    /// The budget is too short to prove anything: so many runs are needed at least, each of this long.
    TooShort {
        fewest_runs: u32,
        run_s: f64,
    },
}

/// What the user wants, as far as the search depends on it.
#[derive(Clone, Copy)]
pub struct Aim<'a> {
    pub constraints: &'a [Constraint],
    pub budget: Duration,
    pub runs: Option<u32>,
    pub margin: f64,
}

pub struct Search<'a, E> {
    pub aim: Aim<'a>,
    /// Without the defaults, which are number 0.
    pub candidates: Vec<Candidate>,
    pub state: State,
    /// Writes the state after each round, so that at most one is lost.
    pub keep: &'a dyn Fn(&State) -> Result<(), E>,
    pub interrupted: &'a AtomicBool,
    pub progress: &'a dyn Progress,
    pub start: Instant,
    /// The runs of this call, and what they took.
    pub runs: (u32, Duration),
    /// What the calls before took.
    pub before: Duration,
}

/// Of what was ended by SIGKILL, as for taking too long: that is not tried again.
const KILLED: u8 = 137;

impl<'a, E> Search<'a, E> {
    /// Goes on where the state is.
    pub fn new(
        aim: Aim<'a>,
        candidates: Vec<Candidate>,
        state: State,
        keep: &'a dyn Fn(&State) -> Result<(), E>,
        interrupted: &'a AtomicBool,
        progress: &'a dyn Progress,
        start: Instant,
    ) -> Search<'a, E> {
        let (runs, before) = ((0, Duration::ZERO), Duration::from_secs_f64(state.took_s));
        Search { aim, candidates, state, keep, interrupted, progress, start, runs, before }
    }
}

impl<E: From<Error>> Search<'_, E> {
    pub fn candidate(&self, index: Index) -> Option<&Candidate> {
        index.checked_sub(1).and_then(|index| self.candidates.get(index))
    }

    pub fn stopped(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    pub fn elapsed(&self) -> Duration {
        self.before + self.start.elapsed()
    }

    /// The runs of a candidate that finished, with their rounds.
    pub fn trials(&self, stage: Stage, candidate: Index) -> Vec<(u32, Trial)> {
        let all = self.state.trials.iter();
        let own = all.filter(|(place, _)| place.stage == stage && place.candidate == candidate);
        own.filter_map(|(place, outcome)| Some((place.round, *outcome.as_ref().ok()?))).collect()
    }

    pub fn failure(&self, candidate: Index) -> Option<&Failure> {
        let own = self.state.trials.iter().filter(|(place, _)| place.candidate == candidate);
        own.filter_map(|(_, outcome)| outcome.as_ref().err()).next()
    }

    /// The defaults.
    fn has_worked(&self) -> bool {
        self.state.trials.keys().any(|place| place.candidate == DEFAULTS)
    }

    /// Runs the defaults, and says how many candidates there is time for. Where something would be left out
    /// after one run, there is a second: one alone may have been held up.
    pub fn begin(&mut self, bench: &mut dyn Bench<Error = E>) -> Result<Begun, E> {
        bench.set_timeout(self.aim.budget);
        self.stage(bench, Stage::First, &[DEFAULTS], |search, round| match round {
            0 => true,
            1 => search.state.schedule.is_none() && search.is_worth_a_second_run(),
            _ => false,
        })?;
        let runs = self.trials(Stage::First, DEFAULTS);
        let by_time = |a: &Trial, b: &Trial| a.time_s.total_cmp(&b.time_s);
        let Some(first) = runs.iter().map(|(_, trial)| *trial).min_by(by_time) else {
            return Ok(Begun::Stopped);
        };
        let slowest = runs.iter().map(|(_, trial)| trial.time_s).fold(0.0, f64::max);
        bench.set_timeout(Duration::from_secs_f64(slowest * PATIENCE).max(SHORTEST_LIMIT));
        let schedule = match self.state.schedule {
            Some((candidates, first_rounds, fewest_rounds)) => {
                Schedule { candidates, first_rounds, fewest_rounds }
            }
            None => match self.schedule() {
                Ok(schedule) => schedule,
                Err(too_short) => return Ok(too_short),
            },
        };
        let Schedule { candidates, first_rounds, fewest_rounds } = schedule;
        self.state.schedule = Some((candidates, first_rounds, fewest_rounds));
        self.progress.begins(schedule, self.candidates.len() - candidates, first);
        Ok(Begun::Searching(schedule))
    }

    /// Settings or rounds of them would be left out; or all, and the run takes little of the budget.
    fn is_worth_a_second_run(&self) -> bool {
        let (all, budget) = (self.candidates.len(), self.aim.budget.as_secs_f64());
        match self.schedule() {
            Ok(schedule) => !schedule.is_whole(all),
            Err(Begun::TooShort { run_s, .. }) => run_s * SECOND_RUN <= budget,
            Err(_) => false,
        }
    }

    /// By the quickest of the first runs, with what is done beside each, and a little to start it.
    fn schedule(&self) -> Result<Schedule, Begun> {
        let times = || {
            let runs = self.trials(Stage::First, DEFAULTS).into_iter();
            runs.map(|(_, trial)| trial.time_s)
        };
        let mean = times().sum::<f64>() / times().count().max(1) as f64;
        let beside = (self.run_time().as_secs_f64() - mean).max(0.0);
        let run_s = times().reduce(f64::min).unwrap_or_default() + beside + 0.005;
        let budget = self.aim.budget.as_secs_f64();
        let all = self.candidates.len();
        halving::schedule(all, run_s, budget, self.aim.margin).ok_or_else(|| {
            let fewest_runs = 2 + 2 * halving::fewest_rounds(1, self.aim.margin);
            Begun::TooShort { fewest_runs, run_s }
        })
    }

    /// The best candidates, found by successive halving. Fewer where too little time is left.
    pub fn halve(
        &mut self,
        bench: &mut dyn Bench<Error = E>,
        schedule: Schedule,
    ) -> Result<Vec<Index>, E> {
        let mut left: Vec<Index> = (1..=schedule.candidates).collect();
        let mut last = None;
        let reserve = schedule.confirmation_runs();
        for (number, (_, rounds)) in
            halving::steps(schedule.candidates, schedule.first_rounds).into_iter().enumerate()
        {
            let stage = Stage::Step(number as u32);
            self.search_stage(bench, stage, &left, rounds, reserve)?;
            left = self.best(stage, &left, left.len().div_ceil(2).max(FINALISTS));
            last = Some(rounds);
        }
        if let Some(rounds) = last.filter(|_| left.len() > 1) {
            let joined = self.join(&left);
            left.extend(joined);
            self.search_stage(bench, Stage::Joined, &left, rounds, reserve)?;
            left = self.best(Stage::Joined, &left, FINALISTS);
        }
        Ok(left)
    }

    fn search_stage(
        &mut self,
        bench: &mut dyn Bench<Error = E>,
        stage: Stage,
        candidates: &[Index],
        rounds: u32,
        reserve: usize,
    ) -> Result<(), E> {
        let cells: Vec<Index> = [DEFAULTS].into_iter().chain(candidates.iter().copied()).collect();
        let budget = self.aim.budget;
        self.stage(bench, stage, &cells, |search, round| {
            // What the confirmation needs is not spent here.
            let run = search.run_time();
            let needed = run * u32::try_from(reserve + cells.len()).unwrap_or(u32::MAX);
            round < rounds && search.elapsed() + needed <= budget
        })
    }

    /// What a run has taken so far.
    fn run_time(&self) -> Duration {
        if self.runs.0 > 0 {
            return self.runs.1 / self.runs.0;
        }
        let runs = u32::try_from(self.state.trials.len().max(1)).unwrap_or(u32::MAX);
        self.elapsed() / runs
    }

    /// Those without a run at this stage keep their places behind the others.
    fn best(&self, stage: Stage, candidates: &[Index], most: usize) -> Vec<Index> {
        let defaults = self.trials(stage, DEFAULTS);
        let works = |index: &Index| self.failure(*index).is_none();
        let alive: Vec<Index> = candidates.iter().copied().filter(works).collect();
        let score = |index: Index| {
            let own = self.trials(stage, index);
            let trials: Vec<&Trial> = own.iter().map(|(_, trial)| trial).collect();
            let keeps = self.aim.constraints.iter().all(|limit| limit.holds(&trials));
            Some((index, Score::of(&defaults, &own, keeps)?))
        };
        let scored: Vec<(Index, Score)> = alive.iter().copied().filter_map(score).collect();
        let scores: Vec<Score> = scored.iter().map(|(_, score)| *score).collect();
        let mut order: Vec<Index> =
            halving::ranked(&scores).into_iter().map(|place| scored[place].0).collect();
        let rest: Vec<Index> = alive.into_iter().filter(|index| !order.contains(index)).collect();
        order.extend(rest);
        order.truncate(most);
        order
    }

    /// Each two of them that do not contradict each other, as candidates of their own.
    fn join(&mut self, found: &[Index]) -> Vec<Index> {
        let mut joined = Vec::new();
        for (place, first) in found.iter().enumerate() {
            for second in &found[place + 1..] {
                let both = self.candidate(*first).zip(self.candidate(*second));
                joined.extend(both.and_then(|(first, second)| first.with(second)));
            }
        }
        let begin = self.candidates.len() + 1;
        self.candidates.extend(joined);
        (begin..=self.candidates.len()).collect()
    }

    /// Fresh runs of the defaults and what was found, until they say enough.
    pub fn confirm(
        &mut self,
        bench: &mut dyn Bench<Error = E>,
        stage: Stage,
        finalists: &[Index],
    ) -> Result<(), E> {
        let cells: Vec<Index> = [DEFAULTS].into_iter().chain(finalists.iter().copied()).collect();
        let judge = self.judge(finalists.len());
        let Aim { budget, runs, .. } = self.aim;
        let others = finalists.to_vec();
        self.stage(bench, stage, &cells, |search, round| {
            let next = search.run_time() * u32::try_from(cells.len()).unwrap_or(u32::MAX);
            let has_time = search.elapsed() + next <= budget;
            match runs {
                Some(runs) => round < runs,
                None if round < judge.fewest_rounds().max(ROUNDS.0) => has_time,
                None => {
                    let is_narrow = search.is_narrow(stage, judge, &others);
                    round < ROUNDS.1 && has_time && !is_narrow
                }
            }
        })
    }

    /// All claims of the report share the error probability.
    pub fn judge(&self, finalists: usize) -> Judge {
        Judge::new(JUDGED * finalists, self.aim.margin)
    }

    fn is_narrow(&self, stage: Stage, judge: Judge, others: &[Index]) -> bool {
        let figures: [fn(&Trial) -> f64; 2] = [|trial| trial.time_s, |trial| trial.peak_rss];
        others.iter().all(|index| {
            figures.iter().all(|figure| {
                let compared = judge.compare(&self.pairs(stage, *index, *figure));
                compared.is_none_or(|comparison| judge.is_narrow(&comparison))
            })
        })
    }

    /// The defaults beside the candidate, of the rounds in which both finished.
    pub fn pairs(
        &self,
        stage: Stage,
        candidate: Index,
        figure: fn(&Trial) -> f64,
    ) -> Vec<(f64, f64)> {
        let values = |index| {
            self.trials(stage, index).into_iter().map(move |(round, trial)| (round, figure(&trial)))
        };
        verdict::pairs(values(DEFAULTS), values(candidate))
    }

    /// Rounds that the defaults finished.
    pub fn rounds(&self, stage: Stage) -> u32 {
        self.trials(stage, DEFAULTS).len() as u32
    }

    fn stage(
        &mut self,
        bench: &mut dyn Bench<Error = E>,
        stage: Stage,
        cells: &[Index],
        wants: impl Fn(&Search<E>, u32) -> bool,
    ) -> Result<(), E> {
        // Each stage has orders of its own.
        let seed = self.state.seed ^ (u64::from(order(stage)) << 32);
        let known = self.state.trials.keys();
        let own = known.clone().filter(|place| place.stage == stage);
        let loaded = own.map(|place| place.round).collect();
        let is_over = known.last().is_some_and(|place| place.stage > stage);
        let round = BTreeSet::new();
        let mut running =
            Running { search: self, bench, stage, cells, wants, loaded, is_over, round };
        rounds::carry_out(&mut running, cells.len(), seed)?;
        running.end_round()
    }

    fn save(&mut self) -> Result<(), E> {
        self.state.took_s = self.elapsed().as_secs_f64();
        (self.keep)(&self.state)
    }
}

/// Stages in their order.
fn order(stage: Stage) -> u32 {
    match stage {
        Stage::First => 0,
        Stage::Step(number) => 1 + number,
        Stage::Joined => 1000,
        Stage::Confirmation => 1001,
        Stage::Second => 1002,
    }
}

struct Running<'s, 'a, W, E> {
    search: &'s mut Search<'a, E>,
    bench: &'s mut dyn Bench<Error = E>,
    stage: Stage,
    cells: &'s [Index],
    wants: W,
    /// Rounds that the state had already.
    loaded: BTreeSet<u32>,
    /// Whether a later stage has begun: then this one gets no more rounds.
    is_over: bool,
    /// The runs of the round that is going on.
    round: BTreeSet<Place>,
}

impl<E: From<Error>, W: Fn(&Search<E>, u32) -> bool> Running<'_, '_, W, E> {
    /// Of a round that was cut short nothing is kept: its runs have nothing to stand beside.
    fn end_round(&mut self) -> Result<(), E> {
        let added = std::mem::take(&mut self.round);
        if added.is_empty() {
            return Ok(());
        }
        if self.search.stopped() {
            self.search.state.trials.retain(|place, _| !added.contains(place));
        }
        self.search.save()
    }
}

impl<E: From<Error>, W: Fn(&Search<E>, u32) -> bool> rounds::Session for Running<'_, '_, W, E> {
    type Error = E;

    fn wants(&self, round: u32) -> bool {
        let is_new = !self.is_over && !self.search.stopped();
        self.loaded.contains(&round) || is_new && (self.wants)(self.search, round)
    }

    fn take(&mut self, turn: Turn) -> Result<(), E> {
        if self.loaded.contains(&turn.round) {
            return Ok(());
        }
        if turn.place == 0 {
            self.end_round()?;
        }
        let candidate = self.cells[turn.cell];
        let place = Place { stage: self.stage, round: turn.round, candidate };
        if self.search.stopped() || self.search.failure(candidate).is_some() {
            return Ok(());
        }
        let search = &mut *self.search;
        search.progress.runs(search.candidate(candidate), search.run_time());
        let begin = Instant::now();
        let mut outcome = self.bench.run(candidate, search.candidate(candidate))?;
        // One failure may be the machine's or the command's own: settings are left out for two in a row, and so are
        // the defaults, once they have worked, the end of all.
        let may_be_chance = match (&outcome, candidate) {
            (Some(Err(_)), DEFAULTS) => search.has_worked(),
            (Some(Err(failure)), _) => failure.code != KILLED,
            _ => false,
        };
        if may_be_chance && !search.stopped() {
            search.state.defaults_failed |= candidate == DEFAULTS;
            outcome = self.bench.run(candidate, search.candidate(candidate))?;
        }
        search.runs = (search.runs.0 + 1, search.runs.1 + begin.elapsed());
        search.progress.has_run();
        let Some(outcome) = outcome else { return Ok(()) };
        if let (Err(failure), DEFAULTS) = (&outcome, candidate) {
            let Failure { text, code } = failure.clone();
            return Err(Error::DefaultsFail { how: text, code }.into());
        }
        self.search.state.trials.insert(place, outcome);
        self.round.insert(place);
        Ok(())
    }
}
