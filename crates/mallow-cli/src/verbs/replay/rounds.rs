//! Carries the plan out: every allocator once a round, in random order.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use mallow_measure::rounds::{self, Turn};
use mallow_os::{ChildSetup, Ending};
use mallow_replay::fidelity::Objection;
use mallow_replay::{Run, Summary};

use super::args::{ReplayArgs, ReplayMode, Touch};
use super::input::Input;
use crate::error::{Error, Result};
use crate::output::Notes;
use mallow_launch::allocator::{self, Allocator};
use mallow_launch::contender::{self, Choice, Contender};
use mallow_launch::embedded::{self, Library};
use mallow_launch::preflight;
use mallow_launch::preload::{self, Changes};
use mallow_launch::target::Target;
use mallow_launch::words;
use mallow_os::signal_name;
use mallow_process::allocators::Family;

const MOST_ROUNDS: u32 = 10;
/// Nobody minds waiting this long.
const SHORT: Duration = Duration::from_secs(10);

static PLAYER: Library = Library {
    name: "player",
    file: "mallow-player",
    hash: mallow_replay::PLAYER_HASH,
    bytes: mallow_replay::PLAYER,
};

/// The player's program file.
pub fn player() -> Result<PathBuf> {
    Ok(embedded::materialise(&PLAYER)?)
}

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

/// Libraries that the recorded program is linked with and an allocator brings along too: the C++
/// runtime, or another allocator. The player loads them each time, so that they count for nobody.
/// None where the program is not on this machine.
fn shared_libraries(summary: &Summary, target: &Target, contenders: &[Contender]) -> Vec<PathBuf> {
    let objects = |target: &Target, changes: &Changes| {
        preflight::list_objects(target, changes).map_or(Vec::new(), |(objects, _)| objects)
    };
    let is_in = |objects: &[PathBuf], path: &Path| {
        objects.iter().any(|one| preflight::same_file(one, path))
    };
    let Ok(program) = Target::resolve(summary.executable.as_ref()) else { return Vec::new() };
    let own = objects(target, &Changes::new());
    let brought: Vec<PathBuf> =
        contenders.iter().flat_map(|contender| objects(target, &contender.changes)).collect();
    let linked = objects(&program, &Changes::new()).into_iter();
    linked
        .filter(|path| is_in(&brought, path) && !is_in(&own, path))
        .filter(|path| !words::has_separator(path.as_os_str()))
        .collect()
}

