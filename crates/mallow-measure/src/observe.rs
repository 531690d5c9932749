// SPDX-License-Identifier: MIT
//! Starts a command and looks at each of its processes just before it ends, or at a deadline: the
//! moment when everything that it would load is loaded. Uses ptrace; where that is not allowed it
//! looks again and again instead.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use mallow_os::{ChildSetup, Ending, threads};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::error::{Error, Result};
use crate::run::{Outcome, Sampler};
use mallow_process::binding::{Failure, Inspector, Report};
use mallow_process::stat::{Stat, folder};
use mallow_process::vitals;

/// A build starts thousands of processes; this many of them are looked at.
const MAX_OBSERVED: usize = 200;

/// How often the limits are looked at.
const WATCH_EVERY: Duration = Duration::from_millis(10);
/// Without ptrace.
const LOOK_EVERY: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub struct Observation {
    pub pid: u32,
    /// Its file.
    pub program: PathBuf,
    /// What it was started as, where that is another name: Debian's redis-server is a link to the file
    /// redis-check-rdb.
    pub started_as: Option<String>,
    pub is_main: bool,
    pub outcome: std::result::Result<Report, Failure>,
}

impl Observation {
    pub fn of(pid: u32, is_main: bool, inspector: &mut Inspector) -> Observation {
        let program = std::fs::read_link(folder(pid).join("exe")).unwrap_or_default();
        let stat = Stat::read(pid).ok();
        let started_as = stat.and_then(|stat| vitals::started_as(pid, &stat.comm));
        Observation { pid, program, started_as, is_main, outcome: inspector.inspect(pid) }
    }

    /// What it was started as, or the name of its file.
    pub fn name(&self) -> String {
        let file = || self.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.started_as.clone().unwrap_or_else(file)
    }
}

#[derive(Debug, Default)]
pub struct Observed {
    /// The main process first.
    pub processes: Vec<Observation>,
    /// How the command ended by itself; `None` if it was ended.
    pub ending: Option<Ending>,
    /// Why the command was ended.
    pub cut: Option<Outcome>,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// When to look at processes that are still running.
    pub look_after: Duration,
    /// When to end the command; `None`: let it run.
    pub kill_after: Option<Duration>,
    /// How long before it is killed it is asked to end, as a database has to be.
    pub grace: Duration,
    /// Of all processes together; `None`: as much as they want.
    pub memory: Option<u64>,
}

/// Says when a command has to be ended, and why.
struct Bounds<'a> {
    limits: Limits,
    interrupted: &'a AtomicBool,
    start: Instant,
    sampler: Option<Sampler>,
    /// It was asked to end.
    asked: bool,
}

impl Bounds<'_> {
    fn new(pid: u32, limits: Limits, interrupted: &AtomicBool) -> Bounds<'_> {
        let sampler = limits.memory.map(|_| Sampler::new(pid));
        Bounds { limits, interrupted, start: Instant::now(), sampler, asked: false }
    }

    /// Ends the group if it passed a limit, and says which.
    fn enforce(&mut self, group: Pid) -> Option<Outcome> {
        let ask_after = self.limits.kill_after.map(|limit| limit.saturating_sub(self.limits.grace));
        if !self.asked && ask_after.is_some_and(|limit| self.start.elapsed() >= limit) {
            self.asked = true;
            let _ = killpg(group, Signal::SIGTERM);
        }
        let passed = self.passed();
        if passed.is_some() {
            let _ = killpg(group, Signal::SIGKILL);
        }
        passed
    }

    /// Of a command that ended without being killed.
    fn cut(&self) -> Option<Outcome> {
        self.asked.then_some(Outcome::TimedOut)
    }

    fn passed(&mut self) -> Option<Outcome> {
        let resident = self.sampler.as_mut().map_or(0, Sampler::take);
        if self.interrupted.load(Ordering::Relaxed) {
            Some(Outcome::Interrupted)
        } else if self.limits.kill_after.is_some_and(|limit| self.start.elapsed() >= limit) {
            Some(Outcome::TimedOut)
        } else if self.limits.memory.is_some_and(|limit| resident > limit) {
            Some(Outcome::OverMemory)
        } else {
            None
        }
    }
}

