// SPDX-License-Identifier: MIT
//! `mallow tune` on a program whose memory depends on one setting: which one is chosen is judged by
//! memory alone, under a limit that the defaults do not keep, so that no time decides a test.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{compile, installed_allocators, json, mallow, ran, refuses, run};
use tempfile::TempDir;

const SOURCE: &str = include_str!("programs/knobs.c");

struct Knobs {
    folder: TempDir,
    program: PathBuf,
}

impl Knobs {
    fn new() -> Option<Knobs> {
        let folder = tempfile::tempdir().unwrap();
        let program = compile("cc", folder.path(), SOURCE, &["-O1", "-pthread"])?;
        Some(Knobs { folder, program })
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn tune(&self, options: &[&str], what: &str) -> Command {
        let program = self.program.to_str().unwrap();
        mallow(&[&["tune", "-q"], options, &["--", program, what]].concat())
    }
}

fn is_installed(name: &str) -> bool {
    let is_there = installed_allocators().iter().any(|known| known == name);
    if !is_there {
        println!("skipped: {name} is not installed");
    }
    is_there
}

/// The setting that keeps the limit is found, and proven to take less memory.
#[track_caller]
fn finds(ran: &crate::common::Ran, setting: &str, variable: &str) {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report = json(ran);
    assert_eq!(report["end"], "found", "{}", report["verdict"]);
    let chosen = report["chosen"].as_u64().unwrap() as usize;
    let entry = &report["entries"][chosen];
    assert!(entry["settings"].as_str().unwrap().contains(setting), "{}", report["verdict"]);
    assert!(report["line"].as_str().unwrap().starts_with(variable), "{}", report["line"]);
    assert_eq!(entry["confirmed"]["memory"]["verdict"], "less", "{entry}");
    assert!(!report["entries"][0]["broken_limits"].as_array().unwrap().is_empty());
}

/// Whether the runs exclude a gain depends on how quiet the machine is; the exit code says which of the
/// two it was.
#[track_caller]
fn ended(ran: &crate::common::Ran) {
    let end = if json(ran)["end"] == "inconclusive" { 6 } else { 0 };
    assert_eq!(ran.code, Some(end), "{}", ran.stderr);
    assert_eq!(ran.stderr.contains("Inconclusive: "), end == 6, "{}", ran.stderr);
}

#[test]
fn glibc_needs_fewer_arenas() {
    let Some(knobs) = Knobs::new() else { return };
    let options = ["-a", "glibc", "-r", "9", "--constraint", "rss<24M", "--json"];
    finds(&ran(knobs.tune(&options, "arenas").output().unwrap()), "arena_max:", "GLIBC_TUNABLES=");
}

#[test]
fn jemalloc_needs_fewer_arenas_or_less_decay() {
    if !is_installed("jemalloc") {
        return;
    }
    let Some(knobs) = Knobs::new() else { return };
    let options = ["-a", "jemalloc", "-r", "9", "--constraint", "rss<80M", "--json"];
    let ran = ran(knobs.tune(&options, "beside").output().unwrap());
    finds(&ran, "dirty_decay_ms:0", "MALLOC_CONF=");
}

/// What the environment sets stays in front of what is found.
#[test]
fn mallow_needs_less_decay() {
    let Some(knobs) = Knobs::new() else { return };
    let page = knobs.path("page");
    let options = ["-a", "mallow", "-r", "9", "--constraint", "rss<80M", "--json", "--html", &page];
    let mut command = knobs.tune(&options, "beside");
    let ran = ran(command.env("MALLOW_CONF", "retain:true,dirty_decay_ms:5000").output().unwrap());
    finds(&ran, "dirty_decay_ms:0", "MALLOW_CONF=retain:true,dirty_decay_ms:0");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("class=\"point chosen\""), "{page}");
}

