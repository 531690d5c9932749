// SPDX-License-Identifier: MIT
//! Searches on programs that are made up: what a setting does to them is known.

use std::cell::Cell;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mallow_launch::settings::Candidate;
use mallow_measure::search::limit::{Constraint, Figure};
use mallow_measure::search::state::{State, Subject};
use mallow_measure::search::trial::{Failure, Index, Outcome, Stage, Trial};
use mallow_measure::search::{Aim, Begun, Bench, Search};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::analysis::{About, analyse};
use super::bench::Base;
use super::kept;
use super::progress::Bar;
use super::report::{End, Ground, Report};
use crate::error::{Error, Result};
use crate::output::Notes;

/// Looked for once: that reads the C library.
static BASE: LazyLock<Base> =
    LazyLock::new(|| Base { allocator: mallow_launch::Allocator::system(), options: Vec::new() });

/// Time and memory of a program under each candidate, with noise that is skewed.
struct Made<'a> {
    factors: Vec<(f64, f64)>,
    fails: Option<Index>,
    /// The runs that fail, if they are of the defaults.
    failing: std::ops::Range<usize>,
    /// Each run with such a number fails, whatever is set.
    every: Option<usize>,
    only_defaults_work: bool,
    /// Its peak is never known.
    is_small: bool,
    random: StdRng,
    /// Other programs come and go: runs drift together, some are held up, and memory varies as much as time.
    is_busy: bool,
    /// Of the confirmation; `None`: until the intervals are narrow.
    rounds: Option<u32>,
    run_s: f64,
    /// How often the first run takes that.
    held_up: f64,
    budget: Duration,
    /// Interrupted after so many runs.
    patience: Cell<usize>,
    interrupted: &'a AtomicBool,
    runs: usize,
}

impl Bench for Made<'_> {
    type Error = Error;

    fn run(&mut self, index: Index, candidate: Option<&Candidate>) -> Result<Option<Outcome>> {
        if self.patience.get() == 0 {
            self.interrupted.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        self.patience.set(self.patience.get() - 1);
        self.runs += 1;
        let is_bad = index != 0 && self.only_defaults_work;
        let by_chance = self.every.is_some_and(|every| self.runs.is_multiple_of(every));
        if is_bad
            || by_chance
            || self.fails == Some(index)
            || self.failing.contains(&self.runs) && index == 0
        {
            return Ok(Some(Err(Failure { text: "ended with exit code 1".into(), code: 1 })));
        }
        // Of joined settings what they do together.
        let names = candidate.map_or(String::new(), Candidate::name);
        let own = names.split(' ').filter_map(|name| {
            let number: usize = name.strip_prefix('k')?.split(':').next()?.parse().ok()?;
            self.factors.get(number).copied()
        });
        let (time, memory) = own.fold((1.0, 1.0), |all, own| (all.0 * own.0, all.1 * own.1));
        let is_spike = self.is_busy && self.random.random_bool(0.05);
        let mut noise = |size: f64| 1.0 + size * -self.random.random::<f64>().ln();
        let held_up = if self.runs == 1 { self.held_up } else { 1.0 };
        let spike = if is_spike { 1.5 } else { 1.0 };
        let drift = 1.0 + if self.is_busy { 0.1 * (self.runs as f64 / 50.0).sin() } else { 0.0 };
        let time_s = self.run_s * time * held_up * spike * drift * noise(0.04);
        let peak_rss = 1e8 * memory * noise(if self.is_busy { 0.04 } else { 0.004 });
        Ok(Some(Ok(Trial {
            time_s,
            cpu_s: time_s * noise(0.01),
            peak_rss,
            is_peak_of_start: self.is_small,
        })))
    }
}

fn space(count: usize) -> Vec<Candidate> {
    let candidate = |number| Candidate {
        options: vec![(format!("k{number}"), "1".into())],
        why: "to see".into(),
    };
    (1..=count).map(candidate).collect()
}

fn subject() -> Subject {
    Subject {
        command: Vec::new(),
        trace: None,
        second: None,
        allocator: "glibc".into(),
        given: std::collections::BTreeMap::new(),
        space: space(8).iter().map(Candidate::name).collect(),
        constraints: Vec::new(),
    }
}