/// Runs the command, traced if that is allowed.
pub fn observe(
    command: Command,
    cpu_count: Option<usize>,
    limits: Limits,
    interrupted: &AtomicBool,
) -> Result<Observed> {
    let mut command = command;
    if let Some(observed) = observe_traced(&mut command, cpu_count, limits, interrupted)? {
        return Ok(observed);
    }
    let mut untraced = Command::new(command.get_program());
    untraced.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => untraced.env(name, value),
            None => untraced.env_remove(name),
        };
    }
    untraced.stdin(mallow_launch::input::each_run()).stdout(Stdio::null()).stderr(Stdio::null());
    observe_untraced(untraced, cpu_count, limits, interrupted)
}

/// `None` where the kernel forbids tracing.
fn observe_traced(
    command: &mut Command,
    cpu_count: Option<usize>,
    limits: Limits,
    interrupted: &AtomicBool,
) -> Result<Option<Observed>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let setup =
        ChildSetup { traced: true, dies_with_parent: true, cpu_count, ..ChildSetup::default() };
    mallow_os::configure(command, setup).map_err(Error::not_started(&name))?;
    let child = match command.spawn() {
        Ok(child) => child,
        // A file that may not be executed gives EACCES, a sandbox without ptrace EPERM.
        Err(error) if error.raw_os_error() == Some(Errno::EPERM as i32) => return Ok(None),
        Err(error) => return Err(Error::not_started(&name)(error)),
    };
    let main = Pid::from_raw(child.id().cast_signed());
    let (finished, alarm) = channel::<()>();
    std::thread::scope(|scope| {
        let watch = move || watch_clock(main, limits, interrupted, &alarm);
        let timer = match threads::spawn_scoped(scope, "clock", watch) {
            Ok(timer) => timer,
            Err(error) => {
                // It is stopped at its first instruction.
                let _ = killpg(main, Signal::SIGKILL);
                while waitpid(main, Some(WaitPidFlag::__WALL)).is_ok() {}
                return Err(error.into());
            }
        };
        let mut tracer = Tracer::new(main);
        let outcome = tracer.run();
        drop(finished);
        let cut = timer.join().unwrap_or(None);
        let _ = killpg(main, Signal::SIGKILL);
        outcome.map(|ending| {
            Some(Observed {
                processes: tracer.observations(),
                ending: ending.filter(|_| cut.is_none()),
                cut,
            })
        })
    })
}

