// SPDX-License-Identifier: MIT
//! What the tests of `mallow record` share: a recording of a program, and the program with many lives.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mallow_trace::{Call, Event, Memory, Process, Reader, Record, Start};

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

    pub fn memory(&self) -> impl DoubleEndedIterator<Item = Memory> {
        self.records.iter().filter_map(|record| match &record.event {
            Event::Memory(memory) => Some(**memory),
            _ => None,
        })
    }

    pub fn processes(&self) -> Vec<Process> {
        let process = |record: &Record| match &record.event {
            Event::Process(process) => Some((**process).clone()),
            _ => None,
        };
        self.records.iter().filter_map(process).collect()
    }

    /// Each block is freed once in a process, by a free or a realloc, after it was given out there or, for the
    /// child of a fork, to one that it comes from.
    #[track_caller]
    pub fn check_addresses(&self) {
        let mut process_of = BTreeMap::new();
        let mut parents = BTreeMap::new();
        let mut live = BTreeSet::new();
        let mut given = BTreeSet::new();
        let mut faults = Vec::new();
        for record in &self.records {
            let call = match &record.event {
                Event::Thread(thread) => {
                    process_of.insert(record.thread, thread.process);
                    continue;
                }
                Event::Process(process) if process.start == Start::Fork => {
                    parents.insert(process.id, process.parent);
                    continue;
                }
                Event::Call(call) => call,
                _ => continue,
            };
            let process = process_of[&record.thread];
            let inherited = |address| {
                let mut ancestors =
                    std::iter::successors(Some(process), |id| parents.get(id).copied());
                ancestors.any(|id| id != process && given.contains(&(id, address)))
            };
            if call.op.is_free() || call.op.is_realloc() && !call.failed {
                let gone = if call.op.is_free() { call.address } else { call.old };
                if gone != 0 && !live.remove(&(process, gone)) && !inherited(gone) {
                    faults.push(record);
                }
            }
            if !call.op.is_free() && call.address != 0 {
                given.insert((process, call.address));
                if !live.insert((process, call.address)) {
                    faults.push(record);
                }
            }
        }
        assert!(faults.is_empty(), "blocks freed twice or given out twice: {faults:x?}");
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
