// SPDX-License-Identifier: MIT
//! A line chart of values over time as SVG, for pages that need nothing else.

use maud::{Markup, html};

use super::clean;
use mallow_measure::timeline::higher;
use mallow_stats::figures::{bytes, seconds};

const LEFT: f64 = 80.0;
const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 260.0;
const BOTTOM: f64 = 30.0;
const TICKS: u32 = 5;
/// The highest bar.
const RATES: f64 = 60.0;
const RATES_GAP: f64 = 24.0;
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
pub fn svg(title: &str, lines: &[Line]) -> Markup {
    Chart { title, lines, ..Chart::default() }.figure()
}

/// Bytes over seconds, and what else happened in that time.
#[derive(Default)]
pub struct Chart<'a> {
    pub title: &'a str,
    pub lines: &'a [Line],
    /// Whether the first line is filled below.
    pub is_filled: bool,
    /// Bars below the lines: what they count, and how many a second there were, at equal steps.
    pub rates: Option<(&'a str, &'a [f64])>,
    /// Moments with what is said of them.
    pub marks: &'a [(f64, String)],
    /// When the time ends; else with the last point.
    pub end: Option<f64>,
}

/// From values to places in the picture.
struct Scale {
    end: f64,
    top: f64,
}

impl Scale {
    fn x(&self, time: f64) -> f64 {
        LEFT + WIDTH * time / self.end
    }

    fn y(&self, value: f64) -> f64 {
        8.0 + HEIGHT * (1.0 - value / self.top)
    }
}

impl Chart<'_> {
    /// A script may put a cursor into the picture: its data say where the time begins and ends.
    pub fn figure(&self) -> Markup {
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let end = self.end.unwrap_or_else(|| all().map(|point| point.0).fold(0.0, f64::max));
        let top = nice(all().map(|point| point.1).fold(0.0, f64::max).max(1024.0));
        let scale = Scale { end: end.max(1e-3), top };
        let bottom = HEIGHT + self.rates.map_or(0.0, |_| RATES + RATES_GAP);
        let title = clean::line(self.title);
        let view = format!("0 0 {:.0} {:.0}", LEFT + WIDTH + 20.0, bottom + BOTTOM + 8.0);
        html! {
            figure {
                figcaption { (title) }
                svg viewBox=(view) role="img" aria-label=(title) data-left=(LEFT)
                    data-width=(WIDTH) data-bottom=(bottom) data-end=(scale.end) {
                    (axes(&scale, bottom))
                    (self.drawn_lines(&scale))
                    @if let Some((name, rates)) = self.rates { (bars(name, rates, bottom)) }
                    @for (x, mark) in self.marks.iter().map(|(at, mark)| (scale.x(*at), mark)) {
                        line.marker x1=(place(x)) x2=(place(x)) y1="0" y2=(bottom) {
                            title { (clean::line(mark)) }
                        }
                    }
                }
                (self.legend())
            }
        }
    }

    fn drawn_lines(&self, scale: &Scale) -> Markup {
        let areas = self.lines.iter().take(usize::from(self.is_filled));
        html! {
            @for line in areas { (area(&thinned(&line.points), scale)) }
            @for (index, line) in self.lines.iter().enumerate() {
                polyline class=(colour(index)) stroke-dasharray=(dashes(index))
                    points=(places(&thinned(&line.points), scale)) {
                    title { (clean::line(&line.name)) }
                }
            }
        }
    }

    fn legend(&self) -> Markup {
        html! {
            p.legend {
                @for (index, line) in self.lines.iter().enumerate() {
                    span class={ "c" (index % COLOURS) } {
                        svg width="34" height="8" aria-hidden="true" {
                            line class=(colour(index)) stroke-dasharray=(dashes(index)) x2="34"
                                y1="4" y2="4" {}
                        }
                        " " (clean::line(&line.name))
                    }
                    " "
                }
                @if let Some((name, _)) = self.rates {
                    span { i.rates {} "below: " (clean::line(name)) }
                }
            }
        }
    }
}

/// A coordinate, as exact as can be seen.
pub fn place(value: f64) -> String {
    format!("{value:.1}")
}

