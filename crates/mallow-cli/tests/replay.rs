// SPDX-License-Identifier: MIT
//! `mallow replay` on traces made here: its figures, its refusals, its exit codes.

#[path = "../../mallow-replay/tests/common/written.rs"]
mod written;

use std::path::{Path, PathBuf};

use crate::common::{compile, mallow};
use mallow_trace::{Call, Event, Header, Memory, Op, Process, ProcessEnd, Record, Regions, Thread};
use tempfile::TempDir;
use written::written;

/// A program that grows to 20 MiB in blocks of 1000 bytes, frees every second one on another thread
/// and is measured on the way.
struct Program {
    records: Vec<Record>,
    time: u64,
}

impl Program {
    fn new() -> Program {
        let mut program = Program { records: Vec::new(), time: 0 };
        let image =
            Process { id: 1, pid: 77, command: vec!["/bin/grow".into()], ..Process::default() };
        program.push(0, Event::Process(Box::new(image)));
        for thread in [1, 2] {
            let definition = Thread { process: 1, tid: 76 + thread, name: "grow".into() };
            program.push(thread, Event::Thread(definition));
        }
        program
    }

    /// As if it had been measured that rarely, with a peak that was seen or not.
    fn measured_rarely(mut self, peak_rss: u64) -> Program {
        let mut kept = 0;
        self.records.retain_mut(|record| {
            let Event::Memory(memory) = &mut record.event else { return true };
            memory.peak_rss = peak_rss;
            kept += 1;
            kept <= 3
        });
        self
    }

    fn push(&mut self, thread: u32, event: Event) {
        self.time += 2_000;
        self.records.push(Record { time: self.time, thread, event });
    }

    fn memory(&mut self, anonymous: u64) {
        let memory =
            Memory { process: 1, anonymous, rss: anonymous + (4 << 20), ..Memory::default() };
        self.push(0, Event::Memory(Box::new(memory)));
    }

    fn grow(mut self, measured: impl Fn(u64) -> u64) -> Program {
        for index in 0..20_000u64 {
            let address = 0x1000_0000 + index * 1024;
            let call = Call { op: Op::Malloc, size: 1000, address, ..Call::default() };
            self.push(1, Event::Call(call));
            if index.is_multiple_of(2000) {
                self.memory(measured(index * 1008 + (2 << 20)));
            }
        }
        self.memory(measured(20_000 * 1008 + (2 << 20)));
        for index in (0..20_000u64).step_by(2) {
            let address = 0x1000_0000 + index * 1024;
            self.push(2, Event::Call(Call { op: Op::Free, address, ..Call::default() }));
        }
        let end = ProcessEnd { process: 1, ..ProcessEnd::default() };
        self.push(0, Event::ProcessEnd(end));
        self
    }

    /// The same by one thread.
    fn alone(mut self) -> Program {
        let calls = self.records.iter_mut().filter(|record| matches!(record.event, Event::Call(_)));
        calls.for_each(|record| record.thread = 1);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let header = Header {
            allocator: "glibc".into(),
            command: vec!["/bin/grow".into(), "20 MiB".into()],
            page_size: 4096,
            ..Header::default()
        };
        written(&header, &self.records)
    }
}

fn file(folder: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join("trace.mlwt");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn replay(path: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = mallow(&["replay"]);
    command.arg(path).args(["-a", "glibc,mallow", "--runs", "2"]).args(arguments);
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn figures_of_every_allocator() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, &Program::new().grow(|heap| heap).bytes());
    let (code, stdout, stderr) = replay(&path, &["--json"]);
    assert_eq!(code, 0, "{stderr}");
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["schema"], "mallow.replay/1");
    assert_eq!(report["process"]["coverage"]["calls"], 30_000);
    assert_eq!(report["process"]["peak_live_bytes"], 20_000_000);
    assert!(report["fidelity"]["rss_error"].as_f64().unwrap() < 0.05, "{stdout}");
    assert_eq!(report["entries"].as_array().unwrap().len(), 2);
    for entry in report["entries"].as_array().unwrap() {
        let value = |name: &str| entry[name]["median"].as_f64().unwrap();
        assert!((20e6..40e6).contains(&value("peak_rss")), "{entry}");
        assert!(value("average_rss") < value("peak_rss"));
        assert!(value("wall_s") > 0.0 && value("calls_per_s") > 0.0 && value("faults") > 4000.0);
        assert!(entry["allocate"]["p50_ns"]["median"].as_f64().unwrap() > 0.0);
        assert!(entry["memory_calls"].as_u64().unwrap() > 0);
        assert_eq!(entry["failed_calls"], 0);
    }
}

