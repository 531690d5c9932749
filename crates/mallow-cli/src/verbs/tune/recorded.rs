// SPDX-License-Identifier: MIT
//! The replay instead of the command: of a trace that is given, or of a recording that is made first.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mallow_capture::{StackKind, Stdin, Stdout};
use mallow_launch::contender::Contender;
use mallow_measure::search::halving;
use mallow_replay::Run;
use mallow_replay::fidelity::Fidelity;

use super::args::{SearchOn, TuneArgs};
use crate::error::{Error, Result};
use crate::output::Notes;
use crate::replaying::{Input, Player, Touch, input};
use crate::signals;

/// A replay saves time if it takes no more of it than this part of a run of the command.
const LARGEST_SHARE: f64 = 0.5;
/// So much more than its replay may a command have resident: the rest no setting of malloc changes,
/// but what is found for a small part of a program says little about all of it.
const MOST_BESIDE: f64 = 1.25;
const ALWAYS_BESIDE: f64 = 8.0 * 1024.0 * 1024.0;
/// Of the budget, at the most: recording and searching take the rest.
const CONFIRMATION: f64 = 0.8;

/// A recording, and the player for its program.
pub struct Replayed {
    pub input: Input,
    pub player: Player,
}

pub struct Traces {
    pub player: Player,
    pub first: Option<Replayed>,
    pub second: Option<Replayed>,
    /// The command failed under the defaults when it was recorded.
    pub has_failed: bool,
}

impl Traces {
    pub fn read(args: &TuneArgs, notes: Notes, interrupted: &AtomicBool) -> Result<Traces> {
        if args.search == SearchOn::Replay && args.state.is_some() && args.trace.is_none() {
            return Err(Error::Usage(
                "A recording that is made for one search is gone after it, so --state cannot go on \
                 from there. Keep it: mallow record -o app.trace -- COMMAND, then mallow tune app.trace."
                    .into(),
            ));
        }
        let player = Player::new(Touch::Pages)?;
        let read = |path: &Path| {
            Replayed::read(path, args.process.as_deref(), &player, notes, interrupted)
        };
        let first = args.trace.as_deref().map(read).transpose()?;
        let second = args.second.as_deref().map(read).transpose()?;
        Ok(Traces { player, first, second, has_failed: false })
    }

