//! `mallow record -p PID`: a running process, by probes of the kernel on the functions of whichever
//! library serves its malloc. The process is neither stopped nor changed.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mallow_recorder::{Clock, Hit, Point, Probes, system_ns};
use mallow_trace::{COLLECTOR, Call, Ending, Event, Op, ProcessEnd, Record, Thread, Writer};

use super::args::{RecordArgs, StackKind};
use super::calls::Calls;
use super::images::{Images, Introduction};
use super::memory::Samples;
use super::summary::{self, Outcome};
use super::{cannot_write, cut_off, site};
use crate::error::{Error, Result};
use crate::output::Notes;
use mallow_process::binding::{Failure, Inspector, Report};
use mallow_process::elf::ElfInfo;
use mallow_process::elf::identify;

/// Those that the allocator's own library defines are probed; a C++ library's operator new calls
/// malloc. In the order of preference where two names are one function.
const FUNCTIONS: [(&str, Op); 13] = [
    ("malloc", Op::Malloc),
    ("calloc", Op::Calloc),
    ("realloc", Op::Realloc),
    ("free", Op::Free),
    ("posix_memalign", Op::PosixMemalign),
    ("aligned_alloc", Op::AlignedAlloc),
    ("memalign", Op::Memalign),
    ("_Znwm", Op::New),
    ("_Znam", Op::NewArray),
    ("_ZdlPv", Op::Delete),
    ("_ZdaPv", Op::DeleteArray),
    ("_ZdlPvm", Op::DeleteSized),
    ("_ZdaPvm", Op::DeleteArraySized),
];

const LOOK_EVERY: Duration = Duration::from_millis(20);

pub fn record(pid: u32, args: &RecordArgs, notes: Notes) -> Result<u8> {
    if args.stack_kind() != StackKind::None {
        return Err(Error::Usage(
            "A running process is recorded without stacks. Leave --stacks out, or start the command \
             with mallow record -- COMMAND."
                .into(),
        ));
    }
    let library = serving_library(pid)?;
    let (points, what) = points(pid, &library)?;
    let probes = open(pid, &points)?;
    let file = super::create(&args.output)?;
    let name = ElfInfo::read(&in_its_root(pid, &library)).ok().flatten();
    let name = name.map_or("unknown".to_owned(), |info| identify(&library, &info));
    let end = match args.duration {
        Some(duration) => format!("for {duration:?} or until Ctrl-C"),
        None => "until Ctrl-C".into(),
    };
    notes.note(&format!("Recording process {pid}, served by {name}, {end}."));
    let mut header = summary::header(args, None, None, Clock::System);
    header.allocator = name;
    header.command = command_line(pid);
    let writer = Writer::new(BufWriter::new(file), &header).map_err(cannot_write)?;
    let stop = stop_flag()?;
    probes.enable().map_err(refusal)?;
    let mut session = Session::new(pid, writer, probes, what, &library);
    let outcome = session.run(args.duration, &stop).and_then(|()| session.finish());
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            drop(session);
            return Err(cut_off(&args.output, 0, error));
        }
    };
    notes.note(&outcome.sentence(&args.output));
    Ok(0)
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
        Err(Failure::NoPermission) => Err(no_permission()),
        Err(failure) => Err(Error::Process { pid, failure }),
    }
}

fn no_permission() -> Error {
    Error::Permission(
        "Recording a running process takes root or CAP_PERFMON: use sudo mallow record -p PID, or \
         start the command with mallow record -- COMMAND, which takes no rights."
            .into(),
    )
}

/// A process in a container sees other files under the same names.
fn in_its_root(pid: u32, path: &Path) -> PathBuf {
    let mut own = PathBuf::from(format!("/proc/{pid}/root"));
    own.push(path.strip_prefix("/").unwrap_or(path));
    own
}

/// What the hits of a point mean.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    pub op: Op,
    pub at_return: bool,
}

