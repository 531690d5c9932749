// SPDX-License-Identifier: MIT
//! `mallow tune`: which settings of an allocator suit a program, or that its defaults do. What there is to
//! try stands in the launch crate, how it is searched in the measuring crate; `bench` is on what: the command, or
//! the replay of what `recorded` reads or records. `kept` is the file of what was run; `analysis` and `report`
//! say what it proves, `text` and `html` show it, `progress` shows the search.

mod analysis;
mod args;
mod bench;
mod constraint;
mod html;
mod kept;
mod progress;
mod recorded;
mod report;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use mallow_launch::contender::Contender;
use mallow_launch::preload::Changes;
use mallow_launch::{Target, allocator, preflight, settings};
use mallow_measure::rounds as random;
use mallow_measure::run::Outcome;
use mallow_measure::search::state::{State, Subject};
use mallow_measure::search::trial::{Index, Stage};
use mallow_measure::search::{Aim, Begun, Bench, Search};
use mallow_process::allocators::is_system_name;
use mallow_stats::figures::counted;

use self::analysis::About;
use self::bench::{Base, OnCommand, OnReplay};
use self::progress::{Bar, included};
use self::recorded::{Replayed, Traces};
use self::report::{End, Ground, Report};
use crate::comparing::{Plan, Wish, rounds};
use crate::error::{Error, Result};
use crate::output::{self, Notes};
use crate::replaying::Input;
use crate::signals;
use args::SearchOn;
pub use args::TuneArgs;

pub fn main(args: &TuneArgs, notes: Notes) -> Result<u8> {
    args.output.check()?;
    let start = Instant::now();
    let interrupted = signals::watch()?;
    let traces = Traces::read(args, notes, &interrupted)?;
    let wish = wish(args, traces.first.as_ref().map(|first| &first.input));
    let plan = match wish.words()?.is_empty() {
        true => None,
        false => Some(Plan::new(&wish, notes)?),
    };
    refuse_what_does_not_fit(args, plan.as_ref())?;
    let base = base(args, &wish, plan.as_ref(), &traces)?;
    if let Some(plan) = plan.as_ref().filter(|_| base.allocator.path.is_none()) {
        refuse_another_server(&plan.target, &base.allocator.name)?;
    }
    let target = plan.as_ref().map_or(&traces.player.target, |plan| &plan.target);
    settings::check_unheard(&base.allocator, target, &base.options, &|text| notes.note(text))?;
    let cpus = mallow_os::usable_cpu_count();
    let candidates = settings::candidates(&base.allocator, target, cpus)?;
    let mut tuning = Tuning { args, wish: &wish, plan, base: &base, traces, notes, start };
    tuning.prepare(candidates.len(), &interrupted)?;
    let report = tuning.search(candidates, &interrupted)?;
    args.output.write(
        &report,
        || html::page(&report),
        |format, screen| report.text(format, screen),
    )?;
    exit_code(args, &report, interrupted.load(std::sync::atomic::Ordering::Relaxed))
}

/// The defaults have to work.
fn refuse(how: String, code: u8) -> Error {
    mallow_measure::Error::DefaultsFail { how, code }.into()
}

/// Until there is an interruption. Before the search there is nothing to report.
fn go_on(interrupted: &AtomicBool) -> Result<()> {
    if !interrupted.load(std::sync::atomic::Ordering::Relaxed) {
        return Ok(());
    }
    let message = "The search was interrupted before anything was tried.".into();
    Err(Error::Child { message, code: signals::exit_code() })
}

fn too_short(fewest_runs: u32, run_s: f64, args: &TuneArgs) -> Error {
    let budget = args.budget;
    let or = match args.trace.is_none() && args.service.server.is_none() {
        true => ", or record the command once and tune the trace, whose replay is shorter",
        false => "",
    };
    Error::Inconclusive(format!(
        "One run takes {}{}, and to prove anything takes at least {fewest_runs} of them: longer than the \
         budget of {}. Give --budget {:.0}s{or}.",
        output::seconds(run_s),
        included(args.prepare.is_some()),
        output::duration(budget),
        (f64::from(fewest_runs) * run_s * 1.2).ceil()
    ))
}

fn refuse_what_does_not_fit(args: &TuneArgs, plan: Option<&Plan>) -> Result<()> {
    let is_service = plan.is_some_and(|plan| plan.service.is_some());
    if plan.is_none() && args.prepare.is_some() {
        return Err(Error::Usage(
            "--prepare is run before each run of a command: give one.".into(),
        ));
    }
    if is_service && args.search == SearchOn::Replay {
        return Err(Error::Usage(
            "A service is not recorded for one search, since it has no load of its own then: record it \
             under its load (mallow record -o app.trace -- SERVER), then give the trace."
                .into(),
        ));
    }
    Ok(())
}

