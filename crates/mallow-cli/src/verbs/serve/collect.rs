// SPDX-License-Identifier: MIT
//! Reads all targets, a time at each request: one thread owns what is known of them.
//!
//! What a process is (its allocator, where its page is) is found out once, and again after an exec.
//! The time for one process and for all is bounded; whoever takes longer is left alone for a while,
//! and who was not read for longest is read first.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mallow_process::binding::{Failure, Inspector};
use mallow_process::heap::{Place, mallow};
use mallow_process::memory::{Memory, ProcessMemory};
use mallow_process::position::{LeftAlone, Position};
use mallow_process::stat::{Start, Stat, folder};
use mallow_process::vitals::{self, Limit, Vitals};

use super::targets::Choice;

/// For the heap of one process, and for all that a request reads. Prometheus waits for 10 s.
const MOST_OF_ONE: Duration = Duration::from_millis(500);
const MOST_OF_ALL: Duration = Duration::from_secs(7);
const PATIENCE: Duration = Duration::from_secs(600);
/// How long a process is left alone whose heap took longer, or could not be read where it was.
const PENALTY: Duration = Duration::from_secs(60);
/// Requests within this time get the same answer.
const FRESH: Duration = Duration::from_millis(500);
/// The files of so many processes are remembered, then forgotten: programs are replaced.
const MOST_REMEMBERED: u64 = 10_000;
/// The allocator of a process may come with its exec; until then it is that of its parent.
const LOOK_AGAIN: u32 = 2;

/// All targets at one moment.
#[derive(Clone, Default)]
pub struct Snapshot {
    pub targets: Vec<Target>,
    /// Processes that were not served because there are more than `most`.
    pub left_out: usize,
    pub most: usize,
    pub took: Duration,
    pub boot_time: u64,
}

#[derive(Clone)]
pub struct Target {
    pub pid: u32,
    /// The file that it runs, if this user may know.
    pub exe: Option<PathBuf>,
    /// The name of a link to that file, by which it was started.
    pub started_as: Option<String>,
    pub vitals: Vitals,
    pub limit: Option<Limit>,
    pub allocator: String,
    pub heap: Outcome,
}

impl Target {
    /// Its number and its start, which no other process has.
    pub fn process(&self) -> (u32, u64) {
        (self.pid, self.vitals.started)
    }

    /// The name of the file that it runs; where this user may not know that, what it calls itself.
    pub fn executable(&self) -> &str {
        let name = self.exe.as_deref().and_then(|path| path.file_name()?.to_str());
        name.unwrap_or(&self.vitals.comm)
    }

    /// What it was started as: Debian's redis-server is a link to the file redis-check-rdb.
    pub fn service(&self) -> &str {
        self.started_as.as_deref().unwrap_or(self.executable())
    }
}

/// The name of this machine.
pub fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// What came of reading a heap.
#[derive(Clone)]
pub enum Outcome {
    Read(Box<Reading>),
    /// The process belongs to somebody else, or ptrace is not allowed.
    Denied,
    /// It has no page of Mallow's.
    Other,
    /// It took too long, or what the page says cannot be.
    Unreadable,
}

impl Outcome {
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Read(_) => "read",
            Outcome::Denied => "denied",
            Outcome::Other => "other",
            Outcome::Unreadable => "unreadable",
        }
    }
}

#[derive(Clone, Default)]
pub struct Reading {
    pub heap: mallow::Heap,
    pub counters: Counters,
}

/// What only grows. A reading that is torn must not make them fall: that would look like a restart.
#[derive(Clone, Copy, Default)]
pub struct Counters {
    pub allocations: u64,
    pub remote_frees: u64,
    pub fills: u64,
    pub flushes: u64,
    pub lock_waits: u64,
    pub lock_wait_ns: u64,
    pub mappings_made: u64,
    pub mappings_dropped: u64,
    pub mappings_moved: u64,
}

/// What is known of a process from one reading to the next.
struct Known {
    started: u64,
    /// Both change with an exec, but of the same file only the first does.
    start: Option<Start>,
    exe: Option<PathBuf>,
    place: Result<Place, Failure>,
    looks: u32,
    looked: Instant,
    /// There is no heap any more where one was.
    is_lost: bool,
    counters: Counters,
    last_read: Option<Instant>,
    penalty_until: Option<Instant>,
}

