// SPDX-License-Identifier: MIT
//! What was measured so far, as it is kept: a search that was cut short goes on from there.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::trial::{Failure, Outcome, Place, Trial};

pub const SCHEMA: &str = "mallow.tune.state/1";
/// Nobody makes more runs.
const MOST_TRIALS: usize = 1 << 20;

/// What the runs are runs of. With another one they would mean nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    pub command: Vec<String>,
    /// The trace's path and length.
    pub trace: Option<(String, u64)>,
    pub second: Option<(String, u64)>,
    pub allocator: String,
    /// What the environment and the command line set already.
    pub given: BTreeMap<String, String>,
    /// The candidates by name, without the defaults.
    pub space: Vec<String>,
    /// As the ranking depends on them.
    pub constraints: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    place: Place,
    #[serde(flatten)]
    trial: Option<Trial>,
    failure: Option<Failure>,
}

/// The state as it is written.
#[derive(Serialize, Deserialize)]
pub struct File {
    schema: String,
    subject: Subject,
    seed: u64,
    /// Of all calls so far.
    took_s: f64,
    candidates: Option<(usize, u32, u32)>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    defaults_failed: bool,
    trials: Vec<Line>,
}

#[derive(Clone, Debug)]
pub struct State {
    pub subject: Subject,
    pub seed: u64,
    pub took_s: f64,
    /// How many candidates the budget allowed, the rounds of the first step, and the fewest of the
    /// confirmation.
    pub schedule: Option<(usize, u32, u32)>,
    /// The command has failed under the defaults too, so it fails now and then whatever is set.
    pub defaults_failed: bool,
    pub trials: BTreeMap<Place, Outcome>,
}

impl State {
    pub fn new(subject: Subject, seed: u64) -> State {
        State {
            subject,
            seed,
            took_s: 0.0,
            schedule: None,
            defaults_failed: false,
            trials: BTreeMap::new(),
        }
    }

    pub fn file(&self) -> File {
        let line = |(place, outcome): (&Place, &Outcome)| Line {
            place: *place,
            trial: outcome.as_ref().ok().copied(),
            failure: outcome.as_ref().err().cloned(),
        };
        File {
            schema: SCHEMA.into(),
            subject: self.subject.clone(),
            seed: self.seed,
            took_s: self.took_s,
            candidates: self.schedule,
            defaults_failed: self.defaults_failed,
            trials: self.trials.iter().map(line).collect(),
        }
    }

    /// Of a file that anybody may have written; otherwise why it is none.
    pub fn understood(file: File) -> Result<State, String> {
        if file.trials.len() > MOST_TRIALS || !(0.0..1e9).contains(&file.took_s) {
            return Err("its figures make no sense".into());
        }
        let space = file.subject.space.len();
        if file.candidates.is_some_and(|(count, rounds, _)| count > space || rounds > 16) {
            return Err("it has more candidates than settings".into());
        }
        let mut trials = BTreeMap::new();
        for line in file.trials {
            let outcome = match (line.trial, line.failure) {
                (Some(trial), None) if trial.is_sane() => Ok(trial),
                (None, Some(failure)) => Err(failure),
                _ => return Err("a run has neither figures nor a failure".into()),
            };
            trials.insert(line.place, outcome);
        }
        Ok(State {
            subject: file.subject,
            seed: file.seed,
            took_s: file.took_s,
            schedule: file.candidates,
            defaults_failed: file.defaults_failed,
            trials,
        })
    }
}

impl Subject {
    /// Why the runs of the one say nothing of the other, as in "the command differs".
    pub fn difference(&self, now: &Subject) -> &'static str {
        if self.command != now.command {
            "the command differs"
        } else if self.trace != now.trace || self.second != now.second {
            "the trace differs"
        } else if self.allocator != now.allocator {
            "the allocator differs"
        } else if self.given != now.given {
            "the settings that it began with differ"
        } else if self.constraints != now.constraints {
            "the limits differ"
        } else {
            "there are other settings to try"
        }
    }
}
