// SPDX-License-Identifier: MIT
//! The readings of one process, until it ends, or the user ends it, or there are enough.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mallow_os::{pidfd_open, wait_readable};
use mallow_process::binding::Failure;

use super::args::StatsArgs;
use super::report::{Report, Sample};
use super::text;
use crate::error::{Error, Result};
use crate::output::{self, Format};
use crate::{signals, statistics};

const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// An interrupt that comes just before the wait is noticed after this time.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// Whether a line for each reading goes to standard output as it comes.
pub fn has_lines(args: &StatsArgs) -> bool {
    args.output.chosen_format() == Format::Table && args.output.to.file.is_none()
}

pub fn follow(args: &StatsArgs, pid: u32) -> Result<Report> {
    let interrupted = signals::watch()?;
    let process =
        pidfd_open(pid).map_err(|error| Error::Process { pid, failure: Failure::from(error) })?;
    let interval = args.interval.unwrap_or(DEFAULT_INTERVAL);
    let begin = Instant::now();
    let mut report: Option<Report> = None;
    let mut next = begin;
    loop {
        let (picture, stats) = match statistics::of_process(pid) {
            Ok(taken) => taken,
            // It has ended while it was read.
            Err(Error::Process { failure: Failure::Vanished, .. }) if report.is_some() => break,
            Err(error) => return Err(error),
        };
        let stats = stats.or_else(|| statistics::walked(&picture));
        let stats = stats.ok_or_else(|| statistics::unreadable(&picture))?;
        let sample = Sample { time_s: begin.elapsed().as_secs_f64(), totals: stats.totals };
        let command = &picture.process.command;
        let report = report.get_or_insert_with(|| Report::of_process(pid, command, stats.clone()));
        report.stats = stats;
        report.samples.push(sample);
        if has_lines(args) {
            let heading =
                if report.samples.len() == 1 { text::line_heading() } else { String::new() };
            if !output::write_on(&(heading + &text::line(&sample)))? {
                break;
            }
        }
        let is_enough = args.count.is_some_and(|count| report.samples.len() as u64 >= count);
        next = (next + interval).max(Instant::now());
        if is_enough || has_ended(&process, next, &interrupted) {
            break;
        }
    }
    report.ok_or(Error::Process { pid, failure: Failure::Vanished })
}

/// Waits for the time of the next reading.
fn has_ended(process: &std::os::fd::OwnedFd, next: Instant, interrupted: &AtomicBool) -> bool {
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return true;
        }
        let pause = next.saturating_duration_since(Instant::now()).min(LONGEST_WAIT);
        if wait_readable(process, pause).unwrap_or(true) {
            return true;
        }
        if Instant::now() >= next {
            return false;
        }
    }
}
