// SPDX-License-Identifier: MIT
//! Random traces: what the analysis finds in one pass is what a simple model, that keeps
//! everything, computes from the whole list of calls.
#![allow(clippy::unwrap_used)]

mod random;

use std::collections::{BTreeMap, HashMap};

use mallow_report::{Amount, Analysis, Costs, Frame, Limits, Names, Profile, Summary, name_stacks};
use mallow_trace::{
    Call, Ending, Event, Header, Module, Op, Process, ProcessEnd, Reader, Record, Stack, Start,
    Thread, Writer,
};
use random::Random;

const PROCESSES: u32 = 3;
const THREADS_EACH: u32 = 4;
const STACKS: u32 = 9;

fn record(time: u64, thread: u32, event: Event) -> Record {
    Record { time, thread, event }
}

/// Definitions, random calls, and ends of processes.
fn random_trace(seed: u64, calls: u64) -> Vec<Record> {
    let mut random = Random(seed);
    let mut records = Vec::new();
    for id in 1..=PROCESSES {
        let start = if id == 1 { Start::First } else { Start::Exec };
        let process = Process { id, pid: 100 + id, parent: id - 1, start, ..Process::default() };
        records.push(record(0, 0, Event::Process(Box::new(process))));
        for thread in 1..=THREADS_EACH {
            let number = (id - 1) * THREADS_EACH + thread;
            let name = format!("t{number}");
            records.push(record(
                0,
                number,
                Event::Thread(Thread { process: id, tid: number, name }),
            ));
        }
    }
    records.push(record(0, 0, Event::Module(Box::new(Module { id: 1, ..Module::default() }))));
    for id in 1..=STACKS {
        let frame = |address: u32| mallow_trace::Frame { module: 1, address: u64::from(address) };
        let frames = vec![frame(id), frame(100 + id % 2)];
        records.push(record(0, 0, Event::Stack(Stack { id, frames, ..Stack::default() })));
    }
    let mut live: HashMap<u32, Vec<u64>> = HashMap::new();
    for n in 0..calls {
        let thread = random.below(u64::from(PROCESSES * THREADS_EACH)) as u32 + 1;
        let process = (thread - 1) / THREADS_EACH + 1;
        let blocks = live.entry(process).or_default();
        let stack = random.below(u64::from(STACKS) + 1) as u32;
        let size = random.below(5000);
        // Each address is used once, so that every block can be told apart.
        let address = (n + 1) * 8192;
        let call = match random.below(20) {
            0..10 => Call { op: Op::Malloc, size, address, stack, ..Call::default() },
            10 => Call { op: Op::Calloc, size, failed: true, stack, ..Call::default() },
            11 if !blocks.is_empty() => {
                let old = blocks.swap_remove(random.below(blocks.len() as u64) as usize);
                // In place, every now and then.
                let address = if random.below(2) == 0 { old } else { address };
                Call { op: Op::Realloc, size, address, old, stack, ..Call::default() }
            }
            12 => Call { op: Op::Free, ..Call::default() },
            _ if !blocks.is_empty() => {
                // The block allocated last, so that some are temporary, or any.
                let index = match random.below(3) {
                    0 => random.below(blocks.len() as u64) as usize,
                    _ => blocks.len() - 1,
                };
                Call { op: Op::Free, address: blocks.remove(index), ..Call::default() }
            }
            _ => continue,
        };
        if !call.failed && call.address != 0 && !call.op.is_free() {
            blocks.push(call.address);
        }
        records.push(record(10 * (n + 1), thread, Event::Call(call)));
    }
    for process in 1..=PROCESSES {
        let end = ProcessEnd { process, ending: Ending::Code(0) };
        records.push(record(10 * calls + u64::from(process) * 100, 0, Event::ProcessEnd(end)));
    }
    records
}

#[derive(Clone, Copy)]
struct ModelBlock {
    size: u64,
    stack: u32,
    thread: u32,
    born: u64,
}

#[derive(Default)]
struct Model {
    live: BTreeMap<u64, ModelBlock>,
    by_stack: BTreeMap<u32, Costs>,
    peak: Amount,
    at_peak: BTreeMap<u64, ModelBlock>,
    temporary: Amount,
    foreign: u64,
    allocated: Amount,
    last: HashMap<u32, u64>,
}

