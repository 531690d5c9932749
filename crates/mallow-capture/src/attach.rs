// SPDX-License-Identifier: MIT
//! A running process is recorded by probes of the kernel on the functions of whichever library
//! serves its malloc. The process is neither stopped nor changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mallow_recorder::{Clock, Hit, Probes, system_ns};
use mallow_trace::{
    COLLECTOR, Call, Ending, Event, Op, ProcessEnd, Record, Source, Thread, Writer,
};

mod points;

use self::points::{Meaning, no_permission, open, points, refusal, threads};
use super::blocks::Blocks;
use super::calls::Calls;
use super::images::{Images, Introduction};
use super::memory::Samples;
use super::stacks::{ScriptFrames, Stacks};
use super::unwind;
use super::{Error, Place, Recorded, Result, StackKind, cannot_write, cut_off, header};
use mallow_process::binding::{self, Failure, Inspector, Report};
use mallow_process::descendants;
use mallow_process::elf::ElfInfo;
use mallow_process::elf::identify;
use mallow_process::maps;
use mallow_process::stat::{Stat, folder};

/// One allocation in so many has a stack. Each costs the process some microseconds more. A prime: a loop of a few
/// allocations would meet its same one with each stack.
pub const STACK_PERIOD: u64 = 61;

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What to record of which process.
pub struct Request<'a> {
    pub pid: u32,
    pub trace: &'a Path,
    /// One allocation in [`STACK_PERIOD`] has its stack, by unwind tables.
    pub has_stacks: bool,
    /// The recording ends after it, or with the process, or by a signal to this one.
    pub duration: Option<Duration>,
}

/// Records until the end. `note` gets a sentence when it has begun.
pub fn record(request: &Request, note: &dyn Fn(&str)) -> Result<Recorded> {
    let Request { pid, trace, has_stacks, duration } = *request;
    let period = has_stacks.then_some(STACK_PERIOD);
    let library = serving_library(pid)?;
    let (points, what) = points(pid, &library)?;
    let probes = open(pid, &points, period)?;
    let place = Place::open(trace)?;
    let name = ElfInfo::read(&place_of(pid, &library)).ok().flatten();
    let name = name.map_or("unknown".to_owned(), |info| identify(&library, &info));
    let end = match duration {
        Some(duration) => format!("for {duration:?} or until Ctrl-C"),
        None => "until Ctrl-C".into(),
    };
    let is_stopped = Stat::read(pid).is_ok_and(|stat| stat.state == 'T');
    let stopped = match is_stopped {
        true => format!(" It is stopped, and makes no call before kill -CONT {pid}."),
        false => String::new(),
    };
    let begun = format!("Recording process {pid}, served by {name}, {end}.{stopped}");
    let stacks = if has_stacks { StackKind::Full } else { StackKind::None };
    // Each stack says for how many calls it stands.
    let mut header = header(Clock::System, stacks, u64::from(has_stacks));
    header.source = Source::Uprobes;
    header.allocator = name;
    header.command = command_line(pid);
    let stop = stop_flag()?;
    probes.enable().map_err(refusal)?;
    let writer = place.begin(&header)?;
    let mut session = Session::new(pid, writer, probes, what, has_stacks);
    note(&begun);
    let outcome = session.run(duration, &stop).and_then(|()| session.finish());
    outcome.map_err(|error| {
        drop(session);
        cut_off(trace, 0, cannot_write(error))
    })
}

/// The mean number of bytes between stacks for which one of a block of this size stands for
/// `STACK_PERIOD` calls.
fn distance(size: u64) -> u64 {
    let missed = (-1.0 / STACK_PERIOD as f64).ln_1p();
    (size.max(1) as f64 / -missed).ceil() as u64
}