/// Where the kernel gives huge pages to who asks for them, and to nobody else.
#[test]
fn huge_pages_are_found_where_the_program_needs_them() {
    let kernel = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if !kernel.is_ok_and(|text| text.contains("[madvise]")) {
        println!("skipped: the kernel does not leave it to programs whether they have huge pages");
        return;
    }
    let Some(knobs) = Knobs::new() else { return };
    // Not glibc's hugetlb:1: 2.36 reads `enabled` without a byte for the end, so chance decides in each process
    // whether it takes effect.
    let settings =
        [("jemalloc", "thp:always", "MALLOC_CONF="), ("mallow", "thp:always", "MALLOW_CONF=")];
    for (allocator, setting, variable) in settings {
        // The others are always there.
        if allocator != "jemalloc" || is_installed(allocator) {
            let options = ["-a", allocator, "-r", "9", "--constraint", "rss<80M", "--json"];
            finds(&ran(knobs.tune(&options, "huge").output().unwrap()), setting, variable);
        }
    }
}

#[test]
fn a_limit_that_nothing_keeps_is_3() {
    let Some(knobs) = Knobs::new() else { return };
    let options = ["-a", "mallow", "-r", "9", "--constraint", "rss<1M"];
    let ran = ran(knobs.tune(&options, "plain").output().unwrap());
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains("Nothing keeps the limit"), "{}", ran.stderr);
}

#[test]
fn settings_that_break_the_command_are_left_out() {
    let Some(knobs) = Knobs::new() else { return };
    let ran = ran(knobs.tune(&["-a", "glibc", "--json"], "fail").output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report = json(&ran);
    assert!(report["verdict"].as_str().unwrap().contains("all that works"), "{report}");
    let failure = &report["entries"][1]["failure"];
    assert_eq!(failure, "ended with exit code 3", "{report}");
    // Of the defaults it is the end.
    refuses(&["tune", "-q", "--", "sh", "-c", "exit 9"], 9, &["ended with exit code 9"]);
}

/// A second call with the same state runs the command to look at it, and no more.
#[test]
fn what_was_measured_is_not_measured_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (state, log) = (path("state"), path("log"));
    let script = format!("echo >> {log}");
    let words = ["tune", "-a", "mallow", "-r", "9", "--state", &state, "--json", "--"];
    let tune = |script: &str| run(&[&words[..], &["sh", "-c", script]].concat());
    let runs = || std::fs::read_to_string(&log).unwrap().lines().count();
    let first = tune(&script);
    ended(&first);
    let made = runs();
    assert!(made > 50, "{made}");
    let second = tune(&script);
    ended(&second);
    assert_eq!(runs(), made + 1, "the probe alone");
    assert!(second.stderr.contains("goes on from the "), "{}", second.stderr);
    assert_eq!(json(&first)["entries"], json(&second)["entries"]);
    let other = tune("true");
    assert_eq!(other.code, Some(2), "{}", other.stderr);
    assert!(other.stderr.contains("the command differs"), "{}", other.stderr);
    let cut = std::fs::read_to_string(&state).unwrap();
    std::fs::write(&state, &cut[..cut.len() / 2]).unwrap();
    assert_eq!(tune(&script).code, Some(7));
}

fn record(knobs: &Knobs, name: &str) -> String {
    let trace = knobs.path(name);
    let program = knobs.program.to_str().unwrap();
    let recorded = run(&["record", "-q", "-o", &trace, "--", program, "plain", "rest"]);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    assert!(Path::new(&trace).exists());
    trace
}

/// All blocks are live at the peak, so no setting takes less memory.
#[test]
fn a_recording_is_searched_and_a_second_one_holds_it_to_that() {
    let Some(knobs) = Knobs::new() else { return };
    let (trace, second) = (record(&knobs, "first"), record(&knobs, "second"));
    let words = ["-q", "-r", "9", "--json", "--second", &second];
    let tuned = run(&[&["tune", &trace][..], &words].concat());
    ended(&tuned);
    let report = json(&tuned);
    assert_eq!(
        (&report["confirmed_on"], &report["allocator"]),
        (&"replay".into(), &"glibc".into())
    );
    for entry in report["entries"].as_array().unwrap() {
        let ratio = entry["confirmed"]["memory"]["ratio"].as_f64().unwrap_or(1.0);
        assert!((0.9..1.5).contains(&ratio), "{entry}");
        assert_eq!(entry["confirmed"].is_null(), entry["second"].is_null(), "{entry}");
    }
    let shown = run(&["tune", "-q", "-r", "9", &trace]);
    assert!(shown.stdout.contains("recorded calls alone"), "{}", shown.stdout);
}