impl Model {
    fn call(&mut self, time: u64, thread: u32, call: &Call) {
        if call.failed {
            return;
        }
        if call.op.is_free() {
            let Some(block) = self.live.remove(&call.address) else { return };
            let costs = self.by_stack.entry(block.stack).or_default();
            costs.freed += 1;
            costs.lifetime_ns += time - block.born;
            self.foreign += u64::from(block.thread != thread);
            if self.last.get(&thread) == Some(&call.address) {
                self.temporary.add(block.size);
                costs.temporary.add(block.size);
            }
            return;
        }
        let old = self.live.remove(&call.old);
        let born = old.map_or(time, |block| block.born);
        let block = ModelBlock { size: call.size, stack: call.stack, thread, born };
        self.live.insert(call.address, block);
        self.last.insert(thread, call.address);
        self.allocated.add(call.size);
        self.by_stack.entry(call.stack).or_default().allocated.add(call.size);
        let bytes: u64 = self.live.values().map(|block| block.size).sum();
        if bytes > self.peak.bytes {
            self.peak = Amount { blocks: self.live.len() as u64, bytes };
            self.at_peak = self.live.clone();
        }
    }

    fn finish(&mut self) {
        for block in self.live.values() {
            self.by_stack.entry(block.stack).or_default().leaked.add(block.size);
        }
        for block in self.at_peak.values() {
            self.by_stack.entry(block.stack).or_default().peak.add(block.size);
        }
    }
}

/// Places are named by their address, which is their number.
struct Numbers;

impl Names for Numbers {
    fn frames(&mut self, _module: &Module, address: u64) -> Vec<Frame> {
        vec![Frame { function: (address + 1).to_string(), ..Frame::default() }]
    }
}