/// What serves the malloc of a process, its program and its command, as the recorder says it.
fn introduction(pid: u32) -> Option<Vec<u8>> {
    let executable = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let mut text = serving_library(pid).unwrap_or_default().into_os_string().into_vec();
    text.push(0);
    text.extend(executable.as_os_str().as_bytes());
    text.push(0);
    text.extend(std::fs::read(format!("/proc/{pid}/cmdline")).ok()?);
    Some(text)
}

fn command_line(pid: u32) -> Vec<String> {
    let text = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = text.strip_suffix(b"\0").unwrap_or(&text).split(|&byte| byte == 0);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The file whose malloc the process calls.
fn serving_library(pid: u32) -> Result<PathBuf> {
    match Inspector::default().inspect(pid) {
        Ok(Report::Dynamic { main, .. }) => match main.bindings.get("malloc") {
            Some(binding) => Ok(binding.path.clone()),
            None => Err(Error::Unsupported(format!("Process {pid} has no malloc to record."))),
        },
        Ok(Report::Static { .. }) => std::fs::read_link(format!("/proc/{pid}/exe"))
            .map_err(Error::io("The program cannot be found")),
        Ok(Report::Go) => Err(Error::Unsupported(format!(
            "Process {pid} is a Go program without cgo, which never calls malloc. Use Go's own pprof."
        ))),
        // Root is told to sudo in vain.
        Err(Failure::NoPermission) if !nix::unistd::geteuid().is_root() => Err(no_permission()),
        Err(failure) => Err(Error::Process { pid, failure }),
    }
}

/// Where a file can be read that the process has mapped: one in a container sees other files under the same
/// names.
fn place_of(pid: u32, path: &Path) -> PathBuf {
    let proc = folder(pid);
    let maps = maps::parse(&std::fs::read(proc.join("maps")).unwrap_or_default());
    let mapping = maps.iter().find(|mapping| mapping.path == path);
    let place = mapping.and_then(|mapping| binding::places(&proc, mapping).next());
    place.map_or_else(
        || proc.join("root").join(path.strip_prefix("/").unwrap_or(path)),
        |(place, _)| place,
    )
}

fn stop_flag() -> Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(Error::io("Signals cannot be caught"))?;
    }
    Ok(stop)
}

#[derive(Default)]
struct Lane {
    thread: u32,
    calls: Calls,
    /// The stack of the call under way: its number, by the size that it was taken for.
    stack: u32,
}

/// A process that is recorded.
struct Target {
    image: usize,
    threads: BTreeSet<u32>,
    memory: Option<File>,
    /// Allocator, executable and command.
    text: Vec<u8>,
    blocks: Blocks,
}

struct Session {
    pid: u32,
    started_before: usize,
    start_ns: u64,
    writer: Writer<BufWriter<File>>,
    probes: Probes,
    meanings: Vec<Meaning>,
    targets: BTreeMap<u32, Target>,
    lanes: BTreeMap<u32, Lane>,
    thread_count: u32,
    samples: Samples,
    images: Images,
    stacks: Stacks,
    /// Hits that others, on another processor, may still come before.
    held: Vec<Hit>,
    lost: u64,
}

impl Session {
    fn new(
        pid: u32,
        writer: Writer<BufWriter<File>>,
        probes: Probes,
        meanings: Vec<Meaning>,
        has_stacks: bool,
    ) -> Session {
        let mut family = Vec::new(); // with the process itself
        descendants(pid, &mut family);
        let mut session = Session {
            pid,
            started_before: family.len() - 1,
            start_ns: system_ns(),
            writer,
            probes,
            meanings,
            targets: BTreeMap::new(),
            lanes: BTreeMap::new(),
            thread_count: 0,
            samples: Samples::default(),
            images: Images::new(has_stacks),
            stacks: Stacks::default(),
            held: Vec::new(),
            lost: 0,
        };
        session.begin(pid, 0, None);
        session
    }

