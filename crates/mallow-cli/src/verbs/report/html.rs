//! The report as one HTML file that needs nothing else: its script draws from the data in it.

use mallow_report::Profile;
use mallow_report::flame::{self, Node};
use serde::Serialize;

use super::Report;
use crate::error::{Error, Result};
use crate::output::html::{Page, Script};

const SCRIPTS: [&str; 2] = [include_str!("page.js"), include_str!("flame.js")];
const BODY: &str = "<div id=\"report\"><noscript>This report is drawn by a script inside this \
    file; please allow it.</noscript></div>";

#[derive(Serialize)]
struct Data<'a> {
    #[serde(flatten)]
    report: &'a Report<'a>,
    flame: Node,
}

pub fn page(report: &Report, profile: &Profile, other: Option<&Profile>) -> Result<String> {
    let data = Data { report, flame: flame::tree(profile, other) };
    let data = serde_json::to_value(&data).map_err(|error| Error::Internal(error.to_string()))?;
    let title = format!("mallow report: {}", report.summary.recording.command.join(" "));
    let script = Script { name: "mallow report", code: &SCRIPTS, data: &data };
    let version = env!("CARGO_PKG_VERSION");
    Ok(Page { title: &title, body: BODY, version, script: Some(script) }.render())
}
