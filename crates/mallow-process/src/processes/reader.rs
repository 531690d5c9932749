// SPDX-License-Identifier: MIT
//! The thread that looks at processes closely: who serves their malloc, and what their heaps hold. It
//! takes a small part of a CPU, however many processes there are and however large; whoever shows
//! the list is never kept waiting.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use mallow_os::threads;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Uid, User};

use super::Result;
use super::row::Why;
use crate::binding::{Failure, Inspector};
use crate::heap::{self, Heap, Place};
use crate::memory::ProcessMemory;
use crate::position::Position;
use crate::process::{Keep, Process};
use crate::stat::{Start, Stat};
use crate::vitals::{self, Vitals};

pub const THREAD: &str = "heaps";
/// What part of a CPU it takes, and how much of that may be saved up.
const SHARE: f64 = 0.01;
const MOST_SAVED: Duration = Duration::from_millis(100);
/// The first look at all processes is a longer one.
const AT_FIRST: Duration = Duration::from_millis(600);
/// A heap of Mallow that takes longer has something that cannot be in its page.
const MOST_OF_ONE: Duration = Duration::from_secs(1);
/// The allocator of a process may come with its exec; until then it is that of its parent.
const LOOK_AGAIN: u32 = 2;
/// The files of so many processes are remembered, then forgotten: programs are replaced.
const MOST_REMEMBERED: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    pub pid: u32,
    pub start: Start,
    /// Whether its heap is read too.
    pub has_heap: bool,
}

/// What to look at, the most urgent first. A newer one takes its place.
#[derive(Default)]
pub struct Batch {
    pub tasks: Vec<Task>,
    /// Others are forgotten.
    pub alive: HashSet<u32>,
}

pub struct Reading {
    pub task: Task,
    pub facts: Facts,
    pub allocator: std::result::Result<String, Why>,
    /// Live, and free but resident; `None` where it was not asked for.
    pub heap: Option<std::result::Result<(u64, u64), Why>>,
    pub cost: Duration,
}

/// What changes seldom.
#[derive(Clone, Default)]
pub struct Facts {
    pub user: String,
    pub command: String,
    pub groups: String,
    pub swap: u64,
    pub address_space: Option<u64>,
}

pub enum Answer {
    Reading(Box<Reading>),
    /// A batch is done with, or its time is over.
    End,
}

pub struct Reader {
    batches: Sender<Batch>,
    pub answers: Receiver<Answer>,
    /// It may never leave it.
    pub position: Arc<Position>,
}

impl Reader {
    /// `bounded`: within its part of a CPU.
    pub fn start(bounded: bool) -> Result<Reader> {
        let (batches, orders) = channel();
        let (results, answers) = channel();
        let position = Arc::new(Position::default());
        let at = position.clone();
        let work = move || {
            let budget = bounded.then(Budget::new);
            Worker::new(budget).work(&orders, &results, &at);
        };
        threads::spawn(THREAD, work)?;
        Ok(Reader { batches, answers, position })
    }

    /// False if the thread has ended, which it never should.
    pub fn ask(&self, batch: Batch) -> bool {
        self.batches.send(batch).is_ok()
    }

    /// One that is at a process and never comes back, for as long as the other end is kept.
    #[cfg(test)]
    pub fn stuck(pid: u32, start: Start) -> (Reader, impl Sized) {
        let (batches, orders) = channel();
        let (results, answers) = channel();
        let position = Arc::new(Position::default());
        position.set(Some((pid, start)));
        let end = (orders, results, position.clone());
        (Reader { batches, answers, position }, end)
    }
}

/// CPU time that may be used now, in seconds.
struct Budget {
    saved: f64,
    at: Instant,
}

impl Budget {
    fn new() -> Budget {
        Budget { saved: AT_FIRST.as_secs_f64(), at: Instant::now() }
    }

    fn allows(&mut self) -> bool {
        let earned = self.at.elapsed().as_secs_f64() * SHARE;
        self.at = Instant::now();
        // What it began with is not taken away.
        self.saved = (self.saved + earned).min(self.saved.max(MOST_SAVED.as_secs_f64()));
        self.saved > 0.0
    }

    fn spend(&mut self, time: Duration) {
        self.saved -= time.as_secs_f64();
    }
}

struct Known {
    start: Start,
    place: std::result::Result<Place, Failure>,
    looks: u32,
}

struct Worker {
    budget: Option<Budget>,
    inspector: Inspector,
    inspected: u64,
    known: HashMap<u32, Known>,
    users: HashMap<u32, String>,
}

impl Worker {
    fn new(budget: Option<Budget>) -> Worker {
        Worker {
            budget,
            inspector: Inspector::default(),
            inspected: 0,
            known: HashMap::new(),
            users: HashMap::new(),
        }
    }

    fn work(&mut self, orders: &Receiver<Batch>, results: &Sender<Answer>, at: &Position) {
        let mut next = orders.recv().ok();
        while let Some(batch) = next.take() {
            self.known.retain(|pid, _| batch.alive.contains(pid));
            for task in &batch.tasks {
                next = orders.try_iter().last();
                if next.is_some() || !self.budget.as_mut().is_none_or(Budget::allows) {
                    break;
                }
                let begin = busy();
                at.set(Some((task.pid, task.start)));
                let reading = self.read(*task);
                at.set(None);
                let cost = busy().saturating_sub(begin);
                if let Some(budget) = &mut self.budget {
                    budget.spend(cost);
                }
                let reading = reading.map(|reading| Reading { cost, ..reading });
                if let Some(reading) = reading
                    && results.send(Answer::Reading(Box::new(reading))).is_err()
                {
                    return;
                }
            }
            if results.send(Answer::End).is_err() {
                return;
            }
            next = next.or_else(|| orders.recv().ok());
        }
    }

