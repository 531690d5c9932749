//! Watched runs as one page: charts and figures.

use std::fmt::Write as _;

use crate::output;
use crate::output::chart::{self, Line};
use crate::output::html::{self, Page, escape};
use mallow_measure::timeline::Figures;

use super::compare::{self, Difference};
use super::run::Run;

pub fn page(run: &Run) -> String {
    let mut body = html::head(&format!("mallow watch: {}", run.command), None, &sentence(run));
    body += &chart::svg("Memory over time", &run.lines());
    body += &figures(run);
    whole(&format!("mallow watch: {}", run.command), &body)
}

pub fn comparison_page(a: (&str, &Run), b: (&str, &Run), differences: &[Difference]) -> String {
    let title = format!("mallow watch: {} and {}", a.0, b.0);
    let mut body = html::head(&title, None, &compare::sentence(a.0, b.0, differences));
    let line = |(name, run): (&str, &Run)| Line {
        name: if name == run.allocator {
            name.into()
        } else {
            format!("{name} ({})", run.allocator)
        },
        points: run.points(|sample| Some(sample.rss)),
    };
    body += &chart::svg("RSS over time", &[line(a), line(b)]);
    body += "<div class=\"scroll\"><table><thead><tr><th></th>";
    let _ = write!(body, "<th>{}</th><th>{}</th>", escape(a.0), escape(b.0));
    body += "<th>difference</th></tr></thead><tbody>\n";
    for difference in differences {
        let _ = writeln!(
            body,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
            difference.name,
            difference.show(difference.a),
            difference.show(difference.b),
            difference.percent()
        );
    }
    whole(&title, &(body + "</tbody></table></div>\n"))
}

fn whole(title: &str, body: &str) -> String {
    Page { title, body, version: env!("CARGO_PKG_VERSION"), script: None }.render()
}

/// What there is to say in one line.
pub fn sentence(run: &Run) -> String {
    let summary = &run.summary;
    format!(
        "{} under {}: RSS {} on average over {}, {} at its peak, {} at the end{}; {} faults ({} \
         from disk); it {}.",
        run.command,
        if run.allocator.is_empty() { "an unknown allocator" } else { &run.allocator },
        output::bytes(summary.rss.average),
        output::seconds(summary.duration_s),
        output::bytes(summary.rss.peak),
        output::bytes(summary.rss.end),
        summary.trend.map_or(String::new(), |trend| format!(", {}", trend.text())),
        summary.minor_faults + summary.major_faults,
        summary.major_faults,
        run.ending
    )
}

fn figures(run: &Run) -> String {
    let mut text = String::from(
        "<div class=\"scroll\"><table><thead><tr><th></th><th>average</th><th>peak</th>\
         <th>end</th></tr></thead><tbody>\n",
    );
    for (name, Figures { average, peak, end }) in super::rows(&run.summary) {
        let _ = writeln!(
            text,
            "<tr><th scope=\"row\">{name}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
            output::bytes(average),
            output::bytes(peak),
            output::bytes(end)
        );
    }
    text + "</tbody></table></div>\n"
}
