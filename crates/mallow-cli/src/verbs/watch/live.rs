// SPDX-License-Identifier: MIT
//! What is shown while a run is watched: a chart on a terminal, a line for each sample elsewhere.

use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph};
use ratatui::{DefaultTerminal, Frame};

use crate::output::chart;
use crate::output::clean;
use crate::output::colour::is_wanted;
use crate::output::screen;
use crate::output::{self, Screen};
use mallow_measure::watched::{Run, Sample, Summary};
use mallow_os::wait_readable;

use super::run;

/// How long the end of the process may go unnoticed while keys are waited for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub enum Live {
    /// And whether the watch ends the process.
    /// The terminal is not dropped: it would write to a standard error that may be gone too, and panic.
    Chart(ManuallyDrop<DefaultTerminal>, bool),
    Lines {
        heading: bool,
    },
    Nothing,
}

impl Live {
    /// `plain`: the result that follows is a table too; `ends`: the watch ends the process.
    pub fn new(quiet: bool, plain: bool, ends: bool) -> Live {
        if wants_chart(quiet) {
            return Live::Chart(ManuallyDrop::new(ratatui::init()), ends);
        }
        if plain && !quiet { Live::Lines { heading: true } } else { Live::Nothing }
    }

    fn is_chart(&self) -> bool {
        matches!(self, Live::Chart(..))
    }

    /// False if there is nobody any more who reads it.
    pub fn show(&mut self, run: &Run, sample: &Sample) -> bool {
        match self {
            Live::Chart(terminal, ends) => terminal.draw(|frame| draw(frame, run, *ends)).is_ok(),
            Live::Lines { heading } => {
                let is_first = std::mem::take(heading);
                let head = !is_first || line(HEADING.map(str::to_owned));
                head && line(cells(run, sample))
            }
            Live::Nothing => true,
        }
    }

    /// Waits until the process ends or the time is over; true if the user wants to end the watch, or has left.
    pub fn wait(&self, process: &OwnedFd, time: Duration) -> bool {
        if !self.is_chart() {
            let _ = wait_readable(process, time);
            return false;
        }
        if !screen::wait_for_keys(time.min(LOOK_EVERY)) {
            return true;
        }
        match event::poll(Duration::ZERO) {
            Ok(true) => matches!(event::read(), Ok(Event::Key(key)) if ends(key)),
            _ => false,
        }
    }

    pub fn close(&mut self) {
        if let Live::Chart(terminal, _) = self {
            screen::give_back(terminal);
        }
        *self = Live::Nothing; // a panic restores the terminal too: ratatui sees to it
    }
}

pub fn wants_chart(quiet: bool) -> bool {
    !quiet && output::is_interactive()
}

fn ends(key: KeyEvent) -> bool {
    let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

fn cells(run: &Run, sample: &Sample) -> [String; 8] {
    let size = |value: u64| output::bytes(value as f64);
    let optional = |value: Option<u64>| value.map_or("-".into(), size);
    [
        output::seconds(sample.time_s),
        size(sample.rss),
        optional(sample.pss),
        size(sample.swap),
        (sample.minor_faults + sample.major_faults).to_string(),
        optional(sample.heap_used),
        optional(sample.heap_free),
        run.summary.trend.map_or(String::new(), run::rate),
    ]
}

const HEADING: [&str; 8] =
    ["time", "RSS", "PSS", "swap", "faults", "heap used", "heap free", "trend of RSS"];

fn line(cells: [String; 8]) -> bool {
    let [figures @ .., trend] = &cells;
    let text: Vec<String> = figures.iter().map(|cell| format!("{cell:>10}")).collect();
    writeln!(std::io::stdout(), "{}", format!("{}  {trend}", text.join(" ")).trim_end()).is_ok()
}

/// What a line is drawn with, so that it is told from the others without its colour.
const MARKERS: [(Marker, &str); 5] = [
    (Marker::Braille, "⠒⠒"),
    (Marker::Custom('P'), "PP"),
    (Marker::Custom('u'), "uu"),
    (Marker::Custom('f'), "ff"),
    (Marker::Custom('s'), "ss"),
];

/// By the name of the line: not all are there in each run.
fn marker(name: &str) -> (Marker, &'static str) {
    let place = ["RSS", "PSS", "heap in use", "heap free but kept", "swap"];
    MARKERS[place.iter().position(|known| *known == name).unwrap_or(0)]
}

const COLOURS: [Color; 5] = [Color::Cyan, Color::Blue, Color::Red, Color::Yellow, Color::Magenta];

fn draw(frame: &mut Frame, run: &Run, ends: bool) {
    let (area, lines) = (frame.area(), run::lines(run));
    let width = usize::from(area.width);
    let (summary, legend) = (summary_lines(run, width), legend(&lines, ends, width));
    let rows = |lines: &[Line]| Constraint::Length(lines.len() as u16);
    let [top, middle, bottom] =
        Layout::vertical([rows(&summary), Constraint::Min(5), rows(&legend)]).areas(area);
    frame.render_widget(Paragraph::new(summary), top);
    frame.render_widget(chart(&lines), middle);
    frame.render_widget(Paragraph::new(legend), bottom);
}

/// Below the chart, within which it would hide the lines: the key first, then names, which are not cut.
fn legend(lines: &[chart::Line], ends: bool, width: usize) -> Vec<Line<'static>> {
    const GAP: &str = "  ";
    let key = if ends { "q ends the command too" } else { "q ends the watch only" };
    let mut legend = vec![Line::from(key)];
    for (line, colour) in lines.iter().zip(COLOURS) {
        let (_, sign) = marker(&line.name);
        let name = Span::styled(format!("{sign} {}", line.name), colour_style(colour));
        match legend.last_mut() {
            Some(last) if last.width() + GAP.len() + name.width() <= width => {
                last.push_span(GAP);
                last.push_span(name);
            }
            _ => legend.push(Line::from(name)),
        }
    }
    legend
}