fn points(pid: u32, library: &Path) -> Result<(Vec<Point>, Vec<Meaning>)> {
    let path = in_its_root(pid, library);
    let unreadable = |reason: String| {
        Error::Unsupported(format!("The allocator {} cannot be read: {reason}.", library.display()))
    };
    let names = FUNCTIONS.map(|(name, _)| name);
    let sites = site::find(&path, &names).map_err(|error| unreadable(error.to_string()))?;
    if !sites.iter().any(|(name, _)| *name == "malloc") {
        return Err(Error::Unsupported(format!(
            "{} has no symbol for its malloc, so there is no place for a probe. Use a build that is \
             not stripped.",
            library.display()
        )));
    }
    let c_path = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| unreadable("its name holds a zero".into()))?;
    let (mut points, mut meanings) = (Vec::new(), Vec::new());
    for (name, site) in sites {
        let Some(&(_, op)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else { continue };
        let returns: &[bool] = if op.is_free() { &[false] } else { &[false, true] };
        for &at_return in returns {
            points.push(Point { path: c_path.clone(), offset: site.offset, at_return });
            meanings.push(Meaning { op, at_return });
        }
    }
    Ok((points, meanings))
}

fn open(pid: u32, points: &[Point]) -> Result<Probes> {
    if !Probes::are_possible() {
        return Err(Error::Unsupported(
            "This kernel has no uprobes or no tracefs, so a running process cannot be recorded. Start \
             the command with: mallow record -- COMMAND."
                .into(),
        ));
    }
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))
        .map_err(Error::io("The threads cannot be listed"))?;
    let tids: Vec<u32> =
        threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    Probes::open(&tids, &online_cpus(), points).map_err(refusal)
}

fn refusal(error: std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::PermissionDenied => no_permission(),
        _ if error.raw_os_error() == Some(nix::errno::Errno::EMFILE as i32) => Error::Unsupported(
            "The process has too many threads for the limit of open files. Raise it: ulimit -n."
                .into(),
        ),
        _ => Error::Unsupported(format!("The kernel refuses the probes: {error}.")),
    }
}

/// `0-3,8` in /sys.
fn online_cpus() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            cpus.extend(first..=last);
        }
    }
    if cpus.is_empty() { vec![0] } else { cpus }
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

struct Lane {
    thread: u32,
    calls: Calls,
}

struct Session {
    pid: u32,
    start_ns: u64,
    writer: Writer<BufWriter<File>>,
    probes: Probes,
    meanings: Vec<Meaning>,
    lanes: BTreeMap<u32, Lane>,
    thread_count: u32,
    samples: Samples,
    images: Images,
    /// Hits that others, on another processor, may still come before.
    held: Vec<Hit>,
    lost: u64,
    memory: Option<File>,
}

impl Session {
    fn new(
        pid: u32,
        writer: Writer<BufWriter<File>>,
        probes: Probes,
        meanings: Vec<Meaning>,
        library: &Path,
    ) -> Session {
        let mut images = Images::default();
        let mut text = library.as_os_str().as_bytes().to_vec();
        text.push(0);
        let executable = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        text.extend(executable.as_os_str().as_bytes());
        text.push(0);
        text.extend(std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default());
        images.define(&Introduction { id: 1, parent_id: 0, pid, parent_pid: 0, text });
        Session {
            pid,
            start_ns: system_ns(),
            writer,
            probes,
            meanings,
            lanes: BTreeMap::new(),
            thread_count: 0,
            samples: Samples::default(),
            images,
            held: Vec::new(),
            lost: 0,
            memory: File::open(format!("/proc/{pid}/mem")).ok(),
        }
    }