pub struct Collector {
    choice: Arc<Choice>,
    most: usize,
    /// For all of a reading.
    time: Duration,
    inspector: Inspector,
    /// Processes that were looked at closely so far.
    identified: u64,
    known: HashMap<u32, Known>,
    last: Option<(Instant, Arc<Snapshot>)>,
    /// For whoever waits for this, see `reader`.
    position: Arc<Position>,
    left_alone: LeftAlone,
}

impl Collector {
    pub fn new(choice: Arc<Choice>, most: usize) -> Collector {
        Collector {
            choice,
            most,
            time: MOST_OF_ALL,
            inspector: Inspector::default(),
            identified: 0,
            known: HashMap::new(),
            last: None,
            position: Arc::default(),
            left_alone: LeftAlone::default(),
        }
    }

    /// Tells which process it is at, and leaves some alone.
    pub fn beside(self, position: Arc<Position>, left_alone: LeftAlone) -> Collector {
        Collector { position, left_alone, ..self }
    }

    /// For a reading that nobody waits for.
    pub fn patient(self) -> Collector {
        Collector { time: PATIENCE, ..self }
    }

    pub fn snapshot(&mut self) -> Arc<Snapshot> {
        if let Some((taken, snapshot)) = &self.last
            && taken.elapsed() < FRESH
        {
            return snapshot.clone();
        }
        let snapshot = Arc::new(self.collect());
        self.position.set(None);
        self.last = Some((Instant::now(), snapshot.clone()));
        snapshot
    }

    fn collect(&mut self) -> Snapshot {
        let begin = Instant::now();
        let mut found: Vec<(u32, Vitals)> = Vec::new();
        for pid in self.choice.candidates() {
            let Ok(vitals) = Vitals::read(pid) else { continue };
            // A pattern is looked for in the command line, which is the process's own memory.
            let may_look = self.may_look_at(pid, &vitals);
            if (may_look || !matches!(*self.choice, Choice::Match(_)))
                && self.choice.takes(pid, &vitals)
            {
                found.push((pid, vitals));
            }
        }
        self.forget(&found);
        for (pid, vitals) in &found {
            if begin.elapsed() < self.time && self.may_look_at(*pid, vitals) {
                self.identify(*pid, vitals);
            }
        }
        let is_ours = |pid: &u32| self.known.get(pid).is_some_and(Known::has_page);
        found.sort_by_cached_key(|(pid, vitals)| (!is_ours(pid), u64::MAX - vitals.rss, *pid));
        let left_out = found.len().saturating_sub(self.most);
        found.truncate(self.most);
        // Who waited for longest is first.
        found.sort_by_key(|(pid, _)| self.known.get(pid).and_then(|known| known.last_read));
        let read = |(pid, vitals)| self.read(pid, vitals, begin);
        let mut targets: Vec<Target> = found.into_iter().map(read).collect();
        targets.sort_by_key(|target| target.pid);
        let (most, took) = (self.most, begin.elapsed());
        Snapshot { targets, left_out, most, took, boot_time: vitals::boot_time() }
    }

    /// From here on it may wait for ever, see `reader`.
    fn may_look_at(&self, pid: u32, vitals: &Vitals) -> bool {
        let process = (pid, vitals.start);
        self.position.set(Some(process));
        !self.left_alone.has(&process)
    }

    /// Drops what has ended, and what has another start under the same number.
    fn forget(&mut self, found: &[(u32, Vitals)]) {
        let now: HashMap<u32, u64> = found.iter().map(|(pid, v)| (*pid, v.started)).collect();
        self.known.retain(|pid, known| now.get(pid) == Some(&known.started));
    }

