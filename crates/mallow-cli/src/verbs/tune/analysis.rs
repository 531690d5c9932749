// SPDX-License-Identifier: MIT
//! From the runs of a search to its report.

use super::bench::Base;
use super::constraint;
use super::report::{Entry, Figures, Ground, Report, Searched, Settings, Standing, conclude};
use crate::error::{Error, Result};
use mallow_launch::settings::Candidate;
use mallow_launch::words;
use mallow_measure::machine::Machine;
use mallow_measure::search::Search;
use mallow_measure::search::halving::{self, Score};
use mallow_measure::search::trial::{DEFAULTS, Index, Stage, Trial};
use mallow_measure::verdict::Metric;
use mallow_process::allocators::Family;

/// What was searched, beside the search itself.
pub struct About<'a> {
    pub base: &'a Base,
    /// The words of the command that the settings are for.
    pub command: &'a [String],
    /// With the load on it, where there is one.
    pub whole: Option<String>,
    pub trace: Option<String>,
    pub searched_on: Ground,
    pub confirmed_on: Ground,
    /// Whether there is a second recording, on which all has to hold.
    pub has_second: bool,
    /// How many settings there were before any were joined.
    pub known: usize,
}

pub fn analyse(search: &Search<Error>, about: &About, finalists: &[Index]) -> Result<Report> {
    let judge = search.judge(finalists.len());
    // All that were planned, unless it was interrupted.
    let tried = (1..=about.known).filter(|index| has_run(search, *index)).count();
    let mut entries = entries(search, about, finalists)?;
    mark_front(&mut entries);
    let (confirmed, again) = (search.rounds(Stage::Confirmation), search.rounds(Stage::Second));
    let settings = Settings {
        budget_s: search.aim.budget.as_secs_f64(),
        took_s: search.elapsed().as_secs_f64(),
        margin_percent: search.aim.margin,
        confidence: judge.confidence(),
        seed: search.state.seed,
        runs_made: search.state.trials.len(),
        settings_known: about.known,
        settings_tried: tried,
        rounds_confirmed: if about.has_second { confirmed.min(again) } else { confirmed },
        rounds_needed: judge.fewest_rounds(),
        defaults_failed: search.state.defaults_failed,
    };
    let (chosen, end, verdict) = conclude(&entries, search.aim.constraints, &settings);
    let line = chosen.map(|index| line(&entries[index]));
    let try_it = line.as_ref().map(|line| try_it(line, about));
    Ok(Report {
        schema: "mallow.tune/1",
        version: env!("CARGO_PKG_VERSION"),
        allocator: about.base.allocator.name.clone(),
        allocator_version: about.base.allocator.version.clone(),
        command: about.whole.clone().unwrap_or_else(|| words::line(about.command)),
        trace: about.trace.clone(),
        searched_on: about.searched_on,
        confirmed_on: about.confirmed_on,
        machine: Machine::read(),
        settings,
        constraints: search.aim.constraints.iter().map(constraint::text).collect(),
        entries,
        chosen,
        line,
        try_it,
        verdict,
        end,
    })
}

fn has_run(search: &Search<Error>, index: Index) -> bool {
    search.state.trials.keys().any(|place| place.candidate == index)
}

/// The defaults, what was confirmed, and the rest.
fn entries(search: &Search<Error>, about: &About, finalists: &[Index]) -> Result<Vec<Entry>> {
    let judge = search.judge(finalists.len());
    let mut entries = Vec::new();
    let rest = (1..=search.candidates.len()).filter(|index| !finalists.contains(index));
    let order = [DEFAULTS].into_iter().chain(finalists.iter().copied()).chain(rest);
    for index in order {
        let candidate = search.candidate(index);
        let failure = search.failure(index).map(|failure| failure.text.clone());
        let standing = match index {
            DEFAULTS => Standing::Defaults,
            _ if failure.is_some() => Standing::Failed,
            _ if finalists.contains(&index) => Standing::Confirmed,
            _ if has_run(search, index) => Standing::Dropped,
            _ => Standing::NotTried,
        };
        let figures = |stage| figures(search, stage, index, judge);
        let confirmed = figures(Stage::Confirmation);
        entries.push(Entry {
            settings: candidate.map_or("defaults".into(), Candidate::name),
            environment: about.base.variables(candidate)?,
            why: candidate.map_or(String::new(), |candidate| candidate.why.clone()),
            standing,
            failure,
            searched: searched(search, index),
            broken_limits: broken_limits(search, index),
            confirmed,
            second: figures(Stage::Second),
            is_on_front: false,
        });
    }
    Ok(entries)
}

