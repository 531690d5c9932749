// SPDX-License-Identifier: MIT
//! The report as text: what to do first, then what could not be told.

use std::fmt::Write as _;

use mallow_advice::advise::{Finding, Report, RuleList, Step};

use crate::output::{Format, Screen, Table, clean};

/// Where lines are broken off a terminal.
const WIDTH: usize = 100;

pub fn sentence(report: &Report) -> String {
    let version = report.allocator_version.as_deref().map_or(String::new(), |v| format!(" {v}"));
    let who = format!("{}{version}, {}", report.allocator, report.source);
    // The process wrote its version itself, and may have written anything there.
    let who = clean::line(&who);
    match report.findings.len() {
        0 if report.not_judged.is_empty() => format!("Nothing to do ({who})."),
        0 => format!("Nothing to do, as far as can be told ({who})."),
        1 => format!("One thing to do ({who})."),
        count => format!("{count} things to do ({who})."),
    }
}

pub fn text(report: &Report, format: Format, screen: Screen) -> String {
    let width = screen.width.unwrap_or(WIDTH).clamp(20, WIDTH);
    let mut text = wrapped(&sentence(report), "", width);
    for finding in &report.findings {
        text += &match format {
            Format::Md => markdown(finding),
            _ => drawn(finding, width),
        };
    }
    if !report.not_judged.is_empty() {
        text += match format {
            Format::Md => "\n## Not judged\n\n",
            _ => "\nNot judged\n",
        };
    }
    for group in grouped(report) {
        let start = if format == Format::Md { "* " } else { "  " };
        text += &wrapped(&group, start, width);
    }
    for note in &report.notes {
        text += &wrapped(&format!("\nNote: {note}"), "", width);
    }
    if let Some(first) = report.findings.first() {
        let _ = write!(text, "\nmallow help {} explains the first.\n", first.id);
    }
    text
}

/// Rules that lack the same thing, in one line.
pub fn grouped(report: &Report) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for rule in &report.not_judged {
        match groups.iter_mut().find(|(why, _)| *why == rule.why) {
            Some((_, ids)) => ids.push(rule.id),
            None => groups.push((&rule.why, vec![rule.id])),
        }
    }
    let line = |(why, ids): &(&str, Vec<&str>)| format!("{}: {why}.", ids.join(", "));
    groups.iter().map(line).collect()
}

/// What is said of a finding, under its name.
pub struct Part<'a> {
    pub name: &'static str,
    pub text: &'a str,
    /// It is copied as it stands.
    pub is_typed: bool,
}

pub fn parts(finding: &Finding) -> [Part<'_>; 5] {
    let part = |name, text, is_typed| Part { name, text, is_typed };
    let is_typed = |step: &Step| matches!(step, Step::Typed(_));
    let (set, check) = (&finding.set, &finding.check);
    [
        part("seen", &finding.evidence, false),
        part("why", finding.reason, false),
        part("do", set.text(), is_typed(set)),
        part("effect", &finding.effect, false),
        part("check", check.text(), is_typed(check)),
    ]
}

fn drawn(finding: &Finding, width: usize) -> String {
    let mut text = wrapped(&format!("\n{} {}", finding.id, finding.title), "", width);
    for part in parts(finding) {
        let start = format!("  {:<8}", part.name);
        text += &match part.is_typed {
            true => format!("{start}{}\n", part.text),
            false => wrapped(part.text, &start, width),
        };
    }
    text
}

fn markdown(finding: &Finding) -> String {
    let mut text = format!("\n## {} {}\n\n", finding.id, finding.title);
    for part in parts(finding) {
        let _ = writeln!(text, "* {}: {}", part.name, part.text);
    }
    text
}

/// With the start before the first line, and as much room before the others.
fn wrapped(text: &str, start: &str, width: usize) -> String {
    let rest = " ".repeat(start.len());
    let options = textwrap::Options::new(width).initial_indent(start).subsequent_indent(&rest);
    textwrap::fill(text, options) + "\n"
}

pub fn csv(report: &Report) -> String {
    let mut table = Table::new(
        &["id", "title", "seen", "why", "do", "effect", "check"].map(|name| (name, false)),
    );
    for finding in &report.findings {
        let mut row = vec![finding.id.to_owned(), finding.title.to_owned()];
        row.extend(parts(finding).map(|part| part.text.to_owned()));
        table.rows.push(row);
    }
    table.render(Format::Csv, Screen::PLAIN)
}

pub fn rule_table(list: &RuleList) -> Table {
    let mut table = Table::new(&[("rule", false), ("of", false), ("what it finds", false)]);
    for rule in &list.rules {
        table.rows.push(vec![rule.id.into(), rule.of.into(), rule.title.into()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_calls_itself_stays_on_one_line() {
        let report = Report {
            schema: "",
            version: "",
            source: "process 7".into(),
            pid: Some(7),
            allocator: "mallow".into(),
            allocator_version: Some("0.1\nfast".into()),
            findings: vec![],
            not_judged: vec![],
            notes: vec![],
        };
        assert_eq!(sentence(&report), "Nothing to do (mallow 0.1\\nfast, process 7).");
    }

    #[test]
    fn what_is_copied_stays_on_one_line() {
        let finding = |set| Finding {
            id: "MLW2103",
            title: "",
            evidence: "seen".into(),
            reason: "why",
            set,
            effect: "effect".into(),
            check: Step::words("one word after the other"),
        };
        let line = "GLIBC_TUNABLES=glibc.malloc.trim_threshold=131072 program --with words";
        let of_lines = |set| drawn(&finding(set), 32);
        let typed = of_lines(Step::typed(line));
        assert!(typed.contains(&format!("\n  do      {line}\n")), "{typed}");
        assert!(typed.contains("\n  check   one word after the\n          other\n"), "{typed}");
        let said = of_lines(Step::words("MALLOC_CONF=narenas:1, or another allocator by preload"));
        assert!(said.contains("\n  do      MALLOC_CONF=narenas:1,\n          or"), "{said}");
    }
}
