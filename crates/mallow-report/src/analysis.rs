// SPDX-License-Identifier: MIT
//! The one pass over the records.

use std::collections::BTreeMap;

use mallow_trace::{
    Call, Ending, Event, Header, Mapping, Memory, Module, Process, Record, Start, Thread,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::buckets::Buckets;
use crate::heap::{Block, Old};
use crate::held::{Amount, Peak};
use crate::stacks::{BlockEnd, Stacks, Weights};
use crate::tasks::{Activity, ProcessState, SizeCounts, ThreadState};
use crate::timeline::Timeline;

/// Different sizes of all threads together that are counted exactly: at least this many.
const SIZES_IN_ALL: usize = 1 << 16;
const MOST_MARKERS: usize = 10_000;
/// Bytes of libstdc++'s emergency pool: up to GCC 12, and from 13 on. It is among the first blocks of
/// a process, before the program's own.
const LIBSTDCXX_POOLS: [u64; 2] = [72_704, 73_728];

/// What has been found so far. Feed it the merged records, then [`finish`](Analysis::finish).
#[derive(Debug)]
pub struct Analysis {
    findings: Findings,
    process_index: FxHashMap<u32, u32>,
    thread_index: FxHashMap<u32, u32>,
    /// The thread of the last record and its index: most records are of the same as the one before.
    last_thread: Option<(u32, u32)>,
    rss: u64,
}

/// Everything found in a trace, before names and presentation.
#[derive(Debug)]
pub struct Findings {
    pub header: Header,
    pub(crate) all: Activity,
    /// Sizes that reallocs asked for.
    pub(crate) resized: SizeCounts,
    pub(crate) processes: Vec<ProcessState>,
    pub(crate) threads: Vec<ThreadState>,
    pub(crate) stacks: Stacks,
    pub(crate) modules: FxHashMap<u32, Module>,
    /// Names of run-time compiled code: by module, then by start, the size and the name.
    pub(crate) symbols: FxHashMap<u32, BTreeMap<u64, (u64, String)>>,
    pub(crate) peak: Peak,
    pub(crate) timeline: Timeline,
    pub(crate) lifetimes: Buckets,
    pub(crate) temporary: Amount,
    pub(crate) leaked: Amount,
    /// What libstdc++ keeps for itself until the end.
    pub(crate) pools: Amount,
    pub(crate) markers: Vec<(u64, String)>,
    /// Blocks in whose place another appeared without a free in between.
    pub(crate) lost_frees: u64,
    pub(crate) end_ns: u64,
    pub(crate) records: u64,
}

impl Analysis {
    pub fn new(header: &Header) -> Analysis {
        let findings = Findings {
            header: header.clone(),
            all: Activity::new(SIZES_IN_ALL),
            resized: SizeCounts::new(SIZES_IN_ALL),
            processes: Vec::new(),
            threads: Vec::new(),
            stacks: Stacks::new(Weights::new(header.stack_distance)),
            modules: FxHashMap::default(),
            symbols: FxHashMap::default(),
            peak: Peak::default(),
            timeline: Timeline::default(),
            lifetimes: Buckets::default(),
            temporary: Amount::default(),
            leaked: Amount::default(),
            pools: Amount::default(),
            markers: Vec::new(),
            lost_frees: 0,
            end_ns: 0,
            records: 0,
        };
        Analysis {
            findings,
            process_index: FxHashMap::default(),
            thread_index: FxHashMap::default(),
            last_thread: None,
            rss: 0,
        }
    }

    /// Takes the next record in merged order.
    pub fn add(&mut self, record: &Record) {
        self.findings.records += 1;
        self.findings.end_ns = self.findings.end_ns.max(record.time);
        let time = record.time;
        match &record.event {
            Event::Call(call) => self.call(time, record.thread, call),
            Event::Process(process) => self.process(time, process),
            Event::Thread(thread) => self.thread(time, record.thread, thread),
            Event::Module(module) => {
                self.findings.modules.insert(module.id, module.as_ref().clone());
            }
            Event::Mapping(mapping) => self.mapping(time, mapping),
            Event::Regions(_) => {}
            Event::Stack(stack) => self.findings.stacks.define(stack),
            Event::Symbol(symbol) => {
                let of_module = self.findings.symbols.entry(symbol.module).or_default();
                of_module.insert(symbol.start, (symbol.size, symbol.name.clone()));
            }
            Event::ThreadName(name) => {
                let thread = self.thread_of(record.thread, time);
                self.findings.threads[thread].name.clone_from(name);
            }
            Event::ThreadEnd => {
                let thread = self.thread_of(record.thread, time);
                self.findings.threads[thread].end(time);
            }
            Event::ProcessEnd(end) => {
                let process = self.process_of(end.process, time);
                self.findings.processes[process].ended = Some((time, end.ending));
                self.end_heap(process, time);
            }
            Event::Marker(text) => {
                if self.findings.markers.len() < MOST_MARKERS {
                    self.findings.markers.push((time, text.clone()));
                }
            }
            Event::Memory(memory) => self.memory(time, memory),
            Event::Dropped(count) => {
                let thread = self.thread_of(record.thread, time);
                let thread = &mut self.findings.threads[thread];
                thread.dropped = thread.dropped.saturating_add(*count);
            }
        }
    }

    /// Frames come with the module that they are in; this says what a process has loaded.
    fn mapping(&mut self, time: u64, mapping: &Mapping) {
        let module = self.findings.modules.get(&mapping.module);
        if module.is_some_and(|module| module.path.contains("/libstdc++.so")) {
            let process = self.process_of(mapping.process, time);
            self.findings.processes[process].has_libstdcxx = true;
        }
    }

    fn call(&mut self, time: u64, thread: u32, call: &Call) {
        let thread = self.thread_of(thread, time);
        let state = &mut self.findings.threads[thread];
        state.activity.called(call.op, call.size, call.failed);
        self.findings.all.called(call.op, call.size, call.failed);
        if call.failed {
            return;
        }
        if call.op.is_free() {
            self.free(time, thread, call.address);
        } else if call.old == 0 {
            self.allocate(time, thread, call, time);
        } else {
            self.reallocate(time, thread, call);
        }
    }

    fn allocate(&mut self, time: u64, thread: usize, call: &Call, born_ns: u64) {
        if call.address == 0 {
            return;
        }
        let findings = &mut self.findings;
        let state = &mut findings.threads[thread];
        let process = state.process as usize;
        let block = Block { size: call.size, born_ns, stack: call.stack, thread: thread as u32 };
        if let Some(lost) = findings.processes[process].heap.insert(call.address, block, time) {
            findings.lost_frees += 1;
            let end = BlockEnd::Freed {
                lifetime_ns: time.saturating_sub(lost.born_ns),
                temporary: false,
            };
            findings.release(process, call.address, &lost, end);
        }
        let state = &mut findings.threads[thread];
        state.last_address = call.address;
        let is_new = call.old == 0;
        state.activity.allocated(call.size, is_new);
        state.held.take(Amount::one(call.size), &findings.peak);
        findings.all.allocated(call.size, is_new);
        if !is_new {
            findings.resized.add(call.size);
        }
        findings.stacks.take(call.stack, call.address, call.size, &findings.peak);
        let state = &mut findings.processes[process];
        if state.has_libstdcxx && state.pool.is_none() && LIBSTDCXX_POOLS.contains(&call.size) {
            state.pool = Some(call.address);
        }
        state.take(call.size, time);
        findings.peak.take(call.size, time);
        findings.timeline.allocated(time, call.size, findings.peak.live.bytes);
    }

    fn free(&mut self, time: u64, thread: usize, address: u64) {
        if address == 0 {
            return;
        }
        let process = self.findings.threads[thread].process as usize;
        let block = self.findings.processes[process].heap.remove(address);
        self.freed(time, thread, address, block);
    }

    /// A block that was live until now is given back, or one that nobody knows.
    fn freed(&mut self, time: u64, thread: usize, address: u64, block: Option<Block>) {
        let findings = &mut self.findings;
        let state = &mut findings.threads[thread];
        let temporary = state.last_address == address;
        if temporary {
            state.last_address = 0;
        }
        let process = state.process as usize;
        let Some(block) = block else {
            findings.processes[process].unknown_frees += 1;
            findings.timeline.freed(time, findings.peak.live.bytes);
            return;
        };
        if block.thread as usize != thread {
            state.foreign_frees += 1;
        }
        if temporary {
            state.temporary.add(block.size);
            findings.temporary.add(block.size);
        }
        let lifetime_ns = time.saturating_sub(block.born_ns);
        let end = BlockEnd::Freed { lifetime_ns, temporary };
        findings.release(process, address, &block, end);
        findings.timeline.freed(time, findings.peak.live.bytes);
    }

    /// The block goes on under its new address and size, from the stack of the realloc.
    fn reallocate(&mut self, time: u64, thread: usize, call: &Call) {
        let findings = &mut self.findings;
        let process = findings.threads[thread].process as usize;
        // One that took no time let nobody in between.
        let begun = if call.took == 0 { u64::MAX } else { time.saturating_sub(call.took) };
        let old = findings.processes[process].heap.remove_old(call.old, begun);
        if call.address == 0 {
            // realloc(p, 0), as a libc understands it that returns nothing for it.
            match old {
                Old::Live(block) => self.freed(time, thread, call.old, Some(block)),
                Old::Displaced(_) => {
                    findings.lost_frees -= 1;
                    findings.timeline.freed(time, findings.peak.live.bytes);
                }
                Old::Unknown => self.freed(time, thread, call.old, None),
            }
            return;
        }
        let born_ns = match old {
            Old::Live(block) => {
                findings.release(process, call.old, &block, BlockEnd::Resized);
                block.born_ns
            }
            Old::Displaced(block) => {
                findings.lost_frees -= 1;
                block.born_ns
            }
            Old::Unknown => {
                findings.processes[process].unknown_frees += 1;
                time
            }
        };
        self.allocate(time, thread, call, born_ns);
    }

    fn memory(&mut self, time: u64, memory: &Memory) {
        let process = self.process_of(memory.process, time);
        let state = &mut self.findings.processes[process];
        if state.ended.is_some() {
            return;
        }
        self.rss = self.rss.saturating_sub(state.rss).saturating_add(memory.rss);
        state.rss = memory.rss;
        state.peak_rss = state.peak_rss.max(memory.rss).max(memory.peak_rss);
        self.findings.timeline.sampled(time, self.rss);
    }

    fn process(&mut self, time: u64, definition: &Process) {
        let index = self.process_of(definition.id, time);
        let state = &mut self.findings.processes[index];
        state.definition = definition.clone();
        state.started_ns = time;
    }

    fn thread(&mut self, time: u64, number: u32, definition: &Thread) {
        let process = self.process_of(definition.process, time) as u32;
        let index = self.thread_of(number, time);
        let state = &mut self.findings.threads[index];
        state.process = process;
        state.tid = definition.tid;
        state.name.clone_from(&definition.name);
        state.started_ns = time;
    }

    /// A process is known from its definition on; one without (it lay in a damaged block) gets by
    /// with its number.
    fn process_of(&mut self, id: u32, time: u64) -> usize {
        let processes = &mut self.findings.processes;
        let index = *self.process_index.entry(id).or_insert_with(|| {
            let definition = Process { id, start: Start::First, ..Process::default() };
            processes.push(ProcessState {
                definition,
                started_ns: time,
                ..ProcessState::default()
            });
            processes.len() as u32 - 1
        });
        index as usize
    }

    fn thread_of(&mut self, number: u32, time: u64) -> usize {
        match self.last_thread {
            Some((last, index)) if last == number => return index as usize,
            _ => {}
        }
        let index = match self.thread_index.get(&number) {
            Some(index) => *index,
            None => self.new_thread(number, time),
        };
        self.last_thread = Some((number, index));
        index as usize
    }

    fn new_thread(&mut self, number: u32, time: u64) -> u32 {
        // Its definition says the process; without one, the first process will do.
        if self.findings.processes.is_empty() {
            self.process_of(0, time);
        }
        let index = self.findings.threads.len() as u32;
        let mut state = ThreadState::new(number, 0);
        state.started_ns = time;
        self.findings.threads.push(state);
        self.thread_index.insert(number, index);
        index
    }

    /// What is still live when a process ends was never freed, and is gone with it.
    fn end_heap(&mut self, process: usize, time: u64) {
        let findings = &mut self.findings;
        let state = &mut findings.processes[process];
        self.rss = self.rss.saturating_sub(std::mem::take(&mut state.rss));
        let (blocks, pool) = (state.heap.drain(), state.pool);
        for (address, block) in blocks {
            if pool == Some(address) && LIBSTDCXX_POOLS.contains(&block.size) {
                findings.pools.add(block.size);
                findings.release(process, address, &block, BlockEnd::OfRuntime);
                continue;
            }
            findings.processes[process].leaked.add(block.size);
            findings.threads[block.thread as usize].leaked.add(block.size);
            findings.leaked.add(block.size);
            findings.release(process, address, &block, BlockEnd::Leaked);
        }
        findings.timeline.level(time, findings.peak.live.bytes);
    }

    /// Call it behind the last record.
    pub fn finish(mut self) -> Findings {
        let end = self.findings.end_ns;
        for process in 0..self.findings.processes.len() {
            self.end_heap(process, end);
        }
        self.findings
    }
}

impl Findings {
    /// A block is gone: everybody who held it holds it no more.
    fn release(&mut self, process: usize, address: u64, block: &Block, end: BlockEnd) {
        self.threads[block.thread as usize].held.give(Amount::one(block.size), &self.peak);
        self.stacks.give(block.stack, address, block.size, end, &self.peak);
        self.processes[process].give(block.size);
        self.peak.give(block.size);
        if let BlockEnd::Freed { lifetime_ns, .. } = end {
            self.lifetimes.add(lifetime_ns, block.size);
        }
    }

    /// Records that were read, definitions included.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Different places in code that stacks go through: what has to be named.
    pub fn places(&self) -> u64 {
        let frames = self.stacks.frames.values().flatten();
        frames.collect::<FxHashSet<_>>().len() as u64
    }

    /// The trace's number of each process, and the kernel's.
    pub fn pids(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.processes.iter().map(|process| (process.definition.id, process.definition.pid))
    }

    pub fn has_stacks(&self) -> bool {
        !self.stacks.frames.is_empty()
    }

    pub(crate) fn ending(&self, process: usize) -> Option<Ending> {
        self.processes[process].ended.map(|(_, ending)| ending)
    }
}