    fn run(&mut self, duration: Option<Duration>, stop: &AtomicBool) -> mallow_trace::Result<()> {
        let start = Instant::now();
        for event in std::mem::take(&mut self.images.definitions) {
            self.writer.write(&Record { time: 0, thread: COLLECTOR, event })?;
        }
        let process = format!("/proc/{}", self.pid);
        loop {
            self.round(false)?;
            let is_over = duration.is_some_and(|duration| start.elapsed() >= duration);
            if is_over || stop.load(Ordering::Relaxed) || !Path::new(&process).exists() {
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
            for event in [Event::Memory(memory)].into_iter().chain(regions) {
                self.writer.write(&Record { time, thread: COLLECTOR, event })?;
            }
        }
        self.writer.promise(time.saturating_sub(1_000_000))
    }

    fn take(&mut self, hit: Hit) -> mallow_trace::Result<()> {
        match hit {
            Hit::Lost(count) => {
                self.lost += count;
                // Which thread's they were is not known.
                let (time, event) = (self.writer.totals().end, Event::Dropped(count));
                self.writer.write(&Record { time, thread: COLLECTOR, event })
            }
            Hit::ThreadEnd { tid, time } => {
                let Some(lane) = self.lanes.remove(&tid) else { return Ok(()) };
                let time = time.saturating_sub(self.start_ns);
                let event = Event::ThreadEnd;
                self.writer.write(&Record { time, thread: lane.thread, event })
            }
            Hit::Call { point, tid, time, result, arguments } => {
                let time = time.saturating_sub(self.start_ns);
                let meaning = self.meanings[point];
                let lane = self.lane(tid, time)?;
                let call = match meaning.at_return {
                    false => lane.calls.enter(meaning.op, arguments, time),
                    true => lane.calls.leave(meaning.op, result, time),
                };
                let thread = lane.thread;
                let Some(call) = call else { return Ok(()) };
                let call = self.with_block(call);
                self.writer.write(&Record { time, thread, event: Event::Call(call) })
            }
        }
    }

    fn lane(&mut self, tid: u32, time: u64) -> mallow_trace::Result<&mut Lane> {
        if !self.lanes.contains_key(&tid) {
            self.thread_count += 1;
            let comm = std::fs::read_to_string(format!("/proc/{}/task/{tid}/comm", self.pid));
            let name = comm.unwrap_or_default().trim_end().to_owned();
            let (thread, event) =
                (self.thread_count, Event::Thread(Thread { process: 1, tid, name }));
            self.writer.write(&Record { time, thread, event })?;
        }
        let thread = self.thread_count;
        Ok(self.lanes.entry(tid).or_insert_with(|| Lane { thread, calls: Calls::default() }))
    }

    /// posix_memalign stores the block's address in the caller's memory.
    fn with_block(&self, mut call: Call) -> Call {
        use std::os::unix::fs::FileExt;
        if call.op == Op::PosixMemalign && !call.failed {
            let mut word = [0; 8];
            let place = call.old;
            let read = self.memory.as_ref().map(|memory| memory.read_exact_at(&mut word, place));
            call.address = if matches!(read, Some(Ok(()))) { u64::from_le_bytes(word) } else { 0 };
        }
        if !call.op.is_realloc() {
            call.old = 0;
        }
        call
    }

    fn finish(&mut self) -> mallow_trace::Result<Outcome> {
        self.round(true)?;
        let time = system_ns().saturating_sub(self.start_ns);
        if !Path::new(&format!("/proc/{}", self.pid)).exists() {
            let event = Event::ProcessEnd(ProcessEnd { process: 1, ending: Ending::Unknown });
            self.writer.write(&Record { time, thread: COLLECTOR, event })?;
        }
        let calls = self.writer.totals().calls;
        let header = mallow_trace::Header::default();
        let writer = std::mem::replace(&mut self.writer, Writer::new(sink()?, &header)?);
        writer.finish()?.flush()?;
        Ok(Outcome {
            calls,
            dropped: self.lost,
            threads: self.thread_count,
            processes: 1,
            lost_threads: 0,
            damaged_rings: 0,
            still_running: 0,
        })
    }
}

fn sink() -> std::io::Result<BufWriter<File>> {
    Ok(BufWriter::new(File::create("/dev/null")?))
}

fn time_of(hit: &Hit) -> u64 {
    match hit {
        Hit::Call { time, .. } | Hit::ThreadEnd { time, .. } => *time,
        Hit::Lost(_) => 0,
    }
}
