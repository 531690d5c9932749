// SPDX-License-Identifier: MIT
//! All processes of the machine, from one refresh to the next. A refresh reads one short line of each, which is the
//! same work for small and large ones; everything else comes from the `reader`, some processes at a
//! time, and has an age.

mod reader;
mod row;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use mallow_os::threads::NoThread;
use thiserror::Error;

use self::reader::{Answer, Batch, Facts, Reader, Reading, Task};
use crate::binding::Failure;
use crate::smaps;
use crate::stat::{self, Stat};
use crate::vitals::Limit;

pub use self::reader::THREAD;
pub use self::row::{Bound, BoundOf, Row, Why};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Error)]
pub enum Error {
    /// One that was asked for.
    #[error("{}", failure.sentence(*pid))]
    Process { pid: u32, failure: Failure },

    #[error("The processes cannot be listed: {0}")]
    List(std::io::Error),

    #[error(transparent)]
    NoThread(#[from] NoThread),

    #[error("the reader of heaps has ended")]
    ReaderEnded,
}

/// Refreshes whose RSS is kept.
const HISTORY: usize = 60;
/// The rate is that of this time.
const RATE_OVER: Duration = Duration::from_secs(10);
const LEAST_RATE_TIME: Duration = Duration::from_millis(200);
/// What is read of a heap rests for so many times as long as that took.
const REST: u32 = 50;
/// After so many, a heap without counters has none.
const LOOKS: u32 = 2;
/// In a batch; the budget is spent long before.
const MOST_TASKS: usize = 200;
/// How much sooner a heap is read again that is looked at, or that worked meanwhile.
const SELECTED: f64 = 30.0;
const VISIBLE: f64 = 10.0;
const WORKED: f64 = 3.0;
/// Nothing is more urgent than a heap that was never read: it counts as this old.
const NEVER_S: f64 = 600.0;
/// Limits of groups are read again after this time.
const LIMIT_FRESH: Duration = Duration::from_secs(5);

struct Known {
    stat: Stat,
    history: VecDeque<(Instant, u64)>,
    facts: Option<Facts>,
    allocator: Option<std::result::Result<String, Why>>,
    heap: Option<(u64, u64)>,
    why: Why,
    read: Option<Instant>,
    cost: Duration,
    ticks_then: u64,
    /// How often its heap was looked for: what has just begun may have no allocator yet.
    looks: u32,
}

impl Known {
    fn new(stat: Stat) -> Known {
        Known {
            stat,
            history: VecDeque::with_capacity(HISTORY),
            facts: None,
            allocator: None,
            heap: None,
            why: Why::Waiting,
            read: None,
            cost: Duration::ZERO,
            ticks_then: 0,
            looks: 0,
        }
    }

    fn has_memory(&self) -> bool {
        !self.stat.is_kernel && !self.stat.is_zombie()
    }

    /// Whether its heap can ever be read.
    fn may_be_read(&self) -> bool {
        let is_out_of_reach = match self.why {
            Why::OtherUser | Why::NoPtrace => true,
            Why::NoCounters => self.looks >= LOOKS,
            _ => false,
        };
        self.has_memory() && !is_out_of_reach
    }

    fn is_rested(&self) -> bool {
        self.read.is_none_or(|read| read.elapsed() >= self.cost * REST)
    }

    fn urgency(&self, weight: f64) -> f64 {
        let age = self.read.map_or(NEVER_S, |read| read.elapsed().as_secs_f64());
        let worked = if self.stat.ticks == self.ticks_then { 1.0 } else { WORKED };
        age * weight * worked
    }

