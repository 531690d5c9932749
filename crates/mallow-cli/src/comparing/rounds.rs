// SPDX-License-Identifier: MIT
//! Runs the plan: a probe that checks every preload, warm-up, then rounds in random order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use mallow_measure::rounds::{self, Turn};
use mallow_measure::verdict::Judge;
use mallow_os::Ending;

use super::Wish;
use super::cells::{self, Cell, Measured, Run};
use super::plan::Plan;
use crate::error::{Error, Result};
use crate::output::{self, Notes};
use mallow_measure::observe;
use mallow_measure::run::{self, Outcome, Sample};
use mallow_measure::service::STOPS_WITHIN;
use mallow_process::binding::Report;
use mallow_stats::figures::counted;

/// Rounds of the adaptive mode: at least, and at most.
const FEWEST_ROUNDS: u32 = 10;
const MOST_ROUNDS: u32 = 200;
/// So many failures of one cell in a row end its runs.
const PATIENCE: usize = 3;
/// When the probe looks at a command that is still running.
const PROBE_AFTER: Duration = Duration::from_millis(500);

pub fn measure(
    plan: &Plan,
    wish: &Wish,
    notes: Notes,
    interrupted: &AtomicBool,
) -> Result<Measured> {
    let seed = rounds::seed(wish.seed);
    let mut session = Session::new(plan, wish, notes, interrupted);
    session.announce_too_few();
    let endings = session.probe()?;
    session.refuse_hopeless(&endings)?;
    session.warm_up()?;
    mallow_os::trim_heap();
    session.expect_rounds();
    let cells = session.cells.len();
    let rounds = rounds::carry_out(&mut session, cells, seed)?;
    session.bar.finish_and_clear();
    let took = session.start.elapsed();
    Ok(Measured { cells: session.cells, seed, rounds, took })
}

/// Runs the command once under each allocator, and says how it ended. Fails where a preload takes no
/// effect.
pub fn probe(
    plan: &Plan,
    wish: &Wish,
    notes: Notes,
    interrupted: &AtomicBool,
) -> Result<Vec<Outcome>> {
    let mut session = Session::new(plan, wish, notes, interrupted);
    let endings = session.probe()?;
    session.bar.finish_and_clear();
    Ok(endings)
}

fn empty(plan: &Plan) -> Vec<Cell> {
    let mut cells = Vec::new();
    for condition in 0..plan.conditions.len() {
        for contender in 0..plan.contenders.len() {
            let place = plan.place(condition, contender);
            cells.push(Cell { condition, contender, place, runs: Vec::new() });
        }
    }
    cells
}

struct Session<'a> {
    plan: &'a Plan,
    wish: &'a Wish,
    notes: Notes,
    interrupted: &'a AtomicBool,
    limits: run::Limits,
    judge: Judge,
    start: Instant,
    cells: Vec<Cell>,
    bar: ProgressBar,
}

