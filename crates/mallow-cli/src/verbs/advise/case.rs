//! What the rules look at: the counters, and the process where there is one.

use std::ffi::OsStr;

use mallow_launch::words;
use mallow_process::mappings::{self, Kind, Runtime};
use mallow_process::picture::Picture;
use mallow_stats::Stats;

use crate::output;
use crate::statistics;

pub const MIB: u64 = 1 << 20;
/// Below this nothing is worth a finding.
pub const NOTABLE: u64 = 16 * MIB;

pub struct Case<'a> {
    pub stats: &'a Stats,
    pub process: Option<Seen<'a>>,
    /// As it is typed, where it is known.
    pub command: Option<String>,
}

/// A process, as far as rules ask.
pub struct Seen<'a> {
    pub picture: &'a Picture,
    pub runtime: Runtime,
    /// The file name of its program.
    pub program: String,
    pub heap_rss: u64,
    /// Of the heap, in huge pages.
    pub heap_huge: u64,
}

impl<'a> Seen<'a> {
    pub fn new(picture: &'a Picture) -> Seen<'a> {
        let heaps = picture.mappings.iter().filter(|mapping| Kind::is_heap(mapping.kind));
        Seen {
            picture,
            runtime: mappings::runtime(&picture.process),
            program: picture.process.exe.rsplit('/').next().unwrap_or_default().to_owned(),
            heap_rss: statistics::heap_rss(picture),
            heap_huge: heaps.map(|mapping| mapping.huge).sum(),
        }
    }
}

impl Case<'_> {
    /// The command to compare, or a word in its place.
    pub fn typed(&self) -> &str {
        self.command.as_deref().unwrap_or("COMMAND")
    }

    /// What compares allocators on this command.
    pub fn compare(&self, allocators: &str) -> String {
        let choice =
            if allocators.is_empty() { String::new() } else { format!(" -a {allocators}") };
        format!("mallow compare{choice} -- {}", self.typed())
    }

    /// What compares two values of a variable on this command, under its own allocator.
    pub fn compare_values(&self, allocator: &str, name: &str, before: &str, after: &str) -> String {
        let matrix = format!("{name}={before},{after}");
        format!(
            "mallow compare -a {allocator} --matrix {} -- {}",
            words::quoted(OsStr::new(&matrix)),
            self.typed()
        )
    }
}

pub fn size(bytes: u64) -> String {
    output::bytes(bytes as f64)
}

/// A count as people read it: 12,345.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{} {what}s", count(number)) }
}

/// In a second, where the time is known.
pub fn rate(number: u64, stats: &Stats) -> Option<f64> {
    stats.uptime_s().map(|time| number as f64 / time)
}

pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([counted(1, "thread"), counted(1776, "thread")], ["1 thread", "1,776 threads"]);
    }
}
