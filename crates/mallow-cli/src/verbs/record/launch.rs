//! Starts the command with the recorder in front of its allocator, and collects until it ends.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mallow_launch::preload::Changes;
use mallow_launch::{Allocator, Prepared, Target, embedded, preflight};
use mallow_os::{Ending as Ended, pidfd_open, wait4};
use mallow_recorder::{Channel, Clock, Settings, StackMode, Timeline};
use mallow_trace::{Ending, Writer};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::args::{RecordArgs, StackKind, WhenFull};
use super::collector::Collector;
use super::summary::{self, Outcome};
use super::{cannot_write, cut_off};
use crate::error::{Error, Result};
use crate::output::Notes;
use mallow_os::wait_readable;
use mallow_process::allocators::Family;

/// Of a thread: some 16,000 calls, or two milliseconds of a thread that does nothing else.
const RING_BYTES: usize = 256 << 10;
/// Of the stack, for --stacks full. Deeper frames are rare and outermost.
const COPY_BYTES: u32 = 32 << 10;

type Output = BufWriter<File>;

pub fn record(args: &RecordArgs, notes: Notes) -> Result<u8> {
    let note = |sentence: &str| notes.note(sentence);
    let mut prepared =
        mallow_launch::prepare(&args.command, args.allocator.as_deref(), &[], &note)?.checked()?;
    let server = server(&prepared);
    prepared.changes = environment(&prepared, notes)?;
    let target = &prepared.target;
    let file = super::create(&args.output)?;
    let clock = Clock::choose();
    let channel = Channel::new(&settings(args, clock)).map_err(Error::io("The shared memory"))?;
    let header = summary::header(args, server, target.libc(), clock);
    let timeline = Timeline::start(clock);
    let output = BufWriter::with_capacity(1 << 20, file);
    let writer = Writer::new(output, &header).map_err(cannot_write)?;

    let mut command = prepared.command();
    command.env("MALLOW_RECORD", channel.path());
    if args.json {
        command.stdout(std::io::stderr());
    }
    let signals = Signals::catch()?;
    let child = command.spawn().map_err(|error| Error::NotStarted {
        command: target.command.clone(),
        reason: error.to_string(),
    })?;
    let unwound = (args.stack_kind() == StackKind::Full).then(|| super::stack_distance(args));
    let mut collector = Collector::new(channel, timeline, writer, child.id(), unwound);
    let collected = collect(&mut collector, child.id(), args.duration, &signals)?;
    finish(args, notes, target, collector, child.id(), collected)
}

/// Who will serve the command's malloc behind the recorder: name and file.
fn server(prepared: &Prepared) -> Option<(String, PathBuf)> {
    match &prepared.allocator {
        Some(Allocator { name, path: Some(path), .. }) => Some((name.clone(), path.clone())),
        _ => preflight::server(&prepared.target, &Changes::new()),
    }
}