fn chart(lines: &[chart::Line]) -> Chart<'_> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let highest = points().map(|point| point.1).fold(1024.0, f64::max) * 1.1;
    let end = points().map(|point| point.0).fold(0.1, f64::max);
    let sets = lines.iter().zip(COLOURS).map(|(line, colour)| {
        Dataset::default()
            .marker(marker(&line.name).0)
            .graph_type(GraphType::Line)
            .style(colour_style(colour))
            .data(&line.points)
    });
    let x = [Line::from("0 s"), Line::from(output::seconds(end))];
    let y = [0.0, 0.5, 1.0].map(|part| Line::from(output::bytes(highest * part)));
    Chart::new(sets.collect())
        .block(Block::bordered().title(" memory over time "))
        .x_axis(Axis::default().bounds([0.0, end]).labels(x))
        .y_axis(Axis::default().bounds([0.0, highest]).labels(y))
}

fn colour_style(colour: Color) -> Style {
    if is_wanted(&std::io::stderr()) { Style::default().fg(colour) } else { Style::default() }
}

/// The name may be cut, no figure is.
fn summary_lines(run: &Run, width: usize) -> Vec<Line<'static>> {
    let Summary { rss, duration_s, trend, .. } = run.summary;
    let name = format!("{} {} ({})", run.pid, clean::line(&run.command), run.allocator);
    let figures = format!(
        "RSS {} now{}, {} average, {} peak; {} faults in {}",
        output::bytes(rss.end),
        trend.map_or(String::new(), |trend| format!(" ({})", run::rate(trend))),
        output::bytes(rss.average),
        output::bytes(rss.peak),
        run.summary.faults(),
        output::seconds(duration_s)
    );
    let figures = Screen { unicode: false, width: Some(width) }.fill(&figures);
    let figures = figures.lines().map(|line| Line::from(line.to_owned()));
    std::iter::once(Line::from(name)).chain(figures).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_measure::watched::History;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    /// A chart on a terminal so wide.
    fn drawn(width: u16, swap: u64, ends: bool) -> String {
        let sample = |n: u64| Sample {
            time_s: n as f64,
            rss: n << 20,
            pss: Some(n << 19),
            swap,
            heap_used: Some(n << 18),
            heap_free: Some(4 << 20),
            ..Sample::default()
        };
        let run = Run { pid: 7, command: "cat".into(), ..Run::default() };
        let mut history = History::new(run, true);
        (0..50).map(sample).for_each(|sample| history.add(sample));
        history.find_trend();
        let mut terminal = Terminal::new(TestBackend::new(width, 20)).unwrap();
        terminal.draw(|frame| draw(frame, &history.run, ends)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn chart_is_drawn_and_its_lines_differ_without_colour() {
        let text = drawn(80, 0, false);
        assert!(text.contains("49.0 MiB now") && text.contains("49.0 MiB peak"), "{text}");
        assert!(text.contains("(+1.00 MiB/s for 49.0 s)"), "{text}");
        assert!(text.contains("memory over time") && text.contains("RSS"), "{text}");
        assert!(text.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c)), "{text}");
        for (letter, name) in [('P', "PP PSS"), ('u', "uu heap in use"), ('f', "ff heap free")] {
            assert!(text.contains(name), "{text}");
            assert!(text.matches(letter).count() > 20, "{letter}: {text}");
        }
    }

    #[test]
    fn nothing_is_cut_on_a_narrow_terminal() {
        for width in [30, 40, 60, 80, 200] {
            let text = drawn(width, 4096, true);
            let words: Vec<&str> = text.split([' ', '"', '\n']).collect();
            for word in ["now", "average,", "peak;", "faults", "q", "too", "RSS", "kept", "swap"] {
                assert!(words.contains(&word), "{width}, {word}:\n{text}");
            }
        }
        assert!(drawn(40, 0, false).contains("q ends the watch only"));
    }
}
