//! The result of `compare` as one HTML file that needs nothing else: no script, no network.

use std::fmt::Write as _;

use super::timeline;
use crate::comparing::report::{ConditionReport, Entry, Report};
use crate::output;
use crate::output::chart;
use crate::output::html::{self, Page, escape};
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
    let mut body = html::head("mallow compare", Some(&report.command), &report.verdict);
    for condition in &report.conditions {
        body += &section(condition);
    }
    body += &method(report);
    let title = format!("mallow compare: {}", report.command);
    Page { title: &title, body: &body, version: report.version, script: None }.render()
}

fn section(condition: &ConditionReport) -> String {
    let mut text = String::from("<section>\n");
    if !condition.name.is_empty() {
        let _ = writeln!(text, "<h2>{}</h2>", escape(&condition.name));
    }
    text += &table(&condition.entries);
    let time = |entry: &Entry| values(entry, |run| Some(run.wall_s));
    let memory = |entry: &Entry| values(entry, |run| Some(run.peak_rss));
    let average = |entry: &Entry| values(entry, |run| run.average_rss);
    text += &plot("Time of each run", &condition.entries, &time, Quantity::Seconds);
    text += &plot("Peak RSS of each run", &condition.entries, &memory, Quantity::Bytes);
    text += &plot("Average RSS of each run", &condition.entries, &average, Quantity::Bytes);
    text += &over_time(&condition.entries);
    text + "</section>\n"
}

fn values(entry: &Entry, metric: impl Fn(&mallow_measure::run::Sample) -> Option<f64>) -> Vec<f64> {
    let finished = entry.runs.iter().filter(|run| run.sample.outcome == Outcome::Finished);
    finished.filter_map(|run| metric(&run.sample)).collect()
}

fn table(entries: &[Entry]) -> String {
    let mut text = String::from(
        "<div class=\"scroll\"><table>\n<thead><tr><th>allocator</th><th>time</th>\
         <th>against baseline</th><th>user + system</th><th>against baseline</th><th>peak RSS</th>\
         <th>against baseline</th><th>average RSS</th><th>faults</th><th>runs</th></tr></thead>\n\
         <tbody>\n",
    );
    for entry in entries {
        let show = |metric: &Option<Metric>, form: fn(f64) -> String| {
            metric.as_ref().map_or("–".to_owned(), |metric| form(metric.median))
        };
        let mut runs = entry.runs_finished.to_string();
        for failure in &entry.failures {
            let _ = write!(runs, "; {} {}", failure.count, failure.text);
        }
        let version = entry.version.as_deref().unwrap_or("");
        let _ = writeln!(
            text,
            "<tr><th scope=\"row\">{} <small>{}</small></th><td>{}</td>{}<td>{} + {}</td>{}\
             <td>{}</td>{}<td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&entry.allocator),
            escape(version),
            show(&entry.wall_s, output::seconds),
            verdict_cell(entry, "time"),
            show(&entry.user_s, output::seconds),
            show(&entry.system_s, output::seconds),
            verdict_cell(entry, "CPU"),
            show(&entry.peak_rss, output::bytes),
            verdict_cell(entry, "memory"),
            show(&entry.average_rss, output::bytes),
            show(&entry.minor_faults, |count| format!("{count:.0}")),
            escape(&runs)
        );
    }
    text + "</tbody></table></div>\n"
}

fn verdict_cell(entry: &Entry, metric: &str) -> String {
    let versus = match metric {
        "time" => &entry.time,
        "CPU" => &entry.cpu,
        _ => &entry.memory,
    };
    versus_cell(entry, versus, metric)
}

fn versus_cell(entry: &Entry, versus: &Option<Versus>, metric: &str) -> String {
    match versus {
        _ if entry.is_baseline => "<td class=\"quiet\">baseline</td>".into(),
        None => "<td class=\"quiet\">not compared</td>".into(),
        Some(known) => {
            let class = match known.verdict {
                Verdict::Less => "better",
                Verdict::More => "worse",
                Verdict::NoDifference => "same",
                Verdict::Inconclusive => "quiet",
            };
            format!(
                "<td class=\"{class}\" title=\"{}\">{}</td>",
                escape(&wording::difference(versus)),
                escape(&wording::verdict(known, metric))
            )
        }
    }
}

