// SPDX-License-Identifier: MIT
//! What `enable` did, or would do, as data.

use std::path::PathBuf;

use serde::Serialize;

use mallow_enabling::elsewhere::Other;
use mallow_enabling::{Outcome, Place, System, Wanted, described};

#[derive(Debug, Serialize)]
pub struct Report {
    pub schema: &'static str,
    pub is_dry_run: bool,
    /// Lines for a file that others own: nothing is written then.
    pub snippet: Option<Snippet>,
    /// Who has enabled it before: nothing is written then either.
    pub already: Option<Other>,
    pub files: Vec<File>,
    /// What changes beside the files.
    pub also: Vec<String>,
    /// How to make it take effect, where the system runs.
    pub next: Vec<String>,
    /// The command for that.
    pub undo: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Snippet {
    /// The option that asks for it, such as "docker".
    pub form: &'static str,
    pub allocator: String,
    /// What LD_PRELOAD gets.
    pub preload: String,
    pub text: String,
}

#[derive(Debug, Serialize)]
pub struct File {
    #[serde(serialize_with = "described")]
    pub place: Place,
    pub allocator: String,
    /// What LD_PRELOAD gets; of a wrapper what `mallow run -a` gets.
    pub preload: String,
    #[serde(serialize_with = "mallow_process::lossy::path")]
    pub library: PathBuf,
    #[serde(serialize_with = "mallow_process::lossy::path")]
    pub file: PathBuf,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What the file holds then.
    pub text: String,
    /// The command that makes systemd take the change.
    pub restart: Option<String>,
}

impl Default for Report {
    fn default() -> Report {
        Report {
            schema: "mallow.enable/1",
            is_dry_run: false,
            snippet: None,
            already: None,
            files: Vec::new(),
            also: Vec::new(),
            next: Vec::new(),
            undo: None,
        }
    }
}

impl File {
    pub fn new(wanted: &Wanted, outcome: Outcome, system: &System) -> File {
        File {
            place: wanted.place.clone(),
            allocator: wanted.allocator.clone(),
            preload: wanted.word.clone(),
            library: wanted.library.clone(),
            file: system.at(&wanted.file),
            outcome,
            text: wanted.text.clone(),
            restart: wanted.place.restart(),
        }
    }
}
