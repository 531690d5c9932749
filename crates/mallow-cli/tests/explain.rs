// SPDX-License-Identifier: MIT
//! `mallow explain` on programs whose heap is known: its sums against the program's own count and
//! against what the allocator says about itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::program::Program;
use crate::common::{json, mallow, ran, refuses, run};
use serde_json::Value;

fn built(folder: &Path, compiler: &str, flags: &[&str]) -> Option<PathBuf> {
    crate::common::compile(compiler, folder, include_str!("programs/known_heap.c"), flags)
}

fn known_heap(folder: &Path) -> PathBuf {
    built(folder, "cc", &["-O1", "-fno-builtin", "-pthread"]).unwrap()
}

#[track_caller]
fn near(what: &str, found: f64, expected: f64) {
    let error = (found - expected).abs() / expected;
    assert!(error < 0.03, "{what}: {found} against {expected}");
}

fn sum(of: &Value, field: &str) -> f64 {
    of.as_array().unwrap().iter().map(|each| each[field].as_f64().unwrap()).sum()
}

/// In use by the program, by the report.
fn glibc_used(report: &Value) -> f64 {
    let arenas = &report["heap"]["arenas"];
    let waiting = sum(arenas, "fast") + sum(arenas, "cached");
    sum(arenas, "used_bytes") - waiting + report["heap"]["mapped"]["bytes"].as_f64().unwrap()
}

fn mallow_used(report: &Value) -> f64 {
    let arenas = &report["heap"]["arenas"];
    let out = sum(arenas, "slots_used") + sum(arenas, "large") + sum(arenas, "huge");
    out - report["heap"]["listed"].as_f64().unwrap()
}

fn check_glibc(program: &Path, case: &str) -> Value {
    check_glibc_of(&mut Command::new(program), case)
}

fn check_glibc_of(command: &mut Command, case: &str) -> Value {
    let program = Program::at_rest(command.arg(case));
    let report = program.explain();
    assert_eq!(report["heap"]["kind"], "glibc", "{case}");
    assert_eq!(report["allocator"], "glibc", "{case}");
    // What the libc and the loader hold is more than the ten blocks of `threads`.
    if case != "threads" {
        near(case, glibc_used(&report), program.own("bytes"));
        let arenas = &report["heap"]["arenas"];
        let blocks = sum(arenas, "used_count") - sum(arenas, "listed_count")
            + report["heap"]["mapped"]["chunks"].as_f64().unwrap();
        near(case, blocks, program.own("blocks"));
    }
    // To glibc itself what waits in threads' caches is in use, and so are its own headers.
    let arenas = &report["heap"]["arenas"];
    let more = sum(arenas, "cached") + sum(arenas, "headers");
    near("mallinfo2", glibc_used(&report) + more, program.own("mallinfo_used"));
    near("malloc_info", glibc_used(&report) + more, program.own("malloc_info_used"));
    let mapped = report["heap"]["mapped"]["bytes"].as_f64().unwrap();
    assert_eq!(mapped, program.own("mallinfo_mapped"), "{case}");
    report
}

fn check_sums(report: &Value) {
    let totals = &report["totals"];
    for (field, total) in [("rss", "rss"), ("pss", "pss"), ("size", "virt"), ("swap", "swap")] {
        assert_eq!(sum(&report["groups"], field), totals[total].as_f64().unwrap(), "{field}");
    }
    let count = report["mappings"].as_array().unwrap().len();
    assert_eq!(sum(&report["groups"], "mappings"), count as f64);
    assert!(!report["answer"].as_str().unwrap().is_empty());
}

fn findings(report: &Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|f| f["id"].as_str().unwrap()).collect()
}

fn group<'a>(report: &'a Value, kind: &str) -> &'a Value {
    let groups = report["groups"].as_array().unwrap();
    groups.iter().find(|group| group["kind"] == kind).unwrap_or(&Value::Null)
}

#[test]
fn ten_threads_reserve_arenas() {
    let folder = tempfile::tempdir().unwrap();
    let report = check_glibc(&known_heap(folder.path()), "threads");
    check_sums(&report);
    assert_eq!(report["heap"]["arenas"].as_array().unwrap().len(), 11);
    assert_eq!(group(&report, "thread_stack")["mappings"], 10);
    assert_eq!(group(&report, "glibc_arena")["mappings"], 10);
    // Ten heaps of 64 MiB less 132 KiB.
    let reserve = 10 * ((64 << 20) - (132 << 10));
    assert_eq!(group(&report, "glibc_reserve")["size"], reserve);
    assert!(findings(&report).contains(&"MLW2101"), "{:?}", findings(&report));
    assert!(report["answer"].as_str().unwrap().contains("arenas"));
}

