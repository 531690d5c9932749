// SPDX-License-Identifier: MIT
//! The watch of one process, from its start to whatever ends it first: the process, the user, the
//! time.

use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::args::WatchArgs;
use crate::error::{Error, Result};
use mallow_measure::run::Outcome;
use mallow_measure::watched::{History, Run, SCHEMA};
use mallow_os::wait_readable;
use mallow_process::binding::Failure;
use mallow_process::descendants;
use mallow_process::stat::{Start, Stat};
use mallow_process::vitals;

use super::live::Live;
use super::sampler::Sampler;

const ENDED: &str = "ended";
/// An interrupt that comes just before the wait is noticed after this time.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// How long the last sample waits for a heap that is read for it.
const LAST_WITHIN: Duration = Duration::from_secs(3);
/// A sample that is no older tells how it was at the end.
const FRESH: Duration = Duration::from_millis(20);
/// For a command that is asked to end, before it is made to.
const ENDS_WITHIN: Duration = Duration::from_secs(3);
const END_EVERY: Duration = Duration::from_millis(10);

pub struct Session<'a> {
    args: &'a WatchArgs,
    pid: u32,
    /// Readable when the process has ended.
    process: OwnedFd,
    child: Option<Child>,
    live: Live,
    begin: Instant,
}

impl<'a> Session<'a> {
    pub fn new(
        args: &'a WatchArgs,
        pid: u32,
        child: Option<Child>,
        live: Live,
    ) -> Result<Session<'a>> {
        let process = mallow_os::pidfd_open(pid)
            .map_err(|error| Error::Process { pid, failure: Failure::from(error) })?;
        Ok(Session { args, pid, process, child, live, begin: Instant::now() })
    }

    /// The run, and how the command ended, if there was one and it did.
    pub fn watch(mut self, interrupted: &AtomicBool) -> Result<(Run, Option<Outcome>)> {
        let mut sampler = match Sampler::new(self.pid, self.args.interval) {
            Ok(sampler) => sampler,
            Err(error) => {
                self.live.close();
                self.end_command();
                let _ = self.child.as_mut().map(Child::wait);
                return Err(error);
            }
        };
        let mut history = History::new(self.new_run(), self.child.is_some());
        let ending = self.sample(&mut sampler, &mut history, interrupted);
        self.live.close();
        let mut run = history.run;
        run.ending = ending.into();
        if ending != ENDED {
            self.end_command();
        }
        let status = self.child.as_mut().map(Child::wait).transpose();
        let status = status.map_err(Error::io("The command cannot be waited for"))?;
        let outcome = status.map(|status| Outcome::from(mallow_os::Ending::from(status)));
        if run.samples.is_empty() {
            return Err(self.without_samples(outcome));
        }
        let failed = outcome.filter(|outcome| ending == ENDED && *outcome != Outcome::Finished);
        if let Some(failed) = failed {
            run.ending = failed.describe();
        }
        Ok((run, outcome.filter(|_| ending == ENDED)))
    }

    /// Takes samples until something ends the watch, and says what.
    fn sample(
        &mut self,
        sampler: &mut Sampler,
        history: &mut History,
        interrupted: &AtomicBool,
    ) -> &'static str {
        let mut next = self.begin;
        let mut taken: Option<Instant> = None;
        loop {
            // Also who is quick to interrupt gets one sample.
            if interrupted.load(Ordering::Relaxed) && !history.run.samples.is_empty() {
                return "was still running when the watch was interrupted";
            }
            let now = Instant::now();
            let is_over = self.args.duration.is_some_and(|time| now - self.begin >= time);
            let is_told = taken.is_some_and(|taken| {
                tells_the_end(now - taken, history.run.samples.len(), self.args.interval)
            });
            // How it was at the end belongs to it.
            if now >= next || is_over && !is_told {
                let sample = if is_over { sampler.take_last(LAST_WITHIN) } else { sampler.take() };
                let Some(sample) = sample else { return ENDED };
                taken = Some(Instant::now());
                history.add(sample);
                history.find_trend();
                if !sampler.allocator.is_empty() {
                    history.run.allocator.clone_from(&sampler.allocator);
                }
                if !self.live.show(&history.run, &sample) {
                    return "was still running when nobody read the figures any more";
                }
                // What took too long is not made up for.
                next = (next + self.args.interval).max(Instant::now());
            }
            if is_over {
                return "was still running when the time was over";
            }
            let until_end = self
                .args
                .duration
                .map_or(LONGEST_WAIT, |time| time.saturating_sub(self.begin.elapsed()));
            let until_next = next.saturating_duration_since(Instant::now());
            let pause = until_next.min(until_end).min(LONGEST_WAIT);
            if self.live.wait(&self.process, pause) {
                return "was still running when the watch was ended";
            }
            if wait_readable(&self.process, Duration::ZERO).unwrap_or(true) {
                return ENDED;
            }
        }
    }

    /// Who started it also ends it, with its children.
    fn end_command(&self) {
        if self.child.is_none() {
            return;
        }
        let mut processes = Vec::new();
        descendants(self.pid, &mut processes);
        // By what tells a process from a later one of the same number.
        let start =
            |pid: u32| Stat::read(pid).ok().filter(|stat| !stat.is_zombie()).map(|stat| stat.start);
        let processes: Vec<_> =
            processes.into_iter().filter_map(|pid| Some((pid, start(pid)?))).collect();
        let is_there = |(pid, begun): &(u32, Start)| start(*pid).as_ref() == Some(begun);
        let send = |signal: Signal| {
            for process in processes.iter().filter(|process| is_there(process)) {
                let _ = kill(Pid::from_raw(process.0.cast_signed()), signal);
            }
        };
        send(Signal::SIGTERM);
        let end = Instant::now() + ENDS_WITHIN;
        while processes.iter().any(is_there) && Instant::now() < end {
            std::thread::sleep(END_EVERY); // a child may outlive the command
        }
        send(Signal::SIGKILL);
    }

    fn without_samples(&self, outcome: Option<Outcome>) -> Error {
        let Some(outcome) = outcome else {
            return Error::Process { pid: self.pid, failure: Failure::Vanished };
        };
        let before = "before a sample could be taken";
        Error::unseen(outcome, before, "mallow compare measures short commands")
    }

    fn new_run(&self) -> Run {
        let words = if self.child.is_none() {
            // A process may have taken its words away; it has a name still.
            let words = vitals::command_line(self.pid);
            let name = || Stat::read(self.pid).map(|stat| stat.comm).unwrap_or_default();
            if words.is_empty() { name() } else { words }
        } else {
            let words = self.args.command.iter().map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        Run {
            schema: SCHEMA.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            command: words,
            pid: self.pid,
            // Until it was seen in the process.
            allocator: self.args.allocator.clone().unwrap_or_default(),
            started_at: since_1970.map_or(0, |time| time.as_secs()),
            interval_s: self.args.interval.as_secs_f64(),
            ..Run::default()
        }
    }
}

/// Whether the last of so many samples, of this age at the end, is one of the end too.
fn tells_the_end(age: Duration, samples: usize, interval: Duration) -> bool {
    samples > 1 && age < FRESH.min(interval / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_some_time_ago_is_none_of_the_end() {
        let second = Duration::from_secs(1);
        let tells = |ms, samples| tells_the_end(Duration::from_millis(ms), samples, second);
        assert!(tells(10, 2));
        assert!(!tells(10, 1), "the first is of the beginning");
        assert!(!tells(100, 2) && !tells(450, 20));
        assert!(!tells_the_end(FRESH / 2, 2, FRESH / 2), "nor where samples are close");
    }
}