/// Memory over time: a chart, a sentence, a table.
fn over_time(entries: &[Entry]) -> String {
    let known = timeline::known(entries);
    if known.is_empty() {
        return String::new();
    }
    let lines = known.iter().map(|(entry, line)| chart::Line {
        name: entry.allocator.clone(),
        points: line.points.clone(),
    });
    let lines: Vec<chart::Line> = lines.collect();
    let mut text = chart::svg("RSS over time, of a typical run of each", &lines);
    let _ = write!(
        text,
        "<p>{}</p><div class=\"scroll\"><table>\n<thead><tr><th>RSS over time</th>",
        escape(timeline::sentence(&known).trim_end())
    );
    for level in ["average", "peak", "end"] {
        let _ = write!(text, "<th>{level}</th><th>against baseline</th>");
    }
    text += "</tr></thead>\n<tbody>\n";
    for (entry, line) in &known {
        let _ = write!(text, "<tr><th scope=\"row\">{}</th>", escape(&entry.allocator));
        for level in line.levels() {
            let _ = write!(
                text,
                "<td>{}</td>{}",
                output::bytes(level.metric.median),
                versus_cell(entry, &level.versus, "memory")
            );
        }
        text += "</tr>\n";
    }
    text + "</tbody></table></div>\n"
}

/// A row for each allocator: every run a dot, the middle half a box, the median a line.
fn plot(
    title: &str,
    entries: &[Entry],
    values: &dyn Fn(&Entry) -> Vec<f64>,
    quantity: Quantity,
) -> String {
    let rows: Vec<(&Entry, Vec<f64>)> =
        entries.iter().map(|entry| (entry, values(entry))).filter(|(_, v)| !v.is_empty()).collect();
    let Some(scale) = Scale::over(rows.iter().flat_map(|(_, values)| values)) else {
        return String::new();
    };
    let height = ROW_HEIGHT * rows.len() as f64 + AXIS_HEIGHT;
    let width = LABEL_WIDTH + PLOT_WIDTH + VALUE_WIDTH;
    let mut text = format!(
        "<figure><figcaption>{title}</figcaption>\n<svg viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-label=\"{title}\">\n"
    );
    text += &axis(&scale, height - AXIS_HEIGHT, quantity);
    for (index, (entry, values)) in rows.iter().enumerate() {
        let middle = ROW_HEIGHT * (index as f64 + 0.5);
        text += &plot_row(entry, values, middle, &scale, quantity);
    }
    text + "</svg></figure>\n"
}

fn axis(scale: &Scale, bottom: f64, quantity: Quantity) -> String {
    let mut text = String::new();
    let unit = match quantity {
        Quantity::Seconds => 1.0,
        Quantity::Bytes if scale.high < 1048576.0 => 1024.0,
        Quantity::Bytes => 1048576.0,
    };
    for tick in scale.ticks(unit) {
        let x = scale.place(tick);
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{bottom}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            bottom + 18.0,
            quantity.show(tick)
        );
    }
    text
}

fn plot_row(
    entry: &Entry,
    values: &[f64],
    middle: f64,
    scale: &Scale,
    quantity: Quantity,
) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [low, median, high] = QUARTILES.map(|part| quantile(&sorted, part));
    let [x_low, x_median, x_high] = [low, median, high].map(|value| scale.place(value));
    let class = if entry.is_baseline { "row base" } else { "row" };
    let mut text = format!(
        "<g class=\"{class}\"><title>{}: median {}, middle half {} to {}, {} runs</title>\
         <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
         <rect class=\"box\" x=\"{x_low:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
        escape(&entry.allocator),
        quantity.show(median),
        quantity.show(low),
        quantity.show(high),
        values.len(),
        LABEL_WIDTH - 10.0,
        middle + 4.0,
        escape(&entry.allocator),
        middle - BOX_HALF,
        (x_high - x_low).max(1.0),
        2.0 * BOX_HALF
    );
    for (index, value) in values.iter().enumerate() {
        // Spread by the run's number, so that equal values do not hide each other.
        let spread = ((index * 5) % 9) as f64 - 4.0;
        let _ = write!(
            text,
            "<circle class=\"run\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.2\"/>",
            scale.place(*value),
            middle + 1.6 * spread
        );
    }
    let _ = writeln!(
        text,
        "<line class=\"median\" x1=\"{x_median:.1}\" x2=\"{x_median:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
         <text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
        middle - BOX_HALF - 3.0,
        middle + BOX_HALF + 3.0,
        LABEL_WIDTH + PLOT_WIDTH + VALUE_WIDTH - 4.0,
        middle + 4.0,
        quantity.show(median)
    );
    text
}