    fn identify(&mut self, pid: u32, vitals: &Vitals) {
        // In this order: a program that starts in between is noticed before the heap is read.
        let start = Stat::read(pid).ok().map(|stat| stat.start);
        let exe = std::fs::read_link(folder(pid).join("exe")).ok();
        let is_same = |known: &Known| known.exe == exe && known.start == start;
        if self.known.get(&pid).is_some_and(|known| is_same(known) && known.is_settled()) {
            return;
        }
        self.identified += 1;
        if self.identified.is_multiple_of(MOST_REMEMBERED) {
            self.inspector = Inspector::default();
        }
        let inspector = &mut self.inspector;
        let place = catch_unwind(AssertUnwindSafe(|| Place::find(pid, inspector)));
        let place = place.unwrap_or_else(|_| Err(Failure::Damaged("its files lie".into())));
        let before = self.known.remove(&pid).filter(is_same);
        let (looks, counters) = before.map_or_else(Default::default, |b| (b.looks, b.counters));
        let known = Known {
            started: vitals.started,
            start,
            exe,
            place,
            looks: looks + 1,
            looked: Instant::now(),
            is_lost: false,
            counters,
            last_read: None,
            penalty_until: None,
        };
        self.known.insert(pid, known);
    }

    /// Who has started a program since he was looked at is looked at again: name, file and heap are of one program.
    fn caught_up(&mut self, pid: u32, vitals: Vitals) -> Vitals {
        let Some(known) = self.known.get(&pid) else { return vitals };
        let Ok(Stat { start, .. }) = Stat::read(pid) else { return vitals };
        if vitals.start == start && known.start == Some(start) {
            return vitals;
        }
        match Vitals::read(pid) {
            Ok(fresh) if fresh.started == vitals.started => {
                self.identify(pid, &fresh);
                fresh
            }
            _ => vitals,
        }
    }

    fn read(&mut self, pid: u32, vitals: Vitals, begin: Instant) -> Target {
        let may_look = self.may_look_at(pid, &vitals);
        let vitals = if may_look { self.caught_up(pid, vitals) } else { vitals };
        let limit = vitals.limit();
        let Some(known) = self.known.get_mut(&pid) else {
            let (allocator, heap) = ("unknown".into(), Outcome::Unreadable);
            return Target { pid, exe: None, started_as: None, vitals, limit, allocator, heap };
        };
        let heap = known.read(pid, begin + self.time);
        // Of a file that was replaced the kernel says so behind its name.
        let exe = known.exe.as_ref().and_then(|exe| exe.to_str());
        let exe = exe.map(|exe| exe.strip_suffix(" (deleted)").unwrap_or(exe).into());
        let allocator = known.allocator();
        let started_as = vitals::started_as(pid, &vitals.comm);
        Target { pid, exe, started_as, vitals, limit, allocator, heap }
    }
}

impl Known {
    fn has_page(&self) -> bool {
        self.place.as_ref().is_ok_and(|place| place.page.is_some())
    }

    /// Nothing else would be found by looking now.
    fn is_settled(&self) -> bool {
        match self.has_page() {
            true => !self.is_lost || self.looked.elapsed() < PENALTY,
            false => self.looks >= LOOK_AGAIN,
        }
    }

    fn allocator(&self) -> String {
        match &self.place {
            Ok(place) => place.allocator.clone(),
            Err(_) => "unknown".into(),
        }
    }

    fn read(&mut self, pid: u32, end: Instant) -> Outcome {
        let place = match &self.place {
            Ok(place) if place.page.is_some() => place,
            // Without a page: whoever may not be read may have one that is not seen.
            Ok(_) if vitals::may_read(pid) => return Outcome::Other,
            Ok(_) | Err(Failure::NoPermission) => return Outcome::Denied,
            Err(_) => return Outcome::Unreadable,
        };
        let now = Instant::now();
        let left = end.saturating_duration_since(now);
        if left.is_zero() || self.penalty_until.is_some_and(|until| now < until) {
            return Outcome::Unreadable;
        }
        self.last_read = Some(now);
        let time = MOST_OF_ONE.min(left);
        let taken = catch_unwind(AssertUnwindSafe(|| take(pid, place, time)));
        match taken {
            Ok(Ok(Some(mut reading))) => {
                self.is_lost = false;
                self.counters = self.counters.most(&reading.counters);
                reading.counters = self.counters;
                Outcome::Read(Box::new(reading))
            }
            Ok(Err(Failure::NoPermission)) => Outcome::Denied,
            _ => {
                self.penalty_until = (now.elapsed() >= time).then(|| now + PENALTY);
                self.is_lost = self.penalty_until.is_none();
                Outcome::Unreadable
            }
        }
    }
}

