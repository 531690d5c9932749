// SPDX-License-Identifier: MIT
//! The list drawn on a terminal of any size. Colours only add to what words, signs and places say.

use mallow_process::processes::Row;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::args::Units;
use super::columns::{self, Column, fitted};
use super::sort::Sort;
use super::view::Place;
use crate::output::clean;

/// From this height on there is a summary, from that one a line about the selected process.
const WITH_SUMMARY: u16 = 6;
const WITH_DETAIL: u16 = 9;
/// Figures of a heap that are older than this are paler.
const OLD_S: f64 = 30.0;

/// What is shown over the list, or instead of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over<'a> {
    Nothing,
    Question(&'a str),
    /// Lines, and the first one and the first column that are shown.
    Pane {
        title: &'a str,
        lines: &'a [String],
        top: usize,
        left: usize,
    },
}

/// Everything that a frame shows.
pub struct Picture<'a> {
    pub rows: &'a [Row],
    pub places: &'a [Place],
    pub selected: Option<usize>,
    /// The first place that is shown.
    pub top: usize,
    pub sort: Sort,
    pub reverse: bool,
    pub units: Units,
    pub unicode: bool,
    pub coloured: bool,
    pub summary: &'a str,
    /// Instead of the keys: a text that is typed, or something to say.
    pub bottom: Option<&'a str>,
    pub over: Over<'a>,
}

pub const HELP: [&str; 16] = [
    "Up Down PgUp PgDn Home End   choose",
    "Enter   explain its memory",
    "r       record it for ten seconds",
    "/       filter; Esc ends it",
    "s S     sort by the next column, back",
    "i       turn the order round",
    "t       tree",
    "a       also what has no memory",
    "u       units",
    "Space   refresh now",
    "Ctrl-Z  stop      q  quit",
    "",
    "LIVE: with the program. FREE: free but",
    "resident; AGE: since both were read.",
    "RATE, HISTORY: RSS. ROOM: below a limit",
    "of group or address space. ! is scarce.",
];

/// How many places of the list fit.
pub fn list_height(height: u16) -> usize {
    usize::from(height.saturating_sub(1 + lines_around(height)))
}

/// Beside the heading: summary, detail, keys.
fn lines_around(height: u16) -> u16 {
    u16::from(height >= WITH_SUMMARY) + u16::from(height >= WITH_DETAIL) + u16::from(height >= 3)
}

pub fn draw(frame: &mut Frame, picture: &Picture) {
    let area = frame.area();
    if area.is_empty() {
        return;
    }
    if let Over::Pane { title, lines, top, left } = &picture.over {
        pane(frame, title, lines, *top, *left);
        return;
    }
    let mut at = 0;
    if area.height >= WITH_SUMMARY {
        put(frame, at, Line::from(picture.summary.to_owned()));
        at += 1;
    }
    let columns = columns::fitting(area.width, picture.units);
    put(frame, at, heading(picture, &columns, area.width));
    at += 1;
    let height = list_height(area.height);
    let shown = picture.places.iter().enumerate().skip(picture.top).take(height);
    for (line, (index, place)) in (at..).zip(shown) {
        let drawn = row(picture, &columns, place, area.width, picture.selected == Some(index));
        put(frame, line, drawn);
    }
    if picture.places.is_empty() && height > 0 {
        put(frame, at, Line::from("No process that matches."));
    }
    if area.height >= WITH_DETAIL {
        let place = picture.selected.and_then(|index| picture.places.get(index));
        let text =
            place.map_or(String::new(), |place| detail(&picture.rows[place.row], picture.units));
        put(frame, area.height - 2, Line::from(text));
    }
    if area.height >= 3 {
        let keys = "Enter explain  r record  / filter  s sort  t tree  ? help  q quit";
        let text = picture.bottom.unwrap_or(if area.width < 66 { "? help  q quit" } else { keys });
        let text = fitted(text, usize::from(area.width), false);
        put(frame, area.height - 1, Line::styled(text, Modifier::REVERSED));
    }
    if let Over::Question(text) = picture.over {
        popup(frame, " record ", text);
    }
}

fn put(frame: &mut Frame, line: u16, text: Line) {
    let area = frame.area();
    if line < area.height {
        frame.buffer_mut().set_line(area.x, area.y + line, &text, area.width);
    }
}

fn heading(picture: &Picture, columns: &[Column], width: u16) -> Line<'static> {
    let mut text = String::new();
    for (index, column) in columns.iter().enumerate() {
        let is_sorted = column.sort() == Some(picture.sort);
        let mark = match (is_sorted, picture.reverse, picture.unicode) {
            (false, ..) => "",
            (true, false, true) => "▼",
            (true, true, true) => "▲",
            (true, false, false) => "*",
            (true, true, false) => "^",
        };
        let title = format!("{}{mark}", column.title());
        let room = match column {
            Column::Name => width,
            column => column.width(picture.units),
        };
        text += if index == 0 { "" } else { " " };
        text += &fitted(&title, room.into(), column.is_number());
    }
    Line::styled(text, Modifier::BOLD | Modifier::UNDERLINED)
}