/// The budget ends the confirmation on the command, which is the longer part. Where runs take longer than
/// it allows, a larger one is asked for.
#[test]
fn a_command_is_recorded_and_searched_on_its_replay() {
    let Some(knobs) = Knobs::new() else { return };
    let program = knobs.program.to_str().unwrap();
    let tune = |seconds: u32| {
        let budget = format!("{seconds}s");
        let words = ["tune", "--search", "replay", "--budget", &budget, "--json", "--"];
        run(&[&words[..], &[program, "plain", "rest"]].concat())
    };
    let mut budgets = [8, 32, 128, 512].into_iter();
    let tuned = loop {
        let tuned = tune(budgets.next().expect("one run takes ten seconds"));
        if !(tuned.stdout.is_empty() && tuned.stderr.contains("Give --budget")) {
            break tuned;
        }
        assert_eq!(tuned.code, Some(6), "{}", tuned.stderr);
    };
    assert!(matches!(tuned.code, Some(0 | 6)), "{}", tuned.stderr);
    let report = json(&tuned);
    assert_eq!(
        (&report["searched_on"], &report["confirmed_on"]),
        (&"replay".into(), &"command".into()),
        "{report}"
    );
    assert!(tuned.stderr.contains("is recorded"), "{}", tuned.stderr);
    let words = ["tune", "-q", "--search", "replay", "--", "sh", "-c", "exit 9"];
    refuses(&words, 9, &["ended with exit code 9"]);
}