fn take(pid: u32, place: &Place, time: Duration) -> Result<Option<Reading>, Failure> {
    let memory = ProcessMemory::open(pid, &vitals::mappings(pid)?)?;
    let Some(heap) = place.read(&memory, time) else { return Ok(None) };
    let counter = |name: &str| {
        let at = place.page.as_ref().and_then(|page| page.root(name));
        at.and_then(|at| memory.word(at)).unwrap_or(0)
    };
    let sum =
        |of: fn(&mallow::Counts) -> u64| heap.counts.iter().map(of).fold(0, u64::saturating_add);
    let locks =
        |of: fn(&mallow::Lock) -> u64| heap.locks.iter().map(of).fold(0, u64::saturating_add);
    let counters = Counters {
        allocations: sum(|class| class.allocations),
        remote_frees: sum(|class| class.remote_frees),
        fills: sum(|class| class.fills),
        flushes: sum(|class| class.flushes),
        lock_waits: locks(|lock| lock.waits),
        lock_wait_ns: locks(|lock| lock.wait_time),
        mappings_made: counter("mappings_made"),
        mappings_dropped: counter("mappings_dropped"),
        mappings_moved: counter("mappings_moved"),
    };
    Ok(Some(Reading { heap, counters }))
}

impl Counters {
    fn most(&self, other: &Counters) -> Counters {
        Counters {
            allocations: self.allocations.max(other.allocations),
            remote_frees: self.remote_frees.max(other.remote_frees),
            fills: self.fills.max(other.fills),
            flushes: self.flushes.max(other.flushes),
            lock_waits: self.lock_waits.max(other.lock_waits),
            lock_wait_ns: self.lock_wait_ns.max(other.lock_wait_ns),
            mappings_made: self.mappings_made.max(other.mappings_made),
            mappings_dropped: self.mappings_dropped.max(other.mappings_dropped),
            mappings_moved: self.mappings_moved.max(other.mappings_moved),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_left_alone_is_told_of_without_a_look_at_it() {
        let pid = std::process::id();
        let start = Vitals::read(pid).unwrap().start;
        let outcome = |process| {
            let position = Arc::new(Position::default());
            let mut left_alone = LeftAlone::default();
            left_alone.add(process, &position);
            let collector = Collector::new(Arc::new(Choice::Pids(vec![pid])), 1);
            let snapshot = collector.beside(position, left_alone).snapshot();
            snapshot.targets.iter().map(|target| target.heap.name()).collect::<Vec<_>>()
        };
        let process = Start { time: start.time + 1, ..start };
        let program = Start { places: [0; 3], ..start };
        assert_eq!(outcome((pid, process)), ["other"], "of another process");
        assert_eq!(outcome((pid, program)), ["other"], "of another program");
        assert_eq!(outcome((pid, start)), ["unreadable"]);
    }

    /// Its name was read of one program, or its file, or both.
    #[test]
    fn who_starts_a_program_meanwhile_has_its_name_and_its_file() {
        let pid = std::process::id();
        let own = Vitals::read(pid).unwrap();
        let exe = std::env::current_exe().unwrap();
        let before = Vitals { comm: "before".into(), start: Start::default(), ..own.clone() };
        for (vitals, is_file_of_before) in [(&before, false), (&before, true), (&own, true)] {
            let mut collector = Collector::new(Arc::new(Choice::Pids(vec![pid])), 1);
            collector.identify(pid, vitals);
            let known = collector.known.get_mut(&pid).unwrap();
            if is_file_of_before {
                (known.start, known.exe) = (Some(Start::default()), Some("/before".into()));
            }
            let target = collector.read(pid, vitals.clone(), Instant::now());
            assert_eq!(target.vitals.comm, own.comm);
            assert_eq!(target.exe.as_deref(), Some(exe.as_path()));
        }
    }
}
