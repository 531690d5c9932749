// SPDX-License-Identifier: MIT
//! Carries the plan out: every allocator once a round, in random order.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use mallow_measure::rounds::{self, Turn};
use mallow_os::threads;
use mallow_replay::Run;
use mallow_replay::fidelity::Objection;

use super::args::{ReplayArgs, ReplayMode};
use crate::error::{Error, Result};
use crate::output::Notes;
use crate::replaying::{Input, Player};
use mallow_launch::allocator::Allocator;
use mallow_launch::contender::Contender;
use mallow_process::allocators::Family;

const MOST_ROUNDS: u32 = 10;
/// What the blocks of players that run beside each other may take in all.
const LIVE_AT_ONCE: u64 = 1 << 30;
/// Nobody minds waiting this long.
const SHORT: Duration = Duration::from_secs(10);

/// What an allocator did in all rounds.
#[derive(Clone, Debug)]
pub struct Cell {
    pub allocator: Allocator,
    /// With the number of the round.
    pub lockstep: Vec<(u32, Run)>,
    pub free: Vec<(u32, Run)>,
    pub failures: Vec<String>,
}

pub struct Measured {
    pub cells: Vec<Cell>,
    /// Of the allocator that the trace was recorded on, where it is to be had.
    pub reference: std::result::Result<Run, Objection>,
    pub rounds: u32,
    pub seed: u64,
    pub took: Duration,
}

impl Cell {
    fn take_lockstep(&mut self, round: u32, played: std::result::Result<Run, String>) {
        match played {
            Ok(run) => self.lockstep.push((round, run)),
            Err(failure) => self.failures.push(failure),
        }
    }
}

struct Session<'a> {
    args: &'a ReplayArgs,
    player: Player,
    input: &'a Input,
    contenders: Vec<Contender>,
    cells: Vec<Cell>,
    start: Instant,
    budget: Duration,
    /// When the last round began.
    round_begin: Instant,
    bar: ProgressBar,
}

/// A replay is worth its time if it is much shorter than the runs that it stands for.
fn allowance(recorded: Duration, allocators: usize) -> Duration {
    let runs = recorded * u32::try_from(allocators).unwrap_or(u32::MAX);
    (runs / 10).max(runs.min(SHORT))
}

pub fn measure(
    args: &ReplayArgs,
    input: &Input,
    mut player: Player,
    contenders: Vec<Contender>,
    notes: Notes,
) -> Result<Measured> {
    let start = Instant::now();
    let seed = rounds::seed(args.verdict.seed);
    let cell = |contender: &Contender| Cell {
        allocator: contender.allocator.clone(),
        lockstep: Vec::new(),
        free: Vec::new(),
        failures: Vec::new(),
    };
    let cells = contenders.iter().map(cell).collect();
    let most = most_rounds(args);
    let bar = notes.progress(u64::from(most) * contenders.len() as u64);
    let recorded = Duration::from_nanos(input.summary.duration_ns);
    let allowed = allowance(recorded, contenders.len());
    let compiling = Duration::from_secs_f64(input.compile_s);
    player.prepare(&input.summary, &contenders);
    let mut session = Session {
        args,
        player,
        input,
        budget: args.budget.unwrap_or_else(|| allowed.saturating_sub(compiling)),
        contenders,
        cells,
        start,
        round_begin: start,
        bar,
    };
    if args.mode != ReplayMode::Free {
        session.play_first_lockstep()?;
    }
    let cells = session.cells.len();
    let rounds = rounds::carry_out(&mut session, cells, seed)?;
    let reference = session.reference()?;
    session.bar.finish_and_clear();
    Ok(Measured { cells: session.cells, reference, rounds, seed, took: start.elapsed() })
}

/// Lockstep comes out the same each time.
fn most_rounds(args: &ReplayArgs) -> u32 {
    let default = if args.mode == ReplayMode::Lockstep { 1 } else { MOST_ROUNDS };
    args.runs.unwrap_or(default)
}

