// SPDX-License-Identifier: MIT
//! What `go test` needs to be held against a baseline. It does not run a test again whose result it has
//! kept, leaves out the names of its functions, and removes the program before anybody could ask it for
//! them. All of that can be asked for by variables.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

/// As the Go tool names the programs of tests.
pub const PROGRAMS: &str = "*.test";

/// Whether the command is `go test …`.
pub fn is_test(command: &[OsString]) -> bool {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let Some((program, rest)) = words.split_first() else { return false };
    let is_go = program.rsplit('/').next() == Some("go");
    is_go && matches!(rest, ["test", ..] | ["-C", _, "test", ..])
}

/// Variables for one run. Programs and all else that is built go to `folder`, and stay there.
pub fn variables(program: &OsStr, folder: &Path) -> Vec<(String, String)> {
    // Also what `go env -w` has set, which a variable replaces.
    let output = Command::new(program).args(["env", "GOFLAGS"]).stdin(Stdio::null()).output();
    let given = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    vec![
        ("GOFLAGS".into(), flags(&given.unwrap_or_default())),
        ("GOTMPDIR".into(), folder.display().to_string()),
    ]
}

/// What was given comes after, so that it holds.
fn flags(given: &str) -> String {
    format!("-work -count=1 '-ldflags=-s=0 -w=0' {given}").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_test_is_known_from_its_words() {
        let is = |line: &str| is_test(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(is("go test ./...") && is("/usr/local/go/bin/go test") && is("go -C ../x test ."));
        assert!(!is("go build ./...") && !is("go") && !is("./go.test test") && !is("go vet test"));
    }

    #[test]
    fn flags_that_were_given_hold() {
        assert!(flags("-tags=big -count=3").ends_with("-w=0' -tags=big -count=3"));
        assert!(flags("").ends_with("-w=0'"));
    }
}