#[test]
fn tables_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, &Program::new().grow(|heap| heap).bytes());
    let (code, stdout, stderr) = replay(&path, &[]);
    assert_eq!(code, 0, "{stderr}");
    eprintln!("{stdout}");
    for expected in ["/bin/grow '20 MiB'", "Fidelity: peak", "peak RSS", "malloc p50", "baseline"] {
        assert!(stdout.contains(expected), "{expected} in {stdout}");
    }
    let (_, stdout, _) = replay(&path, &["--mode", "lockstep", "--format", "csv"]);
    assert!(stdout.starts_with("allocator,wall_s,"), "{stdout}");
}

/// Lockstep comes out the same each time, so one run says who needs less; of time it says nothing. With several threads
/// it may vary.
#[test]
fn one_run_ranks_by_memory_and_not_by_time() {
    let folder = tempfile::tempdir().unwrap();
    let grown = || Program::new().grow(|heap| heap);
    let path = file(&folder, &grown().alone().bytes());
    let report = |more: &[&str]| -> serde_json::Value {
        let words = ["replay", path.to_str().unwrap(), "-a", "glibc,mallow", "--json"];
        let words = [&words[..], &["--margin", "5"], more].concat();
        let output = mallow(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let lockstep = report(&["--mode", "lockstep"]);
    assert_eq!(lockstep["settings"]["rounds"], 1);
    let memory = &lockstep["entries"][1]["memory"];
    assert_ne!(memory["verdict"], "inconclusive", "{memory}");
    assert_eq!(memory["pairs"], 1);
    let width = |report: &serde_json::Value| {
        let interval = &report["entries"][1]["memory"]["interval"];
        interval["high"].as_f64().unwrap() / interval["low"].as_f64().unwrap()
    };
    assert!(width(&lockstep) < 1.02, "{memory}");
    let both = report(&["--runs", "1"]);
    assert_ne!(both["entries"][1]["memory"]["verdict"], "inconclusive");
    let verdict = both["verdict"].as_str().unwrap();
    assert!(verdict.contains("No verdict on time: it needs at least 7 rounds"), "{verdict}");
    assert!(verdict.contains("memory"), "{verdict}");
    file(&folder, &grown().bytes());
    let of_threads = report(&["--mode", "lockstep"]);
    assert!(width(&of_threads) > 1.1, "{}", of_threads["entries"][1]["memory"]);
}

/// The recorded program had far more memory than its calls explain.
#[test]
fn poor_fidelity_is_not_ranked() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, &Program::new().grow(|heap| 2 * heap).bytes());
    let (code, stdout, stderr) = replay(&path, &[]);
    assert_eq!(code, 6, "{stderr}");
    assert!(stdout.contains("not ranked") && stdout.contains("peak RSS"), "{stdout}");
    assert!(stderr.contains("By memory the allocators are not ranked, because"), "{stderr}");
    assert!(stderr.contains("replayed on glibc"), "{stderr}");
    // Two rounds are too few, but time may be judged.
    assert!(stdout.contains("No verdict on time"), "{stdout}");

    let mut lossy = Program::new().grow(|heap| heap);
    lossy.push(1, Event::Dropped(5000));
    let (code, _, stderr) = replay(&file(&folder, &lossy.bytes()), &[]);
    assert_eq!(code, 6);
    assert!(stderr.contains("14.3 % of the calls are missing"), "{stderr}");
}

/// Its few measurements fell at random into its growth; its peak is known.
#[test]
fn short_recordings_are_held_against_their_peak() {
    let folder = tempfile::tempdir().unwrap();
    let short = |peak| Program::new().grow(|heap| 3 * heap).measured_rarely(peak);
    let peak = 20_000 * 1008 + (7 << 20);
    let path = file(&folder, &short(peak).bytes());
    let (code, stdout, stderr) = replay(&path, &["--mode", "lockstep"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("which was too short to compare at more moments"), "{stdout}");
    assert!(stdout.contains("baseline") && !stdout.contains("not ranked"), "{stdout}");

    let (code, _, stderr) = replay(&file(&folder, &short(3 * peak).bytes()), &["-q"]);
    assert_eq!(code, 6, "{stderr}");
    assert!(stderr.contains("% off the recorded one"), "{stderr}");

    let path = file(&folder, &short(0).bytes());
    let (code, stdout, stderr) = replay(&path, &[]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("Fidelity: memory not compared;"), "{stdout}");
    assert!(stderr.contains("was not measured often enough"), "{stderr}");
}

#[test]
fn damaged_files_are_read_as_far_as_they_go() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = Program::new().grow(|heap| heap).bytes();

    let (code, stdout, stderr) = replay(&file(&folder, &bytes[..bytes.len() * 3 / 4]), &[]);
    assert_eq!(code, 7, "{stderr}");
    assert!(stdout.contains("peak RSS"), "{stdout}");
    assert!(stderr.contains("cut off"), "{stderr}");

    let mut corrupted = bytes.clone();
    let middle = corrupted.len() / 2;
    for byte in &mut corrupted[middle..middle + 20] {
        *byte ^= 0x5a;
    }
    let (code, _, stderr) = replay(&file(&folder, &corrupted), &[]);
    assert_eq!(code, 7, "{stderr}");
    assert!(stderr.contains("damaged at byte"), "{stderr}");

    let (code, _, stderr) = replay(Path::new("/bin/ls"), &[]);
    assert_eq!(code, 7);
    assert!(stderr.contains("not a mallow trace"), "{stderr}");

    let (code, _, stderr) = replay(Path::new("/nonexistent/trace"), &[]);
    assert_eq!(code, 2);
    assert!(stderr.contains("no file"), "{stderr}");
}