/// What an allocator does not know would be searched beside in silence.
#[test]
fn settings_to_begin_with_that_are_not_known_are_told() {
    refuses(&["tune", "-q", "--opt", "nosuch:1", "--", "true"], 2, &["no tunable nosuch"]);
    refuses(&["tune", "-q", "-a", "mallow", "--opt", "nosuch:1", "--", "true"], 2, &["nosuch"]);
    for name in ["jemalloc", "mimalloc", "tcmalloc"].into_iter().filter(|name| is_installed(name)) {
        let words = ["tune", "-a", name, "--opt", "nosuch:1", "--", "sh", "-c", "exit 9"];
        let ran = run(&words);
        assert_eq!(ran.code, Some(9), "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains("have the option nosuch, and"), "{name}: {}", ran.stderr);
    }
}

/// As Debian's redis-server is: the settings of glibc would be searched in vain.
#[test]
fn a_program_that_is_linked_with_another_allocator_is_not_tuned_for_glibc() {
    let folder = tempfile::tempdir().unwrap();
    let listed = json(&run(&["list", "--json"]));
    let all = listed["allocators"].as_array().unwrap().iter();
    let file = all.filter(|one| one["name"] == "jemalloc").find_map(|one| one["path"].as_str());
    let Some(library) = file else { return println!("skipped: jemalloc is not installed") };
    let flags = ["-O0", "-Wl,--no-as-needed", library];
    let source = "int main(void) { }\n";
    let Some(program) = compile("cc", folder.path(), source, &flags) else { return };
    let program = program.to_str().unwrap();
    refuses(&["tune", "-q", "--", program], 4, &["is served by jemalloc", "-a jemalloc"]);
    refuses(&["tune", "-q", "-a", "glibc", "--", program], 4, &["of glibc have no effect"]);
}

#[test]
fn huge_pages_of_mallow_are_searched() {
    let ran = run(&["tune", "-q", "-a", "mallow", "-r", "9", "--json", "--", "true"]);
    ended(&ran);
    let report = json(&ran);
    let entries = report["entries"].as_array().unwrap();
    for setting in ["thp:always", "thp:false"] {
        let entry = entries.iter().find(|entry| entry["settings"] == setting).expect(setting);
        assert!(entry["standing"] != "not_tried" && entry["failure"].is_null(), "{entry}");
    }
}

#[test]
fn what_cannot_be_tuned_is_refused() {
    let words = ["tune", "-q", "--search", "replay", "--state", "state", "--", "true"];
    refuses(&words, 2, &["mallow record"]);
    assert_eq!(run(&["tune", "--search", "command", "trace"]).code, Some(2));
    refuses(&["tune", "-q", "--budget", "1s", "--", "sleep", "0.4"], 6, &["--budget"]);
    let words = ["tune", "-q", "--budget", "1s", "--prepare", "sleep 0.4", "--", "true"];
    refuses(&words, 6, &["One run takes 4", "ms, --prepare included, and"]);
    refuses(&["tune", "-q", "-a", "musl", "--", "true"], 4, &["musl"]);
    for limit in ["heap<4M", "rss", "rss<many"] {
        let ran = run(&["tune", "--constraint", limit, "--", "true"]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    }
    assert_eq!(run(&["tune"]).code, Some(2));
}

/// A server that frees much and then waits: what it keeps depends on one setting. The load takes the same time
/// under each.
#[test]
fn a_service_is_tuned_under_its_load() {
    let folder = tempfile::tempdir().unwrap();
    let (log, state) = (folder.path().join("log"), folder.path().join("state"));
    let server = "sh -c 'echo begin; echo up; exec sleep 100'";
    let load = format!("echo run >> {}", log.display());
    let tune = |load: &str| {
        let state = state.to_str().unwrap();
        let words = ["tune", "-a", "mallow", "-r", "9", "--json", "--state", state];
        run(&[&words[..], &["--server", server, "--ready", "^up$", "--load", load]].concat())
    };
    let ran = tune(&load);
    ended(&ran);
    let report = json(&ran);
    let command = report["command"].as_str().unwrap();
    assert!(
        command.starts_with("sh -c") && command.contains("under load of: echo run"),
        "{command}"
    );
    assert_eq!(report["confirmed_on"], "command");
    let runs = std::fs::read_to_string(&log).unwrap().lines().count();
    // The probe of the server has no load.
    assert_eq!(Some(runs as u64), report["settings"]["runs_made"].as_u64(), "{report}");
    // Of the server, which is more than the load's shell.
    assert!(report["entries"][0]["confirmed"].is_null() || runs > 50, "{report}");
    let other = tune("true");
    assert_eq!(other.code, Some(2), "{}", other.stderr);
    assert!(other.stderr.contains("the command differs"), "{}", other.stderr);
}

#[test]
fn services_that_cannot_be_tuned_are_refused() {
    let service = ["--server", "sleep 100", "--ready", "up"];
    let refused = |more: &[&str], words: &[&str]| {
        refuses(&[&["tune", "-q"][..], &service, more].concat(), 2, words);
    };
    refused(&["--search", "replay", "--load", "true"], &["record"]);
    refused(&[], &["--load"]);
    assert_eq!(run(&["tune", "--server", "sleep 100", "--load", "true"]).code, Some(2));
    let failing = ["tune", "-q", "-a", "mallow", "--server", "sh -c 'echo up; sleep 100'"];
    let words = [&failing[..], &["--ready", "up", "--load", "exit 9"]].concat();
    refuses(&words, 9, &["ended with exit code 9"]);
    refuses(&["tune", "--prepare", "true", "trace"], 2, &["trace"]);
}

/// The peak of threads on Mallow depends on the CPUs that they happen to be on: one run in lockstep that counts
/// for each round would prove any difference.
#[test]
fn a_trace_is_searched_by_rounds() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let source = include_str!("programs/churn.c");
    let Some(program) = compile("cc", folder.path(), source, &["-O1", "-pthread"]) else { return };
    let trace = path("trace");
    let recorded =
        run(&["record", "-q", "-a", "mallow", "-o", &trace, "--", program.to_str().unwrap()]);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    let short = run(&["tune", "-q", "-a", "mallow", "--budget", "1ms", &trace]);
    assert_eq!(short.code, Some(6), "{}", short.stderr);
    let advice = short.stderr.contains("--budget") && !short.stderr.contains("record");
    assert!(advice, "of a trace: {}", short.stderr);
    let state = path("state");
    ended(&run(&["tune", "-q", "-a", "mallow", "-r", "9", "--json", "--state", &state, &trace]));
    let text = std::fs::read_to_string(&state).unwrap();
    let state: serde_json::Value = serde_json::from_str(&text).unwrap();
    let peaks = |candidate: &serde_json::Value| {
        let trials = state["trials"].as_array().unwrap().iter();
        let own = trials
            .filter(|trial| trial["stage"] == "confirmation" && trial["candidate"] == *candidate);
        own.map(|trial| trial["peak_rss"].as_f64().unwrap() as u64).collect::<Vec<_>>()
    };
    assert_eq!(peaks(&0.into()).len(), 9, "{text}");
}