    /// `None` if the process has ended, or its number is another's meanwhile.
    fn read(&mut self, task: Task) -> Option<Reading> {
        let vitals = Vitals::read(task.pid).ok()?;
        let facts = Facts {
            user: self.user(vitals.uid),
            command: vitals::command_line(task.pid),
            groups: vitals.groups,
            swap: vitals.swap,
            address_space: vitals::address_space_limit(task.pid),
        };
        // Files and memory of others may hold anything.
        let looked = catch_unwind(AssertUnwindSafe(|| {
            let allocator = self.allocator(task);
            let heap = task.has_heap.then(|| self.heap(task));
            (allocator, heap)
        }));
        let (allocator, heap) = looked.unwrap_or((Err(Why::Unreadable), None));
        let denied =
            if vitals.uid == Uid::effective().as_raw() { Why::NoPtrace } else { Why::OtherUser };
        let told = |why: Why| if why == Why::NoPtrace { denied } else { why };
        let is_same = Stat::read(task.pid).is_ok_and(|stat| stat.start == task.start);
        is_same.then(|| Reading {
            task,
            facts,
            allocator: allocator.map_err(told),
            heap: heap.map(|heap| heap.map_err(told)),
            cost: Duration::ZERO,
        })
    }

    fn user(&mut self, uid: u32) -> String {
        let name = || match User::from_uid(Uid::from_raw(uid)) {
            Ok(Some(user)) => user.name,
            _ => uid.to_string(),
        };
        self.users.entry(uid).or_insert_with(name).clone()
    }

    fn allocator(&mut self, task: Task) -> std::result::Result<String, Why> {
        let known = self.known.get(&task.pid).filter(|known| known.start == task.start);
        let has_page =
            known.is_some_and(|known| known.place.as_ref().is_ok_and(|p| p.page.is_some()));
        let looks = known.map_or(0, |known| known.looks);
        if !has_page && looks < LOOK_AGAIN {
            self.inspected += 1;
            if self.inspected.is_multiple_of(MOST_REMEMBERED) {
                self.inspector = Inspector::default();
            }
            let place = Place::find(task.pid, &mut self.inspector);
            let known = Known { start: task.start, place, looks: looks + 1 };
            self.known.insert(task.pid, known);
        }
        match self.known.get(&task.pid).map(|known| &known.place) {
            Some(Ok(place)) => Ok(place.allocator.clone()),
            Some(Err(failure)) => Err(why(failure)),
            None => Err(Why::Unreadable),
        }
    }

    fn heap(&mut self, task: Task) -> std::result::Result<(u64, u64), Why> {
        if !vitals::may_read(task.pid) {
            return Err(Why::NoPtrace);
        }
        let heap = match self.known.get(&task.pid).map(|known| &known.place) {
            Some(Ok(place)) if place.page.is_some() => of_mallow(task.pid, place)?,
            Some(Ok(_)) => {
                let process = Process::live(task.pid, Keep::Figures).map_err(|f| why(&f))?;
                let found = heap::find(&process, &mut self.inspector);
                found.memory.ok_or(Why::NoPtrace)?;
                found.heap
            }
            Some(Err(failure)) => return Err(why(failure)),
            None => return Err(Why::Unreadable),
        };
        let figures = heap.used_and_free().ok_or(match heap {
            Heap::Glibc(_) | Heap::Mallow(_) => Why::Unreadable,
            _ => Why::NoCounters,
        })?;
        // What changed all the time while it was read would look like a hole.
        if heap.incomplete() == 0 { Ok(figures) } else { Err(Why::Changing) }
    }
}

fn of_mallow(pid: u32, place: &Place) -> std::result::Result<Heap, Why> {
    let mappings = vitals::mappings(pid).map_err(|failure| why(&failure))?;
    let memory = ProcessMemory::open(pid, &mappings).map_err(|error| why(&Failure::from(error)))?;
    place.read(&memory, MOST_OF_ONE).map(Heap::Mallow).ok_or(Why::Unreadable)
}

fn why(failure: &Failure) -> Why {
    match failure {
        Failure::NoPermission => Why::NoPtrace,
        Failure::Vanished => Why::Ended,
        Failure::Damaged(_) => Why::Unreadable,
    }
}

/// CPU time of this thread.
fn busy() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_is_spent_has_to_be_earned() {
        let mut budget = Budget::new();
        assert!(budget.allows());
        budget.spend(AT_FIRST);
        budget.spend(Duration::from_secs(3600));
        assert!(!budget.allows());
        // An hour of work takes days to earn, and rest is not saved up without end.
        budget.at = Instant::now() - Duration::from_secs(60);
        assert!(!budget.allows());
        budget.saved = 0.0;
        budget.at = Instant::now() - Duration::from_secs(60);
        assert!(budget.allows() && budget.saved <= MOST_SAVED.as_secs_f64());
    }

    #[test]
    fn what_is_no_process_any_more_gives_no_reading() {
        let mut worker = Worker::new(None);
        let own = std::process::id();
        let start = Stat::read(own).unwrap().start;
        let task = Task { pid: own, start, has_heap: false };
        let reading = worker.read(task).unwrap();
        assert_eq!(reading.allocator.unwrap(), "glibc");
        assert!(reading.facts.command.contains("mallow"), "{}", reading.facts.command);
        let reused = Start { time: start.time + 1, ..start };
        assert!(worker.read(Task { start: reused, ..task }).is_none());
        assert!(worker.read(Task { pid: 4_194_304, ..task }).is_none());
    }
}