/// A program that is linked with an allocator does not see the settings of the C library's own.
fn refuse_another_server(target: &Target, system: &str) -> Result<()> {
    match preflight::server(target, &Changes::new()) {
        Some((name, _)) if !is_system_name(&name) => Err(Error::Unsupported(format!(
            "{} is served by {name}, so settings of {system} have no effect on it. Tune that one: -a {name}.",
            target.command
        ))),
        _ => Ok(()),
    }
}

fn exit_code(args: &TuneArgs, report: &Report, interrupted: bool) -> Result<u8> {
    let go_on = match &args.state {
        Some(file) => format!("Go on with: --state {}.", file.display()),
        None => "With --state FILE it can be gone on with.".into(),
    };
    if interrupted {
        return Err(Error::Child {
            message: format!(
                "The search was interrupted; what was not run has no verdict. {go_on}"
            ),
            code: signals::exit_code(),
        });
    }
    match report.end {
        End::Found | End::Trade | End::CostNotExcluded | End::DefaultsAreAsGood => Ok(0),
        End::LimitsNotKept => Err(Error::Unmet(report.verdict.clone())),
        End::Inconclusive | End::NoVerdict => {
            Err(Error::Inconclusive(format!("{} {go_on}", report.verdict)))
        }
    }
}

/// The allocator: the one that is named, that of the recording, or the C library's own.
fn wish(args: &TuneArgs, recorded: Option<&Input>) -> Wish {
    let name = args.allocator.clone().or_else(|| recorded.map(Input::recorded_allocator));
    Wish {
        allocators: vec![name.unwrap_or_else(|| "libc".into())],
        // What was given holds for the probe too; the candidates come on top.
        prepare: args.prepare.clone(),
        margin: args.verdict.margin,
        seed: args.verdict.seed,
        service: args.service.clone(),
        command: args.command.clone(),
        ..Wish::default()
    }
}

fn base(args: &TuneArgs, wish: &Wish, plan: Option<&Plan>, traces: &Traces) -> Result<Base> {
    let allocator = match plan.and_then(|plan| plan.contenders.first()) {
        Some(contender) => contender.allocator.clone(),
        None => allocator::find(&wish.allocators[0], traces.player.target.libc())?,
    };
    Ok(Base { allocator, options: args.options.clone() })
}

struct Tuning<'a> {
    args: &'a TuneArgs,
    wish: &'a Wish,
    plan: Option<Plan>,
    base: &'a Base,
    traces: Traces,
    notes: Notes,
    start: Instant,
}