impl<'a> Session<'a> {
    fn new(
        plan: &'a Plan,
        wish: &'a Wish,
        notes: Notes,
        interrupted: &'a AtomicBool,
    ) -> Session<'a> {
        Session {
            plan,
            wish,
            notes,
            interrupted,
            limits: run::Limits {
                timeout: wish.timeout,
                begin: wish.timeout,
                memory: wish.mem_limit,
                cpu_count: None,
            },
            judge: cells::judge(plan, wish),
            start: Instant::now(),
            cells: empty(plan),
            bar: notes.progress(0),
        }
    }

    fn stopped(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// What comes before each run. False: it was interrupted.
    fn prepare(&self) -> Result<bool> {
        self.plan.run_shell("prepare", self.wish.prepare.as_deref(), self.interrupted)
    }

    /// Runs the command once under each allocator and looks at who serves malloc in it.
    fn probe(&mut self) -> Result<Vec<Outcome>> {
        let count = self.plan.contenders.len();
        self.bar.set_length(count as u64);
        let mut endings = Vec::new();
        for index in 0..count {
            if self.stopped() {
                return Ok(endings);
            }
            let name = self.plan.contenders[index].allocator.name.clone();
            self.bar.set_message(format!("checking {name}"));
            if !self.prepare()? {
                return Ok(endings);
            }
            endings.push(self.probe_one(index)?);
            self.bar.inc(1);
        }
        Ok(endings)
    }

    fn probe_one(&self, index: usize) -> Result<Outcome> {
        let contender = &self.plan.contenders[index];
        let condition = &self.plan.conditions[0];
        let command = self.plan.command(condition, contender);
        // A server runs until it is stopped, so it is stopped after the look.
        let (kill_after, grace) = match self.plan.service {
            Some(_) => (Some(PROBE_AFTER * 2 + STOPS_WITHIN), STOPS_WITHIN),
            None => (self.wish.timeout, Duration::ZERO),
        };
        let look_after = kill_after.map_or(PROBE_AFTER, |limit| PROBE_AFTER.min(limit / 2));
        let memory = self.limits.memory;
        let limits = observe::Limits { look_after, kill_after, grace, memory };
        let observed = observe::observe(command, condition.cpu_count, limits, self.interrupted)?;
        match &contender.allocator.path {
            Some(path) => self.check_effect(&contender.allocator.name, path, &observed)?,
            None => self.note_linked_allocator(&contender.allocator.name, &observed),
        }
        Ok(match observed.ending {
            None if observed.cut == Some(Outcome::OverMemory) => Outcome::OverMemory,
            _ if self.plan.service.is_some() => Outcome::Finished,
            None if observed.cut == Some(Outcome::TimedOut) => Outcome::TimedOut,
            None => Outcome::Finished,
            Some(Ending::Code(_)) if self.wish.ignore_failure => Outcome::Finished,
            Some(ending) => ending.into(),
        })
    }

    /// A program may be linked with an allocator; then that is what it runs on without a preload.
    fn note_linked_allocator(&self, name: &str, observed: &observe::Observed) {
        let main = observed.processes.first().and_then(|process| process.outcome.as_ref().ok());
        let served_by = main.map(Report::summary).unwrap_or_default();
        if matches!(main, Some(Report::Dynamic { .. }))
            && served_by != "none"
            && !mallow_process::allocators::is_system_name(&served_by)
        {
            self.notes.note(&format!(
                "Without a preload {} is served by {served_by}, which it is linked with: the row \
                 {name} shows that.",
                self.plan.target.command
            ));
        }
    }

    fn check_effect(
        &self,
        name: &str,
        library: &std::path::Path,
        observed: &observe::Observed,
    ) -> Result<()> {
        let real = |path: &std::path::Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let expected = real(library);
        let served = |report: &Report| match report {
            Report::Dynamic { main, .. } => {
                let malloc = main.bindings.get("malloc");
                malloc.is_some_and(|binding| binding.is_of(|path| real(path) == expected))
            }
            _ => false,
        };
        if observed.processes.is_empty() && !self.stopped() {
            self.notes.note(&format!(
                "The command ended before it could be looked at, so only the loader's own list \
                 shows that {name} is preloaded. Allow ptrace to see more (in a container: \
                 --cap-add SYS_PTRACE)."
            ));
        }
        let mut others = 0;
        for process in &observed.processes {
            match &process.outcome {
                Ok(report) if served(report) => {}
                Ok(report) if process.is_main => {
                    let why = if has_its_own(report) {
                        "That program has its own malloc linked in, which comes before every preloaded \
                         one. Use a build without it."
                    } else {
                        "Check whether the command changes LD_PRELOAD or starts a static or setuid \
                         program."
                    };
                    return Err(Error::Unsupported(format!(
                        "The preload of {name} took no effect: in {} (process {}) malloc is served \
                         by {}. {why}",
                        self.plan.target.command,
                        process.pid,
                        report.summary()
                    )));
                }
                Ok(_) => others += 1,
                Err(_) => {}
            }
        }
        if others > 0 {
            let all = observed.processes.iter().filter(|process| !process.is_main).count() as u64;
            self.notes.note(&format!(
                "Not served by {name}: {others} of {} of the command; see: mallow verify -a {name} \
                 -- COMMAND.",
                counted(all, "child process")
            ));
        }
        Ok(())
    }

    /// A command that fails under every allocator has nothing to compare.
    fn refuse_hopeless(&self, endings: &[Outcome]) -> Result<()> {
        let Some(first) = endings.first().copied() else { return Ok(()) };
        if endings.contains(&Outcome::Finished) || self.stopped() {
            return Ok(());
        }
        let remedy = match first {
            Outcome::TimedOut => "Raise --timeout.",
            Outcome::OverMemory => "Raise --mem-limit.",
            Outcome::Failed { .. } => "Run it alone to see why, or use --ignore-failure.",
            _ => "Run it alone to see why.",
        };
        Err(Error::Child {
            message: format!(
                "Under every allocator the command {} {}, so there is nothing to compare. {remedy}",
                self.plan.target.command,
                first.describe()
            ),
            code: first.code(),
        })
    }

    /// The probe was the first warm-up run of the first condition's cells.
    fn warm_up(&mut self) -> Result<()> {
        self.bar.set_position(0);
        self.bar.set_length(u64::from(self.wish.warmup) * self.cells.len() as u64);
        for repetition in 0..self.wish.warmup {
            for index in 0..self.cells.len() {
                let probed = repetition == 0 && self.cells[index].condition == 0;
                if !probed && !self.stopped() {
                    self.run_cell(index)?;
                }
                self.bar.inc(1);
            }
        }
        Ok(())
    }

    fn expect_rounds(&self) {
        self.bar.set_position(0);
        self.bar.set_length(u64::from(self.expected()) * self.cells.len() as u64);
    }

    fn expected(&self) -> u32 {
        self.wish.runs.unwrap_or(FEWEST_ROUNDS)
    }

    fn run_cell(&self, index: usize) -> Result<Sample> {
        let cell = &self.cells[index];
        let condition = &self.plan.conditions[cell.condition];
        let contender = &self.plan.contenders[cell.contender];
        self.bar.set_message(format!("{} {}", contender.allocator.name, condition.name));
        if !self.prepare()? {
            return Ok(Sample::cut(Outcome::Interrupted));
        }
        let limits = run::Limits { cpu_count: condition.cpu_count, ..self.limits };
        let values = &self.wish.values;
        let mut sample = self.plan.run(condition, contender, limits, values, self.interrupted)?;
        if self.wish.ignore_failure && matches!(sample.outcome, Outcome::Failed { .. }) {
            sample.outcome = Outcome::Finished;
        }
        Ok(sample)
    }

    fn enough(&self, rounds: u32, elapsed: Duration) -> bool {
        if let Some(runs) = self.wish.runs {
            return rounds >= runs;
        }
        let fewest = FEWEST_ROUNDS.max(self.judge.fewest_rounds());
        if rounds < fewest && rounds < MOST_ROUNDS {
            return self.cells.iter().all(given_up);
        }
        rounds >= MOST_ROUNDS
            || elapsed >= self.wish.budget
            || cells::is_narrow(&self.cells, self.judge)
    }

    /// Fewer runs than a verdict takes may be what is wanted, but not without knowing it.
    fn announce_too_few(&self) {
        let needed = self.judge.fewest_rounds();
        if let Some(runs) = self.wish.runs
            && runs < needed
            && self.plan.rows() > 1
        {
            self.notes.note(&format!(
                "There will be no verdict: it needs at least {needed} runs of each, and --runs says \
                 {runs}."
            ));
        }
    }

    /// A long measurement is announced; it can be cut short without losing what is done.
    fn announce_length(&self, so_far: Duration) {
        let warm_ups = self.wish.warmup.max(1);
        let per_round = so_far / (warm_ups + 1);
        let rounds = self.expected();
        let expected = per_round * rounds;
        if expected > self.wish.budget.max(Duration::from_secs(60)) {
            self.notes.note(&format!(
                "{rounds} runs of each will take about {}. Ctrl-C ends it and reports the finished \
                 runs; --runs makes fewer.",
                output::duration(expected)
            ));
        }
    }
}