/// With the factors of the settings k1, k2 ….
fn made<'a>(factors: &[(f64, f64)], seed: u64, interrupted: &'a AtomicBool) -> Made<'a> {
    let mut all = vec![(1.0, 1.0)];
    all.extend(factors);
    Made {
        factors: all,
        fails: None,
        failing: 0..0,
        every: None,
        only_defaults_work: false,
        is_small: false,
        random: StdRng::seed_from_u64(seed),
        is_busy: false,
        rounds: Some(12),
        run_s: 0.1,
        held_up: 1.0,
        budget: Duration::from_secs(3600),
        patience: Cell::new(usize::MAX),
        interrupted,
        runs: 0,
    }
}

fn tune(bench: &mut Made, state: State, file: Option<&Path>) -> (Report, State) {
    tune_under(&[], bench, None, state, file)
}

fn tune_under(
    constraints: &[Constraint],
    bench: &mut Made,
    second: Option<&mut Made>,
    state: State,
    file: Option<&Path>,
) -> (Report, State) {
    let interrupted = bench.interrupted;
    let has_second = second.is_some();
    let bar = Bar::new(Notes { quiet: true }, false);
    let keep = |state: &State| file.map_or(Ok(()), |path| kept::write(state, path));
    let aim = Aim { constraints, budget: bench.budget, runs: bench.rounds, margin: 2.0 };
    let mut search = Search::new(aim, space(8), state, &keep, interrupted, &bar, Instant::now());
    let mut finalists = Vec::new();
    if let Begun::Searching(schedule) = search.begin(bench).unwrap() {
        finalists = search.halve(bench, schedule).unwrap();
        if !search.stopped() {
            search.confirm(bench, Stage::Confirmation, &finalists).unwrap();
            if let Some(second) = second {
                search.confirm(second, Stage::Second, &finalists).unwrap();
            }
        }
    }
    let about = About {
        base: &BASE,
        command: &[],
        whole: None,
        trace: None,
        searched_on: Ground::Command,
        confirmed_on: Ground::Command,
        has_second,
        known: 8,
    };
    let report = analyse(&search, &about, &finalists).unwrap();
    (report, search.state)
}

fn settings_chosen(report: &Report) -> Option<&str> {
    report.chosen.map(|index| report.entries[index].settings.as_str())
}

#[test]
fn settings_that_help_are_found_and_joined() {
    let interrupted = AtomicBool::new(false);
    let mut factors = [(1.0, 1.0); 8];
    (factors[2], factors[6]) = ((0.8, 1.0), (1.0, 0.6));
    let mut bench = made(&factors, 5, &interrupted);
    let (mut report, _) = tune(&mut bench, State::new(subject(), 3), None);
    assert_eq!(report.end, End::Found, "{}", report.verdict);
    (report.settings.rounds_confirmed, report.settings.runs_made) = (1, 1);
    assert!(report.headline().contains("in 1 round on the command, 1 run in"));
    let chosen = settings_chosen(&report).unwrap();
    assert!(chosen.contains("k3:1") && chosen.contains("k7:1"), "{}", report.verdict);
    assert!(report.line.as_ref().unwrap().starts_with("GLIBC_TUNABLES="));
}

/// What keeps a limit on the first recording alone does not keep it.
#[test]
fn limits_hold_on_the_second_recording_too() {
    let limit = [Constraint { figure: Figure::Rss, limit: 8e7 }];
    let ends_with = |on_second: f64| {
        let interrupted = AtomicBool::new(false);
        let mut factors = [(1.0, 1.0); 8];
        factors[6] = (1.0, 0.5);
        let mut bench = made(&factors, 5, &interrupted);
        factors[6] = (1.0, on_second);
        let mut second = made(&factors, 6, &interrupted);
        tune_under(&limit, &mut bench, Some(&mut second), State::new(subject(), 3), None).0
    };
    let report = ends_with(0.5);
    assert_eq!(report.end, End::Found, "{}", report.verdict);
    assert_eq!(report.entries[0].broken_limits.len(), 2, "{:?}", report.entries[0].broken_limits);
    let report = ends_with(1.0);
    assert_eq!(report.end, End::LimitsNotKept, "{}", report.verdict);
    assert!(report.verdict.contains("MiB on the second recording"), "{}", report.verdict);
}

