// SPDX-License-Identifier: MIT
//! The result of `compare` as one HTML file that needs nothing else: no script, no network.

use maud::{Markup, html};

use super::timeline;
use crate::comparing::report::{ConditionReport, Entry, Report};
use crate::output;
use crate::output::chart::{self, place};
use crate::output::clean;
use crate::output::html::{self, Page};
use crate::output::scale::{Quantity, Scale};
use crate::output::wording;
use mallow_measure::run::Outcome;
use mallow_measure::statistics::Verdict;
use mallow_measure::verdict::{Metric, Versus};

// The plot, in SVG units.
const LABEL_WIDTH: f64 = 150.0;
const PLOT_WIDTH: f64 = 620.0;
const VALUE_WIDTH: f64 = 90.0;
const ROW_HEIGHT: f64 = 34.0;
const AXIS_HEIGHT: f64 = 28.0;
const BOX_HALF: f64 = 9.0;
/// Values outside these parts of the finished runs are drawn as dots only.
const QUARTILES: [f64; 3] = [0.25, 0.5, 0.75];

pub fn page(report: &Report) -> String {
    let title = format!("mallow compare: {}", report.command);
    let body = html! {
        (html::head("mallow compare", Some(&report.command), &report.verdict))
        @for condition in &report.conditions { (section(condition)) }
        (method(report))
    };
    Page { title: &title, body, version: report.version, script: None }.render()
}

fn section(condition: &ConditionReport) -> Markup {
    let entries = &condition.entries;
    let time = |entry: &Entry| values(entry, |run| Some(run.wall_s));
    let memory = |entry: &Entry| values(entry, |run| run.peak_rss);
    let average = |entry: &Entry| values(entry, |run| run.average_rss);
    html! {
        section {
            @if !condition.name.is_empty() { h2 { (clean::line(&condition.name)) } }
            (table(entries))
            (plot("Time of each run", entries, &time, Quantity::Seconds))
            (plot("Peak RSS of each run", entries, &memory, Quantity::Bytes))
            (plot("Average RSS of each run", entries, &average, Quantity::Bytes))
            (over_time(entries))
        }
    }
}

fn values(entry: &Entry, metric: impl Fn(&mallow_measure::run::Sample) -> Option<f64>) -> Vec<f64> {
    let finished = entry.runs.iter().filter(|run| run.sample.outcome == Outcome::Finished);
    finished.filter_map(|run| metric(&run.sample)).collect()
}

fn table(entries: &[Entry]) -> Markup {
    let columns = [
        "allocator",
        "time",
        "against baseline",
        "user + system",
        "against baseline",
        "peak RSS",
        "against baseline",
        "average RSS",
        "faults",
        "runs",
    ];
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        @for name in columns { th { (name) } }
                        @for value in entries.iter().take(1).flat_map(|entry| &entry.values) {
                            th { (clean::line(&value.name)) }
                        }
                    }
                }
                tbody { @for entry in entries { (table_row(entry)) } }
            }
        }
    }
}

fn table_row(entry: &Entry) -> Markup {
    let show = |metric: &Option<Metric>, form: fn(f64) -> String| {
        metric.as_ref().map_or("–".to_owned(), |metric| form(metric.median))
    };
    let (user, system) = (&entry.user_s, &entry.system_s);
    html! {
        tr {
            th scope="row" {
                (clean::line(&entry.who.name())) " "
                small { (clean::line(entry.who.version.as_deref().unwrap_or_default())) }
            }
            td { (show(&entry.wall_s, output::seconds)) }
            (versus_cell(entry, &entry.time, "time"))
            td { (show(user, output::seconds)) " + " (show(system, output::seconds)) }
            (versus_cell(entry, &entry.cpu, "CPU"))
            td {
                @match entry.peak_rss_below {
                    Some(most) => { "< " (output::bytes(most)) }
                    None => { (show(&entry.peak_rss, output::bytes)) }
                }
            }
            (versus_cell(entry, &entry.memory, "memory"))
            td { (show(&entry.average_rss, output::bytes)) }
            td { (show(&entry.minor_faults, |count| format!("{count:.0}"))) }
            td {
                (entry.runs_finished)
                @for failure in &entry.failures {
                    "; " (failure.count) " " (clean::line(&failure.text))
                }
            }
            @for value in &entry.values { td { (show(&value.metric, wording::plain)) } }
        }
    }
}

fn versus_cell(entry: &Entry, versus: &Option<Versus>, metric: &str) -> Markup {
    let Some(known) = versus.as_ref().filter(|_| !entry.who.is_baseline) else {
        let why = if entry.who.is_baseline { "baseline" } else { "not compared" };
        return html! { td.quiet { (why) } };
    };
    let class = match known.verdict {
        Verdict::Less => "better",
        Verdict::More => "worse",
        Verdict::NoDifference => "same",
        Verdict::Inconclusive => "quiet",
    };
    html! {
        td class=(class) title=(wording::difference(versus)) {
            (wording::verdict(known, metric))
        }
    }
}

