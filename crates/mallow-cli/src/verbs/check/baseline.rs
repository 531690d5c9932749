//! The file of the baseline.

use std::path::Path;

use mallow_report::baseline::{Baseline, SCHEMA};

use crate::error::{Error, Result};
use crate::output;
use crate::parse;

/// `None` where there is no such file.
pub fn read(path: &Path) -> Result<Option<Baseline>> {
    let Some(text) = parse::kept_text(path, "baseline", damaged)? else { return Ok(None) };
    parse::of_schema(&text, SCHEMA).map(Some).map_err(|reason| damaged(path, &reason))
}

pub fn write(baseline: &Baseline, path: &Path) -> Result<()> {
    let text = baseline.text().map_err(|error| Error::Internal(error.to_string()))?;
    output::write_file(path, &text)
}

fn damaged(path: &Path, reason: &str) -> Error {
    Error::Damaged(format!(
        "{} is no baseline of mallow check: {reason}. Restore it, or remove it and write it anew with \
         --update.",
        path.display()
    ))
}
