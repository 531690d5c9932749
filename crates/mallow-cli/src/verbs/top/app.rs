// SPDX-License-Identifier: MIT
//! The list on a terminal: keys, refreshes, and what is started for a process of it.

use std::time::{Duration, Instant};

use mallow_process::processes::{Collector, Row};
use mallow_process::stat::Start;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal;

use super::args::{TopArgs, Units};
use super::children::{Errand, RECORDED, Running, trace_name};
use super::screen::{self, HELP, Over, Picture};
use super::terminal::Terminal;
use super::text;
use super::view::{Place, View};
use crate::error::Result;
use crate::output::{Screen, clean, colour};

/// Signals, and errands that end, are noticed after this time.
const LONGEST_WAIT: Duration = Duration::from_millis(200);
/// So long after the start heaps are shown as they come, then at each refresh.
const SETTLES: Duration = Duration::from_secs(5);
/// Columns that one arrow moves a text.
const SIDEWAYS: usize = 8;

enum Mode {
    List,
    /// With the filter that was before.
    Filter(String),
    Ask {
        pid: u32,
        start: Start,
        text: String,
    },
    Pane(Pane),
}

struct Pane {
    title: String,
    text: String,
    lines: Vec<String>,
    top: usize,
    left: usize,
}

impl Pane {
    /// Sentences are broken at the edge; tables, which have gaps, are moved sideways.
    fn wrap(&mut self, width: u16) {
        let width = usize::from(width).max(8);
        let broken = |line: &str| -> Vec<String> {
            let line = clean::line(line);
            if line.trim_start().contains("  ") {
                return vec![line.into_owned()];
            }
            textwrap::wrap(&line, width).into_iter().map(|part| part.into_owned()).collect()
        };
        self.lines = self.text.lines().flat_map(broken).collect();
    }

    fn scroll(&mut self, key: KeyCode, height: usize) {
        let most = self.lines.len().saturating_sub(height);
        let widest = self.lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        match key {
            KeyCode::Up | KeyCode::Char('k') => self.top = self.top.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.top += 1,
            KeyCode::PageUp => self.top = self.top.saturating_sub(height),
            KeyCode::PageDown | KeyCode::Char(' ') => self.top += height,
            KeyCode::Home | KeyCode::Char('g') => (self.top, self.left) = (0, 0),
            KeyCode::End | KeyCode::Char('G') => self.top = most,
            KeyCode::Left | KeyCode::Char('h') => self.left = self.left.saturating_sub(SIDEWAYS),
            KeyCode::Right | KeyCode::Char('l') if self.left + SIDEWAYS < widest => {
                self.left += SIDEWAYS;
            }
            _ => {}
        }
        self.top = self.top.min(most);
    }
}

pub struct App {
    collector: Collector,
    view: View,
    units: Units,
    all: bool,
    coloured: bool,
    rows: Vec<Row>,
    places: Vec<Place>,
    /// Who was chosen; else the first of the list is.
    chosen: Option<u32>,
    top: usize,
    size: (u16, u16),
    mode: Mode,
    message: String,
    errand: Option<Running>,
    is_over: bool,
}

impl App {
    pub fn new(args: &TopArgs, view: View, collector: Collector) -> App {
        App {
            collector,
            view: View { unicode: Screen::has_unicode(), ..view },
            units: args.units,
            all: args.all,
            coloured: colour::is_wanted(&std::io::stdout()),
            rows: Vec::new(),
            places: Vec::new(),
            chosen: None,
            top: 0,
            size: terminal::size().unwrap_or((80, 24)),
            mode: Mode::List,
            message: String::new(),
            errand: None,
            is_over: false,
        }
    }

    pub fn run(mut self, mut terminal: Terminal, args: &TopArgs) -> Result<()> {
        let outcome = self.watch(&mut terminal, args);
        // The terminal is the user's again before something is waited for.
        drop(terminal);
        if let Some(errand) = self.errand.take() {
            errand.end();
        }
        outcome
    }

    fn watch(&mut self, terminal: &mut Terminal, args: &TopArgs) -> Result<()> {
        let begin = Instant::now();
        let mut next = begin;
        let mut rounds = 0;
        while !self.is_over && !terminal.is_ended() {
            let mut is_news = terminal.obey_signals()?;
            if Instant::now() >= next {
                if args.count.is_some_and(|count| rounds >= count) {
                    break;
                }
                self.refresh()?;
                rounds += 1;
                // What took too long is not made up for.
                next = (next + args.interval).max(Instant::now());
                is_news = true;
            } else if begin.elapsed() < SETTLES && self.collector.take() {
                self.arrange();
                is_news = true;
            }
            is_news |= self.look_after_errand();
            if is_news && !terminal.draw(|frame| self.draw(frame)) {
                break;
            }
            let pause = next.saturating_duration_since(Instant::now()).min(LONGEST_WAIT);
            let mut has_event = false;
            if !terminal.wait(pause) {
                break;
            }
            // All that have come are obeyed before the list is drawn again.
            while matches!(event::poll(Duration::ZERO), Ok(true)) {
                let Ok(event) = event::read() else { return Ok(()) };
                self.obey(event, terminal, &mut next)?;
                has_event = true;
                if self.is_over {
                    break;
                }
            }
            if has_event && !terminal.draw(|frame| self.draw(frame)) {
                break;
            }
        }
        Ok(())
    }

