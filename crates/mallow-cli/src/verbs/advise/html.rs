// SPDX-License-Identifier: MIT
//! The report as one page that needs nothing else.

use mallow_advice::advise::Report;
use maud::html;

use super::text;
use crate::output::clean;
use crate::output::html::{self, Page};

pub fn page(report: &Report) -> String {
    let title = format!("mallow advise: {}", report.source);
    let body = html! {
        (html::head(&title, None, &text::sentence(report)))
        @for finding in &report.findings {
            div.finding {
                h3 { code { (finding.id) } " " (clean::line(finding.title)) }
                @for part in text::parts(finding) {
                    p {
                        b { (part.name) ":" } " "
                        @if part.is_typed { code { (clean::line(part.text)) } }
                        @else { (clean::line(part.text)) }
                    }
                }
            }
        }
        @if !report.not_judged.is_empty() {
            h2 { "Not judged" }
            ul { @for group in text::grouped(report) { li { (clean::line(&group)) } } }
        }
        (html::notes(&report.notes))
    };
    Page { title: &title, body, version: report.version, script: None }.render()
}
