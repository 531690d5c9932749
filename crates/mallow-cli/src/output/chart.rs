//! A line chart of values over time as SVG, for pages that need nothing else.

use std::fmt::Write as _;

use super::html::escape;
use crate::output;
use mallow_measure::timeline::higher;

const LEFT: f64 = 80.0;
const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 260.0;
const BOTTOM: f64 = 30.0;
const TICKS: u32 = 5;
/// Classes of the style.
const COLOURS: usize = 8;
/// Lines differ by these too: on paper, and for those who do not see the colours.
const DASHES: [&str; 5] = ["none", "8 3", "2 3", "10 3 2 3", "5 5"];
/// More points than this would not be seen.
const MOST_POINTS: usize = 1500;

pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Bytes over seconds.
pub fn svg(title: &str, lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| &line.points);
    let end = all().map(|point| point.0).fold(0.0, f64::max).max(1e-3);
    let top = nice(all().map(|point| point.1).fold(0.0, f64::max).max(1024.0));
    let x = |time: f64| LEFT + WIDTH * time / end;
    let y = |value: f64| 8.0 + HEIGHT * (1.0 - value / top);
    let mut text = format!(
        "<figure><figcaption>{}</figcaption>\n<svg viewBox=\"0 0 {:.0} {:.0}\" role=\"img\" \
         aria-label=\"{}\">\n",
        escape(title),
        LEFT + WIDTH + 20.0,
        HEIGHT + BOTTOM + 8.0,
        escape(title)
    );
    for tick in 0..=TICKS {
        let part = f64::from(tick) / f64::from(TICKS);
        let (at, label) = (y(top * part), output::bytes(top * part));
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT + WIDTH,
            LEFT - 8.0,
            at + 4.0,
            x(end * part),
            HEIGHT + BOTTOM,
            output::seconds(end * part)
        );
    }
    for (index, line) in lines.iter().enumerate() {
        let points: Vec<String> = thinned(&line.points)
            .iter()
            .map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1)))
            .collect();
        let _ = writeln!(
            text,
            "<polyline class=\"line c{}\" stroke-dasharray=\"{}\" points=\"{}\"><title>{}</title>\
             </polyline>",
            index % COLOURS,
            DASHES[index % DASHES.len()],
            points.join(" "),
            escape(&line.name)
        );
    }
    text += "</svg>\n<p class=\"legend\">";
    for (index, line) in lines.iter().enumerate() {
        let _ = write!(
            text,
            "<span class=\"c{0}\"><svg width=\"34\" height=\"8\" aria-hidden=\"true\"><line \
             class=\"line c{0}\" stroke-dasharray=\"{1}\" x2=\"34\" y1=\"4\" y2=\"4\"/></svg> \
             {2}</span> ",
            index % COLOURS,
            DASHES[index % DASHES.len()],
            escape(&line.name)
        );
    }
    text + "</p></figure>\n"
}

/// Not less than the value, and a round number of KiB, MiB or GiB in each of the parts.
fn nice(value: f64) -> f64 {
    let unit = 1024f64.powf((value.log2() / 10.0).floor());
    let step = value / unit / f64::from(TICKS);
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|f| f * power >= step);
    factor.unwrap_or(10.0) * power * unit * f64::from(TICKS)
}

/// Of each stretch the highest point, so that no peak is lost.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let stretch = points.len().div_ceil(MOST_POINTS).max(1);
    let highest = |part: &[(f64, f64)]| part.iter().copied().reduce(higher);
    points.chunks(stretch).filter_map(highest).collect()
}

/// So many small bars on one line, as high as the highest value of their time.
pub fn sparkline(points: &[(f64, f64)], end: f64, top: f64, width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mut highest: Vec<Option<f64>> = vec![None; width];
    for (time, value) in points {
        let place = ((time / end * width as f64) as usize).min(width.saturating_sub(1));
        if let Some(bar) = highest.get_mut(place) {
            *bar = Some(bar.unwrap_or(0.0).max(*value));
        }
    }
    // Where the run had ended there is nothing; a gap before keeps its height.
    let last = highest.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    let mut height = 0.0;
    let bars = highest.into_iter().take(last).map(|value| {
        height = value.unwrap_or(height);
        BARS[((height / top * 8.0) as usize).min(7)]
    });
    bars.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_survive_and_scales_are_round() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|n| (f64::from(n), 1.0)).collect();
        points[7777].1 = 9.0;
        let thin = thinned(&points);
        assert!(thin.len() <= MOST_POINTS && thin.contains(&(7777.0, 9.0)));
        for value in [1024.0, 5e6, 3e7, 1.1e9, 7e10] {
            assert!(nice(value) >= value && nice(value) <= 2.6 * value, "{value}: {}", nice(value));
        }
        let spark = sparkline(&[(0.0, 1.0), (2.0, 8.0), (2.1, 3.0)], 4.0, 8.0, 8);
        assert_eq!(spark, "▂▂▂▂█");
        let drawn =
            svg("a<b", &[Line { name: "x&y".into(), points: vec![(0.0, 1e6), (1.0, 2e6)] }]);
        assert!(
            drawn.contains("a&lt;b") && drawn.contains("x&amp;y") && drawn.contains("polyline")
        );
    }
}
