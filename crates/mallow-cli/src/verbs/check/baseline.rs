// SPDX-License-Identifier: MIT
//! The file of the baseline.

use std::fs::File;
use std::path::Path;

use mallow_report::baseline::{Baseline, SCHEMA};

use crate::error::{Error, Result};
use crate::{output, parse};

/// `None` where there is no such file.
pub fn read(path: &Path) -> Result<Option<Baseline>> {
    let Some(text) = parse::kept_text(path, "baseline", damaged)? else { return Ok(None) };
    parse::of_schema(&text, SCHEMA).map(Some).map_err(|reason| damaged(path, &reason))
}

pub fn write(baseline: &Baseline, path: &Path) -> Result<()> {
    let text = baseline.text().map_err(|error| Error::Internal(error.to_string()))?;
    output::replace_file(path, &text, None)
        .map_err(Error::io(format!("The baseline cannot be written to {}", path.display())))
}

/// An empty file where the first baseline will be, while it is measured: commands that list their folder, as
/// pytest does, then find as many files as in all later runs.
pub struct Placeholder<'a> {
    path: Option<&'a Path>,
}

impl<'a> Placeholder<'a> {
    pub fn new(path: &'a Path) -> Placeholder<'a> {
        let is_new = File::options().write(true).create_new(true).open(path).is_ok();
        Placeholder { path: is_new.then_some(path) }
    }

    /// The baseline itself is there.
    pub fn replaced(mut self) {
        self.path = None;
    }
}

impl Drop for Placeholder<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.path {
            // What is left is said to be no baseline, and what to do.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn damaged(path: &Path, reason: &str) -> Error {
    Error::Damaged(format!(
        "{} is no baseline of mallow check: {reason}. Restore it, or remove it and write it anew with \
         --update.",
        path.display()
    ))
}
