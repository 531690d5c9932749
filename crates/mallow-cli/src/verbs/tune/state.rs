//! What was measured so far, in a file: a search that was cut short goes on from there. It is written
//! whole after each round, so that it is never half a file.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::trial::{Failure, Outcome, Place, Trial};
use crate::error::{Error, Result};
use crate::parse;

const SCHEMA: &str = "mallow.tune.state/1";
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

#[derive(Serialize, Deserialize)]
struct File {
    schema: String,
    subject: Subject,
    seed: u64,
    /// Of all calls so far.
    took_s: f64,
    candidates: Option<(usize, u32, u32)>,
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
    pub trials: BTreeMap<Place, Outcome>,
}

impl State {
    pub fn new(subject: Subject, seed: u64) -> State {
        State { subject, seed, took_s: 0.0, schedule: None, trials: BTreeMap::new() }
    }

    /// `None` where there is no such file, or an empty one.
    pub fn read(path: &Path, subject: &Subject) -> Result<Option<State>> {
        let Some(text) = parse::kept_text(path, "state", damaged)? else { return Ok(None) };
        if text.is_empty() {
            return Ok(None);
        }
        let state = understood(&text).map_err(|reason| damaged(path, &reason))?;
        if state.subject != *subject {
            return Err(Error::Usage(format!(
                "{} is the state of another search: {}. Give the same command line as then, or \
                 another file with --state.",
                path.display(),
                difference(&state.subject, subject)
            )));
        }
        Ok(Some(state))
    }

    /// The old file stays until the new one is whole.
    pub fn write(&self, path: &Path) -> Result<()> {
        let failed = || Error::io(format!("The state cannot be written to {}", path.display()));
        let text = self.text().map_err(|error| Error::Internal(error.to_string()))?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed())?;
        file.write_all(text.as_bytes()).map_err(failed())?;
        file.persist(path).map_err(|error| failed()(error.error))?;
        Ok(())
    }

    fn text(&self) -> serde_json::Result<String> {
        let line = |(place, outcome): (&Place, &Outcome)| Line {
            place: *place,
            trial: outcome.as_ref().ok().copied(),
            failure: outcome.as_ref().err().cloned(),
        };
        let file = File {
            schema: SCHEMA.into(),
            subject: self.subject.clone(),
            seed: self.seed,
            took_s: self.took_s,
            candidates: self.schedule,
            trials: self.trials.iter().map(line).collect(),
        };
        Ok(serde_json::to_string_pretty(&file)? + "\n")
    }
}

fn understood(text: &str) -> std::result::Result<State, String> {
    let file: File = parse::of_schema(text, SCHEMA)?;
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
        trials,
    })
}

fn difference(then: &Subject, now: &Subject) -> &'static str {
    if then.command != now.command {
        "the command differs"
    } else if then.trace != now.trace || then.second != now.second {
        "the trace differs"
    } else if then.allocator != now.allocator {
        "the allocator differs"
    } else if then.given != now.given {
        "the settings that it began with differ"
    } else if then.constraints != now.constraints {
        "the limits differ"
    } else {
        "there are other settings to try"
    }
}

fn damaged(path: &Path, reason: &str) -> Error {
    Error::Damaged(format!(
        "{} is no state of mallow tune: {reason}. Remove it to begin anew, or give another file with \
         --state.",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::super::trial::Stage;
    use super::*;

    fn subject() -> Subject {
        Subject {
            command: vec!["ls".into()],
            trace: None,
            second: None,
            allocator: "glibc".into(),
            given: BTreeMap::new(),
            space: vec!["arena_max:1".into()],
            constraints: Vec::new(),
        }
    }

    fn state() -> State {
        let mut state = State::new(subject(), 7);
        state.schedule = Some((1, 2, 7));
        let mut add = |stage, candidate, outcome| {
            state.trials.insert(Place { stage, round: 0, candidate }, outcome);
        };
        add(Stage::Step(3), 0, Ok(Trial { time_s: 1.0, cpu_s: 0.5, peak_rss: 1e6 }));
        add(Stage::Confirmation, 1, Err(Failure { text: "ended".into(), code: 3 }));
        state
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        assert!(State::read(&path, &subject()).unwrap().is_none());
        std::fs::write(&path, "").unwrap();
        assert!(State::read(&path, &subject()).unwrap().is_none());
        state().write(&path).unwrap();
        let read = State::read(&path, &subject()).unwrap().unwrap();
        assert_eq!((read.seed, read.schedule), (7, Some((1, 2, 7))));
        assert_eq!(read.trials, state().trials);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn another_search_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        state().write(&path).unwrap();
        let refused = |change: fn(&mut Subject), word: &str| {
            let mut other = subject();
            change(&mut other);
            let error = State::read(&path, &other).unwrap_err();
            assert!(error.to_string().contains(word) && error.exit_code() == 2, "{error}");
        };
        refused(|subject| subject.command.push("-l".into()), "the command differs");
        refused(|subject| subject.space.push("x:1".into()), "other settings");
        refused(|subject| subject.allocator = "jemalloc".into(), "allocator");
        refused(|subject| subject.trace = Some(("t".into(), 1)), "trace");
    }

    #[test]
    fn hostile_files_are_damaged_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let text = state().text().unwrap();
        let is_refused = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            let error = State::read(&path, &subject()).unwrap_err();
            assert_eq!(error.exit_code(), 7, "{error}");
        };
        // Cut off anywhere but at the very end.
        for length in (1..text.len() - 2).step_by(7) {
            is_refused(&text.as_bytes()[..length]);
        }
        is_refused(text.replace("state/1", "state/9").as_bytes());
        is_refused(text.replace("1.0", "-1.0").as_bytes());
        is_refused(text.replace("\"peak_rss\": 1000000.0", "\"peak_rss\": 1e999").as_bytes());
        is_refused(text.replace("\"code\": 3", "\"code\": 3000").as_bytes());
        is_refused("[".repeat(100_000).as_bytes());
        is_refused(b"\0\0\0");
        is_refused(b"{}");
    }
}