/// The recorder first, then the allocator, then what was there.
fn environment(prepared: &Prepared, notes: Notes) -> Result<Changes> {
    let mut changes = prepared.changes.clone();
    let recorder = recorder()?;
    for note in prepared.target.check(&recorder)? {
        // Else the allocator's were the same.
        if prepared.allocator.is_none() {
            notes.note(&note);
        }
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
    preflight::check(&prepared.target, &recorder, &changes)?;
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

fn settings(args: &RecordArgs, clock: Clock) -> Settings {
    Settings {
        stacks: match args.stack_kind() {
            StackKind::None => StackMode::None,
            StackKind::Fp => StackMode::FramePointers,
            StackKind::Full => StackMode::Copies(COPY_BYTES),
        },
        stack_distance: super::stack_distance(args),
        drops: args.when_full == WhenFull::Drop,
        ring_bytes: RING_BYTES,
        clock,
    }
}

/// What happened until the command ended.
struct Collected {
    /// `None`: it goes on, beyond the --duration.
    ended: Option<Ended>,
    /// Writing failed, and nothing was recorded from then on.
    failure: Option<mallow_trace::Error>,
}

fn collect(
    collector: &mut Collector<Output>,
    pid: u32,
    duration: Option<Duration>,
    signals: &Signals,
) -> Result<Collected> {
    let pidfd = pidfd_open(pid).map_err(Error::io("The command cannot be waited for"))?;
    let start = Instant::now();
    let mut collected = Collected { ended: None, failure: None };
    loop {
        signals.pass_on(pid);
        let has_ended = wait_readable(&pidfd, Duration::ZERO).map_err(Error::io("Waiting"))?;
        let words = match collected.failure {
            Some(_) => 0,
            None => collector.round().unwrap_or_else(|error| {
                collector.channel.close();
                collected.failure = Some(error);
                0
            }),
        };
        if has_ended {
            let (ended, _) = wait4(pid).map_err(Error::io("Waiting for the command"))?;
            collected.ended = Some(ended);
            return Ok(collected);
        }
        if duration.is_some_and(|duration| start.elapsed() >= duration) {
            return Ok(collected);
        }
        // A quarter of a ring's words is when a thread would ring.
        if words < RING_BYTES / 32 {
            collector.channel.wait(super::IDLE);
        }
    }
}

fn finish(
    args: &RecordArgs,
    notes: Notes,
    target: &Target,
    collector: Collector<Output>,
    pid: u32,
    collected: Collected,
) -> Result<u8> {
    let totals = *collector.totals();
    let mut outcome = Outcome {
        calls: totals.calls,
        dropped: totals.dropped,
        threads: collector.thread_count(),
        processes: collector.process_count(),
        lost_threads: collector.channel.lost_threads(),
        damaged_rings: collector.damaged_rings,
        still_running: 0,
    };
    let code = match collected.ended {
        Some(Ended::Code(code)) => u8::try_from(code).unwrap_or(255),
        Some(Ended::Signal(signal)) => 128u8.saturating_add(u8::try_from(signal).unwrap_or(127)),
        None => 0,
    };
    if let Some(error) = collected.failure {
        // What it still holds is written now, or never.
        drop(collector);
        return Err(cut_off(&args.output, code, error));
    }
    let ending = collected.ended.map(|ended| match ended {
        Ended::Code(code) => Ending::Code(code),
        Ended::Signal(signal) => Ending::Signal(signal),
    });
    outcome.still_running = collector.living_others();
    let was_found = collector.channel.was_found();
    let (totals, mut output) = match collector.finish(ending) {
        Ok(finished) => finished,
        Err(error) => return Err(cut_off(&args.output, code, error)),
    };
    if let Err(error) = output.flush() {
        drop(output);
        return Err(cut_off(&args.output, code, error.into()));
    }
    (outcome.calls, outcome.dropped) = (totals.calls, totals.dropped);
    if !was_found {
        return Err(Error::Unsupported(format!(
            "{} did not load the recorder, so nothing was recorded.",
            target.describe()
        )));
    }
    outcome.publish(args, notes)?;
    if collected.ended.is_none() {
        notes.note(&format!("The command goes on as process {pid}."));
    }
    Ok(code)
}

/// Signals to this process are meant for the command. Those of the terminal reach it by themselves.
struct Signals {
    last: Arc<AtomicUsize>,
}

impl Signals {
    fn catch() -> Result<Signals> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
        let last = Arc::new(AtomicUsize::new(0));
        let failed = "Signals cannot be caught";
        for signal in [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2] {
            signal_hook::flag::register_usize(signal, Arc::clone(&last), signal as usize)
                .map_err(Error::io(failed))?;
        }
        for signal in [SIGINT, SIGQUIT] {
            signal_hook::flag::register_usize(signal, Arc::clone(&last), 0)
                .map_err(Error::io(failed))?;
        }
        Ok(Signals { last })
    }

    fn pass_on(&self, pid: u32) {
        let signal = self.last.swap(0, Ordering::Relaxed);
        if let Ok(signal) = Signal::try_from(signal as i32) {
            let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
        }
    }
}
