// SPDX-License-Identifier: MIT
//! The result of `check` as data.

use std::path::Path;

use mallow_report::baseline::{Change, Judged, Place, Verdict};
use serde::Serialize;

pub const SCHEMA: &str = "mallow.check/1";

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub schema: &'static str,
    pub version: &'static str,
    pub command: Vec<String>,
    pub baseline: String,
    /// Whether the baseline was written anew.
    pub updated: bool,
    /// Whether there was none before.
    pub created: bool,
    pub runs: u32,
    /// From that of the baseline, so that what changes with it is left out.
    pub environment_differs: bool,
    pub verdict: Verdict,
    /// File names of the programs that are counted.
    pub processes: Vec<String>,
    pub metrics: Vec<Judged>,
    /// By metric, the largest change first.
    pub changes: Vec<Change>,
    pub notes: Vec<String>,
}

/// The innermost place whose source is in the workspace, with its file relative to that.
pub fn place(places: &[Place]) -> Option<Place> {
    places.iter().find_map(in_workspace)
}

fn in_workspace(place: &Place) -> Option<Place> {
    let root = match std::env::var_os("GITHUB_WORKSPACE").filter(|root| !root.is_empty()) {
        Some(root) => root.into(),
        None => std::env::current_dir().ok()?,
    };
    let root = root.canonicalize().ok()?;
    let file = root.join(&place.file).canonicalize().ok()?;
    let file = file.strip_prefix(&root).ok().and_then(Path::to_str)?;
    Some(Place { file: file.to_owned(), line: place.line })
}
