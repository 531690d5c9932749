// SPDX-License-Identifier: MIT
//! The columns of the list: which fit a screen, and what stands in their cells.

use mallow_process::processes::Row;
use ratatui::text::Span;

use super::args::Units;
use super::sort::Sort;
use crate::output::clean;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Pid,
    User,
    Allocator,
    Rss,
    Live,
    Free,
    Age,
    Rate,
    History,
    Room,
    Name,
}
use Column::{Age, Allocator, Free, History, Live, Name, Pid, Rate, Room, Rss, User};

/// From left to right.
const ORDER: [Column; 11] = [Pid, User, Allocator, Rss, Live, Free, Age, Rate, History, Room, Name];
/// What a narrow screen goes without first comes last.
const URGENCY: [Column; 11] =
    [Name, Pid, Rss, Live, Allocator, Free, Rate, History, Room, Age, User];
/// Of the name, which takes what is left.
const NARROW_NAME: u16 = 8;
const WIDE_NAME: u16 = 12;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const PLAIN_BARS: [char; 8] = ['_', '.', '-', '~', '=', '+', '*', '#'];
/// What changes less than this part is at rest.
const LEAST_CHANGE: f64 = 0.02;

impl Column {
    pub fn title(self) -> &'static str {
        match self {
            Pid => "PID",
            User => "USER",
            Allocator => "ALLOC",
            Rss => "RSS",
            Live => "LIVE",
            Free => "FREE",
            Age => "AGE",
            Rate => "RATE",
            History => "HISTORY",
            Room => "ROOM",
            Name => "NAME",
        }
    }

    /// How the list is sorted by this column.
    pub fn sort(self) -> Option<Sort> {
        Some(match self {
            Pid => Sort::Pid,
            User => Sort::User,
            Allocator => Sort::Allocator,
            Rss => Sort::Rss,
            Live => Sort::Live,
            Free => Sort::Free,
            Rate => Sort::Rate,
            Room => Sort::Room,
            Name => Sort::Name,
            Age | History => return None,
        })
    }

    pub fn width(self, units: Units) -> u16 {
        let size = match units {
            Units::Auto => 5,
            Units::Bytes => 13,
            Units::Kib => 10,
            Units::Mib => 7,
        };
        match self {
            Pid => 7,
            Allocator | History => 8,
            User => 9,
            Rss | Live | Free => size,
            // With the mark of little room.
            Room => size + 1,
            Rate => size + 3,
            Age => 3,
            Name => 0,
        }
    }

    pub fn is_number(self) -> bool {
        !matches!(self, User | Allocator | History | Name)
    }
}

/// The most important ones that there is room for.
pub fn fitting(width: u16, units: Units) -> Vec<Column> {
    let mut chosen = Vec::new();
    let mut used = 0;
    for column in URGENCY {
        let name = if used < 40 { NARROW_NAME } else { WIDE_NAME };
        let taken = if column == Name { 0 } else { column.width(units) + 1 };
        if used + taken + name > width && chosen.len() > 1 {
            break;
        }
        used += taken;
        chosen.push(column);
    }
    ORDER.into_iter().filter(|column| chosen.contains(column)).collect()
}