fn row(
    picture: &Picture,
    columns: &[Column],
    place: &Place,
    width: u16,
    is_selected: bool,
) -> Line<'static> {
    let row = &picture.rows[place.row];
    let mut spans: Vec<Span> = Vec::with_capacity(2 * columns.len());
    let mut columns = columns.iter().copied().peekable();
    while let Some(column) = columns.next() {
        if !spans.is_empty() {
            spans.push(Span::raw(" "));
        }
        let mut room = usize::from(column.width(picture.units));
        // One reason instead of two figures.
        if let (Column::Live, Some(why)) = (column, row.why_no_heap)
            && columns.next_if_eq(&Column::Free).is_some()
        {
            room = 2 * room + 1;
            let text = fitted(why.short(), room, true);
            spans.push(Span::styled(text, style(picture, Modifier::DIM, None)));
            continue;
        }
        let mut text = columns::cell(column, row, picture.units, picture.unicode);
        if column == Column::Name {
            text = format!("{}{text}", place.branch);
            room = usize::from(width);
        }
        if column == Column::Room && row.limit.is_some_and(|limit| limit.is_near()) {
            text = format!("!{text}");
        }
        let text = fitted(&text, room, column.is_number());
        spans.push(Span::styled(text, tone(picture, column, row)));
    }
    let line = Line::from(spans);
    if is_selected { line.style(Modifier::REVERSED) } else { line }
}

fn tone(picture: &Picture, column: Column, row: &Row) -> Style {
    let is_old = row.heap_age_s.is_some_and(|age| age > OLD_S);
    match column {
        Column::Live | Column::Free | Column::Age if is_old => style(picture, Modifier::DIM, None),
        Column::Rate if row.rss_per_s.is_some_and(|rate| rate >= 1024.0) => {
            style(picture, Modifier::empty(), Some(Color::Red))
        }
        Column::Rate if row.rss_per_s.is_some_and(|rate| rate <= -1024.0) => {
            style(picture, Modifier::empty(), Some(Color::Green))
        }
        Column::Room if row.limit.is_some_and(|limit| limit.is_near()) => {
            style(picture, Modifier::BOLD, Some(Color::Red))
        }
        _ => Style::default(),
    }
}

fn style(picture: &Picture, modifier: Modifier, colour: Option<Color>) -> Style {
    let style = Style::default().add_modifier(modifier);
    match colour {
        Some(colour) if picture.coloured => style.fg(colour),
        _ => style,
    }
}

/// The selected process in a line: why there are no figures, or how old they are; its limit; its
/// command.
fn detail(row: &Row, units: Units) -> String {
    let heap = match (row.why_no_heap, row.heap_age_s) {
        (Some(why), _) => why.sentence().to_owned(),
        (None, Some(age)) => format!("heap read {} ago", columns::age(age)),
        (None, None) => String::new(),
    };
    let limit = row.limit.map_or(String::new(), |limit| {
        let sizes = [limit.room, limit.bytes].map(|bytes| columns::size(bytes, units));
        format!("; {} of the {}'s {} left", sizes[0], limit.name(), sizes[1])
    });
    let command = if row.command.is_empty() { &row.name } else { &row.command };
    let user = if row.user.is_empty() { String::new() } else { format!(" ({})", row.user) };
    clean::line(&format!("{}{user}: {heap}{limit}; {command}", row.pid)).into_owned()
}

fn pane(frame: &mut Frame, title: &str, lines: &[String], top: usize, left: usize) {
    let area = frame.area();
    let height = pane_height(area.height);
    put(frame, 0, Line::styled(fitted(title, area.width.into(), false), Modifier::REVERSED));
    for (line, text) in (1u16..).zip(lines.iter().skip(top).take(height)) {
        let text: String = text.chars().skip(left).collect();
        put(frame, line, Line::from(text));
    }
    if area.height >= 3 {
        let last = (top + height).min(lines.len());
        let keys =
            format!("{}-{last} of {}  arrows PgUp PgDn scroll  q back", top + 1, lines.len());
        let keys = fitted(&keys, area.width.into(), false);
        put(frame, area.height - 1, Line::styled(keys, Modifier::REVERSED));
    }
}

pub fn pane_height(height: u16) -> usize {
    usize::from(height.saturating_sub(if height >= 3 { 2 } else { 1 }))
}

/// In the middle, as large as its text, or as the screen.
fn popup(frame: &mut Frame, title: &str, text: &str) {
    let area = frame.area();
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let width = area.width.min(longest.clamp(20, 60) as u16 + 2);
    let inner = usize::from(width.saturating_sub(2)).max(1);
    let lines: usize = text.lines().map(|line| textwrap::wrap(line, inner).len().max(1)).sum();
    let height = area.height.min(lines as u16 + 2);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    let text = Paragraph::new(text).wrap(Wrap { trim: false });
    // Without a frame there is room for two lines more.
    if height < lines as u16 + 2 {
        frame.render_widget(text, place);
    } else {
        frame.render_widget(text.block(Block::bordered().title(title)), place);
    }
}

#[cfg(test)]
mod tests;
