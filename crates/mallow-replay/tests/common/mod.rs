// SPDX-License-Identifier: MIT
//! Synthetic traces, and their way through the writer, the reader, the compiler and the player.

#![allow(dead_code, clippy::unwrap_used)]

mod written;

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use mallow_replay::{Compiler, Finished, Run, Selection};
use mallow_trace::{Call, Event, Header, Memory, Op, Process, ProcessEnd, Reader, Record, Thread};
use written::written;

pub const PID: u32 = 1000;

/// The records of one process, whose thread 1 is the first.
pub struct Trace {
    pub records: Vec<Record>,
    pub time: u64,
}

impl Trace {
    pub fn new(threads: u32) -> Trace {
        let mut trace = Trace { records: Vec::new(), time: 0 };
        trace.process(1, PID, 1..=threads);
        trace
    }

    pub fn process(&mut self, id: u32, pid: u32, threads: std::ops::RangeInclusive<u32>) {
        let process =
            Process { id, pid, command: vec![format!("program{id}")], ..Process::default() };
        self.push(0, Event::Process(Box::new(process)));
        for (index, thread) in threads.enumerate() {
            let tid = pid + index as u32;
            self.push(thread, Event::Thread(Thread { process: id, tid, name: String::new() }));
        }
    }

    pub fn push(&mut self, thread: u32, event: Event) {
        self.time += 100;
        self.records.push(Record { time: self.time, thread, event });
    }

    pub fn call(&mut self, thread: u32, call: Call) {
        self.push(thread, Event::Call(call));
    }

    pub fn malloc(&mut self, thread: u32, size: u64, address: u64) {
        self.call(thread, Call { op: Op::Malloc, size, address, ..Call::default() });
    }

    pub fn realloc(&mut self, thread: u32, old: u64, size: u64, address: u64) {
        self.call(thread, Call { op: Op::Realloc, size, address, old, ..Call::default() });
    }

    pub fn free(&mut self, thread: u32, address: u64) {
        self.call(thread, Call { op: Op::Free, address, ..Call::default() });
    }

    pub fn memory(&mut self, anonymous: u64) {
        let memory = Memory { process: 1, anonymous, rss: anonymous, ..Memory::default() };
        self.push(0, Event::Memory(Box::new(memory)));
    }

    pub fn end(&mut self, process: u32) {
        self.push(0, Event::ProcessEnd(ProcessEnd { process, ..ProcessEnd::default() }));
    }

    pub fn bytes(&self) -> Vec<u8> {
        written(&Header { page_size: 4096, ..Header::default() }, &self.records)
    }

    pub fn compile(&self, selection: Selection) -> Finished<File> {
        let bytes = self.bytes();
        let reader = Reader::new(bytes.as_slice()).unwrap();
        let mut compiler = Compiler::new(reader.header(), selection, tempfile::tempfile);
        for record in reader.merged() {
            compiler.push(&record.unwrap()).unwrap();
        }
        compiler.finish().unwrap()
    }
}

/// Held while the player is written and started: a child that another test forks meanwhile would
/// inherit the open file, and a program that is open for writing cannot be started.
static START: Mutex<()> = Mutex::new(());

/// Runs the player on a plan under the system's allocator.
pub fn play(plan: &File, arguments: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("player");
    let lock = START.lock().unwrap_or_else(PoisonError::into_inner);
    let mut file = File::create(&program).unwrap();
    file.write_all(mallow_replay::PLAYER).unwrap();
    file.set_permissions(std::fs::Permissions::from_mode(0o755)).unwrap();
    drop(file);
    let path = format!("/proc/{}/fd/{}", std::process::id(), plan.as_raw_fd());
    let mut command = Command::new(&program);
    command.arg(path).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    drop(lock);
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{:?}: {errors}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}