/// Looks at the main process again and again; a short one may be gone before it can be seen.
fn observe_untraced(
    mut command: Command,
    cpu_count: Option<usize>,
    limits: Limits,
    interrupted: &AtomicBool,
) -> Result<Observed> {
    let name = command.get_program().to_string_lossy().into_owned();
    let setup = ChildSetup { dies_with_parent: true, cpu_count, ..ChildSetup::default() };
    mallow_os::configure(&mut command, setup).map_err(Error::not_started(&name))?;
    let pid = command.spawn().map_err(Error::not_started(&name))?.id();
    let group = Pid::from_raw(pid.cast_signed());
    let pidfd = mallow_os::pidfd_open(pid).map_err(Error::not_started(&name))?;
    let mut bounds = Bounds::new(pid, limits, interrupted);
    let mut inspector = Inspector::default();
    let mut observed = Observed::default();
    while !mallow_os::wait_readable(&pidfd, LOOK_EVERY).map_err(Error::not_started(&name))? {
        if bounds.start.elapsed() <= limits.look_after + LOOK_EVERY {
            let observation = Observation::of(pid, true, &mut inspector);
            // Before the libraries are mapped nobody serves malloc.
            if observation.outcome.as_ref().is_ok_and(|report| report.summary() != "none") {
                observed.processes = vec![observation];
            }
        }
        if observed.cut.is_none() {
            observed.cut = bounds.enforce(group);
        } else {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
    observed.cut = observed.cut.or(bounds.cut());
    let (ending, _) = mallow_os::wait4(pid).map_err(Error::not_started(&name))?;
    let _ = killpg(group, Signal::SIGKILL);
    observed.ending = observed.cut.is_none().then_some(ending);
    Ok(observed)
}

/// Stops the main process when it is time to look, which wakes the tracer, and kills the group when
/// it passes a limit. Returns which.
fn watch_clock(
    main: Pid,
    limits: Limits,
    interrupted: &AtomicBool,
    alarm: &Receiver<()>,
) -> Option<Outcome> {
    let mut bounds = Bounds::new(main.as_raw().cast_unsigned(), limits, interrupted);
    let mut looked = false;
    loop {
        match alarm.recv_timeout(WATCH_EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return bounds.cut(),
        }
        if !looked && bounds.start.elapsed() >= limits.look_after {
            looked = true;
            // It may have ended just now.
            let _ = mallow_os::stop_main_thread(main.as_raw().cast_unsigned());
        }
        if let Some(outcome) = bounds.enforce(main) {
            return Some(outcome);
        }
    }
}

struct Tracer {
    main: Pid,
    inspector: Inspector,
    /// Traced and alive.
    alive: BTreeSet<i32>,
    /// Reported by the kernel before or after its parent's fork event.
    begun: BTreeSet<i32>,
    observed: Vec<Observation>,
}

impl Tracer {
    fn new(main: Pid) -> Tracer {
        Tracer {
            main,
            inspector: Inspector::default(),
            alive: BTreeSet::from([main.as_raw()]),
            begun: BTreeSet::new(),
            observed: Vec::new(),
        }
    }

    /// Follows the processes until the main one is gone.
    fn run(&mut self) -> Result<Option<Ending>> {
        loop {
            let status = match waitpid(None, Some(WaitPidFlag::__WALL)) {
                Ok(status) => status,
                Err(Errno::EINTR) => continue,
                Err(Errno::ECHILD) => return Ok(None),
                Err(error) => return Err(Error::Wait(error.into())),
            };
            if let Some(ending) = self.handle(status) {
                self.release_the_rest();
                return Ok(Some(ending));
            }
        }
    }

    /// The main process's end, if the event is that.
    fn handle(&mut self, status: WaitStatus) -> Option<Ending> {
        match status {
            WaitStatus::Exited(pid, code) => {
                self.alive.remove(&pid.as_raw());
                return (pid == self.main).then_some(Ending::Code(code));
            }
            WaitStatus::Signaled(pid, signal, _) => {
                self.alive.remove(&pid.as_raw());
                return (pid == self.main).then_some(Ending::Signal(signal as i32));
            }
            WaitStatus::PtraceEvent(pid, _, event) => {
                if event == ptrace::Event::PTRACE_EVENT_EXIT as i32 {
                    self.look_at(pid);
                }
                resume(pid, None);
            }
            WaitStatus::Stopped(pid, signal) => self.stopped(pid, signal),
            _ => {}
        }
        None
    }

    fn stopped(&mut self, pid: Pid, signal: Signal) {
        self.alive.insert(pid.as_raw());
        if self.begun.insert(pid.as_raw()) {
            // The first stop: of the main process after exec, of others after fork.
            let wanted = Options::PTRACE_O_TRACEEXIT
                | Options::PTRACE_O_TRACEFORK
                | Options::PTRACE_O_TRACEVFORK
                | Options::PTRACE_O_TRACEEXEC
                | Options::PTRACE_O_EXITKILL;
            let _ = ptrace::setoptions(pid, wanted);
            resume(pid, None);
        } else if pid == self.main && signal == Signal::SIGSTOP {
            // The clock's sign to look, or the program's own wish to stop, which would end nothing.
            for pid in self.alive.clone() {
                self.look_at(Pid::from_raw(pid));
            }
            resume(pid, None);
        } else {
            resume(pid, Some(signal));
        }
    }

    fn look_at(&mut self, pid: Pid) {
        let id = pid.as_raw().cast_unsigned();
        if self.observed.len() >= MAX_OBSERVED && pid != self.main {
            return;
        }
        let later = Observation::of(id, pid == self.main, &mut self.inspector);
        // A later look at the same process tells more: it may have run another program since.
        self.observed.retain(|observation| observation.pid != id || later.outcome.is_err());
        if later.outcome.is_ok() || !self.observed.iter().any(|observation| observation.pid == id) {
            self.observed.push(later);
        }
    }

    /// Children that outlive the main process are looked at now, and ended.
    fn release_the_rest(&mut self) {
        for pid in std::mem::take(&mut self.alive) {
            self.look_at(Pid::from_raw(pid));
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::__WALL));
        }
    }

    fn observations(&mut self) -> Vec<Observation> {
        let mut observed = std::mem::take(&mut self.observed);
        observed.sort_by_key(|observation| (!observation.is_main, observation.pid));
        observed
    }
}

fn resume(pid: Pid, signal: Option<Signal>) {
    // A process that was killed meanwhile cannot be resumed, and need not be.
    let _ = ptrace::cont(pid, signal);
}