#[test]
fn holes_are_free_and_resident() {
    let folder = tempfile::tempdir().unwrap();
    let report = check_glibc(&known_heap(folder.path()), "holes");
    check_sums(&report);
    assert!(findings(&report).contains(&"MLW2102"), "{:?}", findings(&report));
}

#[test]
fn leaks_have_one_size() {
    let folder = tempfile::tempdir().unwrap();
    let report = check_glibc(&known_heap(folder.path()), "leaks");
    check_sums(&report);
    let most = &report["heap"]["sizes"][0];
    assert_eq!((most[0].as_u64(), most[1].as_u64()), (Some(208), Some(200_000)));
    assert!(findings(&report).contains(&"MLW2106"), "{:?}", findings(&report));
}

/// As after the package of a service was upgraded while it runs.
#[test]
fn a_program_whose_file_was_replaced_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = known_heap(folder.path());
    let program = Program::at_rest(Command::new(&path).arg("leaks"));
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "another").unwrap();
    let report = program.explain();
    assert_eq!(report["allocator"], "glibc");
    near("in use", glibc_used(&report), program.own("bytes"));
    let ran = run(&["verify", &program.pid(), "--expect", "glibc"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}

/// Heaps of arenas are 8 MiB then, in place of 64, and the main arena does not use the break. glibc takes
/// usual pages where the system has no huge ones.
#[test]
fn heaps_of_huge_pages_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let program = known_heap(folder.path());
    for kind in [1, 2] {
        for case in ["leaks", "arenas"] {
            let mut command = Command::new(&program);
            command.env("GLIBC_TUNABLES", format!("glibc.malloc.hugetlb={kind}"));
            let report = check_glibc_of(&mut command, case);
            check_sums(&report);
        }
    }
}

#[test]
fn a_hundred_arenas_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let report = check_glibc(&known_heap(folder.path()), "arenas");
    check_sums(&report);
    assert_eq!(report["heap"]["arenas"].as_array().unwrap().len(), 101);
    assert_eq!(sum(&report["heap"]["arenas"], "threads"), 101.0);
}

#[test]
fn static_program_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-O1", "-fno-builtin", "-pthread", "-static", "-s"];
    let program = built(folder.path(), "cc", &flags).unwrap();
    check_sums(&check_glibc(&program, "holes"));
}

#[test]
fn mallow_is_read_by_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let program = known_heap(folder.path());
    for build in ["mallow", "mallow-secure", "mallow-debug"] {
        for case in ["threads", "holes", "leaks", "arenas", "explicit"] {
            let path = program.to_str().unwrap();
            // What waits in a quarantine would be in use, and so would the guards of some blocks.
            let options =
                ["--opt", "quarantine:0", "--opt", "guard_first:0", "--opt", "guard_sample:0"];
            let words = [&["run", "-a", build][..], &options, &["--", path, case]].concat();
            let program = Program::at_rest(&mut mallow(&words));
            let report = program.explain();
            check_sums(&report);
            assert_eq!(report["heap"]["kind"], "mallow", "{build} {case}");
            assert_eq!(report["allocator"], build);
            // Mallow itself counts the lists of other threads as in use.
            let (used, itself) = (mallow_used(&report), program.own("mallinfo_used"));
            let listed = report["heap"]["listed"].as_f64().unwrap();
            assert!(
                itself >= used && itself <= used + listed,
                "{build} {case}: {used} {itself} {listed}"
            );
            if case != "threads" {
                // The program adds glibc's header to each block.
                let own = program.own("bytes") - 8.0 * program.own("blocks");
                // Canaries and red zones are in use too: at most so many bytes a block.
                let more = match build {
                    "mallow" => 0.0,
                    "mallow-secure" => 16.0,
                    _ => 64.0,
                };
                if more == 0.0 {
                    near(case, used, own);
                } else {
                    let most = (own + more * program.own("blocks")) * 1.15;
                    assert!(used >= own && used <= most, "{build} {case}: {used} {own} {most}");
                }
            }
        }
    }
}