fn colour(index: usize) -> String {
    format!("line c{}", index % COLOURS)
}

fn dashes(index: usize) -> &'static str {
    DASHES[index % DASHES.len()]
}

fn places(points: &[(f64, f64)], scale: &Scale) -> String {
    let places: Vec<String> = points
        .iter()
        .map(|point| format!("{:.1},{:.1}", scale.x(point.0), scale.y(point.1)))
        .collect();
    places.join(" ")
}

/// What lies below a line.
fn area(points: &[(f64, f64)], scale: &Scale) -> Markup {
    let ends = points.first().zip(points.last());
    html! {
        @if let Some((first, last)) = ends {
            @let corner = |time| format!("{:.1},{:.1}", scale.x(time), scale.y(0.0));
            polygon.area
                points={ (corner(first.0)) " " (places(points, scale)) " " (corner(last.0)) } {}
        }
    }
}

fn axes(scale: &Scale, bottom: f64) -> Markup {
    let parts = (0..=TICKS).map(|tick| f64::from(tick) / f64::from(TICKS));
    html! {
        @for part in parts {
            @let (value, time) = (scale.top * part, scale.end * part);
            @let y = place(scale.y(value));
            line.grid x1=(LEFT) x2=(place(LEFT + WIDTH)) y1=(y) y2=(y) {}
            text.axis x=(place(LEFT - 8.0)) y=(place(scale.y(value) + 4.0)) {
                (bytes(value))
            }
            text.tick x=(place(scale.x(time))) y=(place(bottom + BOTTOM)) {
                (seconds(time))
            }
        }
    }
}

fn bars(name: &str, rates: &[f64], bottom: f64) -> Markup {
    let most = rates.iter().copied().fold(0.0, f64::max).max(1e-9);
    let width = WIDTH / rates.len().max(1) as f64;
    let shown = || rates.iter().enumerate().filter(|(_, rate)| **rate > 0.0);
    html! {
        g {
            title { (clean::line(name)) ": at most " (format!("{most:.0}")) }
            text.axis x=(place(LEFT - 8.0)) y=(place(bottom - RATES + 10.0)) {
                (thousands(most)) "/s"
            }
            @for (index, height) in shown().map(|(index, rate)| (index, RATES * rate / most)) {
                rect.rate x=(place(LEFT + width * index as f64)) y=(place(bottom - height))
                    width=(format!("{:.2}", (width - 0.3).max(0.8))) height=(place(height)) {}
            }
        }
    }
}

/// `640 k`, `1.25 M`.
fn thousands(value: f64) -> String {
    match value {
        _ if value >= 999.5e3 => format!("{:.2} M", value / 1e6),
        _ if value >= 999.5 => format!("{:.0} k", value / 1e3),
        _ => format!("{value:.0}"),
    }
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
        let drawn = drawn.into_string();
        assert!(
            drawn.contains("a&lt;b") && drawn.contains("x&amp;y") && drawn.contains("polyline")
        );
        assert!(!drawn.contains("class=\"area\"") && !drawn.contains("class=\"rate\""));
    }

    #[test]
    fn bars_and_marks_stand_below_their_time() {
        let lines = [Line { name: "live".into(), points: vec![(0.5, 1e6), (1.5, 2e6)] }];
        let marks = [(2.0, "a<b".to_owned())];
        let rates = Some(("calls a second", &[0.0, 10.0, 5.0, 0.0][..]));
        let drawn = Chart {
            title: "t",
            lines: &lines,
            is_filled: true,
            rates,
            marks: &marks,
            end: Some(2.0),
        };
        let drawn = drawn.figure().into_string();
        assert_eq!(drawn.matches("class=\"rate\"").count(), 2, "{drawn}");
        // Half of the highest, on the same ground.
        assert!(drawn.contains("height=\"60.0\"") && drawn.contains("height=\"30.0\""), "{drawn}");
        assert!(
            drawn.contains("<title>a&lt;b</title>") && drawn.contains("x1=\"960.0\""),
            "{drawn}"
        );
        assert!(drawn.contains("data-end=\"2\"") && drawn.contains("class=\"area\""), "{drawn}");
    }
}