    fn rate(&self) -> Option<f64> {
        let (end, last) = self.history.back()?;
        let is_recent = |(at, _): &&(Instant, u64)| end.duration_since(*at) <= RATE_OVER;
        let (begin, first) = self.history.iter().find(is_recent)?;
        let time = end.duration_since(*begin);
        (time >= LEAST_RATE_TIME).then(|| (*last as f64 - *first as f64) / time.as_secs_f64())
    }
}

#[derive(Default)]
pub struct Memory {
    pub total: u64,
    pub available: u64,
}

pub struct Collector {
    known: HashMap<u32, Known>,
    /// If not empty, only these and their descendants.
    only: Vec<u32>,
    reader: Reader,
    limits: HashMap<String, (Instant, Option<Limit>)>,
    /// Whether a batch is being worked on.
    is_busy: bool,
    /// Processes that `/proc` lists and tells nothing of.
    pub hidden: usize,
    pub memory: Memory,
}

impl Collector {
    /// `bounded`: heaps are read within a small part of a CPU.
    pub fn new(only: &[u32], bounded: bool) -> Result<Collector> {
        for &pid in only {
            Stat::read(pid).map_err(|failure| Error::Process { pid, failure })?;
        }
        Ok(Collector {
            known: HashMap::new(),
            only: only.to_vec(),
            reader: Reader::start(bounded)?,
            limits: HashMap::new(),
            is_busy: false,
            hidden: 0,
            memory: Memory::default(),
        })
    }

    pub fn refresh(&mut self) -> Result<()> {
        let pids = stat::pids().map_err(Error::List)?;
        let now = Instant::now();
        let mut before = std::mem::take(&mut self.known);
        self.hidden = 0;
        // This one would match every filter, by its own command line.
        let own = std::process::id();
        for pid in pids.into_iter().filter(|pid| *pid != own || self.only.contains(pid)) {
            let stat = match Stat::read(pid) {
                Ok(stat) => stat,
                Err(failure) => {
                    self.hidden += usize::from(matches!(failure, Failure::NoPermission));
                    continue;
                }
            };
            // Under the same number there may be another program, or another process.
            let same = before.remove(&pid).filter(|known| known.stat.start == stat.start);
            let mut known = same.unwrap_or_else(|| Known::new(stat.clone()));
            known.stat = stat;
            if known.history.len() == HISTORY {
                known.history.pop_front();
            }
            known.history.push_back((now, known.stat.rss));
            self.known.insert(pid, known);
        }
        if let Some(chosen) = self.chosen() {
            self.known.retain(|pid, _| chosen.contains(pid));
        }
        self.memory = memory();
        Ok(())
    }

