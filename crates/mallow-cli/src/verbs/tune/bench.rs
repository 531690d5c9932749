// SPDX-License-Identifier: MIT
//! Where settings are tried: the real command, or the replay of a recording.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mallow_launch::Allocator;
use mallow_launch::contender::Contender;
use mallow_launch::preload::{self, Changes};
use mallow_launch::settings::Candidate;
use mallow_measure::run::{Limits, Outcome as Ended};
use mallow_measure::search::Bench;
use mallow_measure::search::trial::{Failure, Index, Outcome, Trial};

use crate::comparing::Plan;
use crate::error::{Error, Result};
use crate::replaying::{Input, Player};
use crate::signals;

/// The allocator with what the user has set already.
#[derive(Clone, Debug)]
pub struct Base {
    pub allocator: Allocator,
    /// `--opt`.
    pub options: Vec<(String, String)>,
}

impl Base {
    /// The environment under a candidate's settings. They come after those that were given, and
    /// replace of them what they set anew.
    pub fn changes(&self, candidate: Option<&Candidate>) -> Result<Changes> {
        let own = candidate.map_or(&[][..], |candidate| &candidate.options);
        let is_replaced = |key: &String| own.iter().any(|(other, _)| other == key);
        let kept = self.options.iter().filter(|(key, _)| !is_replaced(key));
        let options: Vec<(String, String)> = kept.chain(own).cloned().collect();
        Ok(preload::changes(&self.allocator, &options)?)
    }

    /// The variables that hold the settings, without the preload.
    pub fn variables(&self, candidate: Option<&Candidate>) -> Result<BTreeMap<String, String>> {
        let is_setting = |(name, value): (String, Option<OsString>)| {
            let value = value?.to_string_lossy().into_owned();
            (name != "LD_PRELOAD").then_some((name, value))
        };
        Ok(self.changes(candidate)?.into_iter().filter_map(is_setting).collect())
    }

    fn contender(&self, candidate: Option<&Candidate>) -> Result<Contender> {
        let changes = self.changes(candidate)?;
        Ok(Contender { allocator: self.allocator.clone(), changes })
    }
}

pub struct OnCommand<'a> {
    pub base: &'a Base,
    pub plan: &'a Plan,
    pub prepare: Option<&'a str>,
    pub timeout: Option<Duration>,
    pub interrupted: &'a AtomicBool,
}

impl Bench for OnCommand<'_> {
    type Error = Error;

    fn run(&mut self, _: Index, candidate: Option<&Candidate>) -> Result<Option<Outcome>> {
        if !self.plan.run_shell("prepare", self.prepare, self.interrupted)? {
            return Ok(None);
        }
        let contender = self.base.contender(candidate)?;
        let limits = Limits { timeout: self.timeout, ..Limits::default() };
        let condition = &self.plan.conditions[0];
        let sample = self.plan.run(condition, &contender, limits, &[], self.interrupted)?;
        Ok(match sample.outcome {
            Ended::Interrupted => None,
            Ended::Finished => Some(Ok(Trial {
                time_s: sample.wall_s,
                cpu_s: sample.user_s + sample.system_s,
                peak_rss: sample.most_rss,
                is_peak_of_start: sample.peak_rss.is_none(),
            })),
            ended => Some(Err(Failure { text: ended.describe(), code: ended.code() })),
        })
    }

    fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = Some(timeout);
    }
}

/// Memory is that of lockstep, speed that of free mode. Both are run anew each time: some allocators' peaks
/// depend on the CPUs that the threads happen to be on, and a run that is counted twice would prove it.
pub struct OnReplay<'a> {
    pub base: &'a Base,
    pub player: &'a Player,
    pub input: &'a Input,
    pub interrupted: &'a AtomicBool,
}

impl OnReplay<'_> {
    fn play(&self, contender: &Contender, mode: &str) -> Result<Option<Played>> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let play = || self.player.play(self.input, contender, mode, false);
        let run = signals::ended_by(self.interrupted, play)??;
        // The player was ended then.
        let is_cut = self.interrupted.load(Ordering::Relaxed);
        Ok((!is_cut).then_some(run.map_err(|text| Failure { text, code: 1 })))
    }
}

type Played = std::result::Result<mallow_replay::Run, Failure>;

impl Bench for OnReplay<'_> {
    type Error = Error;

    fn run(&mut self, _: Index, candidate: Option<&Candidate>) -> Result<Option<Outcome>> {
        let contender = self.base.contender(candidate)?;
        let peak_rss = match self.play(&contender, "lockstep")? {
            None => return Ok(None),
            Some(Err(failure)) => return Ok(Some(Err(failure))),
            Some(Ok(run)) => run.peak_rss as f64,
        };
        let free = self.play(&contender, "free")?;
        let trial = |run: mallow_replay::Run| Trial {
            time_s: run.wall_ns as f64 / 1e9,
            cpu_s: (run.user_us + run.system_us) as f64 / 1e6,
            peak_rss,
            is_peak_of_start: false,
        };
        Ok(free.map(|free| free.map(trial)))
    }
}