/// Of a small command only what its peak is below is known: that is no figure of it.
#[test]
fn a_peak_that_is_not_known_is_not_shown_as_one() {
    let interrupted = AtomicBool::new(false);
    let mut factors = [(1.0, 1.0); 8];
    factors[6] = (0.5, 1.0);
    let mut bench = made(&factors, 5, &interrupted);
    bench.is_small = true;
    let limit = [Constraint { figure: Figure::Rss, limit: 8e7 }];
    let report = tune_under(&limit, &mut bench, None, State::new(subject(), 3), None).0;
    assert!(report.verdict.contains("rss < 76.3 MiB: not known, "), "{}", report.verdict);
    let screen = crate::output::Screen::PLAIN;
    let csv = report.text(crate::output::Format::Csv, screen);
    let (heads, defaults) = (csv.lines().next().unwrap(), csv.lines().nth(1).unwrap());
    let place = heads.split(',').position(|head| head == "peak_rss").unwrap();
    assert_eq!(defaults.split(',').nth(place), Some(""), "{csv}");
    assert!(super::html::page(&report).contains("less than 9"), "in the picture");
}

/// Settings that do nothing: among many of them some look good by chance, and are not believed.
#[test]
fn where_nothing_helps_nothing_is_claimed() {
    const TRIALS: u32 = 400;
    for (is_busy, rounds) in [(false, Some(12)), (true, Some(12)), (true, None)] {
        let mut claimed = 0;
        for seed in 0..u64::from(TRIALS) {
            let interrupted = AtomicBool::new(false);
            let mut bench = made(&[(1.0, 1.0); 8], 1000 + seed, &interrupted);
            (bench.is_busy, bench.rounds) = (is_busy, rounds);
            let (report, _) = tune(&mut bench, State::new(subject(), seed), None);
            let is_none = matches!(report.end, End::DefaultsAreAsGood | End::Inconclusive);
            claimed += u32::from(!is_none);
        }
        // At most 5 %, and three standard errors of so many trials.
        let most = 0.05 + 3.0 * (0.05 * 0.95 / f64::from(TRIALS)).sqrt();
        let rate = f64::from(claimed) / f64::from(TRIALS);
        eprintln!("busy {is_busy}, {rounds:?} rounds: {rate}");
        assert!(rate <= most, "{rate} of the searches found what is not there");
    }
}

#[test]
fn a_search_that_was_cut_short_goes_on_to_the_same_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let mut factors = [(1.0, 1.0); 8];
    factors[4] = (0.5, 0.5);
    for patience in [0, 1, 10, 40, 70] {
        let _ = std::fs::remove_file(&path);
        let interrupted = AtomicBool::new(false);
        let mut bench = made(&factors, 11, &interrupted);
        bench.patience.set(patience);
        let (report, _) = tune(&mut bench, State::new(subject(), 9), Some(&path));
        assert_eq!(report.end, End::NoVerdict, "after {patience}: {}", report.verdict);
        assert!(report.chosen.is_none());
        let kept = kept::read(&path, &subject()).unwrap();
        let kept = kept.unwrap_or_else(|| State::new(subject(), 9));
        let before = kept.trials.len();
        assert!(before <= patience && before + 12 >= patience, "{before} of {patience}");
        let interrupted = AtomicBool::new(false);
        let mut bench = made(&factors, 12, &interrupted);
        let (report, state) = tune(&mut bench, kept, Some(&path));
        assert_eq!(bench.runs, state.trials.len() - before, "nothing is run twice");
        assert_eq!(report.end, End::Found, "{}", report.verdict);
        assert!(settings_chosen(&report).unwrap().contains("k5:1"), "{}", report.verdict);
    }
}