#[test]
fn heap_that_changes_all_the_time_is_read_or_said_to_be_unread() {
    let folder = tempfile::tempdir().unwrap();
    let program = known_heap(folder.path());
    let path = program.to_str().unwrap();
    for allocator in ["glibc", "mallow"] {
        let program = Program::at_rest(&mut mallow(&["run", "-a", allocator, "--", path, "race"]));
        let mut read = 0;
        for _ in 0..5 {
            let ran = run(&["explain", &program.pid(), "--json"]);
            if ran.code == Some(6) {
                assert!(ran.stderr.contains("changed all the time"), "{}", ran.stderr);
                continue;
            }
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            let report = json(&ran);
            check_sums(&report);
            let blocks = program.own("bytes");
            match allocator {
                "glibc" => near(allocator, glibc_used(&report), blocks),
                _ => near(allocator, mallow_used(&report), blocks - 8.0 * program.own("blocks")),
            }
            read += 1;
        }
        assert!(read > 0, "{allocator} could not be read in five tries");
    }
}

#[test]
fn musl_is_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let source = include_str!("programs/known_heap.c");
    let source = source.replace("mallopt(M_ARENA_MAX, 101);", "");
    let flags = ["-O1", "-fno-builtin", "-pthread"];
    let Some(program) = crate::common::compile("musl-gcc", folder.path(), &source, &flags) else {
        return;
    };
    let program = Program::at_rest(Command::new(program).arg("leaks"));
    let report = program.explain();
    check_sums(&report);
    assert_eq!(report["allocator"], "musl");
    // musl has a slot of 240 bytes for each; what it counts as usable is what was asked for.
    spans_are_near(&report, program.own("blocks"), 240.0 - 4.0);
    assert_eq!(report["heap"]["layout"], "musl (mallocng)");
}

/// Sums of a heap of another allocator against the blocks of the program, all of one size.
#[track_caller]
fn spans_are_near(report: &Value, blocks: f64, size: f64) {
    let heap = &report["heap"];
    assert_eq!(heap["kind"], "spans", "{}", report["allocator"]);
    let arenas = &heap["arenas"];
    near("blocks", sum(arenas, "small_count") + sum(arenas, "large_count"), blocks);
    near("bytes", sum(arenas, "small") + sum(arenas, "large"), blocks * size);
    assert_eq!(heap["unread"], 0, "the program rests");
    let class = |class: &&Value| class["slot_size"].as_f64() == Some(size);
    let classes = heap["classes"].as_array().unwrap();
    near("class", classes.iter().find(class).unwrap()["used"].as_f64().unwrap(), blocks);
    let resident = report["groups"].as_array().unwrap();
    let resident = resident.iter().find(|group| group["kind"] == "allocator").unwrap();
    assert!(resident["rss"].as_f64().unwrap() > 0.9 * blocks * size, "{resident}");
}

/// jemalloc and mimalloc, where they are installed. mimalloc 3 has other structures, which are not read.
fn readable_allocators() -> Vec<String> {
    let list = json(&run(&["list", "--json"]));
    let is_read = |name: &String| {
        let version = |known: &Value| known["version"].as_str().unwrap_or_default().to_owned();
        let known = list["allocators"].as_array().unwrap().iter().find(|a| a["name"] == **name);
        match name.as_str() {
            "jemalloc" => true,
            "mimalloc" => !version(known.unwrap()).starts_with("3."),
            _ => false,
        }
    };
    crate::common::installed_allocators().into_iter().filter(is_read).collect()
}

