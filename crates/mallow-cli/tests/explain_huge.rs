// SPDX-License-Identifier: MIT
//! `mallow explain` on processes that are large, that have reserved much, or that change meanwhile:
//! in bounded memory, and with figures that agree with each other.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::common::program::{Program, Running};
use crate::common::{json, mallow, ran, run};
use serde_json::Value;

fn built(folder: &Path) -> PathBuf {
    let flags = ["-O1", "-fno-builtin", "-pthread"];
    crate::common::compile("cc", folder, include_str!("programs/huge.c"), &flags).unwrap()
}

/// Explains the process with 256 MiB of address space for the tool, programs and libraries
/// included.
#[track_caller]
fn explain_within_bounds(pid: &str) -> Value {
    let tool = mallow(&[]).get_program().to_owned();
    let mut command = Command::new("/bin/sh");
    let script = "ulimit -v 262144 && exec \"$0\" explain \"$1\" --json";
    let ran = ran(command.arg("-c").arg(script).arg(tool).arg(pid).output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    json(&ran)
}

fn sum(of: &Value, field: &str) -> f64 {
    of.as_array().unwrap().iter().map(|each| each[field].as_f64().unwrap()).sum()
}

fn used(report: &Value) -> f64 {
    let arenas = &report["heap"]["arenas"];
    sum(arenas, "used_bytes") - sum(arenas, "fast") - sum(arenas, "cached")
        + report["heap"]["mapped"]["bytes"].as_f64().unwrap()
}

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 0.03 * expected, "{found} against {expected}");
}

fn notes(report: &Value) -> String {
    report["notes"].to_string()
}

#[test]
fn address_space_costs_the_reader_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let program = built(folder.path());
    for (case, tib) in [("reserved", 28.0), ("shadow", 8.0)] {
        for allocator in ["glibc", "mallow"] {
            let path = program.to_str().unwrap();
            let program =
                Program::at_rest(&mut mallow(&["run", "-a", allocator, "--", path, case]));
            let report = explain_within_bounds(&program.pid());
            assert_eq!(report["allocator"], allocator, "{case}");
            near(report["totals"]["virt"].as_f64().unwrap(), tib * f64::from(1 << 20) * 1048576.0);
            if allocator == "glibc" {
                near(used(&report), program.own("bytes"));
            }
            assert_eq!(report["notes"].as_array().unwrap().len(), 0, "{}", notes(&report));
        }
    }
}

#[test]
fn a_large_heap_is_sampled_and_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::at_rest(Command::new(built(folder.path())).arg("blocks"));
    let report = explain_within_bounds(&program.pid());
    near(used(&report), program.own("bytes"));
    assert!(notes(&report).contains("estimated"), "{}", notes(&report));
    let free = sum(&report["heap"]["arenas"], "free_bytes");
    near(used(&report) + free, sum(&report["heap"]["arenas"], "system"));
}

/// The most that a process has had so far; of one that has ended, nothing.
fn peak_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.map_or(0, |peak| peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024)
}

/// All forms at once. With the 65,530 mappings that the kernel allows it would be 256 MiB.
#[test]
fn many_mappings_are_written_in_bounded_memory() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::at_rest(Command::new(built(folder.path())).arg("mappings"));
    let [text, page, saved] = ["text", "page.html", "saved"].map(|name| folder.path().join(name));
    let mut command = mallow(&["explain", &program.pid(), "--all", "--quiet", "-o"]);
    command.arg(&text).arg("--html").arg(&page).arg("--save").arg(&saved);
    let mut tool = Running(command.spawn().unwrap());
    let mut peak = 0;
    while tool.try_wait().unwrap().is_none() {
        peak = peak.max(peak_mib(tool.id()));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(tool.wait().unwrap().success());
    assert!((1..96).contains(&peak), "{peak} MiB");
    let written = |file: &Path, mark: &str| {
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.matches(mark).count() >= 20_000, "{}", file.display());
    };
    written(&text, " r");
    written(&page, "<g>");
    written(&saved.join("smaps"), "\nRss:");
    written(&saved.join("report.json"), "\"perms\"");
    written(&saved.join("report.txt"), " r");
}

/// A heap that grows and shrinks all the time: a figure may be of one moment or another, but not of
/// none.
#[test]
fn figures_of_a_growing_process_fit_together() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::start(Command::new(built(folder.path())).arg("grows"));
    for _ in 0..20 {
        let ran = run(&["explain", &program.pid(), "--json"]);
        // 6: the heap was never at rest, and the report says so.
        assert!(matches!(ran.code, Some(0 | 6)), "{}", ran.stderr);
        let report = json(&ran);
        let totals = &report["totals"];
        let figure = |name: &str| totals[name].as_f64().unwrap();
        assert!(figure("rss") <= figure("peak_rss"), "{totals}");
        assert!(figure("rss") <= figure("virt"), "{totals}");
        assert_eq!(sum(&report["groups"], "rss"), figure("rss"));
        let mappings = report["mappings"].as_array().unwrap();
        let ends = |m: &Value| (m["start"].as_u64().unwrap(), m["end"].as_u64().unwrap());
        let in_order = mappings.windows(2).all(|pair| ends(&pair[0]).1 <= ends(&pair[1]).0);
        assert!(in_order, "mappings lie over each other");
    }
}

/// Memory in huge pages, one byte written in each; of the second half of them all bytes, if `dense`.
const SPARSE: &str = "#include <stdio.h>\n#include <string.h>\n#include <sys/mman.h>\n#include <unistd.h>\n\
    int main(int argc, char **argv) { (void)argv; size_t size = 256u << 20, step = 2u << 20; \
    char *p = mmap(0, size + step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); \
    p += step - (size_t)p % step; madvise(p, size, MADV_HUGEPAGE); \
    for (size_t at = 0; at < size; at += step) p[at] = 1; \
    if (argc > 1) memset(p, 1, size); puts(\"{}\"); fflush(stdout); pause(); }\n";

#[test]
fn huge_pages_that_hold_little_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let program = crate::common::compile("cc", folder.path(), SPARSE, &["-O1"]).unwrap();
    for (words, is_found) in [(&[][..], true), (&["dense"], false)] {
        let process = Program::at_rest(Command::new(&program).args(words));
        let report = json(&run(&["explain", "--json", &process.pid()]));
        if report["totals"]["huge"].as_u64() < Some(200 << 20) {
            println!("skipped: the kernel gives no huge pages here");
            return;
        }
        let findings = report["findings"].to_string();
        assert_eq!(findings.contains("hold zeros alone"), is_found, "{words:?}: {findings}");
        let sparse = &report["sparse"];
        assert!(sparse["looked"].as_u64() >= Some(400), "{sparse}");
        let empty = sparse["empty"].as_u64();
        assert!(if is_found { empty >= Some(400) } else { empty == Some(0) }, "{sparse}");
    }
}
