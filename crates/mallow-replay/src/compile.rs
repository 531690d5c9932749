// SPDX-License-Identifier: MIT
//! From the records of a trace to the plans of its processes, in one pass and in memory that grows
//! with the blocks that live at once, not with the trace.

use std::collections::VecDeque;
use std::io::{self, Seek, Write};

use mallow_trace::{Event, Header, Process as Image, Record, Start};
use rustc_hash::FxHashMap;

use crate::plan::Plan;
use crate::process::{Process, Summary};

/// What the recorder lost may be known only after the end of a process, so that many stay open.
const MOST_ENDED: usize = 64;

/// Which process of the trace is replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The one that had the most bytes allocated at once.
    Largest,
    /// By the kernel's number; of several images, the largest.
    Pid(u32),
    /// By the name of its program.
    Name(String),
}

impl Selection {
    fn admits(&self, image: &Image) -> bool {
        let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        match self {
            Selection::Largest => true,
            Selection::Pid(pid) => image.pid == *pid,
            Selection::Name(name) => {
                let first = image.command.first().map_or("", String::as_str);
                base(&image.executable) == *name || base(first) == *name
            }
        }
    }
}

/// What came out of a trace.
#[derive(Debug)]
pub struct Finished<W> {
    /// The chosen process and its plan; none if no process that was asked for made a call.
    pub chosen: Option<(Summary, Plan<W>)>,
    /// All processes, in the order of their ends.
    pub processes: Vec<Summary>,
}

#[derive(Clone, Copy, Default)]
struct Known {
    process: u32,
    is_first: bool,
}

/// Takes the records of a trace in time order.
pub struct Compiler<W, F> {
    selection: Selection,
    make_file: F,
    page_size: u64,
    images: FxHashMap<u32, Image>,
    threads: FxHashMap<u32, Known>,
    /// What `threads` says of the thread that was asked for last, for that is mostly the next one.
    recent: (u32, Known),
    running: FxHashMap<u32, Process<W>>,
    ended: VecDeque<u32>,
    best: Option<(Summary, Plan<W>)>,
    processes: Vec<Summary>,
}

impl<W, F> Compiler<W, F>
where
    W: Write + Seek,
    F: FnMut() -> io::Result<W>,
{
    /// `make_file` is asked for an empty file for the plan of each process.
    pub fn new(header: &Header, selection: Selection, make_file: F) -> Compiler<W, F> {
        Compiler {
            selection,
            make_file,
            page_size: u64::from(header.page_size.max(4096)),
            images: FxHashMap::default(),
            threads: FxHashMap::default(),
            recent: <_>::default(),
            running: FxHashMap::default(),
            ended: VecDeque::new(),
            best: None,
            processes: Vec::new(),
        }
    }

    pub fn push(&mut self, record: &Record) -> io::Result<()> {
        let time = record.time;
        match &record.event {
            Event::Process(image) => {
                self.images.insert(image.id, image.as_ref().clone());
            }
            Event::Thread(thread) => {
                let image = self.images.get(&thread.process);
                let is_first = image.is_some_and(|image| image.pid == thread.tid);
                let known = Known { process: thread.process, is_first };
                self.threads.insert(record.thread, known);
                self.recent = (record.thread, known);
            }
            Event::Call(call) => {
                let known = self.whose(record.thread);
                if let Some(process) = self.process(known.process)? {
                    process.call(time, record.thread, known.is_first, call)?;
                }
            }
            Event::ThreadEnd => {
                let known = self.whose(record.thread);
                self.threads.remove(&record.thread);
                self.recent = (record.thread, Known::default());
                if let Some(process) = self.running.get_mut(&known.process) {
                    process.thread_end(record.thread)?;
                }
            }
            Event::Memory(memory) => {
                if let Some(process) = self.running.get_mut(&memory.process) {
                    process.memory(time, memory)?;
                }
            }
            Event::Regions(regions) => {
                if let Some(process) = self.running.get_mut(&regions.process) {
                    process.regions(regions);
                }
            }
            Event::Dropped(count) => {
                let known = self.whose(record.thread);
                if let Some(process) = self.process(known.process)? {
                    let dropped = &mut process.summary.coverage.dropped;
                    *dropped = dropped.saturating_add(*count);
                }
            }
            Event::ProcessEnd(end) => {
                self.ended.push_back(end.process);
                if self.ended.len() > MOST_ENDED
                    && let Some(first) = self.ended.pop_front()
                    && let Some(process) = self.running.remove(&first)
                {
                    self.keep(process)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The process of a thread; of one whose definition was lost, process 0.
    fn whose(&mut self, thread: u32) -> Known {
        if self.recent.0 != thread {
            self.recent = (thread, self.threads.get(&thread).copied().unwrap_or_default());
        }
        self.recent.1
    }

    /// The process, if it may be chosen.
    fn process(&mut self, id: u32) -> io::Result<Option<&mut Process<W>>> {
        use std::collections::hash_map::Entry;
        match self.running.entry(id) {
            Entry::Occupied(running) => Ok(Some(running.into_mut())),
            Entry::Vacant(place) => {
                let image = self.images.get(&id).cloned().unwrap_or_default();
                if !self.selection.admits(&image) {
                    return Ok(None);
                }
                let summary = Summary {
                    id,
                    pid: image.pid,
                    is_fork: image.start == Start::Fork,
                    allocator: image.allocator,
                    executable: image.executable,
                    command: image.command,
                    ..Summary::default()
                };
                let file = (self.make_file)()?;
                Ok(Some(place.insert(Process::new(file, summary, self.page_size)?)))
            }
        }
    }

    fn keep(&mut self, process: Process<W>) -> io::Result<()> {
        let (summary, plan) = process.finish()?;
        self.processes.push(summary.clone());
        let best = self.best.as_ref().map_or(0, |(best, _)| best.peak_live_bytes);
        if self.best.is_none() || summary.peak_live_bytes > best {
            self.best = Some((summary, plan));
        }
        Ok(())
    }

    /// Processes whose end was not recorded end here.
    pub fn finish(mut self) -> io::Result<Finished<W>> {
        let mut left: Vec<(u32, Process<W>)> = self.running.drain().collect();
        left.sort_by_key(|(id, _)| *id);
        for (_, process) in left {
            self.keep(process)?;
        }
        Ok(Finished { chosen: self.best, processes: self.processes })
    }
}