#[test]
fn other_allocators_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = known_heap(folder.path());
    let installed = readable_allocators();
    // Blocks of 200 bytes are of this size there.
    for (name, size) in [("jemalloc", 224.0), ("mimalloc", 224.0)] {
        if !installed.iter().any(|other| other == name) {
            eprintln!("skipped: {name} is not installed");
            continue;
        }
        let program = |case| {
            let path = path.to_str().unwrap();
            Program::at_rest(&mut mallow(&["run", "-a", name, "--", path, case]))
        };
        let leaks = program("leaks");
        let report = leaks.explain();
        check_sums(&report);
        assert_eq!(report["allocator"], name);
        spans_are_near(&report, leaks.own("blocks"), size);
        let ran = run(&["stats", &leaks.pid(), "--json"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let arenas = &report["heap"]["arenas"];
        let allocated = json(&ran)["stats"]["totals"]["allocated"].as_f64();
        assert_eq!(allocated, Some(sum(arenas, "small") + sum(arenas, "large")), "{name}");
        assert!(!findings(&report).contains(&"MLW2401"), "it shows all");
        // Nine of ten blocks are free.
        let holes = program("holes");
        let arenas = &holes.explain()["heap"]["arenas"];
        let used = sum(arenas, "small") + sum(arenas, "large");
        // jemalloc counts what waits in the caches of threads.
        let cached = if name == "jemalloc" { 2e6 } else { 0.0 };
        let own = holes.own("bytes") - 8.0 * holes.own("blocks");
        assert!(used > 0.97 * own && used < 1.03 * own + cached, "{name}: {used} against {own}");
    }
}

#[test]
fn heaps_of_others_that_change_all_the_time_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = known_heap(folder.path());
    let installed = readable_allocators();
    if installed.is_empty() {
        eprintln!("skipped: neither jemalloc nor mimalloc is installed");
    }
    for name in installed {
        let arguments = ["run", "-a", &name, "--", path.to_str().unwrap(), "race"];
        let program = Program::start(&mut mallow(&arguments));
        let own = program.own("bytes") - 8.0 * program.own("blocks");
        let report = program.explain();
        let arenas = &report["heap"]["arenas"];
        let used = sum(arenas, "small") + sum(arenas, "large");
        let cached = if name == "jemalloc" { 4e6 } else { 0.0 };
        assert!(used > 0.9 * own && used < 1.1 * own + cached, "{name}: {used} against {own}");
    }
}

#[test]
fn allocators_that_cannot_be_read_are_named() {
    let known = |name: &&String| name.starts_with("tcmalloc") || name.starts_with("tbbmalloc");
    let installed = crate::common::installed_allocators();
    let Some(name) = installed.iter().find(known) else {
        eprintln!("skipped: neither tcmalloc nor tbbmalloc is installed");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let program = known_heap(folder.path());
    let arguments = ["run", "-a", name, "--", program.to_str().unwrap(), "leaks"];
    let program = Program::at_rest(&mut mallow(&arguments));
    let report = program.explain();
    check_sums(&report);
    assert_eq!(report["allocator"], name.as_str());
    assert!(report["heap"]["rss"].as_f64().unwrap() > 40e6);
    assert!(findings(&report).contains(&"MLW2401"));
}

#[test]
fn process_is_neither_stopped_nor_changed() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::at_rest(Command::new(known_heap(folder.path())).arg("holes"));
    let read =
        |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", program.pid())).unwrap();
    // Switches of the CPU, faults, and what is resident of each mapping.
    let switches = |text: String| -> Vec<String> {
        text.lines().filter(|line| line.contains("switches")).map(str::to_owned).collect()
    };
    let resident = |text: String| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("Rss")).map(str::to_owned).collect()
    };
    let before = (switches(read("status")), resident(read("smaps")), read("maps"));
    program.explain();
    assert_eq!(before, (switches(read("status")), resident(read("smaps")), read("maps")));
}

#[test]
fn stopped_process_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::at_rest(Command::new(known_heap(folder.path())).arg("holes"));
    let pid = nix::unistd::Pid::from_raw(program.child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    near("stopped", glibc_used(&program.explain()), program.own("bytes"));
    let text = run(&["explain", &program.pid()]).stdout;
    assert!(text.contains("(1 thread, malloc by glibc)"), "{text}");
    assert!(std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T "));
}

#[test]
fn saved_picture_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::at_rest(Command::new(known_heap(folder.path())).arg("threads"));
    let saved = folder.path().join("saved");
    let saved = saved.to_str().unwrap();
    let live = run(&["explain", &program.pid(), "--save", saved, "--quiet"]);
    assert_eq!(live.code, Some(0), "{}", live.stderr);
    drop(program);
    let again = run(&["explain", saved]);
    assert_eq!((again.code, &again.stdout), (Some(0), &live.stdout));
    let page = run(&["explain", saved, "--format", "html"]);
    assert!(page.stdout.contains("Map of the address space") && page.stdout.contains("MLW2101"));
    assert!(!page.stdout.contains("http://") && !page.stdout.contains("<script"));
    // The kernel's files alone still name the mappings.
    std::fs::remove_file(format!("{saved}/report.json")).unwrap();
    let rest = json(&run(&["explain", saved, "--json"]));
    assert_eq!(rest["totals"]["threads"], 11);
    assert!(rest["notes"][0].as_str().unwrap().contains("not the heap"));
    std::fs::write(format!("{saved}/report.json"), "{}").unwrap();
    refuses(&["explain", saved], 7, &["report.json", "no schema"]);
    std::fs::write(format!("{saved}/report.json"), "{").unwrap();
    refuses(&["explain", saved], 7, &["report.json"]);
}

