//! What is shown while a run is watched: a chart on a terminal, a line for each sample elsewhere.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph};
use ratatui::{DefaultTerminal, Frame};

use crate::output;

use super::run::{Run, Sample, Summary, points};

pub enum Live {
    Chart(DefaultTerminal),
    Lines { heading: bool },
    Nothing,
}

impl Live {
    /// `plain`: the result that follows is a table too.
    pub fn new(quiet: bool, plain: bool) -> Live {
        if wants_chart(quiet) {
            return Live::Chart(ratatui::init());
        }
        if plain && !quiet { Live::Lines { heading: true } } else { Live::Nothing }
    }

    pub fn is_chart(&self) -> bool {
        matches!(self, Live::Chart(_))
    }

    pub fn show(&mut self, run: &Run) {
        match self {
            Live::Chart(terminal) => {
                let _ = terminal.draw(|frame| draw(frame, run));
            }
            Live::Lines { heading } => {
                if std::mem::take(heading) {
                    line(
                        ["time", "RSS", "PSS", "swap", "faults", "heap used", "heap free"]
                            .map(str::to_owned),
                    );
                }
                if let Some(sample) = run.samples.last() {
                    line(cells(sample));
                }
            }
            Live::Nothing => {}
        }
    }

    /// Waits for a moment; true if the user wants to end.
    pub fn wait(&mut self, time: Duration) -> bool {
        if !self.is_chart() {
            std::thread::sleep(time);
            return false;
        }
        match event::poll(time) {
            Ok(true) => matches!(event::read(), Ok(Event::Key(key)) if ends(key)),
            _ => false,
        }
    }

    pub fn close(&mut self) {
        if self.is_chart() {
            ratatui::restore();
        }
        *self = Live::Nothing; // a panic restores the terminal too: ratatui sees to it
    }
}

fn wants_chart(quiet: bool) -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    !quiet && !dumb && !ci && std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

fn ends(key: KeyEvent) -> bool {
    let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

fn cells(sample: &Sample) -> [String; 7] {
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
    ]
}

fn line(cells: [String; 7]) {
    let text: Vec<String> = cells.iter().map(|cell| format!("{cell:>10}")).collect();
    // A reader that has gone away is no reason to stop.
    let _ = writeln!(std::io::stdout(), "{}", text.join(" "));
}

const COLOURS: [Color; 4] = [Color::Cyan, Color::Blue, Color::Red, Color::Yellow];

pub fn draw(frame: &mut Frame, run: &Run) {
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(5), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(summary_lines(run)), top);
    type Of = fn(&Sample) -> Option<u64>;
    let series: [(&str, Of); 4] = [
        ("RSS", |sample| Some(sample.rss)),
        ("PSS", |sample| sample.pss),
        ("heap in use", |sample| sample.heap_used),
        ("heap free", |sample| sample.heap_free),
    ];
    let mib = f64::from(1 << 20);
    let data: Vec<Vec<(f64, f64)>> = series
        .iter()
        .map(|(_, of)| points(&run.samples, of).into_iter().map(|(t, v)| (t, v / mib)).collect())
        .collect();
    let highest = data.iter().flatten().map(|point| point.1).fold(0.1, f64::max) * 1.1;
    let end = run.samples.last().map_or(1.0, |sample| sample.time_s).max(0.1);
    let sets = series.iter().zip(&data).zip(COLOURS).filter(|((_, data), _)| !data.is_empty());
    let sets: Vec<Dataset> = sets
        .map(|(((name, _), data), colour)| {
            Dataset::default()
                .name(*name)
                .marker(Marker::Braille)
                .graph_type(GraphType::Line)
                .style(colour_style(colour))
                .data(data)
        })
        .collect();
    let x = Axis::default()
        .bounds([0.0, end])
        .labels([Line::from("0 s"), Line::from(output::seconds(end))]);
    let labels = [0.0, 0.5, 1.0].map(|part| Line::from(output::bytes(highest * part * mib)));
    let y = Axis::default().bounds([0.0, highest]).labels(labels);
    let chart =
        Chart::new(sets).block(Block::bordered().title(" memory over time ")).x_axis(x).y_axis(y);
    frame.render_widget(chart, middle);
    frame.render_widget(Paragraph::new("q ends the watch, not the process"), bottom);
}

fn colour_style(colour: Color) -> Style {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if plain { Style::default() } else { Style::default().fg(colour) }
}

fn summary_lines(run: &Run) -> Vec<Line<'static>> {
    let Summary { rss, duration_s, minor_faults, major_faults, .. } = Summary::of(&run.samples);
    let name = format!("{} {} ({})", run.pid, run.command, run.allocator);
    let figures = format!(
        "RSS {} now, {} average, {} peak; {} faults in {}",
        output::bytes(rss.end),
        output::bytes(rss.average),
        output::bytes(rss.peak),
        minor_faults + major_faults,
        output::seconds(duration_s)
    );
    vec![Line::from(name), Line::from(figures)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    #[test]
    fn chart_is_drawn() {
        let sample = |n: u64| Sample { time_s: n as f64, rss: n << 20, ..Sample::default() };
        let run = Run {
            pid: 7,
            command: "cat".into(),
            samples: (0..50).map(sample).collect(),
            ..Run::default()
        };
        let mut terminal = Terminal::new(TestBackend::new(80, 20)).unwrap();
        terminal.draw(|frame| draw(frame, &run)).unwrap();
        let text = terminal.backend().to_string();
        assert!(text.contains("49.0 MiB now") && text.contains("49.0 MiB peak"), "{text}");
        assert!(text.contains("memory over time") && text.contains("RSS"), "{text}");
        assert!(text.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c)), "{text}");
    }
}