/// Memory over time: a chart, a sentence, a table.
fn over_time(entries: &[Entry]) -> Markup {
    let known = timeline::known(entries);
    if known.is_empty() {
        return html! {};
    }
    let lines = known
        .iter()
        .map(|(entry, line)| chart::Line { name: entry.who.name(), points: line.points.clone() });
    let lines: Vec<chart::Line> = lines.collect();
    html! {
        (chart::svg("RSS over time, of a typical run of each", &lines))
        p { (clean::line(timeline::sentence(&known).trim_end())) }
        div.scroll {
            table {
                thead {
                    tr {
                        th { "RSS over time" }
                        @for level in ["average", "peak", "end"] {
                            th { (level) }
                            th { "against baseline" }
                        }
                    }
                }
                tbody {
                    @for (entry, line) in &known {
                        tr {
                            th scope="row" { (clean::line(&entry.who.name())) }
                            @for level in line.levels() {
                                td { (output::bytes(level.metric.median)) }
                                (versus_cell(entry, &level.versus, "memory"))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A row for each allocator: every run a dot, the middle half a box, the median a line.
fn plot(
    title: &str,
    entries: &[Entry],
    values: &dyn Fn(&Entry) -> Vec<f64>,
    quantity: Quantity,
) -> Markup {
    let rows: Vec<(&Entry, Vec<f64>)> =
        entries.iter().map(|entry| (entry, values(entry))).filter(|(_, v)| !v.is_empty()).collect();
    let Some(scale) = Scale::over(rows.iter().flat_map(|(_, values)| values)) else {
        return html! {};
    };
    let bottom = ROW_HEIGHT * rows.len() as f64;
    let width = LABEL_WIDTH + PLOT_WIDTH + VALUE_WIDTH;
    html! {
        figure {
            figcaption { (title) }
            svg viewBox={ "0 0 " (width) " " (bottom + AXIS_HEIGHT) } role="img"
                aria-label=(title) {
                (axis(&scale, bottom, quantity))
                @for (index, (entry, values)) in rows.iter().enumerate() {
                    @let middle = ROW_HEIGHT * (index as f64 + 0.5);
                    (plot_row(entry, values, middle, &scale, quantity))
                }
            }
        }
    }
}

fn axis(scale: &Scale, bottom: f64, quantity: Quantity) -> Markup {
    html! {
        @for tick in scale.ticks(quantity) {
            @let x = place(on_axis(scale, tick));
            line.grid x1=(x) x2=(x) y1="0" y2=(bottom) {}
            text.tick x=(x) y=(place(bottom + 18.0)) { (quantity.show(tick)) }
        }
    }
}

fn plot_row(
    entry: &Entry,
    values: &[f64],
    middle: f64,
    scale: &Scale,
    quantity: Quantity,
) -> Markup {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [low, median, high] = QUARTILES.map(|part| quantile(&sorted, part));
    let [x_low, x_median, x_high] = [low, median, high].map(|value| on_axis(scale, value));
    let label = entry.who.name();
    let name = clean::line(&label);
    // Spread by the run's number, so that equal values do not hide each other.
    let spread = |index: usize| 1.6 * (((index * 5) % 9) as f64 - 4.0);
    html! {
        g class=(if entry.who.is_baseline { "row base" } else { "row" }) {
            title {
                (name) ": median " (quantity.show(median)) ", middle half " (quantity.show(low))
                " to " (quantity.show(high)) ", " (values.len()) " runs"
            }
            text.label x=(place(LABEL_WIDTH - 10.0)) y=(place(middle + 4.0)) { (name) }
            rect.box x=(place(x_low)) y=(place(middle - BOX_HALF))
                width=(place((x_high - x_low).max(1.0))) height=(place(2.0 * BOX_HALF)) {}
            @for (index, value) in values.iter().enumerate() {
                circle.run cx=(place(on_axis(scale, *value))) cy=(place(middle + spread(index)))
                    r="2.2" {}
            }
            line.median x1=(place(x_median)) x2=(place(x_median))
                y1=(place(middle - BOX_HALF - 3.0)) y2=(place(middle + BOX_HALF + 3.0)) {}
            text.value x=(place(LABEL_WIDTH + PLOT_WIDTH + VALUE_WIDTH - 4.0))
                y=(place(middle + 4.0)) { (quantity.show(median)) }
        }
    }
}

fn on_axis(scale: &Scale, value: f64) -> f64 {
    LABEL_WIDTH + PLOT_WIDTH * scale.part(value)
}

fn quantile(sorted: &[f64], part: f64) -> f64 {
    let place = part * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

fn method(report: &Report) -> Markup {
    let settings = &report.settings;
    html! {
        section {
            h2 { "How this was measured" }
            p {
                (clean::line(&wording::machine(&report.machine))) ". " (settings.rounds_made)
                " rounds after " (settings.warmup) " warm-up, " (output::seconds(settings.took_s))
                " in all; in each round every allocator ran once, in random order (seed "
                (settings.seed) "). Shown are medians. An allocator counts as different from the \
                 baseline when a paired rank test over the rounds says so and the best estimate of \
                 the difference is at least " (settings.margin_percent) " %; \u{201c}no difference\u{201d} means that a \
                 smaller difference than that was shown, \u{201c}inconclusive\u{201d} that neither \
                 was. Each interval holds with " (format!("{:.2}", settings.confidence * 100.0))
                " %, so that all of them together hold with 95 %. Before the first timing it was \
                 checked in the running process that each library serves malloc. Peak RSS is that \
                 of the largest process; average RSS is sampled over all processes."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&sorted, 0.5), 2.5);
        assert_eq!(quantile(&sorted, 0.25), 1.75);
        assert_eq!(quantile(&[7.0], 0.75), 7.0);
    }
}