fn figures(
    search: &Search<Error>,
    stage: Stage,
    index: Index,
    judge: mallow_measure::verdict::Judge,
) -> Option<Figures> {
    let trials = search.trials(stage, index);
    let metric = |value: fn(&Trial) -> f64| {
        let values: Vec<f64> = trials.iter().map(|(_, trial)| value(trial)).collect();
        Metric::of(&values)
    };
    let versus = |value: fn(&Trial) -> f64| {
        judge.versus(&search.pairs(stage, index, value)).filter(|_| index != DEFAULTS)
    };
    let is_known =
        |index| search.trials(stage, index).iter().all(|(_, trial)| !trial.is_peak_of_start);
    let memory = versus(|trial| trial.peak_rss)
        .filter(|versus| versus.holds(is_known(index), is_known(DEFAULTS)));
    Some(Figures {
        rounds: trials.len(),
        wall_s: metric(|trial| trial.time_s)?,
        cpu_s: metric(|trial| trial.cpu_s)?,
        peak_rss: metric(|trial| trial.peak_rss)?,
        time: versus(|trial| trial.time_s),
        cpu: versus(|trial| trial.cpu_s),
        is_peak_of_start: !is_known(index),
        memory,
    })
}

/// At the last stage of the search that it reached.
fn searched(search: &Search<Error>, index: Index) -> Option<Searched> {
    let places = search.state.trials.keys().rev();
    let mut own =
        places.filter(|place| place.candidate == index && place.stage < Stage::Confirmation);
    let stage = own.next()?.stage;
    let trials = search.trials(stage, index);
    let score = Score::of(&search.trials(stage, DEFAULTS), &trials, true)?;
    Some(Searched { rounds: trials.len(), time_ratio: score.time, memory_ratio: score.memory })
}

/// On each recording.
fn broken_limits(search: &Search<Error>, index: Index) -> Vec<String> {
    let mut all = Vec::new();
    for (stage, on) in [(Stage::Confirmation, ""), (Stage::Second, " on the second recording")] {
        let trials = search.trials(stage, index);
        let trials: Vec<&Trial> = trials.iter().map(|(_, trial)| trial).collect();
        let broken = search.aim.constraints.iter().filter(|limit| !limit.holds(&trials));
        all.extend(broken.filter_map(|limit| {
            let worst = constraint::show(limit, limit.worst(&trials)?);
            let worst = match limit.is_bound(&trials) {
                true => format!("not known, {worst} at most"),
                false => worst,
            };
            Some(format!("{}: {worst}{on}", constraint::text(limit)))
        }));
    }
    all
}

fn mark_front(entries: &mut [Entry]) {
    let score = |entry: &Entry| {
        let figures = entry.confirmed.as_ref()?;
        let (time, memory) = (figures.wall_s.median, figures.peak_rss.median);
        // Of time and memory, as in the picture.
        Some(Score { time, cpu: time, memory, keeps_limits: true })
    };
    let (places, scores): (Vec<usize>, Vec<Score>) = entries
        .iter()
        .enumerate()
        .filter_map(|(place, entry)| Some((place, score(entry)?)))
        .unzip();
    for (place, is_on_front) in places.into_iter().zip(halving::front(&scores)) {
        entries[place].is_on_front = is_on_front;
    }
}

/// The variables as a shell sets them.
fn line(entry: &Entry) -> String {
    let set =
        |(name, value): (&String, &String)| format!("{name}={}", words::quoted(value.as_ref()));
    entry.environment.iter().map(set).collect::<Vec<_>>().join(" ")
}

fn try_it(line: &str, about: &About) -> String {
    let command = words::line(about.command);
    match about.base.allocator.family {
        Family::System => format!("{line} {command}"),
        _ => {
            let path = about.base.allocator.path.as_ref();
            let name = about.base.allocator.name.as_str();
            let is_given = about.base.allocator.variant == "given path";
            let named = match path.filter(|_| is_given) {
                Some(path) => words::quoted(path.as_os_str()),
                None => name.to_owned(),
            };
            format!("{line} mallow run -a {named} -- {command}")
        }
    }
}