    fn refresh(&mut self) -> Result<()> {
        self.collector.take();
        self.collector.refresh()?;
        self.arrange();
        let visible: Vec<u32> = self.visible().collect();
        Ok(self.collector.ask(self.selected_row().map(|row| row.pid), &visible)?)
    }

    fn arrange(&mut self) {
        self.rows = self.collector.rows(self.all);
        self.places = self.view.places(&self.rows);
        self.keep_in_sight();
    }

    fn height(&self) -> usize {
        screen::list_height(self.size.1)
    }

    fn visible(&self) -> impl Iterator<Item = u32> {
        let shown = self.places.iter().skip(self.top).take(self.height());
        shown.map(|place| self.rows[place.row].pid)
    }

    fn selected(&self) -> Option<usize> {
        let is_chosen = |place: &Place| Some(self.rows[place.row].pid) == self.chosen;
        let found = self.chosen.and_then(|_| self.places.iter().position(is_chosen));
        found.or_else(|| (!self.places.is_empty()).then_some(0))
    }

    fn selected_row(&self) -> Option<&Row> {
        Some(&self.rows[self.places[self.selected()?].row])
    }

    fn keep_in_sight(&mut self) {
        let height = self.height().max(1);
        let selected = self.selected().unwrap_or(0);
        self.top = self.top.clamp((selected + 1).saturating_sub(height), selected);
        // No empty lines below the list while something is above it.
        self.top = self.top.min(self.places.len().saturating_sub(height));
    }

    fn choose(&mut self, index: usize) {
        let index = index.min(self.places.len().saturating_sub(1));
        self.chosen = self.places.get(index).map(|place| self.rows[place.row].pid);
        self.keep_in_sight();
    }

    fn draw(&self, frame: &mut ratatui::Frame) {
        let summary = text::summary(&self.collector, &self.rows, self.places.len());
        let bottom = match &self.mode {
            Mode::Filter(_) => Some(format!("/{}_  Enter keeps it, Esc ends it", self.view.filter)),
            _ => self.errand_text().or_else(|| Some(self.message.clone())),
        };
        let picture = Picture {
            rows: &self.rows,
            places: &self.places,
            selected: self.selected(),
            top: self.top,
            sort: self.view.sort,
            reverse: self.view.reverse,
            units: self.units,
            unicode: self.view.unicode,
            coloured: self.coloured,
            summary: &self.titled(&summary),
            bottom: bottom.as_deref().filter(|text| !text.is_empty()),
            over: match &self.mode {
                Mode::Ask { text, .. } => Over::Question(text),
                Mode::Pane(pane) => Over::Pane {
                    title: &pane.title,
                    lines: &pane.lines,
                    top: pane.top,
                    left: pane.left,
                },
                Mode::List | Mode::Filter(_) => Over::Nothing,
            },
        };
        screen::draw(frame, &picture);
    }

    fn titled(&self, summary: &str) -> String {
        match (&self.mode, self.view.filter.as_str()) {
            (Mode::Filter(_), _) | (_, "") => format!("mallow top: {summary}"),
            (_, filter) => clean::line(&format!("mallow top /{filter}: {summary}")).into_owned(),
        }
    }

