//! The report as one HTML file that needs nothing else: styles, script and data are in it.

use mallow_report::Profile;
use mallow_report::flame::{self, Node};
use serde::Serialize;

use super::Report;
use crate::error::{Error, Result};
use crate::output::html::escape;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const FLAME_SCRIPT: &str = include_str!("flame.js");

#[derive(Serialize)]
struct Data<'a> {
    #[serde(flatten)]
    report: &'a Report<'a>,
    flame: Node,
    version: &'static str,
}

pub fn page(report: &Report, profile: &Profile, other: Option<&Profile>) -> Result<String> {
    let data =
        Data { report, flame: flame::tree(profile, other), version: env!("CARGO_PKG_VERSION") };
    let data = serde_json::to_string(&data).map_err(|error| Error::Internal(error.to_string()))?;
    // Nothing in a name may end the script element that holds the data.
    let data = data.replace('<', "\\u003c");
    let title = report.summary.recording.command.join(" ");
    // The title comes first in the page and is put in last, so that no text of the trace can be
    // taken for a place to fill.
    Ok(PAGE
        .replacen("@STYLE@", STYLE, 1)
        .replacen("@SCRIPT@", &[SCRIPT, FLAME_SCRIPT].concat(), 1)
        .replacen("@DATA@", &data, 1)
        .replacen("@TITLE@", &escape(&title), 1))
}