impl rounds::Session for Session<'_> {
    type Error = Error;

    fn wants(&self, round: u32) -> bool {
        let next = self.round_begin.elapsed();
        let is_over = round > 0 && self.start.elapsed() + next > self.budget;
        round < most_rounds(self.args) && (self.args.runs.is_some() || !is_over)
    }

    fn begin(&mut self, _round: u32) {
        self.round_begin = Instant::now();
    }

    fn take(&mut self, turn: Turn) -> Result<()> {
        self.bar.set_message(self.cells[turn.cell].allocator.name.clone());
        self.play_round(turn.cell, turn.round)?;
        self.bar.inc(1);
        Ok(())
    }
}

impl Session<'_> {
    fn play_round(&mut self, index: usize, round: u32) -> Result<()> {
        // An allocator that could not carry the plan out will not next time.
        if !self.cells[index].failures.is_empty() {
            return Ok(());
        }
        // More than the first are asked for by those who want to see that they are alike.
        if self.args.mode != ReplayMode::Free && round > 0 && self.args.runs.is_some() {
            let played =
                self.player.play(self.input, &self.contenders[index], "lockstep", false)?;
            self.cells[index].take_lockstep(round, played);
        }
        if self.args.mode != ReplayMode::Lockstep && self.cells[index].failures.is_empty() {
            match self.player.play(self.input, &self.contenders[index], "free", false)? {
                Ok(run) => self.cells[index].free.push((round, run)),
                Err(failure) => self.cells[index].failures.push(failure),
            }
        }
        Ok(())
    }

    /// The first run in lockstep of each allocator. It is made for memory, which does not depend on what runs
    /// beside it, so there are several at once.
    fn play_first_lockstep(&mut self) -> Result<()> {
        self.bar.set_message("lockstep");
        let next = AtomicUsize::new(0);
        let play_some = || {
            let mut played = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(contender) = self.contenders.get(index) else { return played };
                played.push((index, self.play_counted(contender)));
            }
        };
        let played: Vec<_> = thread::scope(|scope| {
            // One of them is this thread. Where there are no more, fewer play at once.
            let others: Vec<_> = (1..self.players_at_once())
                .map_while(|_| threads::spawn_scoped(scope, "player", play_some).ok())
                .collect();
            let own = play_some();
            let joined = others.into_iter().map(|player| player.join());
            let others =
                joined.flat_map(|played| played.unwrap_or_else(|panic| resume_unwind(panic)));
            own.into_iter().chain(others).collect()
        });
        for (index, played) in played {
            self.cells[index].take_lockstep(0, played?);
        }
        Ok(())
    }

    fn players_at_once(&self) -> usize {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let fitting = LIVE_AT_ONCE / self.input.summary.peak_live_bytes.max(1);
        usize::try_from(fitting).unwrap_or(usize::MAX).clamp(1, processors)
    }

    /// A run in lockstep with the calls into the kernel counted. An allocator whose threads block all signals dies
    /// of that, and is then played without.
    fn play_counted(&self, contender: &Contender) -> Result<std::result::Result<Run, String>> {
        match self.player.play(self.input, contender, "lockstep", true)? {
            Err(_) => self.player.play(self.input, contender, "lockstep", false),
            run => Ok(run),
        }
    }

    /// A lockstep run on the allocator of the recording: one of those in the comparison, or a run
    /// of its own.
    fn reference(&self) -> Result<std::result::Result<Run, Objection>> {
        let name = self.input.recorded_allocator();
        let is_it = |cell: &&Cell| {
            cell.allocator.name == name
                || matches!(name.as_str(), "libc" | "system")
                    && cell.allocator.family == Family::System
        };
        let replayed = self.cells.iter().find(is_it).and_then(|cell| cell.lockstep.first());
        if let Some((_, run)) = replayed {
            return Ok(Ok(run.clone()));
        }
        self.bar.set_message(name);
        self.player.reference(self.input)
    }
}
