// SPDX-License-Identifier: MIT
//! One timed run of a command.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mallow_os::{ChildSetup, Ending, StartPeak, Usage};
use mallow_process::descendants;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::timeline::{Figures, Tally, Thinning, higher};
use crate::values::{Pattern, Reading};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    Finished,
    Failed {
        code: i32,
    },
    Killed {
        signal: i32,
    },
    /// A server that ended with exit code 0 before it was asked to.
    Gone,
    TimedOut,
    OverMemory,
    Interrupted,
}

impl Outcome {
    pub fn describe(self) -> String {
        self.describe_runs(1)
    }

    /// What follows "so many runs".
    pub fn describe_runs(self, count: usize) -> String {
        let was = if count == 1 { "was" } else { "were" };
        match self {
            Outcome::Finished => "finished".into(),
            Outcome::Failed { code } => format!("ended with exit code {code}"),
            Outcome::Killed { signal } => {
                format!("{was} killed by {}", mallow_os::signal_name(signal))
            }
            Outcome::Gone => "ended before the load did".into(),
            Outcome::TimedOut => "did not end in time".into(),
            Outcome::OverMemory => "passed the memory limit".into(),
            Outcome::Interrupted => format!("{was} interrupted"),
        }
    }

    /// The exit code that stands for it.
    pub fn code(self) -> u8 {
        match self {
            Outcome::Finished => 0,
            Outcome::Failed { code } => u8::try_from(code).unwrap_or(255),
            Outcome::Killed { signal } => 128u8.saturating_add(u8::try_from(signal).unwrap_or(127)),
            Outcome::Gone => 1,
            // Both are ended by SIGKILL.
            Outcome::TimedOut | Outcome::OverMemory => 137,
            Outcome::Interrupted => 130,
        }
    }
}

