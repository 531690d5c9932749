// SPDX-License-Identifier: MIT
//! The player does what the trace says: the same calls, in the recorded order in lockstep, with the
//! same bytes live at the peak, also where threads free what others allocated.

#![allow(clippy::unwrap_used)]

mod common;

use common::{PID, Trace, play};
use mallow_replay::Selection;
use mallow_trace::{Call, Event, Op, Region, Regions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const LOCKSTEP: [&str; 2] = ["lockstep", "pages"];
const FREE: [&str; 2] = ["free", "pages"];

/// A program of several threads on an allocator that gives freed addresses out again at once, to
/// whichever thread asks next. Returns its trace, its calls and its peak of live bytes.
fn random_program(seed: u64, threads: u32, calls: u64) -> (Trace, u64, u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut trace = Trace::new(threads);
    let mut blocks: Vec<(u64, u64)> = Vec::new();
    let mut vacant: Vec<u64> = Vec::new();
    let mut next = 0x10_0000;
    let (mut live, mut peak) = (0, 0);
    for call in 0..calls {
        // Runs of several calls by one thread, as in real programs.
        let thread = 1 + (random.random_range(0..threads * 20) / 20 + (call / 50) as u32) % threads;
        let size = match random.random_range(0..100) {
            0 => random.random_range(100_000..300_000),
            1..10 => random.random_range(1000..10_000),
            _ => random.random_range(1..200),
        };
        let mut place = || {
            vacant.pop().unwrap_or_else(|| {
                next += 16;
                next
            })
        };
        let choice = random.random_range(0..100);
        let index = random.random_range(0..blocks.len().max(1));
        if choice < 45 || blocks.is_empty() {
            let (op, alignment) = match choice {
                0..3 => (Op::Memalign, 256),
                3..6 => (Op::PosixMemalign, 4096),
                6..8 => (Op::AlignedAlloc, 64),
                8..10 => (Op::NewAligned, 32),
                10..15 => (Op::Calloc, 0),
                15..20 => (Op::New, 0),
                _ => (Op::Malloc, 0),
            };
            let address = place();
            trace.call(thread, Call { op, size, alignment, address, ..Call::default() });
            blocks.push((address, size));
            live += size;
        } else if choice < 60 {
            let (old, before) = blocks[index];
            let address = if choice < 52 { old } else { place() };
            trace.realloc(thread, old, size, address);
            if address != old {
                vacant.push(old);
            }
            blocks[index] = (address, size);
            live = live - before + size;
        } else {
            let (address, before) = blocks.swap_remove(index);
            trace.free(thread, address);
            vacant.push(address);
            live -= before;
        }
        peak = peak.max(live);
    }
    (trace, calls, peak)
}

#[test]
fn lockstep_keeps_the_order_and_the_bytes() {
    let seed = rand::random();
    eprintln!("seed {seed}");
    for threads in [1, 2, 7] {
        let (trace, calls, peak) = random_program(seed, threads, 60_000);
        let (summary, plan) = trace.compile(Selection::Largest).chosen.unwrap();
        assert_eq!(summary.lanes, threads);
        assert_eq!(summary.peak_live_bytes, peak);
        assert_eq!(summary.coverage.calls, calls);
        assert_eq!(summary.coverage.unmatched_frees + summary.coverage.lost_frees, 0);
        let run = play(&plan.file, &LOCKSTEP);
        assert_eq!((run.calls, run.failed), (calls, 0));
        assert_eq!(run.peak_live_bytes, Some(peak));
        assert_eq!(run.live_bytes, Some(summary.live_bytes));
        assert_eq!(run.order_hash, Some(format!("{:016x}", plan.order_hash)));
        assert!(run.peak_rss > peak && run.table_bytes > 0);
    }
}

/// Address randomisation is off, the order is fixed: memory comes out the same to the page. A sample
/// may see a thread that is about to sleep on one page of its stack more or less, and the kernel maps
/// fewer pages of a library around a fault where another process holds them just then.
#[test]
fn lockstep_is_the_same_each_time() {
    let seed = rand::random();
    eprintln!("seed {seed}");
    let (trace, _, _) = random_program(seed, 4, 40_000);
    let (_, plan) = trace.compile(Selection::Largest).chosen.unwrap();
    let first = play(&plan.file, &LOCKSTEP);
    let second = play(&plan.file, &LOCKSTEP);
    assert_eq!(first.order_hash, second.order_hash);
    assert_eq!(first.peak_live_bytes, second.peak_live_bytes);
    assert_eq!(first.samples.len(), second.samples.len());
    let of_stacks = 8 * 4096;
    let of_files = 64 * 4096;
    for (a, b) in first.samples.iter().zip(&second.samples) {
        assert_eq!(a.0, b.0);
        assert!(a.2.abs_diff(b.2) <= of_stacks, "anonymous: {a:?} {b:?}");
        assert!(a.1.abs_diff(b.1) <= of_stacks + of_files, "{a:?} {b:?}");
    }
    let (a, b) = (first.peak_rss, second.peak_rss);
    assert!(a.abs_diff(b) <= of_stacks + of_files, "{a} {b}");
}

/// Free mode makes the same calls, in an order of its own: a block that was used before it was
/// there, or freed twice, would end the player.
#[test]
fn free_mode_makes_every_call() {
    let seed = rand::random();
    eprintln!("seed {seed}");
    for threads in [1, 3, 8] {
        let (trace, calls, _) = random_program(seed, threads, 60_000);
        let (_, plan) = trace.compile(Selection::Largest).chosen.unwrap();
        for touch in ["pages", "all", "none"] {
            let run = play(&plan.file, &["free", touch]);
            assert_eq!((run.calls, run.failed), (calls, 0));
            let timed = run.allocate.unwrap().timed + run.free.unwrap().timed;
            assert!(timed > calls / 16 && timed < calls / 4, "{timed} of {calls} timed");
            assert!(run.allocate.unwrap().p50_ns <= run.allocate.unwrap().p999_ns);
        }
    }
}

/// One thread allocates, the other frees: slots come back after a while.
#[test]
fn slots_of_a_pipeline_are_used_again() {
    let mut trace = Trace::new(2);
    for round in 0..200_000 {
        let address = 0x1000 + 16 * (round % 7);
        trace.malloc(1, 40, address);
        trace.free(2, address);
    }
    let (summary, plan) = trace.compile(Selection::Largest).chosen.unwrap();
    assert_eq!(summary.peak_live_bytes, 40);
    assert!(summary.slots < 70_000, "{} slots", summary.slots);
    assert_eq!(play(&plan.file, &FREE).calls, 400_000);
    assert_eq!(play(&plan.file, &LOCKSTEP).peak_live_bytes, Some(40));
}

#[test]
fn threads_end_and_leave_their_blocks() {
    let mut trace = Trace::new(21);
    for thread in 2..=21 {
        for index in 0..100 {
            trace.malloc(thread, 1000, u64::from(thread) << 20 | index << 12);
        }
        trace.push(thread, Event::ThreadEnd);
        for index in 0..100 {
            trace.free(1, u64::from(thread) << 20 | index << 12);
        }
    }
    let (summary, plan) = trace.compile(Selection::Largest).chosen.unwrap();
    assert_eq!(summary.peak_live_bytes, 100_000);
    assert!(summary.slots <= 21 * 112, "{} slots", summary.slots);
    let run = play(&plan.file, &LOCKSTEP);
    assert_eq!((run.peak_live_bytes, run.live_bytes), (Some(100_000), Some(0)));
    assert_eq!(play(&plan.file, &FREE).calls, 4000);
}

#[test]
fn calls_without_effect_are_counted_and_left_out() {
    let mut trace = Trace::new(1);
    trace.malloc(1, 100, 0x1000);
    trace.free(1, 0x9999);
    trace.free(1, 0);
    trace.realloc(1, 0x8888, 50, 0x2000);
    trace.realloc(1, 0, 10, 0x3000);
    trace.realloc(1, 0x3000, 0, 0);
    trace.call(1, Call { op: Op::Malloc, size: 1 << 60, failed: true, ..Call::default() });
    trace.push(1, Event::Dropped(3));
    let (summary, plan) = trace.compile(Selection::Largest).chosen.unwrap();
    let coverage = summary.coverage;
    assert_eq!((coverage.calls, coverage.failed, coverage.dropped), (7, 1, 3));
    assert_eq!((coverage.unmatched_frees, coverage.lost_frees), (2, 0));
    assert_eq!((summary.peak_live_bytes, summary.live_bytes), (160, 150));
    let run = play(&plan.file, &LOCKSTEP);
    // malloc, free(NULL), realloc as malloc, realloc(NULL), realloc(p, 0) as free.
    assert_eq!((run.calls, run.peak_live_bytes, run.live_bytes), (5, Some(160), Some(150)));
}

/// A realloc is stamped when it returns; by then another thread may have been given the old block.
#[test]
fn address_taken_during_a_realloc_is_told_from_a_lost_free() {
    let mut trace = Trace::new(2);
    trace.malloc(1, 100, 0x1000);
    trace.malloc(2, 30, 0x1000);
    let moved = Call {
        op: Op::Realloc,
        size: 500,
        address: 0x2000,
        old: 0x1000,
        took: 150,
        ..Call::default()
    };
    trace.call(1, moved);
    trace.free(2, 0x1000);
    trace.free(1, 0x2000);
    let (summary, plan) = trace.compile(Selection::Largest).chosen.unwrap();
    assert_eq!((summary.live_bytes, summary.peak_live_bytes), (0, 530));
    assert_eq!(summary.coverage.missing(), 0.0);
    assert_eq!(play(&plan.file, &LOCKSTEP).live_bytes, Some(0));

    let mut trace = Trace::new(2);
    trace.malloc(1, 100, 0x1000);
    trace.malloc(2, 30, 0x1000);
    trace.time += 2_000_000_000;
    trace.free(2, 0x1000);
    let (summary, plan) = trace.compile(Selection::Largest).chosen.unwrap();
    assert_eq!((summary.live_bytes, summary.coverage.lost_frees), (0, 1));
    assert_eq!(play(&plan.file, &LOCKSTEP).live_bytes, Some(0));
}

#[test]
fn process_is_chosen_by_size_number_or_name() {
    let mut trace = Trace::new(1);
    trace.process(2, PID + 50, 2..=3);
    trace.malloc(1, 1000, 0x1000);
    trace.malloc(2, 5000, 0x1000);
    trace.free(2, 0x1000);
    trace.malloc(3, 10, 0x1000);
    trace.end(2);
    trace.free(1, 0x1000);
    trace.end(1);
    let chosen = |selection| trace.compile(selection).chosen.map(|(summary, _)| summary.id);
    assert_eq!(chosen(Selection::Largest), Some(2));
    assert_eq!(chosen(Selection::Pid(PID)), Some(1));
    assert_eq!(chosen(Selection::Name("program1".into())), Some(1));
    assert_eq!(chosen(Selection::Name("other".into())), None);
    assert_eq!(trace.compile(Selection::Largest).processes.len(), 2);
}

/// What the program had at a moment stands beside what the player had there.
#[test]
fn samples_belong_together() {
    let mut trace = Trace::new(1);
    trace.malloc(1, 100, 0x1000);
    trace.memory(1 << 20);
    trace.malloc(1, 32 << 20, 0x10_0000);
    trace.time += 5_000_000;
    trace.memory(33 << 20);
    let region = |start, length| Region { start, length, resident: length / 2 };
    let regions = vec![
        region(0x1000, 0x1000),
        region(0x8000, 0x8000),
        region(0x10_0000, 32 << 20),
        region(1 << 40, 4096),
    ];
    trace.push(0, Event::Regions(Regions { process: 1, no_huge_pages: true, regions }));
    trace.free(1, 0x10_0000);
    trace.time += 5_000_000;
    trace.memory(1 << 20);
    let (summary, plan) = trace.compile(Selection::Largest).chosen.unwrap();
    let run = play(&plan.file, &LOCKSTEP);
    assert_eq!(summary.recorded.len(), 3);
    assert!(summary.no_huge_pages);
    let heaps: Vec<Option<u64>> = summary.recorded.iter().map(|recorded| recorded.heap).collect();
    assert_eq!(heaps, [None, Some(0x800 + (16 << 20)), None]);
    let resident: Vec<u64> =
        summary.recorded.iter().map(|recorded| run.samples[recorded.sample].1).collect();
    assert!((32 << 20..33 << 20).contains(&(resident[1] - resident[0])), "{resident:?}");
    assert!(resident[2] < resident[0] + (1 << 20), "{resident:?}");
    assert!(run.peak_rss >= resident[1]);
}

/// A file may claim anything: no figure in it makes the compiler of plans take as much, or fail.
#[test]
fn figures_that_cannot_be_are_taken() {
    let mut trace = Trace::new(1);
    for (number, size) in [u64::MAX, 1 << 63, 1 << 63, 1].into_iter().enumerate() {
        trace.malloc(1, size, 0x1000 + 0x1000 * number as u64);
    }
    let call =
        |op, alignment, address| Call { op, size: u64::MAX, alignment, address, ..Call::default() };
    trace.call(1, call(Op::Pvalloc, 0, 0x10_0000));
    trace.call(1, call(Op::AlignedAlloc, (1 << 63) + 1, 0x20_0000));
    trace.memory(1 << 20);
    let region = |start, length| Region { start, length, resident: u64::MAX };
    let regions = vec![region(0, u64::MAX), region(0x10_0000, 1 << 63)];
    trace.push(0, Event::Regions(Regions { process: 1, no_huge_pages: false, regions }));
    trace.push(1, Event::Dropped(u64::MAX));
    trace.push(1, Event::Dropped(u64::MAX));
    trace.free(1, 0x1000);
    trace.free(1, 0x10_0000);
    trace.end(1);
    let (summary, _) = trace.compile(Selection::Largest).chosen.unwrap();
    assert_eq!(summary.coverage.dropped, u64::MAX);
}

/// The calls into the kernel are counted without rights, in a run of its own.
#[test]
fn kernel_calls_are_counted() {
    let mut trace = Trace::new(2);
    for round in 0..50 {
        trace.malloc(1 + round % 2, 40 << 20, 0x1000);
        trace.free(1 + (round + 1) % 2, 0x1000);
    }
    let (_, plan) = trace.compile(Selection::Largest).chosen.unwrap();
    assert_eq!(play(&plan.file, &LOCKSTEP).kernel_calls, -1);
    let run = play(&plan.file, &["lockstep", "pages", "count"]);
    // On glibc each block of this size is one mmap and one munmap.
    assert!((100..150).contains(&run.kernel_calls), "{}", run.kernel_calls);
}

/// A C compiler for musl comes without the kernel's headers in most systems.
#[test]
fn the_player_asks_for_no_header_of_the_kernel() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("player");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let asked: Vec<&str> = text
            .lines()
            .filter(|line| {
                line.starts_with("#include <linux/") || line.starts_with("#include <asm")
            })
            .collect();
        assert!(asked.is_empty(), "{}: {asked:?}", path.display());
    }
}