    /// A process, from now on: the first, one that a known one has forked, or what one became by an
    /// exec. It may be gone already; then it is what the process before it was.
    fn begin(&mut self, pid: u32, parent: u32, before: Option<Target>) -> usize {
        let own = introduction(pid).filter(|_| parent == 0);
        let known = self.targets.get(&parent).or(before.as_ref());
        let text = own.or_else(|| Some(known?.text.clone())).unwrap_or_default();
        let parent_id = self.targets.get(&parent).map_or(0, |target| target.image as u64 + 1);
        let id = self.images.len() as u64 + 1;
        let parent_pid = parent;
        let introduction = Introduction { id, parent_id, pid, parent_pid, text: text.clone() };
        let (image, _) = self.images.define(&introduction);
        // Now: by the time of its first stack it may have ended.
        self.images.read_maps(image);
        let threads = threads(pid).into_iter().collect();
        let memory = File::open(format!("/proc/{pid}/mem")).ok();
        let blocks = Blocks::default();
        self.targets.insert(pid, Target { image, threads, memory, text, blocks });
        image
    }

    fn image(&mut self, pid: u32) -> usize {
        match self.targets.get(&pid) {
            Some(target) => target.image,
            // Its beginning was lost.
            None => self.begin(pid, 0, None),
        }
    }