/// `7.25M`: five characters at the most.
pub fn size(bytes: u64, units: Units) -> String {
    let value = bytes as f64;
    match units {
        Units::Bytes => return bytes.to_string(),
        Units::Kib => return format!("{:.0}K", value / 1024.0),
        Units::Mib => return format!("{:.1}M", value / 1024.0 / 1024.0),
        Units::Auto => {}
    }
    let mut value = value;
    for unit in ["B", "K", "M", "G", "T", "P"] {
        if value < 1023.5 {
            let decimals = match value {
                _ if unit == "B" || value >= 99.95 => 0,
                value if value >= 9.995 => 1,
                _ => 2,
            };
            return format!("{value:.decimals$}{unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.0}E")
}

/// `+1.25M/s`; what is less than a KiB a second is none.
pub fn rate(per_s: f64, units: Units) -> String {
    if per_s.abs() < 1024.0 {
        return "0".into();
    }
    let sign = if per_s < 0.0 { '-' } else { '+' };
    format!("{sign}{}/s", size(per_s.abs() as u64, units))
}

/// `4s`, `12m`: three characters at the most.
pub fn age(seconds: f64) -> String {
    match seconds {
        _ if seconds < 99.5 => format!("{seconds:.0}s"),
        _ if seconds < 99.5 * 60.0 => format!("{:.0}m", seconds / 60.0),
        _ => format!("{:.0}h", (seconds / 3600.0).min(99.0)),
    }
}

/// The last values as bars, from the least of them to the most; what rests is low.
pub fn bars(history: &[u64], width: usize, unicode: bool) -> String {
    let last = &history[history.len().saturating_sub(width)..];
    let (Some(&least), Some(&most)) = (last.iter().min(), last.iter().max()) else {
        return String::new();
    };
    let range = ((most - least) as f64).max(most as f64 * LEAST_CHANGE).max(1.0);
    let glyphs = if unicode { BARS } else { PLAIN_BARS };
    let glyph =
        |value: &u64| glyphs[(((value - least) as f64 / range * 7.0).round() as usize).min(7)];
    last.iter().map(glyph).collect()
}

/// What stands in a cell, cleaned, as long as it is.
pub fn cell(column: Column, row: &Row, units: Units, unicode: bool) -> String {
    let sized = |value: Option<u64>| value.map_or("-".into(), |value| size(value, units));
    match column {
        Pid => row.pid.to_string(),
        User => clean::line(&row.user).into_owned(),
        Allocator => clean::line(row.allocator.as_deref().unwrap_or("-")).into_owned(),
        Rss => size(row.rss, units),
        Live => sized(row.live),
        Free => sized(row.free),
        Age => row.heap_age_s.map_or(String::new(), age),
        Rate => row.rss_per_s.map_or("-".into(), |per_s| rate(per_s, units)),
        History => bars(&row.rss_history, History.width(units).into(), unicode),
        Room => sized(row.limit.map(|limit| limit.room)),
        Name => clean::line(&row.name).into_owned(),
    }
}

/// The text cut or filled up to so many places of the screen.
pub fn fitted(text: &str, width: usize, is_number: bool) -> String {
    let mut fitted = String::new();
    let mut used = 0;
    for character in text.chars() {
        let wide = Span::raw(character.to_string()).width();
        if used + wide > width {
            break;
        }
        fitted.push(character);
        used += wide;
    }
    let fill = " ".repeat(width - used);
    if is_number { fill + &fitted } else { fitted + &fill }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_as_narrow_as_they_say() {
        for power in 0..64 {
            for value in [1u64 << power, (1 << power) - 1, u64::MAX - (1 << power)] {
                let text = size(value, Units::Auto);
                assert!(text.len() <= 5, "{text}");
                assert!(rate(-(value as f64), Units::Auto).len() <= 8);
            }
        }
        assert_eq!(size(1023, Units::Auto), "1023B");
        assert_eq!(size(1 << 20, Units::Auto), "1.00M");
        assert_eq!(size(3 << 29, Units::Mib), "1536.0M");
        assert_eq!(rate(2048.0, Units::Auto), "+2.00K/s");
        assert!([0.0, 99.4, 99.6, 6000.0, 1e9].iter().all(|s| age(*s).len() <= 3));
    }

    #[test]
    fn columns_fit_screens() {
        assert_eq!(fitting(40, Units::Auto), [Pid, Allocator, Rss, Live, Name]);
        let at_80 = [Pid, Allocator, Rss, Live, Free, Age, Rate, History, Room, Name];
        assert_eq!(fitting(80, Units::Auto), at_80);
        assert_eq!(fitting(120, Units::Auto), ORDER);
        assert_eq!(fitting(20, Units::Auto), [Pid, Name]);
        for width in 0..200 {
            for units in [Units::Auto, Units::Bytes, Units::Kib, Units::Mib] {
                let columns = fitting(width, units);
                let used: u16 = columns.iter().map(|column| column.width(units) + 1).sum();
                assert!(used <= width || columns.len() == 2, "{width} {columns:?}");
            }
        }
    }

    #[test]
    fn bars_show_change_and_no_noise() {
        assert_eq!(bars(&[], 8, true), "");
        assert_eq!(bars(&[5, 5, 5], 8, true), "▁▁▁");
        assert_eq!(bars(&[1_000_000, 1_001_000], 8, true), "▁▁");
        assert_eq!(bars(&[9, 0, 50, 100], 3, true), "▁▅█");
        assert_eq!(bars(&[0, u64::MAX], 8, false), "_#");
    }

    #[test]
    fn text_is_cut_by_places() {
        assert_eq!(fitted("abc", 5, false), "abc  ");
        assert_eq!(fitted("abc", 5, true), "  abc");
        assert_eq!(fitted("abcdef", 3, false), "abc");
        // Two places each.
        assert_eq!(fitted("漢字", 3, false), "漢 ");
    }
}