#[test]
fn what_cannot_be_read_is_said() {
    refuses(&["explain", "4194303"], 7, &["no process 4194303"]);
    refuses(&["explain", "/nowhere"], 2, &["/nowhere", "neither"]);
    let folder = tempfile::tempdir().unwrap();
    refuses(&["explain", folder.path().to_str().unwrap()], 7, &["smaps is missing"]);
    if !crate::common::is_root() {
        refuses(&["explain", "1"], 5, &["somebody else"]);
        return;
    }
    let program = Program::at_rest(Command::new(known_heap(folder.path())).arg("threads"));
    let tool = folder.path().join("mallow");
    std::fs::copy(mallow(&[]).get_program(), &tool).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), mode).unwrap();
    let nobody = |program: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(program);
        command
    };
    let says = |pid: &str, what: &str| {
        let ran = ran(nobody(&tool).args(["explain", pid]).output().unwrap());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
    };
    says(&program.pid(), "belongs to somebody else");
    let source = "#include <stdio.h>\n#include <sys/prctl.h>\n#include <unistd.h>\n\
        int main(void) { prctl(PR_SET_DUMPABLE, 0); puts(\"{}\"); fflush(stdout); pause(); }";
    let hidden = crate::common::compile("cc", folder.path(), source, &["-O0"]).unwrap();
    let hidden = Program::start(&mut nobody(&hidden));
    says(&hidden.pid(), "is yours, but it does not let");

    // Root without the right to trace, as in a container.
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-all"]).arg(&tool).args(["explain", &hidden.pid()]);
    let ran = ran(command.output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("though mallow runs as root"), "{}", ran.stderr);
}

#[test]
fn python_is_told_what_helps_python() {
    let script = "x = [(i, i) for i in range(600000)]\nprint('{}', flush=True)\n\
                  import signal; signal.pause()";
    let mut command = Command::new("python3");
    if command.arg("--version").output().is_err() {
        eprintln!("skipped: python3 is not installed");
        return;
    }
    let program = Program::at_rest(Command::new("python3").args(["-c", script]));
    let report = program.explain();
    assert_eq!(report["runtime"], "python");
    let found = report["findings"].as_array().unwrap();
    let own =
        found.iter().find(|finding| finding["id"] == "MLW2501").expect("most is Python's own");
    let remedy = own["remedy"].as_str().unwrap();
    assert!(remedy.contains("tracemalloc") && !remedy.contains("-Xmx"), "{remedy}");
}