struct Session<'a> {
    args: &'a ReplayArgs,
    player: &'a Path,
    plan: &'a File,
    no_huge_pages: bool,
    shared: Vec<PathBuf>,
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
    player: &Path,
    target: &Target,
    contenders: Vec<Contender>,
    notes: Notes,
) -> Result<Measured> {
    let start = Instant::now();
    let seed = rounds::seed(args.seed);
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
    let mut session = Session {
        args,
        player,
        plan: &input.plan.file,
        no_huge_pages: input.summary.no_huge_pages,
        shared: shared_libraries(&input.summary, target, &contenders),
        budget: args.budget.unwrap_or_else(|| allowed.saturating_sub(compiling)),
        contenders,
        cells,
        start,
        round_begin: start,
        bar,
    };
    let rounds = rounds::carry_out(&mut session, seed)?;
    let reference = session.reference(input, target)?;
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

    fn cells(&self) -> usize {
        self.cells.len()
    }

    fn wants(&self, round: u32) -> bool {
        // The first round plays each allocator twice, in lockstep and free; the others once.
        let next = self.round_begin.elapsed() / if round == 1 { 2 } else { 1 };
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
        let is_wanted = round == 0 || self.args.runs.is_some();
        if self.args.mode != ReplayMode::Free && is_wanted {
            match self.play_lockstep(&self.contenders[index], round == 0)? {
                Ok(run) => self.cells[index].lockstep.push((round, run)),
                Err(failure) => self.cells[index].failures.push(failure),
            }
        }
        if self.args.mode != ReplayMode::Lockstep && self.cells[index].failures.is_empty() {
            match self.play(&self.contenders[index], "free", false)? {
                Ok(run) => self.cells[index].free.push((round, run)),
                Err(failure) => self.cells[index].failures.push(failure),
            }
        }
        Ok(())
    }

    /// The calls into the kernel are counted in the first round. An allocator whose threads block
    /// all signals dies of that, and is then played without.
    fn play_lockstep(
        &self,
        contender: &Contender,
        count: bool,
    ) -> Result<std::result::Result<Run, String>> {
        match self.play(contender, "lockstep", count)? {
            Err(_) if count => self.play(contender, "lockstep", false),
            run => Ok(run),
        }
    }

    /// A lockstep run on the allocator of the recording: one of those in the comparison, or a run
    /// of its own.
    fn reference(
        &self,
        input: &Input,
        target: &Target,
    ) -> Result<std::result::Result<Run, Objection>> {
        let name = input.recorded_allocator();
        let is_it = |cell: &&Cell| {
            cell.allocator.name == name
                || matches!(name.as_str(), "libc" | "system")
                    && cell.allocator.family == Family::System
        };
        let replayed = self.cells.iter().find(is_it).and_then(|cell| cell.lockstep.first());
        if let Some((_, run)) = replayed {
            return Ok(Ok(run.clone()));
        }
        let named = match &input.header.allocator_path {
            Some(path) if Path::new(path).exists() => format!("{name}={path}"),
            _ => name.clone(),
        };
        let missing = || Objection::NotInstalled { allocator: name.clone() };
        if allocator::find(&named, target.libc()).is_err() {
            return Ok(Err(missing()));
        }
        let choice = Choice {
            allocators: &[named],
            baseline: None,
            secure: false,
            debug: false,
            options: &[],
        };
        let chosen = contender::choose(choice, target, &|_| {});
        let Some(contender) = chosen.ok().and_then(|chosen| chosen.into_iter().next()) else {
            return Ok(Err(missing()));
        };
        self.bar.set_message(name.clone());
        let run = self.play(&contender, "lockstep", false)?;
        Ok(run.map_err(|reason| Objection::Failed { reason }))
    }

    /// One run of the player; how it failed, if it did.
    fn play(
        &self,
        contender: &Contender,
        mode: &str,
        count: bool,
    ) -> Result<std::result::Result<Run, String>> {
        let name = self.player.display().to_string();
        let failed = |error: std::io::Error| Error::NotStarted {
            command: name.clone(),
            reason: error.to_string(),
        };
        let touch = match self.args.touch {
            Touch::Pages => "pages",
            Touch::All => "all",
            Touch::None => "none",
        };
        let mut command = Command::new(self.player);
        command
            .arg(format!("/proc/{}/fd/{}", std::process::id(), self.plan.as_raw_fd()))
            .args([mode, touch])
            .args(count.then_some("count"))
            .args(self.no_huge_pages.then_some("small-pages"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let is_system = contender.allocator.family == Family::System;
        let changes = preload::with_libraries(&contender.changes, is_system, &self.shared);
        mallow_launch::preload::apply(&mut command, &changes);
        let setup = ChildSetup { dies_with_parent: true, ..ChildSetup::default() };
        mallow_os::configure(&mut command, setup).map_err(failed)?;
        let output = command.spawn().and_then(|child| child.wait_with_output()).map_err(failed)?;
        if output.status.success() {
            let run = serde_json::from_slice(&output.stdout);
            return run.map(Ok).map_err(|error| Error::Internal(format!("the player: {error}")));
        }
        let words = String::from_utf8_lossy(&output.stderr);
        let words = words.lines().next().unwrap_or_default().trim();
        Ok(Err(describe_failure(output.status, words)))
    }
}

fn describe_failure(status: std::process::ExitStatus, words: &str) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    let ending = match (status.signal(), status.code()) {
        (Some(signal), _) => Ending::Signal(signal),
        (None, code) => Ending::Code(code.unwrap_or(1)),
    };
    let how = match ending {
        Ending::Signal(signal) => format!("the player was killed by {}", signal_name(signal)),
        Ending::Code(code) => format!("the player ended with exit code {code}"),
    };
    if words.is_empty() { how } else { format!("{how}: {words}") }
}
