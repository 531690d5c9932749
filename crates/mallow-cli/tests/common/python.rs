// SPDX-License-Identifier: MIT
//! The Python interpreters of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Versions whose frames are read.
pub const KNOWN: [&str; 5] = ["3.11", "3.12", "3.13", "3.14", "3.15"];

/// The interpreters here, by version.
pub fn interpreters() -> Vec<(String, PathBuf)> {
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    let mut places: Vec<PathBuf> = vec!["/usr/bin".into(), "/usr/local/bin".into()];
    let home = std::env::var("HOME").unwrap_or_default();
    let managed = std::fs::read_dir(Path::new(&home).join(".pyenv/versions"));
    places.extend(managed.into_iter().flatten().flatten().map(|entry| entry.path().join("bin")));
    for place in places {
        for minor in 8..20 {
            let path = place.join(format!("python3.{minor}"));
            // Under the same name may stand a script that starts another one.
            let starts = Command::new(&path).args(["-c", ""]).output();
            if starts.is_ok_and(|output| output.status.success()) {
                found.push((format!("3.{minor}"), path));
            }
        }
    }
    found
}
