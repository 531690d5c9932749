// SPDX-License-Identifier: MIT
//! What a verb wrote and reads again, with what it does then: the baseline of `check`, the state of `tune`, the record of
//! `enable`, the report of `explain --save`, the run of `watch --save`. The first byte chooses.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use mallow_advice::explain::Report;
use mallow_enabling::{Record, System};
use mallow_measure::search::state::{self, State};
use mallow_measure::watched::{self, History};
use mallow_process::heap::Heap;
use mallow_process::heap::glibc::Arena;
use mallow_report::baseline::{Baseline, Counts, Measured, Run, judge, overall};
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));
static RECORD: LazyLock<PathBuf> = LazyLock::new(|| FOLDER.path().join("enabled.json"));

/// Two runs that differ.
static MEASURED: LazyLock<Measured> = LazyLock::new(|| {
    let run = |bytes| Run {
        allocations: 5,
        bytes,
        peak: bytes,
        leaks: 0,
        stacks: [("main".into(), Counts { allocations: 5, bytes, leaks: 0 })].into(),
    };
    Measured { runs: vec![run(700), run(900)], rss: vec![1 << 20, 2 << 20], ..Measured::default() }
});

fn baseline(bytes: &[u8]) {
    let Ok(baseline) = serde_json::from_slice::<Baseline>(bytes) else { return };
    let (judged, changes) = judge(&baseline, &MEASURED, |metric| metric.default_tolerance(), |_| None);
    overall(&judged);
    judged.iter().for_each(|judged| _ = judged.change());
    changes.iter().for_each(|change| assert!(change.size() > 0));
    let mut new = baseline.clone();
    new.keep(&baseline, |_| true);
    let text = new.text().expect("it was JSON");
    serde_json::from_str::<Baseline>(&text).expect("what is written can be read");
}

fn state(bytes: &[u8]) {
    let Ok(file) = serde_json::from_slice::<state::File>(bytes) else { return };
    let Ok(known) = State::understood(file) else { return };
    known.subject.difference(&known.subject);
    let text = serde_json::to_string(&known.file()).expect("it was JSON");
    let again = serde_json::from_str(&text).map(State::understood).expect("what is written can be read");
    assert_eq!(again.map(|state| state.trials.len()), Ok(known.trials.len()));
}

/// Nothing is changed by it: what it names is looked at alone.
fn record(bytes: &[u8]) {
    std::fs::write(&*RECORD, bytes).expect("a file");
    let system = System::new(Some(FOLDER.path())).expect("a folder");
    let Ok(record) = Record::read(&system, &RECORD) else { return };
    for entry in record.entries() {
        entry.had_file();
        entry.since.short();
        entry.place.describe();
        assert!(record.entry(&entry.file).is_some());
    }
}

/// The figures that are shown of it.
fn report(bytes: &[u8]) {
    let Ok(report) = serde_json::from_slice::<Report>(bytes) else { return };
    report.heap.incomplete();
    match &report.heap {
        Heap::Glibc(heaps) => {
            _ = (heaps.used(), heaps.used_count(), heaps.free(), heaps.unaccounted());
            heaps.arenas.iter().enumerate().for_each(|(index, arena)| _ = arena.name(index));
            assert!(heaps.sum(Arena::trimmable) >= heaps.sum(Arena::trimmable_top));
        }
        Heap::Mallow(heap) => _ = (heap.allocated(), heap.free_slots()),
        Heap::Spans(heap) => {
            _ = (heap.used(), heap.used_count(), heap.free_blocks(), heap.free_pages());
        }
        Heap::Other(_) | Heap::Unknown => {}
    }
    let text = serde_json::to_string(&report).expect("it was JSON");
    let again: Report = serde_json::from_str(&text).expect("what is written can be read");
    assert_eq!(again.mappings.len(), report.mappings.len());
}

/// Its samples once more, as if they came now.
fn run(bytes: &[u8]) {
    let Ok(run) = serde_json::from_slice::<watched::Run>(bytes) else { return };
    run.summary.faults();
    assert!(run.points(|sample| sample.heap_used).len() <= run.samples.len());
    let mut history = History::new(watched::Run::default(), false);
    run.samples.iter().for_each(|sample| history.add(*sample));
    history.find_trend();
    let rss = history.run.summary.rss;
    assert!(rss.average <= rss.peak && history.run.samples.len() == run.samples.len());
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    match first.wrapping_sub(b'0') % 5 {
        0 => baseline(bytes),
        1 => state(bytes),
        2 => record(bytes),
        3 => report(bytes),
        _ => run(bytes),
    }
});