    /// Has what matters most looked at closely: the selected process and those on the screen first.
    pub fn ask(&mut self, selected: Option<u32>, visible: &[u32]) -> Result<()> {
        let visible: HashSet<u32> = visible.iter().copied().collect();
        let mut wanted: Vec<(f64, Task)> = Vec::new();
        for (&pid, known) in &self.known {
            let weight = match pid {
                pid if Some(pid) == selected => SELECTED,
                pid if visible.contains(&pid) => VISIBLE,
                _ => 1.0,
            };
            let task = |has_heap| Task { pid, start: known.stat.start, has_heap };
            if known.allocator.is_none() && known.has_memory() {
                wanted.push((f64::INFINITY, task(false)));
            }
            if known.may_be_read() && known.is_rested() {
                wanted.push((known.urgency(weight), task(true)));
            }
        }
        // All that are new are looked at before heaps are read, those with large programs last.
        let size = |task: &Task| self.known.get(&task.pid).map(|known| known.stat.size);
        wanted.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| size(&a.1).cmp(&size(&b.1))));
        let new = wanted.iter().take_while(|(urgency, _)| urgency.is_infinite()).count();
        wanted.truncate(new + MOST_TASKS);
        let tasks = wanted.into_iter().map(|(_, task)| task).collect();
        self.send(tasks)
    }

    fn send(&mut self, tasks: Vec<Task>) -> Result<()> {
        let alive = self.known.keys().copied().collect();
        self.is_busy = true;
        if self.reader.ask(Batch { tasks, alive }) {
            return Ok(());
        }
        Err(Error::ReaderEnded)
    }

    /// Takes what has been read meanwhile; true if there was something.
    pub fn take(&mut self) -> bool {
        let mut is_news = false;
        while let Ok(answer) = self.reader.answers.try_recv() {
            is_news |= self.note(answer);
        }
        is_news
    }

    /// Waits until what was asked for is read, or the time is over.
    pub fn settle(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while self.is_busy {
            let left = end.saturating_duration_since(Instant::now());
            match self.reader.answers.recv_timeout(left) {
                Ok(answer) => {
                    self.note(answer);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// The heaps of all processes, as far as that can be done in this time.
    pub fn read_all(&mut self, time: Duration) -> Result<()> {
        let all = self.known.iter().filter(|(_, known)| known.may_be_read());
        let task =
            |(&pid, known): (&u32, &Known)| Task { pid, start: known.stat.start, has_heap: true };
        let mut tasks: Vec<Task> = all.map(task).collect();
        // Who serves malloc first, for it takes little time.
        let names: Vec<Task> = tasks.iter().map(|task| Task { has_heap: false, ..*task }).collect();
        tasks.sort_by_key(|task| self.known.get(&task.pid).map(|known| known.stat.rss));
        self.send(names.into_iter().chain(tasks).collect())?;
        self.settle(time);
        Ok(())
    }

    fn note(&mut self, answer: Answer) -> bool {
        let Answer::Reading(reading) = answer else {
            self.is_busy = false;
            return false;
        };
        let Reading { task, facts, allocator, heap, cost } = *reading;
        let known = self.known.get_mut(&task.pid).filter(|known| known.stat.start == task.start);
        let Some(known) = known else { return false };
        known.facts = Some(facts);
        if let Err(why) = allocator {
            known.why = why;
        }
        known.allocator = Some(allocator);
        if let Some(heap) = heap {
            known.cost = cost;
            known.looks += 1;
            match heap {
                Ok(figures) => {
                    known.heap = Some(figures);
                    known.read = Some(Instant::now());
                    known.ticks_then = known.stat.ticks;
                }
                // Figures that were read once have an age.
                Err(why) => known.why = why,
            }
            if known.heap.is_none() {
                known.read = Some(Instant::now());
            }
        }
        true
    }

    pub fn rows(&mut self, all: bool) -> Vec<Row> {
        let known = std::mem::take(&mut self.known);
        let shown = known.iter().filter(|(_, known)| all || known.has_memory());
        let rows = shown.map(|(pid, known)| self.row(*pid, known)).collect();
        self.known = known;
        self.limits.retain(|_, (at, _)| at.elapsed() < LIMIT_FRESH * 4);
        rows
    }

    /// Those that were asked for and all that descend from them; `None` for all.
    fn chosen(&self) -> Option<HashSet<u32>> {
        if self.only.is_empty() {
            return None;
        }
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for (pid, known) in &self.known {
            children.entry(known.stat.parent).or_default().push(*pid);
        }
        let mut chosen = HashSet::new();
        let mut open = self.only.clone();
        while let Some(pid) = open.pop() {
            if chosen.insert(pid) {
                open.extend(children.get(&pid).into_iter().flatten());
            }
        }
        Some(chosen)
    }

    /// `Start` names the process for as long as it is the same.
    pub fn start(&self, pid: u32) -> Option<stat::Start> {
        self.known.get(&pid).map(|known| known.stat.start)
    }

    fn row(&mut self, pid: u32, known: &Known) -> Row {
        let Stat { comm, state, parent, threads, size, rss, is_kernel, .. } = known.stat.clone();
        let facts = known.facts.clone().unwrap_or_default();
        let why = match known.stat.is_zombie() {
            true => Why::Ended,
            false if is_kernel => Why::Kernel,
            false => known.why,
        };
        let heap = known.heap.filter(|_| known.has_memory());
        Row {
            pid,
            parent,
            name: comm,
            command: facts.command,
            user: facts.user,
            state,
            threads,
            allocator: known.allocator.clone().and_then(std::result::Result::ok),
            size,
            rss,
            swap: facts.swap,
            live: heap.map(|heap| heap.0),
            // No more than that is resident; allocators do not count what was never written to.
            free: heap.map(|heap| heap.1.min(rss)),
            heap_age_s: heap.and(known.read).map(|read| read.elapsed().as_secs_f64()),
            why_no_heap: heap.is_none().then_some(why),
            rss_per_s: known.rate(),
            rss_history: known.history.iter().map(|(_, rss)| *rss).collect(),
            limit: self.bound(&facts.groups, facts.address_space, size),
        }
    }

    /// What leaves the least room: the group or the limit on the address space.
    fn bound(&mut self, groups: &str, address_space: Option<u64>, size: u64) -> Option<Bound> {
        let of_space = address_space.map(|bytes| Bound::new(BoundOf::AddressSpace, bytes, size));
        let of_group = self.limit(groups);
        let of_group = of_group.map(|l| Bound::new(BoundOf::ControlGroup, l.bytes, l.used));
        of_space.into_iter().chain(of_group).min_by_key(|bound| bound.room)
    }

    fn limit(&mut self, groups: &str) -> Option<Limit> {
        if groups.is_empty() {
            return None;
        }
        if let Some((at, limit)) = self.limits.get(groups)
            && at.elapsed() < LIMIT_FRESH
        {
            return *limit;
        }
        let limit = Limit::of_groups(groups);
        self.limits.insert(groups.to_owned(), (Instant::now(), limit));
        limit
    }
}

fn memory() -> Memory {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let fields = smaps::parse_fields(&text);
    let field = |name: &str| fields.get(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    Memory { total: field("MemTotal"), available: field("MemAvailable") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn processes_come_and_go() {
        let mut child = Command::new("sh")
            .args(["-c", "ulimit -v 1000000; sh -c 'read line'; exit"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut collector = Collector::new(&[child.id()], false).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        let rows = loop {
            collector.refresh().unwrap();
            collector.read_all(Duration::from_secs(20)).unwrap();
            let rows = collector.rows(false);
            if rows.len() == 2 && rows.iter().all(|row| row.live.is_some()) {
                break rows;
            }
            assert!(Instant::now() < deadline, "{rows:?}");
        };
        for row in &rows {
            assert_eq!(row.allocator.as_deref(), Some("glibc"));
            let limit = row.limit.unwrap();
            // A control group may leave less.
            assert!(limit.of == BoundOf::ControlGroup || limit.bytes == 1_024_000_000, "{limit:?}");
            assert!(row.live.unwrap() < row.rss && row.heap_age_s.is_some());
        }
        assert!(rows.iter().any(|row| row.parent == child.id()));
        drop(child.stdin.take());
        while !Stat::read(child.id()).unwrap().is_zombie() {
            std::thread::sleep(Duration::from_millis(5));
        }
        collector.refresh().unwrap();
        assert!(collector.rows(false).is_empty());
        let dead = collector.rows(true);
        assert_eq!(dead[0].why_no_heap, Some(Why::Ended));
        child.wait().unwrap();
        collector.refresh().unwrap();
        assert!(collector.rows(true).is_empty());
        let missing = Collector::new(&[4_194_304], false);
        assert!(matches!(missing, Err(Error::Process { pid: 4_194_304, .. })));
    }

    #[test]
    fn another_program_under_the_same_number_begins_anew() {
        let own = std::process::id();
        let mut collector = Collector::new(&[own], false).unwrap();
        collector.refresh().unwrap();
        let known = collector.known.get_mut(&own).unwrap();
        known.heap = Some((1, 2));
        known.stat.start.time += 1;
        collector.refresh().unwrap();
        let rows = collector.rows(false);
        assert_eq!((rows[0].live, rows[0].why_no_heap), (None, Some(Why::Waiting)));
        assert_eq!(rows[0].rss_history.len(), 1);
    }

    #[test]
    fn rates_are_of_the_last_seconds() {
        let mut known = Known::new(Stat::default());
        let now = Instant::now();
        assert_eq!(known.rate(), None);
        for second in 0..30 {
            let rss = if second < 15 { 0 } else { (second - 15) * 1000 };
            known.history.push_back((now + Duration::from_secs(second), rss));
        }
        assert_eq!(known.rate(), Some(1000.0));
    }
}