fn analyse(records: &[Record]) -> (Summary, Profile) {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for record in records {
        writer.write(record).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let reader = Reader::new(bytes.as_slice()).unwrap();
    let mut analysis = Analysis::new(reader.header());
    for record in reader.merged() {
        analysis.add(&record.unwrap());
    }
    let findings = analysis.finish();
    let profile = name_stacks(&findings, &mut Numbers, &mut || true);
    (findings.summary(&profile, Limits::default()), profile)
}

fn number_of_stack(profile: &Profile, frames: &[u32]) -> u32 {
    let innermost = frames.first().map(|frame| &profile.frames[*frame as usize].function);
    innermost.map_or(0, |name| name.parse().unwrap())
}

#[test]
fn one_pass_finds_what_the_model_finds() {
    for seed in 1..=20 {
        let records = random_trace(seed, 1500);
        let mut model = Model::default();
        for record in &records {
            if let Event::Call(call) = &record.event {
                model.call(record.time, record.thread, call);
            }
        }
        model.finish();
        let (summary, profile) = analyse(&records);
        let totals = &summary.totals;
        assert_eq!(totals.allocated, model.allocated, "seed {seed}");
        assert_eq!(totals.peak, model.peak, "seed {seed}");
        assert_eq!(totals.temporary, model.temporary, "seed {seed}");
        assert_eq!(totals.foreign_frees, model.foreign, "seed {seed}");
        assert_eq!(totals.leaked.blocks, model.live.len() as u64, "seed {seed}");
        assert_eq!((totals.unknown_frees, totals.lost_frees, totals.dropped), (0, 0, 0));
        let mut found = BTreeMap::new();
        for sample in &profile.samples {
            found.insert(number_of_stack(&profile, &sample.frames), sample.costs);
        }
        assert_eq!(found, model.by_stack, "seed {seed}");

        let calls = records.iter().filter(|r| matches!(r.event, Event::Call(_))).count() as u64;
        assert_eq!(totals.calls, calls);
        let threads = || summary.processes.iter().flat_map(|process| &process.threads);
        let by_thread: u64 = threads().flat_map(|t| &t.functions).map(|f| f.calls).sum();
        assert_eq!(by_thread, calls, "seed {seed}");
        let peak: u64 = threads().map(|thread| thread.peak.bytes).sum();
        assert_eq!(peak, model.peak.bytes, "seed {seed}");
        let leaked: u64 = threads().map(|thread| thread.leaked.bytes).sum();
        assert_eq!(leaked, totals.leaked.bytes, "seed {seed}");
        let last = summary.timeline.steps.iter().map(|step| step.live_bytes).max();
        assert_eq!(last, Some(model.peak.bytes), "seed {seed}");
    }
}

#[test]
fn an_address_given_away_during_a_realloc_is_not_a_lost_free() {
    let call = |op, size, address, old, took| {
        Event::Call(Call { op, size, address, old, took, ..Call::default() })
    };
    // Of no bytes, for which nothing is returned, as well.
    for (size, moved, blocks) in [(200, 0x2000, 3), (0, 0, 2)] {
        let records = [
            record(0, 0, Event::Process(Box::new(Process { id: 1, ..Process::default() }))),
            record(0, 1, Event::Thread(Thread { process: 1, tid: 1, name: String::new() })),
            record(0, 2, Event::Thread(Thread { process: 1, tid: 2, name: String::new() })),
            record(10, 1, call(Op::Malloc, 100, 0x1000, 0, 0)),
            record(30, 2, call(Op::Malloc, 50, 0x1000, 0, 0)),
            record(40, 1, call(Op::Realloc, size, moved, 0x1000, 20)),
            record(50, 2, call(Op::Free, 0, 0x1000, 0, 0)),
            record(60, 1, call(Op::Free, 0, moved, 0, 0)),
        ];
        let (summary, _) = analyse(&records);
        let totals = &summary.totals;
        assert_eq!((totals.lost_frees, totals.unknown_frees, totals.leaked.blocks), (0, 0, 0));
        assert_eq!(totals.allocated.blocks, blocks);
    }
}

#[test]
fn a_forked_child_may_free_what_its_parent_allocated() {
    let call = |op, address| Event::Call(Call { op, size: 10, address, ..Call::default() });
    let records = [
        record(0, 0, Event::Process(Box::new(Process { id: 1, ..Process::default() }))),
        record(0, 1, Event::Thread(Thread { process: 1, tid: 1, name: String::new() })),
        record(10, 1, call(Op::Malloc, 0x1000)),
        record(
            20,
            0,
            Event::Process(Box::new(Process {
                id: 2,
                parent: 1,
                start: Start::Fork,
                ..Process::default()
            })),
        ),
        record(20, 2, Event::Thread(Thread { process: 2, tid: 2, name: String::new() })),
        record(30, 2, call(Op::Free, 0x1000)),
        record(40, 2, call(Op::Malloc, 0x1000)),
    ];
    let (summary, _) = analyse(&records);
    assert_eq!(summary.totals.unknown_frees, 1);
    assert_eq!(summary.totals.leaked.blocks, 2);
    assert_eq!(summary.totals.lost_frees, 0);
    assert_eq!(summary.processes[1].parent, Some(1));
    let notes = summary.notes.join(" ");
    assert!(notes.contains("1 blocks were freed by forked processes"), "{notes}");
}

/// A trace may come from anywhere: no record, in whatever order, may end the analysis.
#[test]
fn records_of_any_kind_in_any_order_are_taken() {
    for seed in 1..=200 {
        let mut random = Random(seed);
        let mut any = |most: u64| match random.below(8) {
            0 => u64::MAX,
            1 => u64::MAX / 2,
            _ => random.below(most),
        };
        let mut analysis = Analysis::new(&Header { stack_distance: any(2), ..Header::default() });
        for _ in 0..300 {
            let (time, thread, id) = (any(1000), any(4) as u32, any(3) as u32);
            let call = Call {
                op: Op::ALL[any(33) as usize % 33],
                failed: any(9) == 0,
                size: any(5000),
                address: any(20).wrapping_mul(16),
                old: if any(2) == 0 { any(20).wrapping_mul(16) } else { 0 },
                took: any(500),
                stack: any(4) as u32,
                ..Call::default()
            };
            let event = match any(12) {
                0 => Event::ThreadEnd,
                1 => Event::ProcessEnd(ProcessEnd { process: id, ..ProcessEnd::default() }),
                2 => Event::Process(Box::new(Process { id, parent: id, ..Process::default() })),
                3 => Event::Thread(Thread { process: id, ..Thread::default() }),
                4 => Event::Stack(Stack {
                    id,
                    frames: vec![Default::default(); 3],
                    ..Stack::default()
                }),
                5 => Event::Dropped(any(100)),
                6 => Event::Memory(Box::new(mallow_trace::Memory {
                    process: id,
                    rss: any(9000),
                    ..Default::default()
                })),
                _ => Event::Call(call),
            };
            analysis.add(&record(time, thread, event));
        }
        let findings = analysis.finish();
        let profile = name_stacks(&findings, &mut Numbers, &mut || true);
        let summary = findings.summary(&profile, Limits::default());
        assert!(summary.totals.calls > 0, "seed {seed}");
    }
}