impl From<Ending> for Outcome {
    fn from(ending: Ending) -> Outcome {
        match ending {
            Ending::Code(0) => Outcome::Finished,
            Ending::Code(code) => Outcome::Failed { code },
            Ending::Signal(signal) => Outcome::Killed { signal },
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    pub outcome: Outcome,
    pub wall_s: f64,
    pub user_s: f64,
    pub system_s: f64,
    /// Of the largest process; `None` if that had no more than the copy of this tool from which it was started.
    pub peak_rss: Option<f64>,
    /// What the peak was at most.
    #[serde(skip)]
    pub most_rss: f64,
    /// Of all processes together over time; `None` if the run was too short to sample.
    pub average_rss: Option<f64>,
    pub minor_faults: f64,
    pub major_faults: f64,
    /// What the command, or the load on it, printed, in the order of the patterns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Option<f64>>,
    /// Where there is an average.
    #[serde(skip)]
    pub timeline: Option<Timeline>,
}

impl Sample {
    /// Of what was ended before there was anything to measure.
    pub fn cut(outcome: Outcome) -> Sample {
        sample(outcome, Duration::ZERO, Usage::default(), 0, None)
    }
}

/// RSS of all processes together during a run.
#[derive(Clone, Debug)]
pub struct Timeline {
    pub figures: Figures,
    /// Seconds and bytes.
    pub points: Vec<(f64, f64)>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub timeout: Option<Duration>,
    /// For a server to become ready in, before its load begins; a minute at most.
    pub begin: Option<Duration>,
    pub memory: Option<u64>,
    pub cpu_count: Option<usize>,
}

/// Runs the command to its end, alone in a process group that is gone afterwards.
pub fn run(
    command: Command,
    limits: Limits,
    patterns: &[Pattern],
    interrupted: &AtomicBool,
) -> Result<Sample> {
    run_sampled(command, limits, patterns, interrupted, Sampler::new(0))
}

/// The same, with the memory of another process sampled, or of the command's for root 0.
pub fn run_sampled(
    mut command: Command,
    limits: Limits,
    patterns: &[Pattern],
    interrupted: &AtomicBool,
    mut sampler: Sampler,
) -> Result<Sample> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = Error::not_started(&name);
    let setup =
        ChildSetup { dies_with_parent: true, cpu_count: limits.cpu_count, ..ChildSetup::default() };
    mallow_os::configure(&mut command, setup).map_err(&failed)?;
    command.stdin(mallow_launch::input::each_run());
    let reading = Reading::of(&mut command, patterns)?;
    let begun = StartPeak::of(&mut command).map_err(&failed)?;
    let start = Instant::now();
    let child = command.spawn().map_err(&failed)?;
    // The command holds the output's writing end.
    drop(command);
    sampler.start(child.id());
    let cut = watch(child.id(), start, limits, interrupted, &mut sampler).map_err(&failed)?;
    let wall = start.elapsed();
    let (ending, usage) = mallow_os::wait4(child.id()).map_err(&failed)?;
    // What the command left running would disturb the next run.
    let _ = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
    // It may have passed the limit between two looks.
    let peak = peak(usage, begun.bytes());
    let is_over = sampler.root == child.id()
        && limits.memory.zip(peak).is_some_and(|(limit, peak)| peak > limit as f64);
    let cut = cut.or(is_over.then_some(Outcome::OverMemory));
    let outcome = cut.unwrap_or(ending.into());
    let values = reading.finish();
    Ok(Sample { values, ..sample(outcome, wall, usage, begun.bytes(), sampler.timeline()) })
}

/// The kernel's counts of pages are exact to some tens for each CPU only, and the child touches some more before it
/// becomes its program.
const START_SLACK: u64 = 512 << 10;

/// The peak of a process that had `start` bytes before it became its program; `None` if it may have been less.
pub(crate) fn peak(usage: Usage, start: u64) -> Option<f64> {
    (usage.peak_rss_bytes > start + START_SLACK).then_some(usage.peak_rss_bytes as f64)
}

fn sample(
    outcome: Outcome,
    wall: Duration,
    usage: Usage,
    start_rss: u64,
    timeline: Option<Timeline>,
) -> Sample {
    Sample {
        outcome,
        wall_s: wall.as_secs_f64(),
        user_s: usage.user.as_secs_f64(),
        system_s: usage.system.as_secs_f64(),
        peak_rss: peak(usage, start_rss),
        most_rss: usage.peak_rss_bytes as f64,
        average_rss: timeline.as_ref().map(|timeline| timeline.figures.average),
        minor_faults: usage.minor_faults as f64,
        major_faults: usage.major_faults as f64,
        values: Vec::new(),
        timeline,
    }
}

/// Returns when the process has ended; says why if it was ended from here.
fn watch(
    pid: u32,
    start: Instant,
    limits: Limits,
    interrupted: &AtomicBool,
    sampler: &mut Sampler,
) -> std::io::Result<Option<Outcome>> {
    let pidfd = mallow_os::pidfd_open(pid)?;
    let group = Pid::from_raw(pid.cast_signed());
    let mut cut = None;
    loop {
        let wait = sampling_interval(start.elapsed());
        if mallow_os::wait_readable(&pidfd, wait)? {
            return Ok(cut);
        }
        let resident = sampler.take();
        let elapsed = start.elapsed();
        let over = if interrupted.load(Ordering::Relaxed) {
            Some(Outcome::Interrupted)
        } else if limits.timeout.is_some_and(|timeout| elapsed >= timeout) {
            Some(Outcome::TimedOut)
        } else if limits.memory.is_some_and(|limit| resident > limit) {
            Some(Outcome::OverMemory)
        } else {
            None
        };
        if let (Some(outcome), None) = (over, cut) {
            cut = Some(outcome);
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// Often at first, so that short commands are seen too; a sample costs some 20 microseconds.
fn sampling_interval(elapsed: Duration) -> Duration {
    match elapsed.as_millis() {
        0..20 => Duration::from_millis(1),
        20..2000 => Duration::from_millis(5),
        _ => Duration::from_millis(10),
    }
}

/// Adds up the resident memory of a process and its descendants over time.
pub struct Sampler {
    root: u32,
    page_size: u64,
    /// Open `statm` files, by process.
    files: BTreeMap<u32, File>,
    rounds: u32,
    start: Instant,
    tally: Tally,
    points: Vec<(f64, f64)>,
    thinning: Thinning,
}

/// The tree is walked once in this many samples.
const TREE_EVERY: u32 = 4;
/// Fewer say more about the start of a program than about its average.
const FEWEST_SAMPLES: u32 = 5;
/// Enough for a picture; a comparison may have a thousand runs.
const MOST_POINTS: usize = 400;

impl Sampler {
    pub fn new(root: u32) -> Sampler {
        Sampler {
            root,
            page_size: mallow_process::page_size(),
            files: BTreeMap::new(),
            rounds: 0,
            start: Instant::now(),
            tally: Tally::default(),
            points: Vec::new(),
            thinning: Thinning::new(MOST_POINTS),
        }
    }

    fn start(&mut self, child: u32) {
        if self.root == 0 {
            self.root = child;
        }
        self.start = Instant::now();
    }

    /// What is resident now, in bytes.
    pub(crate) fn take(&mut self) -> u64 {
        if self.rounds.is_multiple_of(TREE_EVERY) {
            let mut found = Vec::new();
            descendants(self.root, &mut found);
            self.files.retain(|pid, _| found.contains(pid));
            for pid in found {
                if let Ok(file) = File::open(format!("/proc/{pid}/statm")) {
                    self.files.entry(pid).or_insert(file);
                }
            }
        }
        self.rounds += 1;
        let mut pages = 0;
        self.files.retain(|_, file| match resident_pages(file) {
            Some(resident) => {
                pages += resident;
                true
            }
            None => false,
        });
        let resident = pages * self.page_size;
        if resident > 0 {
            let point = (self.start.elapsed().as_secs_f64(), resident as f64);
            self.tally.add(point.0, point.1);
            self.thinning.add(&mut self.points, point, higher);
        }
        resident
    }

    fn timeline(self) -> Option<Timeline> {
        let figures = self.tally.figures().filter(|_| self.tally.count >= FEWEST_SAMPLES)?;
        Some(Timeline { figures, points: self.points })
    }
}

fn resident_pages(statm: &File) -> Option<u64> {
    let mut text = [0u8; 128];
    let length = statm.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..length]).ok()?.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limits: Limits) -> Sample {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run(command, limits, &[], &AtomicBool::new(false)).expect("sh starts")
    }

    #[test]
    fn outcomes() {
        assert_eq!(shell("exit 0", Limits::default()).outcome, Outcome::Finished);
        assert_eq!(shell("exit 3", Limits::default()).outcome, Outcome::Failed { code: 3 });
        let killed = shell("kill -ABRT $$", Limits::default());
        assert_eq!(killed.outcome, Outcome::Killed { signal: 6 });
        assert_eq!(killed.outcome.code(), 134);
    }

    #[test]
    fn timeout_ends_the_whole_group() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let sleeper_within = |ms| {
            let limits = Limits { timeout: Some(Duration::from_millis(ms)), ..Limits::default() };
            assert_eq!(shell(&script, limits).outcome, Outcome::TimedOut);
            std::fs::read_to_string(&file).ok()?.trim().parse::<i32>().ok()
        };
        // On a busy machine there is none yet when the first time is over.
        let pid = [300, 3000, 30_000].into_iter().find_map(sleeper_within).expect("a sleeper");
        let gone = |state: String| state.contains(") Z ") || state.is_empty();
        let deadline = Instant::now() + Duration::from_secs(120);
        while !gone(std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default()) {
            assert!(Instant::now() < deadline, "the sleeper is still there");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn memory_is_measured_and_limited() {
        let script = "x=$(head -c 60000000 /dev/zero | tr '\\0' a); sleep 0.2; echo ${#x}";
        let sample = shell(script, Limits::default());
        assert_eq!(sample.outcome, Outcome::Finished);
        let peak = sample.peak_rss.expect("more than a copy of this process");
        assert!(peak > 60e6 && peak == sample.most_rss, "{peak}");
        let average = sample.average_rss.expect("long enough to sample");
        assert!(average > 1e6 && average < 2.0 * peak, "{average}");
        let limits = Limits { memory: Some(20_000_000), ..Limits::default() };
        assert_eq!(shell(script, limits).outcome, Outcome::OverMemory);
    }

    /// The child is a copy of this process before it becomes `true`, and the kernel counts both.
    #[test]
    fn a_peak_below_that_of_the_start_is_not_known() {
        let held = vec![1u8; 16 << 20];
        let sample = run_true();
        assert_eq!((sample.outcome, sample.peak_rss), (Outcome::Finished, None));
        assert!(sample.most_rss > 16e6, "{}", sample.most_rss);
        let script = "x=$(head -c 60000000 /dev/zero | tr '\\0' a); echo ${#x}";
        assert!(shell(script, Limits::default()).peak_rss.is_some_and(|peak| peak > 60e6));
        drop(held);
    }

    fn run_true() -> Sample {
        run(Command::new("/bin/true"), Limits::default(), &[], &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn interruption_ends_the_run() {
        let mut command = Command::new("/bin/sleep");
        command.arg("1000");
        let sample = run(command, Limits::default(), &[], &AtomicBool::new(true)).unwrap();
        assert_eq!(sample.outcome, Outcome::Interrupted);
    }
}
