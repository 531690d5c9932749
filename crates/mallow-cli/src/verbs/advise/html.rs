//! The report as one page that needs nothing else.

use std::fmt::Write as _;

use super::report::Report;
use super::text;
use crate::output::html::{self, Page, escape};

pub fn page(report: &Report) -> String {
    let title = format!("mallow advise: {}", report.source);
    let mut body = html::head(&title, None, &text::sentence(report));
    for finding in &report.findings {
        let _ = write!(
            body,
            "<div class=\"finding\"><h3><code>{}</code> {}</h3>",
            finding.id,
            escape(finding.title)
        );
        for (name, what) in text::parts(finding) {
            let _ = write!(body, "<p><b>{name}:</b> {}</p>", escape(what));
        }
        body += "</div>\n";
    }
    if !report.not_judged.is_empty() {
        body += "<h2>Not judged</h2>\n<ul>\n";
        for group in text::grouped(report) {
            let _ = writeln!(body, "<li>{}</li>", escape(&group));
        }
        body += "</ul>\n";
    }
    for note in &report.notes {
        let _ = writeln!(body, "<p class=\"quiet\">{}</p>", escape(note));
    }
    Page { title: &title, body: &body, version: report.version, script: None }.render()
}