impl rounds::Session for Session<'_> {
    type Error = Error;

    fn wants(&self, round: u32) -> bool {
        !self.stopped() && !self.enough(round, self.start.elapsed())
    }

    fn begin(&mut self, round: u32) {
        if round == 1 {
            self.announce_length(self.start.elapsed());
        }
        if round >= self.expected() {
            self.bar.inc_length(self.cells.len() as u64);
        }
    }

    fn take(&mut self, turn: Turn) -> Result<()> {
        if !self.stopped() && !given_up(&self.cells[turn.cell]) {
            let sample = self.run_cell(turn.cell)?;
            if sample.outcome != Outcome::Interrupted {
                let Turn { round, place, cell } = turn;
                self.cells[cell].runs.push(Run { round, place, sample });
            }
        }
        self.bar.inc(1);
        Ok(())
    }
}

/// Whether malloc of the main program is in its own file.
fn has_its_own(report: &Report) -> bool {
    let Report::Dynamic { main, .. } = report else { return false };
    main.bindings.get("malloc").is_some_and(|binding| binding.path == main.path)
}

fn given_up(cell: &Cell) -> bool {
    let last = cell.runs.iter().rev().take(PATIENCE);
    let failed = last.filter(|run| run.sample.outcome != Outcome::Finished).count();
    failed == PATIENCE
}