/// How long a run takes decides how many settings are tried, and is not left to one run.
#[test]
fn a_first_run_that_was_held_up_leaves_nothing_out() {
    let tried = |held_up: f64, run_s: f64| {
        let interrupted = AtomicBool::new(false);
        let mut bench = made(&[(1.0, 1.0); 8], 2, &interrupted);
        (bench.held_up, bench.run_s, bench.budget) = (held_up, run_s, Duration::from_secs(30));
        let (report, state) = tune(&mut bench, State::new(subject(), 1), None);
        let first = state.trials.keys().filter(|place| place.stage == Stage::First).count();
        (report.settings.settings_tried, first)
    };
    assert_eq!(tried(1.0, 0.1), (8, 1));
    assert_eq!(tried(6.0, 0.1), (8, 2));
    assert_eq!(tried(20.0, 0.1), (8, 2));
    assert!(matches!(tried(1.0, 0.6), (1..8, 2)));
    // Too dear to be made again.
    assert_eq!(tried(100.0, 0.1), (0, 1));
}

/// The first round has nine runs in an order that is drawn, one of them of the defaults: it is made again.
#[test]
fn the_defaults_may_fail_once() {
    let mut repeated = 0;
    for run in 2..=10 {
        let interrupted = AtomicBool::new(false);
        let mut bench = made(&[(1.0, 0.5); 8], 11, &interrupted);
        bench.failing = run..run + 1;
        let (report, state) = tune(&mut bench, State::new(subject(), 9), None);
        assert!(report.chosen.is_some(), "{}", report.verdict);
        repeated += bench.runs - state.trials.len();
    }
    assert_eq!(repeated, 1);
}

#[test]
#[should_panic(expected = "DefaultsFail")]
fn two_failures_of_the_defaults_are_the_end() {
    let interrupted = AtomicBool::new(false);
    let mut bench = made(&[(1.0, 1.0); 8], 11, &interrupted);
    bench.failing = 2..100;
    tune(&mut bench, State::new(subject(), 9), None);
}

#[test]
fn a_setting_that_fails_is_left_out_with_its_reason() {
    let interrupted = AtomicBool::new(false);
    let mut factors = [(1.0, 1.0); 8];
    factors[1] = (0.1, 0.1);
    let mut bench = made(&factors, 1, &interrupted);
    bench.fails = Some(2);
    let (report, state) = tune(&mut bench, State::new(subject(), 1), None);
    let failed = report.entries.iter().find(|entry| entry.settings == "k2:1").unwrap();
    assert_eq!(failed.failure.as_deref(), Some("ended with exit code 1"));
    assert!(report.chosen.is_none(), "{}", report.verdict);
    let tries = state.trials.keys().filter(|place| place.candidate == 2).count();
    assert_eq!(tries, 1, "it is not tried again");
}

/// Settings are given the second chance that the defaults have, and what fails under both is not blamed on one.
#[test]
fn a_command_that_fails_now_and_then_proves_nothing() {
    let interrupted = AtomicBool::new(false);
    let mut bench = made(&[(1.0, 1.0); 8], 1, &interrupted);
    bench.every = Some(7);
    let (report, _) = tune(&mut bench, State::new(subject(), 1), None);
    assert!(report.entries.iter().all(|entry| entry.failure.is_none()), "{}", report.verdict);
    let mut bench = made(&[(1.0, 1.0); 8], 1, &interrupted);
    (bench.every, bench.only_defaults_work) = (Some(7), true);
    let (report, _) = tune(&mut bench, State::new(subject(), 1), None);
    assert_eq!(report.end, End::NoVerdict, "{}", report.verdict);
    assert!(report.verdict.contains("under the defaults too"), "{}", report.verdict);
}

#[test]
fn an_interrupted_search_has_tried_what_has_run() {
    let interrupted = AtomicBool::new(false);
    let mut bench = made(&[(1.0, 1.0); 8], 3, &interrupted);
    bench.patience = Cell::new(6);
    let (report, state) = tune(&mut bench, State::new(subject(), 3), None);
    let has_run = |index: &usize| state.trials.keys().any(|place| place.candidate == *index);
    let tried = (1..=8).filter(has_run).count();
    assert!(tried < 8, "{tried}");
    assert_eq!(report.settings.settings_tried, tried);
}