#[test]
fn findings_are_explained() {
    let ran = run(&["help", "MLW2101"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.stdout.contains("MALLOC_ARENA_MAX"));
    assert!(run(&["help", "explain"]).stdout.contains("PID"));
    assert!(run(&["help"]).stdout.contains("compare"));
    let list = run(&["help", "findings"]).stdout;
    assert!(list.contains("MLW2101  arenas of glibc") && list.contains("MLW2504"), "{list}");
    refuses(&["help", "MLW9999"], 2, &["MLW9999"]);
}

/// The kernel knows of no memory of its main thread's any more, but the process has it.
#[test]
fn a_process_whose_main_thread_has_ended_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
        #include <string.h>\n#include <unistd.h>\n\
        static void *work(void *none) { memset(malloc(10 << 20), 1, 10 << 20);\n\
        pthread_join(*(pthread_t *)none, NULL); puts(\"{}\"); fflush(stdout); pause(); return none; }\n\
        int main(void) { static pthread_t self, thread; self = pthread_self();\n\
        pthread_create(&thread, NULL, work, &self); pthread_exit(NULL); }";
    let flags = ["-O0", "-pthread"];
    let program = crate::common::compile("cc", folder.path(), source, &flags).unwrap();
    let program = Program::start(&mut Command::new(program));
    let report = json(&run(&["explain", "--json", &program.pid()]));
    near("in use", glibc_used(&report), f64::from(10 << 20));
    for verb in ["stats", "verify", "advise"] {
        let said = run(&[verb, &program.pid()]);
        assert_eq!(said.code, Some(0), "{verb}: {}", said.stderr);
    }
    let watched = json(&run(&["watch", "-d", "100ms", "-i", "50ms", "--json", &program.pid()]));
    assert!(watched["summary"]["rss"]["end"].as_f64() > Some(10e6), "{watched}");
    let rows = json(&run(&["top", "--once", "--json", "--pid", &program.pid()]));
    assert!(rows.to_string().contains("\"glibc\""), "{rows}");
}

/// A file of 64 MiB that the kernel swaps to, if it may.
struct Swap(PathBuf);

impl Swap {
    fn on(folder: &Path) -> Option<Swap> {
        let path = folder.join("swap");
        std::fs::write(&path, vec![0; 64 << 20]).unwrap();
        let works = |program: &str| {
            Command::new(program).arg(&path).output().is_ok_and(|output| output.status.success())
        };
        (works("mkswap") && works("swapon")).then(|| Swap(path.clone()))
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).status();
    }
}

/// It sends all of its memory there itself.
#[test]
fn a_heap_that_is_swapped_out_is_known_by_its_figures() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_swap) = Swap::on(folder.path()) else {
        println!("skipped: no memory can be swapped out here");
        return;
    };
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
        #include <sys/mman.h>\n#include <unistd.h>\n\
        int main(void) { for (int i = 0; i < 40000; i++) memset(malloc(448), i, 448);\n\
        puts(\"{}\"); fflush(stdout);\n\
        FILE *maps = fopen(\"/proc/self/maps\", \"r\"); char line[4096], perms[8]; \
        unsigned long start, end;\n\
        while (fgets(line, sizeof line, maps) != NULL)\n\
        if (sscanf(line, \"%lx-%lx %7s\", &start, &end, perms) == 3 && perms[1] == 'w')\n\
        madvise((void *)start, end - start, 21);\n\
        pause(); }";
    let program = crate::common::compile("cc", folder.path(), source, &["-O0"]).unwrap();
    let mut command = mallow(&["run", "--quiet", "--", program.to_str().unwrap()]);
    let program = Program::start(&mut command);
    let status = format!("/proc/{}/status", program.pid());
    let swapped = || {
        let text = std::fs::read_to_string(&status).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmSwap:")).unwrap().to_owned();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    while swapped() < 14 << 10 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let report = json(&run(&["explain", "--json", &program.pid()]));
    near("in use", mallow_used(&report), 40_000.0 * 448.0);
    assert!(swapped() > 8 << 10, "the heap is left where it is");
}

/// Names of files are any bytes, also where a number could stand. A program with a line feed in its name is
/// the program still.
#[test]
fn names_of_any_bytes_are_taken() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"a \n\xff"));
    std::fs::create_dir(&odd).unwrap();
    let sleep = odd.join("sl\neep");
    std::fs::copy("/bin/sleep", &sleep).unwrap();
    let mut target = Command::new(&sleep).arg("60").spawn().unwrap();
    let is_started = || std::fs::read_link(format!("/proc/{}/exe", target.id())).unwrap() == sleep;
    while !is_started() {}
    let pid = target.id().to_string();
    let saved = mallow(&["explain", &pid, "--json", "--save"]).arg(odd.join("saved")).output();
    target.kill().unwrap();
    target.wait().unwrap();
    let saved = ran(saved.unwrap());
    assert_eq!(saved.code, Some(0), "{}", saved.stderr);
    assert!(saved.stdout.contains("\"program\""), "{}", saved.stdout);
    let read = ran(mallow(&["explain"]).arg(odd.join("saved")).output().unwrap());
    assert_eq!(read.code, Some(0), "{}", read.stderr);
    assert!(read.stdout.contains("program file"), "{}", read.stdout);
    for verb in ["stats", "advise"] {
        let read = ran(mallow(&[verb]).arg(odd.join("none")).output().unwrap());
        assert!(read.stderr.contains("There is no file"), "{verb}: {}", read.stderr);
    }
}
