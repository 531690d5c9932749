// SPDX-License-Identifier: MIT
//! What the rules look at: the counters, and the process where there is one.

use std::ffi::OsStr;

use mallow_launch::words;
use mallow_process::mappings::{self, Kind, Runtime};
use mallow_process::picture::Picture;
use mallow_stats::Stats;

use super::report::Step;
pub(super) use mallow_stats::figures::{count, counted};

pub(super) use crate::amounts::{MIB, NOTABLE, percent, size};

/// An allocator's counters, and whose they are.
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
            heap_rss: picture.heap_rss(),
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
    pub fn compare(&self, allocators: &str) -> Step {
        let choice =
            if allocators.is_empty() { String::new() } else { format!(" -a {allocators}") };
        Step::Typed(format!("mallow compare{choice} -- {}", self.typed()))
    }

    /// What compares two values of a variable on this command, under its own allocator.
    pub fn compare_values(&self, allocator: &str, name: &str, before: &str, after: &str) -> Step {
        let matrix = format!("{name}={before},{after}");
        Step::Typed(format!(
            "mallow compare -a {allocator} --matrix {} -- {}",
            words::quoted(OsStr::new(&matrix)),
            self.typed()
        ))
    }
}

/// In a second, where the time is known.
pub(super) fn rate(number: u64, stats: &Stats) -> Option<f64> {
    stats.uptime_s().map(|time| number as f64 / time)
}
