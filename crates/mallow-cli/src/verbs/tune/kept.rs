// SPDX-License-Identifier: MIT
//! The state of a search in its file. It is written whole after each round, so that it is never half a
//! file.

use std::path::Path;

use mallow_measure::search::state::{SCHEMA, State, Subject};

use crate::error::{Error, Result};
use crate::{output, parse};

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
            state.subject.difference(subject)
        )));
    }
    Ok(Some(state))
}

pub fn write(state: &State, path: &Path) -> Result<()> {
    let text = text(state).map_err(|error| Error::Internal(error.to_string()))?;
    output::replace_file(path, &text, None)
        .map_err(Error::io(format!("The state cannot be written to {}", path.display())))
}

fn text(state: &State) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(&state.file())? + "\n")
}

fn understood(text: &str) -> std::result::Result<State, String> {
    State::understood(parse::of_schema(text, SCHEMA)?)
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
    use std::collections::BTreeMap;

    use mallow_measure::search::trial::{Failure, Place, Stage, Trial};

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
        state.defaults_failed = true;
        let mut add = |stage, candidate, outcome| {
            state.trials.insert(Place { stage, round: 0, candidate }, outcome);
        };
        add(
            Stage::Step(3),
            0,
            Ok(Trial { time_s: 1.0, cpu_s: 0.5, peak_rss: 1e6, is_peak_of_start: false }),
        );
        add(Stage::Confirmation, 1, Err(Failure { text: "ended".into(), code: 3 }));
        state
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        assert!(read(&path, &subject()).unwrap().is_none());
        std::fs::write(&path, "").unwrap();
        assert!(read(&path, &subject()).unwrap().is_none());
        write(&state(), &path).unwrap();
        let read = read(&path, &subject()).unwrap().unwrap();
        assert_eq!((read.seed, read.schedule), (7, Some((1, 2, 7))));
        assert!(read.defaults_failed);
        assert_eq!(read.trials, state().trials);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }

    /// What follows from figures that are read again is what followed from those that were measured.
    #[test]
    fn figures_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let mut written = state();
        for round in 0..2000 {
            let time_s = 0.0029 + f64::from(round).sqrt() / 7e5;
            let trial =
                Trial { time_s, cpu_s: time_s / 3.0, peak_rss: 1e6, is_peak_of_start: false };
            let place = Place { stage: Stage::Confirmation, round, candidate: 0 };
            written.trials.insert(place, Ok(trial));
        }
        write(&written, &path).unwrap();
        assert_eq!(read(&path, &subject()).unwrap().unwrap().trials, written.trials);
    }

    #[test]
    fn devices_links_and_rights_stay_as_they_are() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "").unwrap();
        std::fs::set_permissions(path("file"), PermissionsExt::from_mode(0o640)).unwrap();
        for (link, target) in [("off", "/dev/null"), ("link", "file"), ("nowhere", "new")] {
            symlink(target, path(link)).unwrap();
            write(&state(), &path(link)).unwrap();
            assert_eq!(path(link).read_link().unwrap(), Path::new(target));
        }
        assert!(!Path::new("/dev/null").is_file() && read(&path("off"), &subject()).is_ok());
        assert_eq!(read(&path("file"), &subject()).unwrap().unwrap().seed, 7);
        assert_eq!(path("file").metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert!(path("new").is_file());
    }

    #[test]
    fn another_search_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        write(&state(), &path).unwrap();
        let refused = |change: fn(&mut Subject), word: &str| {
            let mut other = subject();
            change(&mut other);
            let error = read(&path, &other).unwrap_err();
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
        let text = text(&state()).unwrap();
        let is_refused = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            let error = read(&path, &subject()).unwrap_err();
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
