//! What the tests of `mallow record` share: a recording of a program, and the program with many lives.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mallow_trace::{Call, Event, Process, Reader, Record, Start};

use super::{compile, run};

pub struct Trace {
    pub code: Option<i32>,
    pub stderr: String,
    pub records: Vec<Record>,
}

impl Trace {
    pub fn read(path: &Path) -> Vec<Record> {
        let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
        Reader::new(file).unwrap().merged().collect::<Result<_, _>>().unwrap()
    }

    pub fn calls(&self) -> impl Iterator<Item = (u32, Call)> {
        self.records.iter().filter_map(|record| match record.event {
            Event::Call(call) => Some((record.thread, call)),
            _ => None,
        })
    }

    /// Allocations of this size.
    pub fn count(&self, size: u64) -> usize {
        self.calls().filter(|(_, call)| call.size == size && !call.op.is_free()).count()
    }

    pub fn processes(&self) -> Vec<Process> {
        let process = |record: &Record| match &record.event {
            Event::Process(process) => Some((**process).clone()),
            _ => None,
        };
        self.records.iter().filter_map(process).collect()
    }

    /// Each block is freed once, by a free or a realloc, after it was given out.
    #[track_caller]
    pub fn check_addresses(&self) {
        let mut live = BTreeMap::new();
        let mut faults = 0;
        for (_, call) in self.calls() {
            if call.op.is_free() || call.op.is_realloc() && !call.failed {
                let gone = if call.op.is_free() { call.address } else { call.old };
                faults += usize::from(gone != 0 && live.remove(&gone).is_none());
            }
            if !call.op.is_free() && call.address != 0 {
                faults += usize::from(live.insert(call.address, call.size).is_some());
            }
        }
        assert_eq!(faults, 0, "blocks freed twice or given out twice");
    }

    /// Each process but the first has a parent before it, which has the same pid for an exec alone.
    #[track_caller]
    pub fn check_stories(&self) {
        let processes = self.processes();
        for process in &processes {
            let parent = processes.iter().find(|parent| parent.id == process.parent);
            let is_story = match (process.start, parent) {
                (Start::First, parent) => parent.is_none(),
                (Start::Fork, Some(parent)) => {
                    parent.pid != process.pid && parent.command == process.command
                }
                (Start::Exec, Some(parent)) => parent.id < process.id,
                (_, None) => false,
            };
            assert!(is_story, "{process:?} {parent:?}");
        }
    }
}

pub fn record(options: &[&str], command: &[&str]) -> Trace {
    let folder = tempfile::tempdir().unwrap();
    record_to(&folder.path().join("t.trace"), options, command)
}

/// The same, with the trace left in a file.
pub fn record_to(file: &Path, options: &[&str], command: &[&str]) -> Trace {
    let mut arguments = vec!["record", "-o", file.to_str().unwrap()];
    arguments.extend(options);
    arguments.push("--");
    arguments.extend(command);
    let ran = run(&arguments);
    assert!(file.exists(), "{}", ran.stderr);
    Trace { code: ran.code, stderr: ran.stderr, records: Trace::read(file) }
}

pub const LIVES: &str = include_str!("../programs/lives.c");

pub fn lives(folder: &Path) -> PathBuf {
    compile("cc", folder, LIVES, &["-w", "-O1", "-pthread", "-ldl"]).expect("there is a compiler")
}
