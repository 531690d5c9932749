// SPDX-License-Identifier: MIT
//! Starts the command with the recorder in front of its allocator, and collects until it ends.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use mallow_launch::preload::Changes;
use mallow_launch::{Allocator, Prepared, Target, embedded, preflight};
use mallow_measure::run::Outcome;
use mallow_os::signals::ForCommand;
use mallow_os::threads::why_not_started;
use mallow_os::{Ending as Ended, pidfd_open, wait4};
use mallow_recorder::{CHANNEL_VARIABLE, Channel, Clock, Settings, StackMode, Timeline};
use mallow_trace::{Ending, Header, Source};
use nix::sys::signal::Signal;

use super::collector::{Collector, Finished};
use super::memory;
use super::{Error, Place, Recorded, Result, StackKind, cannot_write, cut_off, header};
use mallow_os::wait_readable;
use mallow_process::allocators::{self, Family};

/// Of a thread: some 16,000 calls, or two milliseconds of a thread that does nothing else.
const RING_BYTES: usize = 256 << 10;
/// Of the stack, for --stacks full. Deeper frames are rare and outermost.
const COPY_BYTES: u32 = 32 << 10;

/// It needs no disk, but a limit on the size of files holds for it too.
const SHARED_MEMORY: &str = "The shared memory of the recording cannot be made (it has 1.3 GB, hardly any of it used; \
     ulimit -f must allow that)";

/// An old kernel, or the seccomp filter of a container.
const NO_PIDFD: &str = "The command could not be waited for, so it is not started: that takes pidfd_open, of Linux 5.3, \
     and a seccomp filter that allows it";

/// The rings are looked at more often in the first moments, so that the memory of short commands is seen.
const FIRST: Duration = Duration::from_millis(20);
const FIRST_IDLE: Duration = Duration::from_millis(1);

/// Of the signals to this process, those that are meant for the command.
const PASSED_ON: [Signal; 6] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTERM,
];

type Output = BufWriter<File>;

/// What to record, and how.
pub struct Request<'a> {
    pub command: &'a [OsString],
    /// Instead of the command's own.
    pub allocator: Option<&'a str>,
    pub trace: &'a Path,
    pub stacks: StackKind,
    /// Mean number of bytes between allocations that have a stack; 0 for all.
    pub stack_distance: u64,
    /// A thread that is too fast loses calls instead of waiting.
    pub drops: bool,
    /// The recording ends after it, and the command goes on.
    pub duration: Option<Duration>,
    pub stdin: Stdin,
    pub stdout: Stdout,
    /// Further variables of the command's environment: name, value.
    pub variables: &'a [(String, String)],
    /// The command may be a program that loads no library: then only what it starts is recorded.
    pub through: bool,
}

/// What the command reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    Own,
    /// It is run several times, see [`mallow_launch::input`].
    EachRun,
}

/// Where what the command prints goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdout {
    Own,
    /// Standard output is for a result.
    ToStderr,
    /// Errors too.
    Nowhere,
}

/// A command that was recorded.
pub struct Captured {
    pub recorded: Recorded,
    pub pid: u32,
    /// `None`: it goes on, beyond the duration.
    pub ended: Option<Ended>,
}

impl Captured {
    /// The command's exit code, as a shell would say it.
    pub fn code(&self) -> u8 {
        code(self.ended)
    }

    /// With one that goes on as one that went well.
    pub fn outcome(&self) -> Outcome {
        self.ended.map_or(Outcome::Finished, Outcome::from)
    }
}

fn code(ended: Option<Ended>) -> u8 {
    ended.map_or(0, |ended| Outcome::from(ended).code())
}

