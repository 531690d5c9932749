// SPDX-License-Identifier: MIT
//! Writes a synthetic trace of any length, to measure how fast and in how much memory it is
//! reported: `cargo run --release -p mallow-report --example synthetic_trace -- FILE EVENTS [THREADS [SLOTS]]`
//! About half of each thread's slots hold a live block in the end.

#[path = "../tests/random/mod.rs"]
mod random;

use std::fs::File;
use std::io::{BufWriter, Write};

use mallow_trace::*;
use random::Random;

const STACKS: u32 = 5_000;
const FUNCTIONS: u64 = 2_000;
/// The size that is to come out as the most frequent one, and its share in percent.
const DOMINANT: u64 = 8225;
const DOMINANT_SHARE: u64 = 45;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |index: usize, default: u64| {
        arguments.get(index).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let Some(path) = arguments.get(1) else {
        eprintln!("usage: synthetic_trace FILE EVENTS [THREADS [SLOTS]]");
        std::process::exit(2);
    };
    let (events, threads) = (number(2, 1_000_000), number(3, 10).max(1));
    let slots = number(4, 100_000).max(1);
    let header = Header {
        command: vec!["synthetic".into(), events.to_string()],
        allocator: "glibc".into(),
        libc: "glibc 2.36".into(),
        stacks: Stacks::Fp,
        ..Header::default()
    };
    let mut writer = Writer::new(BufWriter::new(File::create(path)?), &header)?;
    define(&mut writer, threads)?;
    let mut random = Random(1);
    let mut live = vec![false; (threads * slots) as usize];
    for event in 0..events {
        let time = event * 50 + 1000;
        let thread = random.below(threads);
        // One free in ten is of another thread's block.
        let owner = if random.below(10) == 0 { random.below(threads) } else { thread };
        let slot = owner * slots + random.below(slots);
        let address = 0x7f00_0000_0000 + slot * 65_536;
        let is_live = &mut live[slot as usize];
        let call = if *is_live {
            Call { op: Op::Free, address, ..Call::default() }
        } else {
            let stack = random.below(u64::from(STACKS)) as u32 + 1;
            Call { op: Op::Malloc, size: size(&mut random), address, stack, ..Call::default() }
        };
        *is_live = !*is_live;
        writer.write(&Record { time, thread: thread as u32 + 1, event: Event::Call(call) })?;
        if event % 1024 == 0 {
            writer.promise(time)?;
        }
    }
    let ending = ProcessEnd { process: 1, ending: Ending::Code(0) };
    let event = Event::ProcessEnd(ending);
    writer.write(&Record { time: events * 50 + 2000, thread: COLLECTOR, event })?;
    writer.finish()?.flush()?;
    Ok(())
}

fn define(writer: &mut Writer<impl Write>, threads: u64) -> Result<()> {
    let mut define = |thread: u32, event: Event| writer.write(&Record { time: 0, thread, event });
    let process = Process { id: 1, pid: 1000, command: vec!["synthetic".into()], ..<_>::default() };
    define(COLLECTOR, Event::Process(Box::new(process)))?;
    for thread in 1..=threads as u32 {
        let definition = Thread { process: 1, tid: 999 + thread, name: format!("worker-{thread}") };
        define(thread, Event::Thread(definition))?;
    }
    let module = Module { id: 1, kind: ModuleKind::Jit, process: 1, ..Module::default() };
    define(COLLECTOR, Event::Module(Box::new(module)))?;
    for function in 0..FUNCTIONS {
        let name = format!("function_{function}");
        let symbol = Symbol { module: 1, start: function * 256, size: 256, name };
        define(COLLECTOR, Event::Symbol(Box::new(symbol)))?;
    }
    let mut random = Random(7);
    for id in 1..=STACKS {
        // A tree: the outer half of a stack depends on few bits of its number.
        let frames = (0..16u64).rev().map(|depth| {
            let place = (u64::from(id) & ((1 << depth.min(13)) - 1)) * 31 + depth * 97;
            let jitter = if depth > 12 { random.below(3) } else { 0 };
            Frame { module: 1, address: (place + jitter) % FUNCTIONS * 256 + 16 }
        });
        define(
            COLLECTOR,
            Event::Stack(Stack { id, frames: frames.collect(), ..Stack::default() }),
        )?;
    }
    Ok(())
}

fn size(random: &mut Random) -> u64 {
    if random.below(100) < DOMINANT_SHARE {
        return DOMINANT;
    }
    let doubling = random.below(16);
    (1 << doubling) + random.below(1 << doubling)
}