    fn obey(&mut self, event: Event, terminal: &mut Terminal, next: &mut Instant) -> Result<()> {
        match event {
            Event::Resize(width, height) => {
                self.size = (width, height);
                if let Mode::Pane(pane) = &mut self.mode {
                    pane.wrap(width);
                    pane.scroll(KeyCode::Null, screen::pane_height(height));
                }
                self.keep_in_sight();
            }
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                self.message.clear();
                let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
                match key.code {
                    KeyCode::Char('c') if is_control => self.is_over = true,
                    KeyCode::Char('z') if is_control => terminal.stop()?,
                    KeyCode::Char(' ') if matches!(self.mode, Mode::List) => *next = Instant::now(),
                    _ => self.press(key),
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn press(&mut self, key: KeyEvent) {
        let height = screen::pane_height(self.size.1);
        match &mut self.mode {
            Mode::List => self.press_in_list(key.code),
            Mode::Filter(_) => self.press_in_filter(key),
            Mode::Ask { .. } => self.answer(key.code),
            Mode::Pane(pane) => match key.code {
                KeyCode::Char('q') | KeyCode::Esc | KeyCode::Enter => self.mode = Mode::List,
                code => pane.scroll(code, height),
            },
        }
    }

    fn press_in_list(&mut self, key: KeyCode) {
        let (at, page) = (self.selected().unwrap_or(0), self.height().max(1));
        match key {
            KeyCode::Char('q') => self.is_over = true,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => {
                self.show("mallow top: keys and columns".into(), HELP.join("\n"))
            }
            KeyCode::Up | KeyCode::Char('k') => self.choose(at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.choose(at + 1),
            KeyCode::PageUp => self.choose(at.saturating_sub(page)),
            KeyCode::PageDown => self.choose(at + page),
            KeyCode::Home | KeyCode::Char('g') => {
                self.chosen = None;
                self.keep_in_sight();
            }
            KeyCode::End | KeyCode::Char('G') => self.choose(usize::MAX),
            KeyCode::Char('/') => self.mode = Mode::Filter(self.view.filter.clone()),
            KeyCode::Char('s' | '>') => self.change(|app| app.view.sort = app.view.sort.step(1)),
            KeyCode::Char('S' | '<') => self.change(|app| app.view.sort = app.view.sort.back()),
            KeyCode::Char('i') => self.change(|app| app.view.reverse = !app.view.reverse),
            KeyCode::Char('t') => self.change(|app| app.view.tree = !app.view.tree),
            KeyCode::Char('a') => self.change(|app| app.all = !app.all),
            KeyCode::Char('u') => self.units = self.units.next(),
            KeyCode::Enter => self.explain(),
            KeyCode::Char('r') => self.ask_to_record(),
            KeyCode::Esc if self.errand.is_some() => {
                self.errand.take().into_iter().for_each(Running::end);
                self.message = "ended".into();
            }
            KeyCode::Esc => self.change(|app| app.view.filter.clear()),
            _ => {}
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut App)) {
        let tree = self.view.tree;
        change(self);
        self.arrange();
        let order = if self.view.reverse { ", turned round" } else { "" };
        self.message = format!("sorted by {}{order}", self.view.sort.name());
        if self.view.tree != tree {
            self.message = if self.view.tree { "as a tree" } else { "as a list" }.into();
        }
    }

    fn press_in_filter(&mut self, key: KeyEvent) {
        let Mode::Filter(before) = &mut self.mode else { return };
        match key.code {
            KeyCode::Enter => self.mode = Mode::List,
            KeyCode::Esc => {
                self.view.filter = std::mem::take(before);
                self.mode = Mode::List;
            }
            KeyCode::Backspace => {
                self.view.filter.pop();
            }
            KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                self.view.filter.clear();
            }
            KeyCode::Char(character)
                if !character.is_control() && !key.modifiers.contains(KeyModifiers::ALT) =>
            {
                self.view.filter.push(character);
            }
            _ => {}
        }
        self.arrange();
    }

    fn explain(&mut self) {
        let Some(pid) = self.selected_row().map(|row| row.pid) else { return };
        self.send(Errand::Explain { pid });
    }

    fn ask_to_record(&mut self) {
        let Some(row) = self.selected_row() else { return };
        let Some(start) = self.collector.start(row.pid) else { return };
        let text = format!(
            "Record all allocations of {} ({}) for {} seconds?\nIt runs on, but slower: each call \
             meets a probe of the kernel. Takes root. The trace: {}\ny: yes   n: no",
            row.pid,
            clean::line(&row.name),
            RECORDED.as_secs(),
            trace_name(row.pid).display()
        );
        self.mode = Mode::Ask { pid: row.pid, start, text };
    }

    fn answer(&mut self, key: KeyCode) {
        let Mode::Ask { pid, start, .. } = self.mode else { return };
        match key {
            KeyCode::Char('y' | 'Y') => {
                self.mode = Mode::List;
                let now = mallow_process::stat::Stat::read(pid).ok().map(|stat| stat.start);
                // The number may be another process's by now.
                if now == Some(start) {
                    self.send(Errand::Record { pid, file: trace_name(pid) });
                } else {
                    self.message = format!("process {pid} has ended, or runs another program now");
                }
            }
            KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => {
                self.mode = Mode::List;
                self.message = "not recorded".into();
            }
            _ => {}
        }
    }

    fn send(&mut self, errand: Errand) {
        if self.errand.is_some() {
            return;
        }
        match Running::start(errand) {
            Ok(running) => self.errand = Some(running),
            Err(error) => self.message = clean::line(&error.to_string()).into_owned(),
        }
    }

    fn errand_text(&self) -> Option<String> {
        let running = self.errand.as_ref()?;
        Some(match &running.errand {
            Errand::Explain { pid } => format!("explaining {pid}; Esc ends it"),
            Errand::Record { pid, .. } => {
                let left = RECORDED.saturating_sub(running.since.elapsed()).as_secs_f64();
                format!("recording {pid}: {left:.0} s left; Esc ends it")
            }
        })
    }

    /// True if there is something else to show.
    fn look_after_errand(&mut self) -> bool {
        let Some(running) = &mut self.errand else { return false };
        let Some(text) = running.result() else { return true };
        let title = running.errand.title();
        self.errand = None;
        self.show(title, text);
        true
    }

    fn show(&mut self, title: String, text: String) {
        let mut pane = Pane { title, text, lines: Vec::new(), top: 0, left: 0 };
        pane.wrap(self.size.0);
        self.mode = Mode::Pane(pane);
    }
}
