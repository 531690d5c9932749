// SPDX-License-Identifier: MIT
//! The report as one page that needs nothing else.

use maud::{Markup, html};

use super::report::{Finding, Report};
use super::resolve::Call;
use super::text;
use crate::output::clean;
use crate::output::html::{self, Page};

pub fn page(report: &Report) -> String {
    let verdict = match report.findings.is_empty() {
        true => text::clean_end(report),
        false => text::closing(report),
    };
    let body = html! {
        (html::head("mallow guard", Some(&report.command), &verdict))
        @for finding in &report.findings { (section(finding)) }
        (html::notes(&report.notes))
    };
    Page { title: "mallow guard", body, version: report.version, script: None }.render()
}

fn section(finding: &Finding) -> Markup {
    html! {
        div.finding {
            h3 { code { (finding.id) } " " (finding.title) }
            p { (clean::line(&finding.sentence)) }
            @for fact in text::facts(finding) { p { (clean::line(&fact)) } }
            @for stack in &finding.stacks {
                h4 { (text::heading(stack, finding)) }
                (calls(&stack.calls))
            }
            @if !finding.memory.is_empty() {
                h4 { "Memory there" @if finding.damage.is_some() { "; [ ] is what was damaged" } }
                pre { @for line in text::dump(finding) { (line) "\n" } }
            }
            @for leak in &finding.leaks {
                h4 { (text::leak_line(leak)) }
                (calls(&leak.calls))
            }
            p.quiet { "What it means, and what to do: " code { "mallow help " (finding.id) } }
        }
    }
}

fn calls(calls: &[Call]) -> Markup {
    html! {
        ol start="0" {
            @for call in calls { li { code { (clean::line(&text::place(call))) } } }
        }
    }
}
