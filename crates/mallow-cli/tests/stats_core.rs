// SPDX-License-Identifier: MIT
//! `mallow stats` of a live process has what its allocator counted, and on core files: what it says of a process
//! that has ended is what it said while it lived.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::program::{Program, Running};
use crate::common::{compile, json, mallow, refuses, run};

const SOURCE: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nint main(void) { for (int i \
                      = 0; i < 20000; i++) { void *volatile block = malloc(16 + i % 3000); if (i % 3 == 0) \
                      free(block); } puts(\"{}\"); fflush(stdout); sleep(100); }\n";

/// As the kernel writes it of a process: writable private memory, and the files that were mapped.
fn core_of(pid: u32) -> Vec<u8> {
    let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let (mut programs, mut content) = (Vec::new(), Vec::new());
    let (mut files, mut names, mut count) = (Vec::new(), Vec::new(), 0u64);
    for line in fs::read_to_string(format!("/proc/{pid}/maps")).unwrap().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = words[0].split_once('-').unwrap();
        let (start, end) = (number(start), number(end));
        let mut bytes = vec![0; (end - start) as usize];
        // A page of what is constant after the loader's work differs from the file, and is written too.
        let path = words.get(5).filter(|path| path.starts_with('/'));
        if words[1].starts_with("rw") || path.is_some() && words[1] == "r--p" {
            // What cannot be read, as guards between blocks, is written as zeros.
            for (index, page) in bytes.chunks_mut(4096).enumerate() {
                let _ = memory.read_exact_at(page, start + 4096 * index as u64);
            }
            programs.push((start, bytes.len() as u64, content.len() as u64));
            content.extend(bytes);
        }
        if let Some(path) = path {
            files.extend([start, end, number(words[2]) / 4096].map(u64::to_le_bytes).concat());
            names.extend(path.as_bytes());
            names.push(0);
            count += 1;
        }
    }
    let mut note = [count, 4096].map(u64::to_le_bytes).concat();
    note.extend(files);
    note.extend(names);
    written(&programs, &content, &note)
}

/// An ELF core file with these segments (start, size, place in `content`) and an NT_FILE note.
fn written(programs: &[(u64, u64, u64)], content: &[u8], files: &[u8]) -> Vec<u8> {
    let mut note = [5u32, files.len() as u32, 0x4649_4c45].map(u32::to_le_bytes).concat();
    note.extend(b"CORE\0\0\0\0");
    note.extend(files);
    note.resize(note.len().next_multiple_of(4), 0);
    let note_at = 64 + 56 * (programs.len() as u64 + 1);
    let content_at = note_at + note.len() as u64;
    let machine: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    let mut core = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    core.extend([4, machine].map(u16::to_le_bytes).concat());
    core.extend(1u32.to_le_bytes());
    core.extend([0u64, 64, 0].map(u64::to_le_bytes).concat());
    core.extend(0u32.to_le_bytes());
    core.extend([64, 56, programs.len() as u16 + 1, 0, 0, 0].map(u16::to_le_bytes).concat());
    let mut program = |kind: u32, offset: u64, start: u64, size: u64| {
        core.extend([kind, 4].map(u32::to_le_bytes).concat());
        core.extend([offset, start, 0, size, size, 4].map(u64::to_le_bytes).concat());
    };
    program(4, note_at, 0, note.len() as u64);
    for &(start, size, at) in programs {
        program(1, content_at + at, start, size);
    }
    core.extend(note);
    core.extend(content);
    core
}

fn stats_of(target: &Path) -> serde_json::Value {
    let ran = run(&["stats", "--json", target.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    json(&ran)["stats"].take()
}

/// Gives 30 MB back at once, and has a second thread that allocates and stays.
const COUNTED: &str = "#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
    #include <unistd.h>\nstatic void *blocks[30000];\nstatic pthread_barrier_t ready;\n\
    static void *stay(void *none) { void *volatile block = malloc(100); (void)block; \
    pthread_barrier_wait(&ready); pause(); return none; }\n\
    int main(void) { for (int i = 0; i < 30000; i++) blocks[i] = memset(malloc(1000), 1, 1000); \
    for (int i = 0; i < 30000; i++) free(blocks[i]); \
    for (int i = 0; i < 500; i++) { blocks[i % 40] = malloc(300000); if (i % 40 == 39) \
    for (int k = 0; k < 40; k++) free(blocks[k]); } \
    pthread_t thread; pthread_barrier_init(&ready, NULL, 2); pthread_create(&thread, NULL, stay, NULL); \
    pthread_barrier_wait(&ready); puts(\"{}\"); fflush(stdout); pause(); }\n";

#[test]
fn a_live_process_tells_what_it_counted() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-O1", "-fno-builtin", "-pthread"];
    let program = compile("cc", folder.path(), COUNTED, &options).expect("there is a compiler");
    for allocator in ["mallow", "mallow-secure"] {
        let mut command = mallow(&["run", "-a", allocator, "--", program.to_str().unwrap()]);
        let process = Program::at_rest(command.env("MALLOC_CONF", "dirty_decay_ms:0"));
        let stats = stats_of(Path::new(&process.pid()));
        assert_eq!(stats["threads"], 2, "{allocator}");
        let figures = |class: &serde_json::Value, name: &str| class[name].as_u64().unwrap_or(0);
        let classes = stats["classes"].as_array().unwrap();
        // The secure build puts a few between guards, outside the lists that are read.
        let is_met =
            |class: &&serde_json::Value| (29_000..=30_000).contains(&figures(class, "requests"));
        let class = classes.iter().find(is_met).unwrap_or_else(|| panic!("{allocator}: {stats}"));
        assert!(figures(class, "size") >= 1000, "{class}");
        assert!(figures(class, "fills") > 0 && class["flushes"].is_u64(), "{class}");
        let sizes: Vec<u64> = classes.iter().map(|class| figures(class, "size")).collect();
        assert!(sizes.is_sorted_by(|a, b| a < b), "{sizes:?}");
        let locks = stats["locks"].as_array().unwrap();
        let names: Vec<&str> = locks.iter().map(|lock| lock["name"].as_str().unwrap()).collect();
        let of_process =
            ["process", "heaps", "shared", "tray", "rob", "meta", "table", "quarantine"];
        let others = ["emptied", "limit", "tables", "guarded", "arena", "purge", "growth", "pool"];
        let all = [of_process, others].concat();
        assert_eq!(names, all, "each once");
        let arena = &locks[names.iter().position(|name| *name == "arena").unwrap()];
        assert!(figures(arena, "operations") > 0 && arena["wait_ns"].is_u64(), "{arena}");
        assert!(stats["uptime_ns"].as_u64() > Some(0), "{}", stats["uptime_ns"]);
        let large = &stats["large"];
        assert!((500..=520).contains(&figures(large, "requests")), "{allocator}: {large}");
        assert!(figures(large, "allocated") >= 20 * 300_000, "{allocator}: {large}");
        let purges = &stats["dirty_purges"];
        assert!(figures(purges, "bytes") > 20_000_000, "{allocator}: {purges}");
        assert!(figures(purges, "rounds") > 0 && figures(purges, "calls") > 0, "{purges}");
        let shown = run(&["stats", "--locks", "--classes", &process.pid()]).stdout;
        assert!(
            !shown.contains("Nothing is known of them") && shown.contains("requests"),
            "{shown}"
        );
    }
}

#[test]
fn a_core_file_has_the_figures_of_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cc", folder.path(), SOURCE, &["-O1"]).expect("there is a compiler");
    let file = folder.path().join("core");
    for allocator in ["mallow", "mallow-secure"] {
        let mut command = mallow(&["run", "-a", allocator, "--", program.to_str().unwrap()]);
        let process = Program::at_rest(&mut command);
        let live = stats_of(Path::new(&process.pid()));
        let core = core_of(process.child.id());
        drop(process);
        fs::write(&file, &core).unwrap();
        let dead = stats_of(&file);
        assert!(live["totals"]["allocated"].as_u64() > Some(15_000_000), "{live}");
        for name in ["allocated", "active", "mapped", "cached", "dirty", "metadata"] {
            assert_eq!(dead["totals"][name], live["totals"][name], "{allocator}: {name}");
        }
        assert_eq!(dead["classes"], live["classes"]);
        assert_eq!((&dead["version"], &dead["locks"]), (&live["version"], &live["locks"]));
    }
}

#[test]
fn a_core_file_without_the_heap_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new("sleep").arg("100").stdout(Stdio::null()).spawn().unwrap();
    let core = core_of(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    let file = folder.path().join("core");
    let path = file.to_str().unwrap();
    fs::write(&file, &core).unwrap();
    refuses(&["stats", path], 4, &["core file", "under Mallow"]);
    // A library that the note says to be as large as the address space.
    let mut note = [1, 4096, 4096, u64::MAX - 4095, 0].map(u64::to_le_bytes).concat();
    note.extend(b"/proc/self/exe\0");
    fs::write(&file, written(&[], &[], &note)).unwrap();
    refuses(&["stats", path], 4, &["core file"]);
    for length in [20, 64, 100, 300, core.len() / 2] {
        fs::write(&file, &core[..length]).unwrap();
        let code = run(&["stats", path]).code;
        assert!(matches!(code, Some(4 | 7)), "{length}: {code:?}");
    }
}

#[test]
fn a_compressed_core_file_is_refused_with_what_unpacks_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("core.python3.1000.zst");
    for (magic, format) in
        [(&b"\x28\xb5\x2f\xfd"[..], "zstd"), (b"\xfd7zXZ\0", "xz"), (b"\x1f\x8b", "gzip")]
    {
        let mut bytes = magic.to_vec();
        bytes.resize(5000, 0x5a);
        fs::write(&file, bytes).unwrap();
        refuses(&["stats", file.to_str().unwrap()], 7, &[format, "coredumpctl dump"]);
        refuses(&["advise", file.to_str().unwrap()], 7, &[format]);
    }
}

/// Holds 40,000 blocks of a class of 1,024 bytes, and as many again when it is told to.
const GROWS: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
    static void *blocks[2][40000];\n\
    int main(void) { for (int i = 0; i < 2; i++) { if (i) getchar(); \
    for (int k = 0; k < 40000; k++) blocks[i][k] = memset(malloc(1000), 1, 1000); \
    puts(\"{}\"); fflush(stdout); } pause(); return 0; }\n";
const GROWTH: f64 = 40_000.0 * 1024.0;

#[test]
fn readings_at_an_interval_follow_a_live_program() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-O1", "-fno-builtin"];
    let program = compile("cc", folder.path(), GROWS, &options).expect("there is a compiler");
    let mut command = mallow(&["run", "-a", "mallow", "--", program.to_str().unwrap()]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process =
        Program { child: Running(command.spawn().unwrap()), own: serde_json::Value::Null };
    let mut said = BufReader::new(process.child.stdout.take().unwrap()).lines();
    said.next().unwrap().unwrap();

    // A line for each reading, which is there before the next one is made.
    let mut follow = mallow(&["stats", "--interval", "20ms", &process.pid()]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines().map(Result::unwrap);
    let heading = lines.next().unwrap();
    assert_eq!(heading.split_whitespace().take(2).collect::<Vec<_>>(), ["time", "allocated"]);
    let allocated = |line: String| {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((words[1], words[3]), ("s", "MiB"), "{line}");
        words[2].parse::<f64>().unwrap() * 1048576.0
    };
    let first = allocated(lines.next().unwrap());
    assert!((GROWTH..1.1 * GROWTH).contains(&first), "{first}");
    process.child.stdin.take().unwrap().write_all(b"\n").unwrap();
    said.next().unwrap().unwrap();
    let has_grown = |now: f64| (now - first - GROWTH).abs() < 0.01 * GROWTH;
    // Lines of before may still be on their way.
    let last = lines.by_ref().take(3000).map(allocated).find(|now| has_grown(*now));
    assert!(last.is_some(), "no line shows {} bytes more than {first}", GROWTH);

    // At rest, all readings are alike, and none is early.
    let words = ["stats", "--json", "--interval", "20ms", "--count", "3", &process.pid()];
    let ran = run(&words);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let report = json(&ran);
    let samples = report["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 3, "{report}");
    let bytes = |value: &serde_json::Value| value["allocated"].as_f64().unwrap();
    for (index, sample) in samples.iter().enumerate() {
        assert!(sample["time_s"].as_f64().unwrap() >= 0.02 * index as f64, "{report}");
        assert!(has_grown(bytes(sample)), "{sample}");
    }
    assert_eq!(bytes(&samples[2]), bytes(&report["stats"]["totals"]));

    drop(process);
    let left: Vec<String> = lines.collect();
    assert_eq!(follow.wait().unwrap().code(), Some(0), "it ends with the process: {left:?}");
}

#[test]
fn a_dump_has_no_interval() {
    let dump = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../mallow-stats/tests/dumps/jemalloc-5.3.1-bins.json"
    );
    for words in [["--interval", "1s"], ["--count", "2"]] {
        refuses(&["stats", words[0], words[1], dump], 2, &["for a process"]);
    }
}