/// Starts the command, writes its trace until it ends, and passes signals on to it. `note` gets
/// sentences for the user.
pub fn record(request: &Request, note: &dyn Fn(&str)) -> Result<Captured> {
    let (prepared, server) = prepared(request.command, request.allocator, request.through, note)?;
    let target = &prepared.target;
    pidfd_open(std::process::id()).map_err(Error::io(NO_PIDFD))?;
    let clock = Clock::choose();
    let channel = Channel::new(&settings(request, clock)).map_err(Error::io(SHARED_MEMORY))?;
    let place = Place::open(request.trace)?;
    let header = description(request, server, target, clock);
    let timeline = Timeline::start(clock);

    let mut command = prepared.command();
    command.envs(request.variables.iter().map(|(name, value)| (name, value)));
    command.env(CHANNEL_VARIABLE, channel.path());
    if request.stdin == Stdin::EachRun {
        command.stdin(mallow_launch::input::each_run());
    }
    match request.stdout {
        Stdout::Own => {}
        Stdout::ToStderr => drop(command.stdout(std::io::stderr())),
        Stdout::Nowhere => drop(command.stdout(Stdio::null()).stderr(Stdio::null())),
    }
    let signals = ForCommand::catch(&PASSED_ON).map_err(Error::io("Signals cannot be caught"))?;
    let mut child = command.spawn().map_err(|error| Error::NotStarted {
        command: target.command.clone(),
        reason: why_not_started(&error),
    })?;
    // Until the command took its place, the child was this program, and the kernel remembers how large.
    let own_peak = memory::own_peak();
    let writer = place.begin(&header).inspect_err(|_| end(&mut child, note))?;
    let unwound = (request.stacks == StackKind::Full).then_some(request.stack_distance);
    let mut collector = Collector::new(channel, timeline, writer, child.id(), unwound);
    let collected = collect(&mut collector, child.id(), request.duration, &signals, note);
    let mut collected = collected.inspect_err(|_| end(&mut child, note))?;
    if let Some(peak_rss) = collected.peak_rss.filter(|&peak| peak > own_peak)
        && collected.failure.is_none()
    {
        collected.failure = collector.note_peak(peak_rss).err().map(cannot_write);
    }
    finish(request, target, collector, child.id(), collected)
}

/// A command that cannot be recorded after all does not go on with nobody who waits for it.
fn end(child: &mut Child, note: &dyn Fn(&str)) {
    let _ = child.kill().and_then(|()| child.wait());
    note("The command was started, and has been ended.");
}

/// Whether the command can be recorded, as far as that is known before it runs.
pub fn check(command: &[OsString], allocator: Option<&str>, through: bool) -> Result<()> {
    prepared(command, allocator, through, &|_| {}).map(drop)
}

/// An allocator that serves a command's malloc: name and file.
type Server = Option<(String, PathBuf)>;

fn prepared(
    command: &[OsString],
    allocator: Option<&str>,
    through: bool,
    note: &dyn Fn(&str),
) -> Result<(Prepared, Server)> {
    let mut prepared = mallow_launch::prepare(command, allocator, &[], note)?.checked()?;
    let server = server(&prepared);
    prepared.changes = environment(&prepared, through, note)?;
    Ok((prepared, server))
}

fn description(request: &Request, server: Server, target: &Target, clock: Clock) -> Header {
    let (allocator, allocator_path) = match server {
        Some((name, _)) if allocators::is_system_name(&name) => (name, None),
        Some((name, path)) => (name, Some(path.to_string_lossy().into_owned())),
        None => (String::new(), None),
    };
    Header {
        libc: target.libc().map(|libc| libc.name().to_owned()).unwrap_or_default(),
        allocator,
        allocator_path,
        command: request.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        source: Source::Preload,
        ..header(clock, request.stacks, request.stack_distance)
    }
}

/// Who will serve it behind the recorder.
fn server(prepared: &Prepared) -> Server {
    match &prepared.allocator {
        Some(Allocator { name, path: Some(path), .. }) => Some((name.clone(), path.clone())),
        _ => preflight::server(&prepared.target, &Changes::new()),
    }
}

/// The recorder first, then the allocator, then what was there.
fn environment(prepared: &Prepared, through: bool, note: &dyn Fn(&str)) -> Result<Changes> {
    let mut changes = prepared.changes.clone();
    let recorder = recorder()?;
    let is_passed = through && prepared.target.elf.is_static();
    let sentences = match is_passed {
        true => vec![format!(
            "{} loads no library, so nothing of its own is counted; what it starts is.",
            prepared.target.describe()
        )],
        false => prepared.target.check(&recorder)?,
    };
    // Else the allocator's were the same.
    if prepared.allocator.is_none() {
        sentences.iter().for_each(|sentence| note(sentence));
    }
    if let Some((_, name)) = prepared.target.linked_with() {
        note(&format!("Calls by {name}'s own names are not recorded."));
    }
    let path = recorder.path.clone().unwrap_or_default();
    let behind = match changes.iter().find(|(name, _)| name == "LD_PRELOAD") {
        Some((_, value)) => value.clone(),
        None => std::env::var_os("LD_PRELOAD"),
    };
    let mut preload = path.into_os_string();
    if let Some(behind) = behind.filter(|behind| !behind.is_empty()) {
        preload.push(":");
        preload.push(behind);
    }
    changes.retain(|(name, _)| name != "LD_PRELOAD");
    changes.push(("LD_PRELOAD".into(), Some(preload)));
    if !is_passed {
        preflight::check(&prepared.target, &recorder, &changes)?;
    }
    Ok(changes)
}