impl Tuning<'_> {
    /// What has to be right before anything is measured: the preload on the command, and that the
    /// replays are like their programs.
    fn prepare(&mut self, settings: usize, interrupted: &AtomicBool) -> Result<()> {
        let given = self.base.changes(None)?;
        let mut run = None;
        if let Some(plan) = &mut self.plan {
            for contender in &mut plan.contenders {
                contender.changes.clone_from(&given);
            }
            let begin = Instant::now();
            let endings = rounds::probe(plan, self.wish, self.notes, interrupted)?;
            run = Some(begin.elapsed());
            let failed = |ending: &&Outcome| **ending != Outcome::Finished;
            if let Some(ending) = endings.iter().find(failed) {
                return Err(refuse(ending.describe(), ending.code()));
            }
        }
        let contender = Contender { allocator: self.base.allocator.clone(), changes: given };
        let contenders = std::slice::from_ref(&contender);
        let traces = &mut self.traces;
        for replayed in [&mut traces.first, &mut traces.second].into_iter().flatten() {
            replayed.check(contenders, interrupted).map_err(|error| match error {
                Error::Inconclusive(why) => Error::Inconclusive(format!(
                    "{why} Or tune the command itself: mallow tune -- COMMAND."
                )),
                error => error,
            })?;
        }
        // Nobody would put load on a service that is recorded.
        let is_service = self.args.service.server.is_some();
        if let Some(run) = run.filter(|_| !is_service) {
            let (args, notes) = (self.args, self.notes);
            traces.record(args, &contender, (run, settings), notes, interrupted)?;
        }
        Ok(())
    }

    /// What was said of a service, for nothing else may go on from what was measured of it.
    fn service(&self) -> impl Iterator<Item = String> {
        let service = &self.args.service;
        [&service.server, &service.ready, &service.load].into_iter().flatten().cloned()
    }

    fn subject(&self, candidates: &[settings::Candidate]) -> Result<Subject> {
        let text = |word: &std::ffi::OsString| word.to_string_lossy().into_owned();
        let trace = |path: &Option<std::path::PathBuf>| {
            let path = path.as_ref()?;
            let length = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
            Some((path.display().to_string(), length))
        };
        let allocator = &self.base.allocator;
        let file = allocator.path.as_ref().map(|path| path.display().to_string());
        let version = allocator.version.clone().unwrap_or_default();
        let inherited = ["MALLOW_CONF", "MALLOC_CONF", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX"];
        let mut given: BTreeMap<String, String> = inherited
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
            .collect();
        given.extend(self.base.variables(None)?);
        Ok(Subject {
            command: self.args.command.iter().map(text).chain(self.service()).collect(),
            trace: trace(&self.args.trace),
            second: trace(&self.args.second),
            allocator: format!("{} {version} {}", allocator.name, file.unwrap_or_default()),
            given,
            space: candidates.iter().map(settings::Candidate::name).collect(),
            constraints: self.args.constraint.iter().map(constraint::text).collect(),
        })
    }

    fn search(
        &self,
        candidates: Vec<settings::Candidate>,
        interrupted: &AtomicBool,
    ) -> Result<Report> {
        let subject = self.subject(&candidates)?;
        let file = self.args.state.as_deref();
        let kept = file.map_or(Ok(None), |path| kept::read(path, &subject))?;
        if let (Some(state), Some(path)) = (&kept, file) {
            self.notes.note(&format!(
                "The search goes on from the {} in {}.",
                counted(state.trials.len() as u64, "run"),
                path.display()
            ));
        }
        let state =
            kept.unwrap_or_else(|| State::new(subject, random::seed(self.args.verdict.seed)));
        if let Some(path) = file {
            kept::write(&state, path)?;
        }
        let known = candidates.len();
        let bar = Bar::new(self.notes, self.args.prepare.is_some());
        let keep = |state: &State| file.map_or(Ok(()), |path| kept::write(state, path));
        let aim = Aim {
            constraints: &self.args.constraint,
            budget: self.args.budget,
            runs: self.args.runs,
            margin: self.args.verdict.margin,
        };
        let mut search = Search::new(aim, candidates, state, &keep, interrupted, &bar, self.start);
        search.state.defaults_failed |= self.traces.has_failed;
        let finalists = self.carry_out(&mut search)?;
        bar.end();
        let command = self.words()?;
        let on = |is_replay: bool| if is_replay { Ground::Replay } else { Ground::Command };
        let about = About {
            base: self.base,
            command: &command,
            whole: self.plan.as_ref().map(|plan| plan.command_line.clone()),
            trace: self.args.trace.as_ref().map(|path| path.display().to_string()),
            searched_on: on(self.traces.first.is_some()),
            confirmed_on: on(self.plan.is_none()),
            has_second: self.traces.second.is_some(),
            known,
        };
        analysis::analyse(&search, &about, &finalists)
    }

    /// On the replay where there is one, and confirmed on the command where there is one.
    fn carry_out(&self, search: &mut Search<Error>) -> Result<Vec<Index>> {
        let mut on_replay = self.traces.first.as_ref().map(|first| self.replay(first, search));
        let mut on_command = self.plan.as_ref().map(|plan| OnCommand {
            base: self.base,
            plan,
            prepare: self.args.prepare.as_deref(),
            timeout: None,
            interrupted: search.interrupted,
        });
        let mut finalists = Vec::new();
        let schedule = {
            let bench: &mut dyn Bench<Error = Error> = match (&mut on_replay, &mut on_command) {
                (Some(replay), _) => replay,
                (None, Some(command)) => command,
                (None, None) => return Ok(finalists),
            };
            let schedule = match search.begin(bench)? {
                Begun::Searching(schedule) => Some(schedule),
                Begun::Stopped => None,
                Begun::TooShort { fewest_runs, run_s } => {
                    return Err(too_short(fewest_runs, run_s, self.args));
                }
            };
            if let Some(schedule) = schedule.filter(|_| !search.stopped()) {
                finalists = search.halve(bench, schedule)?;
            }
            schedule
        };
        if schedule.is_none() || finalists.is_empty() || search.stopped() {
            return Ok(finalists);
        }
        let bench: &mut dyn Bench<Error = Error> = match (&mut on_command, &mut on_replay) {
            (Some(command), _) => command,
            (None, Some(replay)) => replay,
            (None, None) => return Ok(finalists),
        };
        search.confirm(bench, Stage::Confirmation, &finalists)?;
        if let Some(second) = self.traces.second.as_ref().filter(|_| !search.stopped()) {
            let mut bench = self.replay(second, search);
            search.confirm(&mut bench, Stage::Second, &finalists)?;
        }
        Ok(finalists)
    }

    fn replay<'b>(&'b self, replayed: &'b Replayed, search: &Search<'b, Error>) -> OnReplay<'b> {
        OnReplay {
            base: self.base,
            player: &replayed.player,
            input: &replayed.input,
            interrupted: search.interrupted,
        }
    }

    /// The command that the settings are for: the given one, or the recorded one.
    fn words(&self) -> Result<Vec<String>> {
        let given = self.wish.words()?;
        let recorded =
            self.traces.first.as_ref().map_or(&[][..], |first| &first.input.header.command);
        Ok(match given.is_empty() {
            true => recorded.to_vec(),
            false => given.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        })
    }
}
