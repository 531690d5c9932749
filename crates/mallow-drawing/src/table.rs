// SPDX-License-Identifier: MIT
//! A table of text: drawn for a terminal, or written as CSV or Markdown.

use std::borrow::Cow;
use std::collections::BTreeMap;

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table as Drawn, Width, presets,
};

use super::colour::{self, Tone};
use super::{Format, Screen, clean};

/// A column of text that is narrower is not worth having.
const NARROWEST: usize = 20;
/// What draws rows takes many times their text, so it gets so many at a time.
const AT_ONCE: usize = 1000;
/// Nor is a place beside the names of columns.
const NARROWEST_BESIDE: usize = 12;

/// A table of text that can be drawn, or written as CSV or Markdown.
#[derive(Clone, Debug)]
pub struct Table {
    /// The heading, and whether the column holds numbers.
    pub columns: Vec<(Cow<'static, str>, bool)>,
    pub rows: Vec<Vec<String>>,
    /// What some cells say by their colour, by row and column.
    tones: BTreeMap<(usize, usize), Tone>,
}

impl Table {
    pub fn new(columns: &[(&'static str, bool)]) -> Table {
        let columns = columns.iter().map(|(name, is_number)| (Cow::Borrowed(*name), *is_number));
        Table { columns: columns.collect(), rows: Vec::new(), tones: BTreeMap::new() }
    }

    /// One more column at the end, whose name came with the command line or from a file.
    pub fn add_column(&mut self, name: &str, is_number: bool) {
        self.columns.push((Cow::Owned(name.to_owned()), is_number));
    }

    /// The tone of a cell of the last row.
    pub fn set_tone(&mut self, column: usize, tone: Option<Tone>) {
        let row = self.rows.len().saturating_sub(1);
        self.tones.extend(tone.map(|tone| ((row, column), tone)));
    }

    pub fn render(&self, format: Format, screen: Screen) -> String {
        match format {
            Format::Csv => self.csv(),
            Format::Md => self.markdown(),
            _ => self.draw(screen),
        }
    }

    /// As wide as the screen at the most: columns of text are wrapped where that is enough, else
    /// every row is a list of its cells.
    fn draw(&self, screen: Screen) -> String {
        let widths = self.widths();
        let gaps = 2 * widths.len();
        let Some(width) = screen.width.filter(|width| widths.iter().sum::<usize>() + gaps > *width)
        else {
            return self.drawn(screen, &[]);
        };
        let is_text = |index: &usize| !self.columns[*index].1;
        let texts: Vec<usize> = (0..widths.len()).filter(is_text).collect();
        let numbers: usize = (0..widths.len()).filter(|i| !is_text(i)).map(|i| widths[i]).sum();
        let room = width.saturating_sub(numbers + gaps);
        // Narrow ones keep their width; what is left is shared by the wide ones.
        let mut limits = widths.clone();
        let (mut left, mut open) = (room, texts.clone());
        loop {
            let share = left / open.len().max(1);
            let (fits, rest): (Vec<usize>, Vec<usize>) =
                open.iter().partition(|&&index| widths[index] <= share);
            left -= fits.iter().map(|&index| widths[index]).sum::<usize>();
            open = rest;
            if fits.is_empty() || open.is_empty() {
                open.iter().for_each(|&index| limits[index] = share);
                break;
            }
        }
        // A heading stays on one line.
        let least = |index: usize| widths[index].min(NARROWEST.max(self.columns[index].0.len()));
        if numbers + gaps > width || texts.iter().any(|&index| limits[index] < least(index)) {
            return self.list(width);
        }
        self.drawn(screen, &limits)
    }

    /// The most characters of each column.
    fn widths(&self) -> Vec<usize> {
        let longest = |index: usize, name: &str| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            let lengths = cells.map(|cell| clean::line(cell).chars().count());
            lengths.fold(name.chars().count(), usize::max)
        };
        let names = self.columns.iter().map(|(name, _)| name.as_ref());
        names.enumerate().map(|(index, name)| longest(index, name)).collect()
    }

    /// With columns of at most these widths, if there are any.
    fn drawn(&self, screen: Screen, limits: &[usize]) -> String {
        let firsts = || (0..self.rows.len().max(1)).step_by(AT_ONCE);
        // Of several pieces each has columns as wide as those of the widest.
        let measured: Vec<Vec<u16>> = if limits.is_empty() && self.rows.len() > AT_ONCE {
            firsts().map(|first| self.piece(first).column_max_content_widths()).collect()
        } else {
            Vec::new()
        };
        let widest = |index: usize| {
            let widths = measured.iter().filter_map(|widths| widths.get(index));
            widths.max().map(|width| usize::from(*width))
        };
        let (mut text, mut longest) = (String::new(), 0);
        for mut piece in firsts().map(|first| self.piece(first)) {
            if let (Some(width), false) = (screen.width, limits.is_empty()) {
                piece.set_content_arrangement(ContentArrangement::Dynamic);
                piece.set_width(u16::try_from(width).unwrap_or(u16::MAX));
            }
            for (index, (_, number)) in self.columns.iter().enumerate() {
                let Some(column) = piece.column_mut(index) else { continue };
                if *number {
                    column.set_cell_alignment(CellAlignment::Right);
                }
                if let Some(limit) = limits.get(index).copied().or_else(|| widest(index)) {
                    // With the space on both sides of each cell.
                    let width = Width::Fixed(u16::try_from(limit + 2).unwrap_or(u16::MAX));
                    column.set_constraint(ColumnConstraint::Absolute(width));
                }
            }
            for line in piece.lines() {
                let line = line.trim_end();
                longest = longest.max(line.chars().filter(|c| !colour::is_mark(*c)).count());
                text += line;
                text.push('\n');
            }
        }
        if screen.unicode {
            let end = text.find('\n').map_or(0, |end| end + 1);
            text.insert_str(end, &format!(" {}\n", "─".repeat(longest.saturating_sub(1))));
        }
        text
    }

    /// The rows from this one on that are drawn together; the heading stands before the first of all.
    fn piece(&self, first: usize) -> Drawn {
        let mut piece = Drawn::new();
        piece.load_preset(presets::NOTHING);
        piece.set_content_arrangement(ContentArrangement::Disabled);
        if first == 0 {
            piece.set_header(self.columns.iter().map(|(name, _)| name.as_ref()));
        }
        for (place, row) in self.rows.iter().enumerate().skip(first).take(AT_ONCE) {
            let cells = row.iter().enumerate();
            piece
                .add_row(cells.map(|(column, cell)| self.toned(place, column, &clean::line(cell))));
        }
        piece
    }

    fn toned(&self, row: usize, column: usize, text: &str) -> String {
        match self.tones.get(&(row, column)) {
            Some(tone) => colour::painted(*tone, text),
            None => text.to_owned(),
        }
    }

    /// A line for each cell, with the name of its column; where there is no room beside that, a line below it.
    fn list(&self, width: usize) -> String {
        let names = self.columns.iter().map(|(name, _)| name.chars().count());
        let beside = names.max().unwrap_or(0) + 3;
        let is_below = width < beside + NARROWEST_BESIDE;
        let indent = if is_below { 3 } else { beside };
        let room = width.saturating_sub(indent).max(4);
        let mut text = String::new();
        for (place, row) in self.rows.iter().enumerate() {
            let cells = self.columns.iter().zip(row).enumerate();
            for (column, ((name, _), cell)) in cells.filter(|(_, (_, cell))| !cell.is_empty()) {
                // At blanks; a word that is too long, such as a path, in pieces.
                let options = textwrap::Options::new(room)
                    .word_splitter(textwrap::WordSplitter::NoHyphenation);
                for (part, piece) in textwrap::wrap(&clean::line(cell), options).iter().enumerate()
                {
                    if part == 0 && is_below {
                        text += &format!(" {name}\n");
                    }
                    let name = if part == 0 && !is_below { name } else { "" };
                    text += &format!(" {name:<0$}", indent - 1);
                    text += &self.toned(place, column, piece);
                    text.push('\n');
                }
            }
            text.push('\n');
        }
        text
    }

    fn csv(&self) -> String {
        let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
        let heading = self.columns.iter().map(|(name, _)| Cow::Borrowed(name.as_ref())).collect();
        let rows = self.rows.iter().map(|row| row.iter().map(|cell| clean::line(cell)).collect());
        for row in std::iter::once(heading).chain(rows) {
            let cells: Vec<Cow<'_, str>> = row;
            // Nothing can go wrong in memory.
            let _ = writer.write_record(cells.iter().map(|cell| cell.as_bytes()));
        }
        String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
    }

    fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text =
            line(self.columns.iter().map(|(name, _)| name.clone().into_owned()).collect());
        text += &line(
            self.columns
                .iter()
                .map(|(_, number)| if *number { "---:" } else { "---" }.to_owned())
                .collect(),
        );
        for row in &self.rows {
            text += &line(row.iter().map(|cell| clean::markdown(cell)).collect());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let mut table = Table::new(&[("a", false), ("b", true)]);
        table.rows.push(vec!["x, \"y\"|".into(), "1".into()]);
        assert_eq!(table.csv(), "a,b\n\"x, \"\"y\"\"|\",1\n");
        assert_eq!(table.markdown(), "| a | b |\n| --- | ---: |\n| x, \"y\"\\| | 1 |\n");
    }

    fn wide() -> Table {
        let mut table = Table::new(&[("name", false), ("size", true), ("what it is", false)]);
        let words = "a mapping that is described in a good many words, more than fit";
        table.rows.push(vec!["first\u{1b}[2J".into(), "12.3 MiB".into(), words.into()]);
        table.rows.push(vec!["second".into(), "7 B".into(), "short".into()]);
        table
    }

    #[test]
    fn tables_fit_the_screen_whatever_its_width() {
        for unicode in [false, true] {
            for width in [20, 30, 40, 60, 80, 200] {
                let drawn = wide().render(Format::Table, Screen { unicode, width: Some(width) });
                let longest = drawn.lines().map(|line| line.chars().count()).max().unwrap();
                assert!(longest <= width, "{width}:\n{drawn}");
                for whole in ["12.3 MiB", "7 B", "second"] {
                    assert!(width < 30 || drawn.contains(whole), "{width}:\n{drawn}");
                }
                assert!(!drawn.contains('\u{1b}'), "{drawn:?}");
            }
        }
    }

    #[test]
    fn cells_stand_below_names_that_leave_no_room() {
        let mut table = Table::new(&[("allocator", false), ("path, or how to install", false)]);
        table.rows.push(vec!["mallow".into(), "apt install mallow, as root".into()]);
        let drawn = table.render(Format::Table, Screen { unicode: true, width: Some(25) });
        assert_eq!(
            drawn,
            " allocator\n   mallow\n path, or how to install\n   apt install mallow, as\n   root\n\n"
        );
    }

    #[test]
    fn a_table_of_numbers_alone_fits_too() {
        let mut table =
            Table::new(&[("private dirty", true), ("page tables", true), ("VIRT", true)]);
        table.rows.push(vec!["24.3 MiB".into(), "108 KiB".into(), "34.4 MiB".into()]);
        let drawn = table.render(Format::Table, Screen { unicode: true, width: Some(30) });
        assert!(drawn.lines().all(|line| line.chars().count() <= 30), "{drawn}");
        assert!(drawn.contains("private dirty  24.3 MiB"), "{drawn}");
    }

    #[test]
    fn tones_change_no_width() {
        let plain = wide();
        let mut toned = wide();
        toned.set_tone(2, Some(Tone::Better));
        toned.set_tone(1, Some(Tone::Worse));
        toned.set_tone(0, None);
        for width in [None, Some(20), Some(60), Some(200)] {
            let screen = Screen { unicode: true, width };
            let drawn = toned.render(Format::Table, screen);
            assert_eq!(colour::resolved(&drawn, false), plain.render(Format::Table, screen));
            let coloured = colour::resolved(&drawn, true);
            assert!(coloured.contains("\u{1b}[32mshort\u{1b}[39m"), "{coloured:?}");
            assert!(coloured.lines().all(|line| {
                line.matches("\u{1b}[3").count() == 2 * line.matches("\u{1b}[39m").count()
            }));
        }
        assert_eq!(toned.render(Format::Csv, Screen::PLAIN), wide().csv());
    }

    #[test]
    fn columns_of_a_long_table_are_as_wide_from_end_to_end() {
        let mut table = Table::new(&[("name", false), ("size", true), ("", true)]);
        for row in 0..2 * AT_ONCE {
            table.rows.push(vec!["name".into(), row.to_string(), "|".into()]);
        }
        // The character in it takes the room of two.
        let widest = "the \u{4e2d} widest name, in the last row";
        table.rows.push(vec![widest.into(), "7".into(), "|".into()]);
        for width in [None, Some(200), Some(38)] {
            let drawn = table.render(Format::Table, Screen { unicode: true, width });
            let length = |line: &str| line.chars().count();
            let rows = drawn.lines().filter(|line| line.ends_with('|'));
            let ends: Vec<usize> = rows.map(length).collect();
            let long = ends[0];
            assert!(ends[..2 * AT_ONCE].iter().all(|end| *end == long), "{width:?}: {drawn}");
            assert_eq!(ends[2 * AT_ONCE..], [long - 1], "{width:?}: {drawn}");
            let head: Vec<&str> = drawn.lines().take(2).collect();
            assert_eq!(length(head[0]) + 3, long, "{width:?}: {drawn}");
            assert_eq!(head[1], format!(" {}", "─".repeat(long - 1)), "{width:?}");
        }
    }

    #[test]
    fn files_have_lines_of_any_length() {
        let drawn = wide().render(Format::Table, Screen::PLAIN);
        assert!(drawn.contains("more than fit"), "{drawn}");
        assert_eq!(drawn.lines().count(), 3);
    }
}