/// As an allocator: it has to be preloadable like one.
fn recorder() -> Result<Allocator> {
    Ok(Allocator {
        name: "the recorder".into(),
        family: Family::Other,
        path: Some(embedded::materialise(&embedded::RECORDER)?),
        libc: None,
        machine: mallow_process::elf::own_machine(),
        ..Allocator::system()
    })
}

fn settings(request: &Request, clock: Clock) -> Settings {
    Settings {
        stacks: match request.stacks {
            StackKind::None => StackMode::None,
            StackKind::Fp => StackMode::FramePointers,
            StackKind::Full => StackMode::Copies(COPY_BYTES),
        },
        stack_distance: request.stack_distance,
        drops: request.drops,
        ring_bytes: RING_BYTES,
        clock,
    }
}

/// What happened until the command ended.
struct Collected {
    /// `None`: it goes on, beyond the --duration.
    ended: Option<Ended>,
    /// The most memory that the command had, or a process that it waited for.
    peak_rss: Option<u64>,
    /// Writing failed, and nothing was recorded from then on.
    failure: Option<Error>,
}

fn collect(
    collector: &mut Collector<Output>,
    pid: u32,
    duration: Option<Duration>,
    signals: &ForCommand,
    note: &dyn Fn(&str),
) -> Result<Collected> {
    let pidfd = pidfd_open(pid).map_err(Error::io("The command cannot be waited for"))?;
    let start = Instant::now();
    let failure = collector.begin().err().map(|error| give_up(collector, error, note));
    let mut collected = Collected { ended: None, peak_rss: None, failure };
    loop {
        signals.pass_on(pid);
        let has_ended = wait_readable(&pidfd, Duration::ZERO).map_err(Error::io("Waiting"))?;
        let words = match collected.failure {
            Some(_) => 0,
            None => collector.round().unwrap_or_else(|error| {
                collected.failure = Some(give_up(collector, error, note));
                0
            }),
        };
        if has_ended {
            let (ended, usage) = wait4(pid).map_err(Error::io("Waiting for the command"))?;
            (collected.ended, collected.peak_rss) = (Some(ended), Some(usage.peak_rss_bytes));
            return Ok(collected);
        }
        if duration.is_some_and(|duration| start.elapsed() >= duration) {
            return Ok(collected);
        }
        if collected.failure.is_some() {
            // Not on the channel: threads whose rings are full for good would ring with each call.
            wait_readable(&pidfd, super::IDLE).map_err(Error::io("Waiting"))?;
        } else if words < RING_BYTES / 32 {
            // A quarter of a ring's words is when a thread would ring.
            collector.channel.wait(if start.elapsed() < FIRST { FIRST_IDLE } else { super::IDLE });
        }
    }
}

/// The trace cannot be written any more: the command goes on alone, and the user hears of it now, for
/// it may go on for long.
fn give_up(
    collector: &Collector<Output>,
    error: mallow_trace::Error,
    note: &dyn Fn(&str),
) -> Error {
    collector.channel.close();
    let error = cannot_write(error);
    note(&format!("{error}. The command goes on, and nothing of it is recorded from here on."));
    error
}

fn finish(
    request: &Request,
    target: &Target,
    collector: Collector<Output>,
    pid: u32,
    collected: Collected,
) -> Result<Captured> {
    let code = code(collected.ended);
    if let Some(error) = collected.failure {
        // What it still holds is written now, or never.
        drop(collector);
        return Err(cut_off(request.trace, code, error));
    }
    let ending = collected.ended.map(|ended| match ended {
        Ended::Code(code) => Ending::Code(code),
        Ended::Signal(signal) => Ending::Signal(signal),
    });
    let Finished { recorded, was_found, mut output } = match collector.finish(ending) {
        Ok(finished) => finished,
        Err(error) => return Err(cut_off(request.trace, code, cannot_write(error))),
    };
    if let Err(error) = output.flush() {
        drop(output);
        return Err(cut_off(request.trace, code, cannot_write(error.into())));
    }
    if !was_found {
        return Err(Error::Unsupported(match target.elf.is_static() {
            true => format!(
                "{} loads no library, and neither does what it started (Go without cgo never calls malloc), \
                 so nothing was recorded.",
                target.describe()
            ),
            false => {
                format!("{} did not load the recorder, so nothing was recorded.", target.describe())
            }
        }));
    }
    Ok(Captured { recorded, pid, ended: collected.ended })
}