    fn run(&mut self, duration: Option<Duration>, stop: &AtomicBool) -> mallow_trace::Result<()> {
        let start = Instant::now();
        self.write_definitions(0)?;
        loop {
            self.round(false)?;
            let is_over = duration.is_some_and(|duration| start.elapsed() >= duration);
            if is_over || stop.load(Ordering::Relaxed) || has_ended(self.pid) {
                return Ok(());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn round(&mut self, is_last: bool) -> mallow_trace::Result<()> {
        let now = system_ns();
        let mut hits = std::mem::take(&mut self.held);
        self.probes.read(&mut hits);
        hits.sort_by_key(time_of);
        let ready =
            if is_last { hits.len() } else { hits.partition_point(|hit| time_of(hit) < now) };
        self.held = hits.split_off(ready);
        for hit in hits {
            self.take(hit)?;
        }
        let time = now.saturating_sub(self.start_ns);
        for (memory, regions) in self.samples.take(self.images.alive(), |_| 0) {
            let regions = regions.map(Event::Regions);
            for event in [Event::Memory(Box::new(memory))].into_iter().chain(regions) {
                self.writer.write(&Record { time, thread: COLLECTOR, event })?;
            }
        }
        self.writer.promise(time.saturating_sub(1_000_000))
    }

    fn write_definitions(&mut self, time: u64) -> mallow_trace::Result<()> {
        for event in std::mem::take(&mut self.images.definitions) {
            self.writer.write(&Record { time, thread: COLLECTOR, event })?;
        }
        Ok(())
    }

    fn take(&mut self, hit: Hit) -> mallow_trace::Result<()> {
        let time = time_of(&hit).saturating_sub(self.start_ns);
        match hit {
            Hit::Lost(count) => {
                self.lost += count;
                self.targets.values_mut().for_each(|target| target.blocks.forget());
                // Which thread's they were is not known.
                let (time, event) = (self.writer.totals().end, Event::Dropped(count));
                self.writer.write(&Record { time, thread: COLLECTOR, event })
            }
            Hit::ThreadStart { pid, tid, parent, .. } => self.start_thread(pid, tid, parent, time),
            Hit::ThreadEnd { pid, tid, .. } => self.end_thread(pid, tid, time),
            Hit::Exec { pid, .. } => self.exec(pid, time),
            Hit::Stack { point, pid, tid, arguments, copy, .. } => {
                let op = self.meanings[point].op;
                if !self.lane(pid, tid, time)?.calls.is_of_program(op, arguments, time) {
                    return Ok(());
                }
                let size = size_of_call(op, arguments);
                let image = self.image(pid);
                let copy = unwind::Copy {
                    ip: copy.ip,
                    sp: copy.sp,
                    fp: copy.fp,
                    distance: distance(size),
                    stack: &copy.words,
                };
                let script = ScriptFrames::default();
                let stack = self.stacks.unwind(&mut self.images, image, &copy, script);
                self.write_definitions(time)?;
                self.lane(pid, tid, time)?.stack = stack;
                Ok(())
            }
            Hit::Call { point, pid, tid, result, arguments, .. } => {
                let meaning = self.meanings[point];
                let lane = self.lane(pid, tid, time)?;
                let call = match meaning.at_return {
                    false => lane.calls.enter(meaning.op, arguments, time),
                    true => lane.calls.leave(meaning.op, result, time),
                };
                let thread = lane.thread;
                let Some(mut call) = call else { return Ok(()) };
                if !call.op.is_free() {
                    call.stack = std::mem::take(&mut lane.stack);
                }
                let call = self.with_block(pid, call, time);
                self.writer.write(&Record { time, thread, event: Event::Call(call) })
            }
        }
    }

    fn start_thread(
        &mut self,
        pid: u32,
        tid: u32,
        parent: u32,
        time: u64,
    ) -> mallow_trace::Result<()> {
        if pid != parent && !self.targets.contains_key(&pid) {
            self.begin(pid, parent, None);
            self.write_definitions(time)?;
        }
        if let Some(target) = self.targets.get_mut(&pid) {
            target.threads.insert(tid);
        }
        Ok(())
    }

    fn end_thread(&mut self, pid: u32, tid: u32, time: u64) -> mallow_trace::Result<()> {
        if let Some(lane) = self.lanes.remove(&tid) {
            let event = Event::ThreadEnd;
            self.writer.write(&Record { time, thread: lane.thread, event })?;
        }
        let Some(target) = self.targets.get_mut(&pid) else { return Ok(()) };
        target.threads.remove(&tid);
        if target.threads.is_empty() {
            self.end_process(pid, Ending::Unknown, time)?;
        }
        Ok(())
    }

    fn end_process(&mut self, pid: u32, ending: Ending, time: u64) -> mallow_trace::Result<()> {
        let Some(target) = self.targets.remove(&pid) else { return Ok(()) };
        let process = self.images.get_mut(target.image).number;
        self.images.end(target.image);
        self.write_definitions(time)?;
        let event = Event::ProcessEnd(ProcessEnd { process, ending });
        self.writer.write(&Record { time, thread: COLLECTOR, event })
    }

    fn exec(&mut self, pid: u32, time: u64) -> mallow_trace::Result<()> {
        if !self.targets.contains_key(&pid) {
            return Ok(());
        }
        let of_it: Vec<u32> = self.targets[&pid].threads.iter().copied().collect();
        for tid in of_it {
            if let Some(lane) = self.lanes.remove(&tid) {
                let event = Event::ThreadEnd;
                self.writer.write(&Record { time, thread: lane.thread, event })?;
            }
        }
        // Defined before the end is written, so that it is known as what the process was.
        let Some(before) = self.targets.remove(&pid) else { return Ok(()) };
        let process = self.images.get_mut(before.image).number;
        self.begin(pid, 0, Some(before));
        self.write_definitions(time)?;
        let event = Event::ProcessEnd(ProcessEnd { process, ending: Ending::Exec });
        self.writer.write(&Record { time, thread: COLLECTOR, event })
    }

    fn lane(&mut self, pid: u32, tid: u32, time: u64) -> mallow_trace::Result<&mut Lane> {
        if !self.lanes.contains_key(&tid) {
            let image = self.image(pid);
            self.write_definitions(time)?;
            self.thread_count += 1;
            let thread = self.thread_count;
            let comm = mallow_process::lossy::read(format!("/proc/{pid}/task/{tid}/comm"));
            let name = comm.unwrap_or_default().trim_end().to_owned();
            let process = self.images.get_mut(image).number;
            let event = Event::Thread(Thread { process, tid, name });
            self.writer.write(&Record { time, thread, event })?;
            self.lanes.insert(tid, Lane { thread, ..Lane::default() });
        }
        Ok(self.lanes.entry(tid).or_default())
    }

    /// posix_memalign stores the block's address in the caller's memory, of which the caller may have made another use
    /// by now: what cannot be a new block is none that is known.
    fn with_block(&mut self, pid: u32, mut call: Call, time: u64) -> Call {
        use std::os::unix::fs::FileExt;
        let place = call.old;
        if !call.op.is_realloc() {
            call.old = 0;
        }
        let Some(target) = self.targets.get_mut(&pid) else { return call };
        if call.op == Op::PosixMemalign && !call.failed {
            let mut word = [0; 8];
            let read = target.memory.as_ref().map(|memory| memory.read_exact_at(&mut word, place));
            let (address, alignment) = (u64::from_le_bytes(word), call.alignment);
            let is_block = matches!(read, Some(Ok(())))
                && target.blocks.may_begin_at(pid, address, alignment, time + self.start_ns);
            call.address = if is_block { address } else { 0 };
        }
        target.blocks.note(&call);
        call
    }

    fn finish(&mut self) -> mallow_trace::Result<Recorded> {
        self.round(true)?;
        let time = system_ns().saturating_sub(self.start_ns);
        for pid in self.targets.keys().copied().filter(|pid| has_ended(*pid)).collect::<Vec<_>>() {
            self.end_process(pid, Ending::Unknown, time)?;
        }
        // Nothing else may have happened since long: the recording went on until now.
        for memory in self.samples.last() {
            let event = Event::Memory(Box::new(memory));
            self.writer.write(&Record { time, thread: COLLECTOR, event })?;
        }
        let calls = self.writer.totals().calls;
        let header = mallow_trace::Header::default();
        let writer = std::mem::replace(&mut self.writer, Writer::new(sink()?, &header)?);
        writer.finish()?.flush()?;
        Ok(Recorded {
            calls,
            dropped: self.lost,
            threads: self.thread_count,
            processes: self.images.len(),
            lost_threads: 0,
            damaged_rings: 0,
            still_running: self.targets.keys().filter(|pid| **pid != self.pid).count(),
            outsiders: Vec::new(),
            started_before: self.started_before,
        })
    }
}

/// A process is dead with its last thread, and stays in /proc until its parent has asked for how it ended.
fn has_ended(pid: u32) -> bool {
    match Stat::read(pid) {
        Ok(stat) => matches!(stat.state, 'Z' | 'X'),
        Err(_) => !folder(pid).exists(),
    }
}

fn sink() -> std::io::Result<BufWriter<File>> {
    Ok(BufWriter::new(File::create("/dev/null")?))
}

fn time_of(hit: &Hit) -> u64 {
    match hit {
        Hit::Call { time, .. }
        | Hit::Stack { time, .. }
        | Hit::ThreadStart { time, .. }
        | Hit::ThreadEnd { time, .. }
        | Hit::Exec { time, .. } => *time,
        Hit::Lost(_) => 0,
    }
}

/// What a call asks for, by its arguments.
fn size_of_call(op: Op, [first, second, third]: [u64; 3]) -> u64 {
    match op {
        Op::Calloc => first.saturating_mul(second),
        Op::Realloc | Op::AlignedAlloc | Op::Memalign => second,
        Op::PosixMemalign => third,
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_waited_for_has_ended() {
        let mut child = std::process::Command::new("cat");
        let mut child = child.stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert!(!has_ended(child.id()));
        child.kill().unwrap();
        while !has_ended(child.id()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.wait().unwrap();
        assert!(has_ended(child.id()));
    }

    #[test]
    fn a_stack_stands_for_the_calls_between_two() {
        for size in [1, 100, 1 << 20] {
            let distance = distance(size) as f64;
            let calls = 1.0 / -(-(size as f64) / distance).exp_m1();
            assert!((calls - STACK_PERIOD as f64).abs() < 1.5, "{size}: {calls}");
        }
    }
}
