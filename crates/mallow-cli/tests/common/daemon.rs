// SPDX-License-Identifier: MIT
//! A command that asks for something, and leaves a process behind that writes to its standard error.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::mallow;

/// What keeps a test from waiting for ever; nothing that works takes a part of it.
const FOR_EVER: Duration = Duration::from_secs(60);

fn comes(mut what: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while !what() {
        if begin.elapsed() > FOR_EVER {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// These words start the command, which ends with 3 when its question is answered; the process that it leaves behind
/// goes on until they have ended. With their exit code.
#[track_caller]
pub fn hears_a_daemon(words: &[&str]) -> Option<i32> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let script = "cd \"$0\"; (while [ ! -e later ]; do sleep 0.01; done; echo behind >&2) & \
                  printf 'Name? ' >&2; while [ ! -e answer ]; do sleep 0.01; done; exit 3";
    let errors = std::fs::File::create(path("errors")).unwrap();
    let command = ["--", "sh", "-c", script, folder.path().to_str().unwrap()];
    let mut child = mallow(&[words, &command].concat());
    let mut child = child.stdout(Stdio::null()).stderr(errors).spawn().unwrap();
    let text = |name: &Path| std::fs::read_to_string(name).unwrap();
    let is_asked = comes(|| text(&path("errors")).contains("Name? "));
    std::fs::write(path("answer"), "").unwrap();
    let has_ended = comes(|| child.try_wait().unwrap().is_some());
    std::fs::write(path("later"), "").unwrap();
    let code = child.wait().unwrap().code();
    let is_heard = comes(|| text(&path("errors")).contains("behind\n"));
    let all = (is_asked, has_ended, is_heard);
    assert_eq!(all, (true, true, true), "{words:?}: {}", text(&path("errors")));
    code
}