    /// Records the command, if that makes the search shorter. A run of it takes `run`, and there are
    /// so many settings.
    pub fn record(
        &mut self,
        args: &TuneArgs,
        contender: &Contender,
        (run, settings): (Duration, usize),
        notes: Notes,
        interrupted: &AtomicBool,
    ) -> Result<()> {
        let is_wanted = match args.search {
            SearchOn::Command => false,
            SearchOn::Replay => true,
            SearchOn::Auto => helps(args, run, settings),
        };
        if self.first.is_some() || !is_wanted || interrupted.load(Ordering::Relaxed) {
            return Ok(());
        }
        notes.note("The command is recorded, to search on its replay (--search command does not).");
        let replayed = recorded(args, contender, run, &self.player, notes, interrupted);
        super::go_on(interrupted)?;
        match replayed {
            Ok(replayed) => self.first = Some(replayed),
            Err(error) if args.search == SearchOn::Auto => {
                self.has_failed =
                    matches!(error, Error::Measure(mallow_measure::Error::DefaultsFail { .. }));
                notes.note(&format!("{error} So settings are searched on the command itself."));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Whether the budget leaves out settings, or rounds of them, if all runs are those of the command, but allows them to
/// be confirmed on it. What limits memory has to be searched where all of it is.
fn helps(args: &TuneArgs, run: Duration, settings: usize) -> bool {
    let (run_s, budget_s) = (run.as_secs_f64(), args.budget.as_secs_f64());
    let on_command = halving::schedule(settings, run_s, budget_s, args.verdict.margin);
    let finalists = settings.min(halving::FINALISTS);
    let rounds = halving::fewest_rounds(finalists, args.verdict.margin) as usize;
    let confirmation = ((finalists + 1) * rounds) as f64 * run_s;
    args.state.is_none()
        && args.constraint.is_empty()
        && on_command.is_none_or(|schedule| !schedule.is_whole(settings))
        && confirmation <= budget_s * CONFIRMATION
}

fn recorded(
    args: &TuneArgs,
    contender: &Contender,
    run: Duration,
    player: &Player,
    notes: Notes,
    interrupted: &AtomicBool,
) -> Result<Replayed> {
    let trace = tempfile::Builder::new()
        .prefix("mallow-tune-")
        .tempfile()
        .map_err(Error::io("The trace cannot be written (set TMPDIR to another folder)"))?;
    let request = mallow_capture::Request {
        command: &args.command,
        allocator: args.allocator.as_deref(),
        trace: trace.path(),
        stacks: StackKind::None,
        stack_distance: 0,
        drops: false,
        duration: None,
        stdin: Stdin::EachRun,
        stdout: Stdout::Nowhere,
        variables: &[],
        through: false,
    };
    let record = || mallow_capture::record(&request, &|sentence| notes.note(sentence));
    let captured = signals::ended_by(interrupted, record)?.map_err(Error::of_temporary)?;
    if captured.code() != 0 {
        let how = format!("{} when it was recorded", captured.outcome().describe());
        return Err(super::refuse(how, captured.code()));
    }
    let mut replayed =
        Replayed::read(trace.path(), None, player, Notes { quiet: true }, interrupted)?;
    if replayed.input.processes.len() > 1 {
        return Err(Error::Inconclusive(format!(
            "The command is {} processes, and a replay is of one.",
            replayed.input.processes.len()
        )));
    }
    let begin = Instant::now();
    let replay = replayed.check(std::slice::from_ref(contender), interrupted)?;
    if args.search == SearchOn::Auto {
        stands_for(&replayed.input, &replay, begin.elapsed(), run)?;
    }
    Ok(replayed)
}

/// Whether a search on the replay is shorter, and of most of what the command has in memory.
fn stands_for(input: &Input, replay: &Run, took: Duration, run: Duration) -> Result<()> {
    // A run of a search plays both orders.
    if 2 * took > run.mul_f64(LARGEST_SHARE) {
        return Err(Error::Inconclusive("The replay takes as long as the command.".into()));
    }
    let resident = input.summary.recorded.iter().map(|at| at.anonymous.max(at.peak_rss));
    let resident = resident.max().unwrap_or(0) as f64;
    if resident > replay.peak_rss as f64 * MOST_BESIDE + ALWAYS_BESIDE {
        return Err(Error::Inconclusive(
            "Much of the command's memory is not malloc's, which a replay does not have.".into(),
        ));
    }
    Ok(())
}

impl Replayed {
    fn read(
        path: &Path,
        process: Option<&str>,
        player: &Player,
        notes: Notes,
        interrupted: &AtomicBool,
    ) -> Result<Replayed> {
        let input = input::read(path, process, notes, || super::go_on(interrupted))?;
        match input.damage {
            Some(damage) => Err(Error::Damaged(damage)),
            None => Ok(Replayed { input, player: player.clone() }),
        }
    }

    /// The replay on the allocator of the recording; an error where it is not like its program.
    pub fn check(&mut self, contenders: &[Contender], interrupted: &AtomicBool) -> Result<Run> {
        self.player.prepare(&self.input.summary, contenders);
        let name = self.input.recorded_allocator();
        let played = signals::ended_by(interrupted, || self.player.reference(&self.input))?;
        super::go_on(interrupted)?;
        let reason = match played? {
            Err(reason) => reason,
            Ok(run) => match Fidelity::of(&self.input.summary, &name, Some(&run)).objection() {
                Some(reason) => reason,
                None => return Ok(run),
            },
        };
        Err(Error::Inconclusive(format!(
            "The replay says nothing about the program, because {reason}. {}",
            reason.remedy()
        )))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: TuneArgs,
    }

    #[test]
    fn a_recording_helps_where_the_budget_leaves_settings_out() {
        let helps = |options: &str, run_s: f64| {
            let words = format!("tune {options} -- program");
            let line = Line::try_parse_from(words.split_ascii_whitespace()).unwrap();
            helps(&line.args, Duration::from_secs_f64(run_s), 10)
        };
        // Ten settings take some 120 runs, their confirmation 44 of them.
        assert!(!helps("--budget 10m", 0.1) && helps("--budget 10m", 7.0));
        // What cannot be confirmed need not be searched.
        assert!(!helps("--budget 1m", 7.0));
        assert!(!helps("--budget 10m --state file", 7.0));
        assert!(!helps("--budget 10m --constraint rss<4M", 7.0));
    }
}