#[test]
fn process_must_exist() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, &Program::new().grow(|heap| heap).bytes());
    let (code, _, stderr) = replay(&path, &["--process", "other"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("no call of a process other"), "{stderr}");
    let (code, _, stderr) = replay(&path, &["--process", "grow", "--mode", "free"]);
    assert_eq!(code, 0, "{stderr}");
}

/// Two allocators from one source, of which the second brings a library along, and a program that
/// is linked with that library.
fn allocators_and_program(folder: &Path) -> [String; 3] {
    let build = |name: &str, source: &str, flags: &[&str]| {
        let built = compile("cc", folder, source, flags).expect("there is a compiler");
        let path = folder.join(name);
        std::fs::rename(built, &path).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let library = ["-shared", "-fPIC", "-w"];
    let soname = "-Wl,-soname,libshared.so";
    let shared = build("libshared.so", "int shared;\n", &[&library[..], &[soname]].concat());
    let rpath = format!("-Wl,--no-as-needed,-rpath,{}", folder.display());
    let source = include_str!("programs/surroundings.c");
    let alone = build("alone.so", source, &[&library[..], &["-DNAME=\"alone\""]].concat());
    let flags = ["-DNAME=\"with\"", &rpath, &shared];
    let with = build("with.so", source, &[&library[..], &flags].concat());
    let program = build("grow", "int main(void) { return 0; }\n", &[&rpath, &shared]);
    [alone, with, program]
}

/// What each of the two finds in the player, in lockstep and in free mode: its name, the seconds on
/// the clock, whether huge pages are off, whether the library is loaded.
fn surroundings(folder: &TempDir, trace: &Program, allocators: &[String]) -> Vec<[String; 4]> {
    let notes = folder.path().join("notes");
    let path = file(folder, &trace.bytes());
    let [alone, with] = [0, 1].map(|index| format!("a{index}={}", allocators[index]));
    let arguments = ["replay", path.to_str().unwrap(), "--runs", "1", "-a", &alone, "-a", &with];
    let ran = mallow(&arguments).env("SURROUNDINGS", &notes).output().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(matches!(ran.status.code(), Some(0 | 6)), "{:?}: {errors}", ran.status);
    let text = std::fs::read_to_string(&notes).unwrap();
    std::fs::remove_file(&notes).unwrap();
    let mut found: Vec<_> = text
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .map(|words| [words[0], words[2], words[4], words[6]].map(str::to_owned))
        .collect();
    found.sort();
    found
}

/// The recorded program had huge pages switched off and a library loaded that only one of the
/// allocators needs; and a clock that had just started would mislead those that look back.
#[test]
fn allocators_meet_in_the_player_what_they_met_in_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let [alone, with, program] = allocators_and_program(folder.path());
    let allocators = [alone, with];
    let names = ["alone", "alone", "with", "with"];

    let plain = surroundings(&folder, &Program::new().grow(|heap| heap), &allocators);
    assert_eq!(plain.iter().map(|found| &found[0]).collect::<Vec<_>>(), names);
    for [name, seconds, small_pages, shared] in &plain {
        let seconds: u64 = seconds.parse().unwrap();
        assert!((86_400..87_000).contains(&seconds), "{plain:?}");
        assert_eq!((small_pages.as_str(), shared == "1"), ("0", name == "with"), "{plain:?}");
    }

    let mut special = Program::new();
    let Event::Process(process) = &mut special.records[0].event else { panic!() };
    process.executable = program;
    let mut special = special.grow(|heap| heap);
    let regions = Regions { process: 1, no_huge_pages: true, regions: Vec::new() };
    let end = special.records.len() - 1;
    let time = special.records[end].time;
    special.records.insert(end, Record { time, thread: 0, event: Event::Regions(regions) });
    let special = surroundings(&folder, &special, &allocators);
    assert_eq!(special.iter().map(|found| &found[0]).collect::<Vec<_>>(), names);
    for [_, _, small_pages, shared] in &special {
        assert_eq!((small_pages.as_str(), shared.as_str()), ("1", "1"), "{special:?}");
    }
}