fn quantile(sorted: &[f64], part: f64) -> f64 {
    let place = part * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

#[derive(Clone, Copy)]
enum Quantity {
    Seconds,
    Bytes,
}

impl Quantity {
    fn show(self, value: f64) -> String {
        match self {
            Quantity::Seconds => output::seconds(value),
            Quantity::Bytes => output::bytes(value),
        }
    }
}

/// From values to SVG units. The axis begins at zero unless all values lie close together.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn over<'a>(values: impl Iterator<Item = &'a f64>) -> Option<Scale> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            low = low.min(*value);
            high = high.max(*value);
        }
        if !low.is_finite() {
            return None;
        }
        let margin = ((high - low) * 0.06).max(high * 0.01);
        let low = if low < 0.5 * high { 0.0 } else { low - margin };
        Some(Scale { low, high: high + margin })
    }

    fn place(&self, value: f64) -> f64 {
        LABEL_WIDTH + PLOT_WIDTH * (value - self.low) / (self.high - self.low)
    }

    /// Round numbers of the unit, about five of them.
    fn ticks(&self, unit: f64) -> Vec<f64> {
        let rough = (self.high - self.low) / unit / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|s| *s >= rough);
        let step = unit * step.unwrap_or(rough);
        let first = (self.low / step).ceil();
        let ticks = (0..20).map(|n| (first + f64::from(n)) * step);
        ticks.take_while(|tick| *tick <= self.high).collect()
    }
}

fn method(report: &Report) -> String {
    let settings = &report.settings;
    format!(
        "<section><h2>How this was measured</h2>\n\
         <p>{}. {} rounds after {} warm-up, {} in all; in each round every allocator ran once, in \
         random order (seed {}). Shown are medians. An allocator counts as different from the \
         baseline when a paired rank test over the rounds says so and the difference is at least \
         {} %; \u{201c}no difference\u{201d} means that a smaller difference than that was shown, \
         \u{201c}inconclusive\u{201d} that neither was. Each interval holds with {:.2} %, so that \
         all of them together hold with 95 %. Before the first timing it was checked in the running \
         process that each library serves malloc. Peak RSS is that of the largest process; average \
         RSS is sampled over all processes.</p></section>\n",
        escape(&wording::machine(&report.machine)),
        settings.rounds_made,
        settings.warmup,
        output::seconds(settings.took_s),
        settings.seed,
        settings.margin_percent,
        settings.confidence * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_is_round_and_holds_everything() {
        let scale = Scale::over([0.41, 0.47, 0.44].iter()).unwrap();
        assert!(scale.low > 0.0, "close values use the whole width");
        assert!(scale.place(0.41) >= LABEL_WIDTH);
        assert!(scale.place(0.47) <= LABEL_WIDTH + PLOT_WIDTH);
        assert!((3..=8).contains(&scale.ticks(1.0).len()), "{:?}", scale.ticks(1.0));
        assert_eq!(Scale::over([1.0, 10.0].iter()).unwrap().low, 0.0);
        assert!(Scale::over([].iter()).is_none());
        assert!(!Scale::over([5.0].iter()).unwrap().ticks(1.0).is_empty());
    }

    #[test]
    fn quantiles_interpolate() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&sorted, 0.5), 2.5);
        assert_eq!(quantile(&sorted, 0.25), 1.75);
        assert_eq!(quantile(&[7.0], 0.75), 7.0);
    }
}
