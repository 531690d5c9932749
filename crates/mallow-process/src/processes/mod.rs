// SPDX-License-Identifier: MIT
//! All processes of the machine, from one refresh to the next. A refresh reads one short line of each, which is the
//! same work for small and large ones; everything else comes from the `reader`, some processes at a
//! time, and has an age.

mod reader;
mod row;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use mallow_os::threads::NoThread;
use thiserror::Error;

use self::reader::{Answer, Batch, Facts, Reader, Reading, Task};
use crate::binding::Failure;
use crate::position::{Lost, Position};
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
/// Longer than any process takes that can be read at all.
const LOST_AFTER: Duration = Duration::from_secs(20);
/// Whoever waits for the reader looks after it so often.
const STEP: Duration = Duration::from_millis(200);
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
    /// Of the thread that was left behind at it, until that comes back.
    left_at: Weak<Position>,
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
            left_at: Weak::new(),
        }
    }

    fn has_memory(&self) -> bool {
        !self.stat.is_kernel && !self.stat.is_zombie()
    }

    /// Whether its heap can be read, as far as that is known.
    fn may_be_read(&self) -> bool {
        let is_out_of_reach = match self.why {
            Why::OtherUser | Why::NoPtrace | Why::NoAnswer => true,
            Why::NoCounters => self.looks >= LOOKS,
            _ => false,
        };
        self.has_memory() && !is_out_of_reach
    }

    /// Nothing of it is read while the thread with this position is at it.
    fn leave_alone(&mut self, position: &Arc<Position>) {
        self.why = Why::NoAnswer;
        self.allocator.get_or_insert(Err(Why::NoAnswer));
        // Old figures would stand in place of the reason.
        self.heap = None;
        // It has had its turn.
        self.read = Some(Instant::now());
        self.left_at = Arc::downgrade(position);
    }

    /// Has it read again where that thread has come back: a server answers, or all had been stopped.
    fn take_back(&mut self) {
        if self.why == Why::NoAnswer && self.left_at.strong_count() == 0 {
            self.why = Why::Waiting;
            self.allocator.take_if(|allocator| *allocator == Err(Why::NoAnswer));
        }
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
    bounded: bool,
    /// `None` while too many have not come back.
    reader: Option<Reader>,
    lost: Lost,
    patience: Duration,
    /// When it was looked after.
    looked: Option<Instant>,
    /// What it was asked for and has not told yet.
    pending: Vec<Task>,
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
            bounded,
            reader: Some(Reader::start(bounded)?),
            lost: Lost::default(),
            patience: LOST_AFTER,
            looked: None,
            pending: Vec::new(),
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
        self.look_after_reader();
        self.known.values_mut().for_each(Known::take_back);
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
        self.pending.clone_from(&tasks);
        self.is_busy = self.reader.is_some();
        match &self.reader {
            Some(reader) if !reader.ask(Batch { tasks, alive }) => Err(Error::ReaderEnded),
            _ => Ok(()),
        }
    }

    /// Has another one read from here on where the reader does not come back from a process; true if so.
    fn look_after_reader(&mut self) -> bool {
        // Nobody knows whether the reader was stopped too since (Ctrl-Z, a frozen container).
        let unseen = self.looked.replace(Instant::now()).map_or(Duration::ZERO, |at| at.elapsed());
        let patience = self.patience + unseen;
        let stuck = |reader: &Reader| reader.position.stuck(patience);
        if let Some((pid, start)) = self.reader.as_ref().and_then(stuck) {
            // What it has told before.
            self.take();
            self.pending.retain(|task| (task.pid, task.start) != (pid, start));
            if let Some(reader) = self.reader.take() {
                let known = self.known.get_mut(&pid).filter(|known| known.stat.start == start);
                known.into_iter().for_each(|known| known.leave_alone(&reader.position));
                self.lost.add(&reader.position);
            }
        }
        if self.reader.is_some() {
            return false;
        }
        self.is_busy = false;
        if self.lost.has_room() {
            // Where there is no thread now, there may be one later.
            self.reader = Reader::start(self.bounded).ok();
        }
        self.reader.is_some()
    }

    /// Takes what has been read meanwhile; true if there was something.
    pub fn take(&mut self) -> bool {
        let mut is_news = false;
        while let Some(answer) = self.reader.as_ref().and_then(|r| r.answers.try_recv().ok()) {
            is_news |= self.note(answer);
        }
        is_news
    }

    /// Waits until what was asked for is read, or the time is over.
    pub fn settle(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while self.is_busy {
            let left = end.saturating_duration_since(Instant::now());
            let Some(reader) = &self.reader else { return };
            match reader.answers.recv_timeout(left.min(STEP)) {
                Ok(answer) => {
                    self.note(answer);
                }
                Err(RecvTimeoutError::Timeout) if !left.is_zero() => {
                    if self.look_after_reader() {
                        let rest = std::mem::take(&mut self.pending);
                        // Of another reader that has ended there is nothing to wait for either.
                        self.is_busy = self.send(rest).is_ok();
                    }
                }
                Err(_) => return,
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
        self.pending.retain(|other| *other != task);
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
mod tests;
