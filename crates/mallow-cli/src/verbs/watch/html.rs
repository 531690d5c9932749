// SPDX-License-Identifier: MIT
//! Watched runs as one page: charts and figures.

use maud::{Markup, html};

use crate::output;
use crate::output::chart::{self, Line};
use crate::output::clean;
use crate::output::html::{self, Page};
use mallow_measure::timeline::Figures;
use mallow_measure::watched::Run;

use super::compare::{self, Difference};
use super::run;

pub fn page(run: &Run) -> String {
    let title = format!("mallow watch: {}", run.command);
    let body = html! {
        (html::head(&title, None, &sentence(run)))
        (chart::svg("Memory over time", &run::lines(run)))
        (figures(run))
    };
    whole(&title, body)
}

pub fn comparison_page(a: (&str, &Run), b: (&str, &Run), differences: &[Difference]) -> String {
    let title = format!("mallow watch: {} and {}", a.0, b.0);
    let line = |(name, run): (&str, &Run)| Line {
        name: if name == run.allocator {
            name.into()
        } else {
            format!("{name} ({})", run.allocator)
        },
        points: run.points(|sample| Some(sample.rss)),
    };
    let body = html! {
        (html::head(&title, None, &compare::sentence(a.0, b.0, differences)))
        (chart::svg("RSS over time", &[line(a), line(b)]))
        div.scroll {
            table {
                thead {
                    tr {
                        th {}
                        th { (clean::line(a.0)) }
                        th { (clean::line(b.0)) }
                        th { "difference" }
                    }
                }
                tbody {
                    @for difference in differences {
                        tr {
                            th scope="row" { (difference.name) }
                            td { (difference.show(difference.a)) }
                            td { (difference.show(difference.b)) }
                            td { (difference.percent()) }
                        }
                    }
                }
            }
        }
    };
    whole(&title, body)
}

fn whole(title: &str, body: Markup) -> String {
    Page { title, body, version: env!("CARGO_PKG_VERSION"), script: None }.render()
}

/// What there is to say in one line.
pub fn sentence(run: &Run) -> String {
    let summary = &run.summary;
    format!(
        "{} under {}: RSS {} on average over {}, {} at its peak, {} at the end{}; {} faults ({} \
         from disk); it {}.",
        clean::line(&run.command),
        if run.allocator.is_empty() { "an unknown allocator" } else { &run.allocator },
        output::bytes(summary.rss.average),
        output::seconds(summary.duration_s),
        output::bytes(summary.rss.peak),
        output::bytes(summary.rss.end),
        summary.trend.map_or(String::new(), |trend| format!(", {}", run::rate(trend))),
        summary.faults(),
        summary.major_faults,
        run.ending
    )
}

fn figures(run: &Run) -> Markup {
    html! {
        div.scroll {
            table {
                thead {
                    tr { th {} th { "average" } th { "peak" } th { "end" } }
                }
                tbody {
                    @for (name, Figures { average, peak, end }) in super::rows(&run.summary) {
                        tr {
                            th scope="row" { (name) }
                            td { (output::bytes(average)) }
                            td { (output::bytes(peak)) }
                            td { (output::bytes(end)) }
                        }
                    }
                }
            }
        }
    }
}
