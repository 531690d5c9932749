// SPDX-License-Identifier: MIT
//! The result in the forms that continuous integration reads.

use std::fmt::Write as _;

use mallow_report::baseline::{Change, Judged, Metric, Verdict};
use serde_json::{Value, json};

use super::report::Report;
use super::text;
use crate::error::Result;
use crate::output;

const SARIF_SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// GitHub shows ten of each kind.
const MOST_ANNOTATIONS: usize = 10;

/// `allocations: 100 → 101 (+1.0 %, tolerance 0 %)`
fn message(judged: &Judged) -> String {
    format!(
        "{}: {} → {} ({}, tolerance {})",
        judged.metric.name(),
        text::range(judged.metric, judged.before),
        text::range(judged.metric, judged.after),
        text::change(judged),
        text::tolerance(judged.metric, judged.tolerance_percent)
    )
}

fn of_stack(change: &Change) -> String {
    format!(
        "{}: {} → {} in {}",
        change.metric.name(),
        text::quantity(change.metric, change.before),
        text::range(change.metric, change.after),
        change.stack
    )
}

/// The changes that explain why a metric regressed.
fn guilty(report: &Report, metric: Metric) -> impl Iterator<Item = &Change> {
    report.changes.iter().filter(move |change| change.metric == metric && change.is_more())
}

pub fn junit(report: &Report) -> String {
    let count = |verdict| report.metrics.iter().filter(|judged| judged.verdict == verdict).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\"",
        report.metrics.len(),
        count(Verdict::Regressed),
        count(Verdict::Inconclusive)
    );
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(xml, "<testsuites name=\"mallow check\" {counts}>");
    let _ = writeln!(xml, "  <testsuite name=\"mallow check\" {counts} skipped=\"0\" time=\"0\">");
    for judged in &report.metrics {
        let name = judged.metric.name();
        let _ = write!(xml, "    <testcase classname=\"mallow.check\" name=\"{name}\" time=\"0\"");
        let element = match judged.verdict {
            Verdict::Regressed => "failure",
            Verdict::Inconclusive => "error",
            Verdict::Ok | Verdict::Improved => {
                xml.push_str("/>\n");
                continue;
            }
        };
        let stacks: Vec<String> = guilty(report, judged.metric).map(of_stack).collect();
        let _ = writeln!(
            xml,
            ">\n      <{element} type=\"{}\" message=\"{}\">{}</{element}>\n    </testcase>",
            judged.verdict.word(),
            escaped(&message(judged)),
            escaped(&stacks.join("\n"))
        );
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

/// For XML, which has no place for most control characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push('\n'),
            letter if letter.is_control() => escaped.push('?'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// A result for each stack that made a metric regress, or for the metric where no stack did.
pub fn sarif(report: &Report) -> Result<String> {
    let mut results = Vec::new();
    for judged in &report.metrics {
        let level = match judged.verdict {
            Verdict::Regressed => "error",
            Verdict::Inconclusive => "warning",
            Verdict::Ok | Verdict::Improved => continue,
        };
        let before = results.len();
        for change in guilty(report, judged.metric) {
            results.push(result(report, judged, level, Some(change)));
        }
        if results.len() == before {
            results.push(result(report, judged, level, None));
        }
    }
    let rules = Metric::ALL.map(|metric| {
        let name = metric.name();
        json!({
            "id": rule(metric),
            "shortDescription": { "text": format!("More {name} than the baseline says") },
        })
    });
    output::json(&json!({
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "mallow", "version": report.version, "rules": rules } },
            "results": results,
        }],
    }))
}

fn rule(metric: Metric) -> String {
    format!("mallow-check/{}", metric.name())
}

/// Code scanning shows results with a place alone: without one in the source it is the baseline.
fn result(report: &Report, judged: &Judged, level: &str, change: Option<&Change>) -> Value {
    let (text, stack) = match change {
        Some(change) => (of_stack(change), change.stack.as_str()),
        None => (message(judged), ""),
    };
    let place = change.and_then(|change| change.place.as_ref());
    let (file, line) = match place {
        Some(place) => (place.file.as_str(), place.line.max(1)),
        None => (report.baseline.as_str(), 1),
    };
    json!({
        "ruleId": rule(judged.metric),
        "level": level,
        "message": { "text": text },
        "locations": [{ "physicalLocation": {
            "artifactLocation": { "uri": uri(file) },
            "region": { "startLine": line },
        } }],
        "partialFingerprints": { "mallowStack/v1": format!("{} {stack}", judged.metric.name()) },
    })
}

/// A path as a reference of RFC 3986.
fn uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            byte => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

/// Commands in the log of a workflow: one line each.
pub fn annotations(report: &Report) -> String {
    let mut lines = String::new();
    for judged in &report.metrics {
        let name = judged.metric.name();
        let (kind, title) = match judged.verdict {
            Verdict::Ok => continue,
            Verdict::Regressed => ("error", format!("{name} regressed")),
            Verdict::Inconclusive => ("warning", format!("{name} inconclusive")),
            Verdict::Improved => ("notice", format!("{name} improved")),
        };
        let title = property(&format!("mallow check: {title}"));
        let _ = writeln!(lines, "::{kind} title={title}::{}", data(&message(judged)));
        if judged.verdict != Verdict::Regressed {
            continue;
        }
        for change in guilty(report, judged.metric).take(MOST_ANNOTATIONS) {
            let Some(place) = &change.place else { continue };
            let file = property(&place.file);
            let text = data(&of_stack(change));
            let _ =
                writeln!(lines, "::error file={file},line={},title={title}::{text}", place.line);
        }
    }
    lines
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_special_in_a_format_is_escaped() {
        assert_eq!(escaped("a<b>(\"&\u{1}\")"), "a&lt;b&gt;(&quot;&amp;?&quot;)");
        assert_eq!(property("a,b: 5 %\n"), "a%2Cb%3A 5 %25%0A");
        assert_eq!(uri("src/a b#ä.c"), "src/a%20b%23%C3%A4.c");
    }
}
