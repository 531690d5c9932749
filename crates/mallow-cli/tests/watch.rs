// SPDX-License-Identifier: MIT
//! `mallow watch` on programs whose memory over time is known.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::chance::{LONGER, one_succeeds, until};
use crate::common::{Ran, json, refuses, run};
use serde_json::Value;

/// 20 MiB more in each of three steps, 0.4 s apart unless it is told how many ms, and 40 MiB given back in the end.
const STEPS: &str = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
    int main(int count, char **words) { int step = 1000 * (count > 1 ? atoi(words[1]) : 400); \
    char *p[3]; for (int i = 0; i < 3; i++) { p[i] = malloc(20 << 20); \
    memset(p[i], 1, 20 << 20); usleep(step); } free(p[0]); free(p[1]); usleep(step); \
    return 3; }\n";

fn steps(folder: &Path) -> String {
    let program = crate::common::compile("cc", folder, STEPS, &["-O1", "-fno-builtin"]).unwrap();
    program.to_str().unwrap().to_owned()
}

fn mib(value: &Value) -> f64 {
    value.as_f64().unwrap() / f64::from(1 << 20)
}

/// Watches this script until the time is over, which is longer where the script has not written to the file by then;
/// with what it wrote.
#[track_caller]
fn watched(script: &str, file: &Path) -> (Ran, String) {
    one_succeeds(LONGER, |seconds| {
        let time = format!("{seconds}s");
        let ran = run(&["watch", "-d", &time, "-i", "50ms", "--json", "--", "sh", "-c", script]);
        let written = std::fs::read_to_string(file).unwrap_or_default();
        if written.ends_with('\n') { Ok((ran, written)) } else { Err(ran.stderr) }
    })
}

#[test]
fn a_child_that_will_not_end_is_ended_with_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!(
        "sh -c 'trap \"\" TERM; echo $$ > {}; while :; do sleep 0.1; done' & wait",
        file.display()
    );
    let (ran, pid) = watched(&script, &file);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
}

#[test]
fn steps_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let program = steps(folder.path());
    let report = one_succeeds(LONGER, |times| {
        let step = (400 * times).to_string();
        let ran = run(&["watch", "-i", "40ms", "--json", "--", &program, &step]);
        assert_eq!(ran.code, Some(3), "the command's own exit code: {}", ran.stderr);
        let report = json(&ran);
        let rss = &report["summary"]["rss"];
        let (average, peak, end) = (mib(&rss["average"]), mib(&rss["peak"]), mib(&rss["end"]));
        let is_seen = (60.0..64.0).contains(&peak) && (20.0..24.0).contains(&end);
        let is_right = is_seen && average > 25.0 && average < 55.0;
        if is_right { Ok(report) } else { Err(rss.to_string()) }
    });
    assert_eq!(report["schema"], "mallow.watch/1");
    assert_eq!(report["ending"], "ended with exit code 3");
    assert!(report["summary"]["minor_faults"].as_u64().unwrap() > 60 * 256 / 2);
    assert_eq!(report["allocator"], "glibc");
    let used = mib(&report["summary"]["heap_used"]["peak"]);
    assert!((19.0..62.0).contains(&used), "{used}");
}

#[test]
fn children_are_added_up() {
    let folder = tempfile::tempdir().unwrap();
    let program = steps(folder.path());
    one_succeeds(LONGER, |times| {
        let step = 400 * times;
        let script = format!("{program} {step} & {program} {step}; wait; exit 0");
        let report = json(&run(&["watch", "-i", "40ms", "--json", "--", "/bin/sh", "-c", &script]));
        let peak = mib(&report["summary"]["rss"]["peak"]);
        let samples = report["samples"].as_array().unwrap().iter();
        let most = samples.map(|sample| sample["processes"].as_u64()).max().flatten();
        let is_right = (100.0..135.0).contains(&peak) && most >= Some(3);
        if is_right { Ok(()) } else { Err(format!("{peak} MiB, {most:?} processes")) }
    });
}

#[test]
fn every_form_is_written_and_runs_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let program = steps(folder.path());
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (a, b) = (file("a.json"), file("b.json"));
    let table = file("samples.csv");
    let arguments = ["watch", "-i", "50ms", "--save", &a, "--csv", &table, "--", &program];
    let first = run(&arguments);
    let samples = std::fs::read_to_string(&table).unwrap();
    assert!(samples.starts_with("time_s,rss,") && samples.lines().count() > 10, "{samples}");
    assert!(first.stdout.contains("heap used") && first.stdout.contains("average"));
    let csv = run(&[
        "watch", "-a", "mallow", "-i", "50ms", "--save", &b, "--format", "csv", "--", &program,
    ]);
    assert!(csv.stdout.starts_with("time_s,rss,pss,swap,") && csv.stdout.lines().count() > 10);
    let page = run(&["watch", "-i", "50ms", "--format", "html", "--", &program]);
    assert!(page.stdout.contains("stroke-dasharray=\"8 3\""), "lines differ without colour");
    assert!(page.stdout.contains("<polyline") && !page.stdout.contains("<script"));

    let text = run(&["watch", "--compare", &a, &b]);
    assert_eq!(text.code, Some(0), "{}", text.stderr);
    assert!(text.stdout.starts_with("mallow uses "), "{}", text.stdout);
    let data = json(&run(&["watch", "--compare", &a, &b, "--json"]));
    let load = |path: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let of = |run: &Value, figure: &str| run["summary"]["rss"][figure].as_f64().unwrap();
    let (one, two) = (load(&a), load(&b));
    for (index, figure) in ["average", "peak", "end"].into_iter().enumerate() {
        let expected = (of(&two, figure) / of(&one, figure) - 1.0) * 100.0;
        let found = data["differences"][index]["percent"].as_f64().unwrap();
        assert!((found - expected).abs() < 1e-6, "{figure}: {found} {expected}");
    }
    let csv = run(&["watch", "--compare", &a, &b, "--format", "csv"]);
    let peak = format!("\"RSS peak\",{:.0},{:.0},", of(&one, "peak"), of(&two, "peak"));
    assert!(csv.stdout.contains(&peak), "{}", csv.stdout);
    let page = run(&["watch", "--compare", &a, &b, "--format", "html"]);
    assert_eq!(page.stdout.matches("<polyline").count(), 2);
    std::fs::write(&b, "{\"schema\": 1}").unwrap();
    refuses(&["watch", "--compare", &a, &b], 7, &["b.json", "not a run"]);
}

fn is_gone(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.is_empty() || state.contains(") Z ")
}

/// 64 MiB, 2 MiB at a time.
const GROWS: &str = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
    int main(void) { for (int i = 0; i < 32; i++) { memset(malloc(2 << 20), 1, 2 << 20); \
    usleep(50000); } return 0; }\n";

#[test]
fn growth_is_told_as_a_trend() {
    let folder = tempfile::tempdir().unwrap();
    let program =
        crate::common::compile("cc", folder.path(), GROWS, &["-O1", "-fno-builtin"]).unwrap();
    let file = folder.path().join("run.json");
    let saved = file.to_str().unwrap();
    let text = run(&["watch", "-i", "50ms", "--save", saved, "--", program.to_str().unwrap()]);
    assert!(
        text.stdout.contains("trend of RSS") && text.stdout.contains("MiB/s for "),
        "{}",
        text.stdout
    );
    let run: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let trend = &run["summary"]["trend"];
    let grown = trend["bytes_per_s"].as_f64().unwrap() * trend["duration_s"].as_f64().unwrap();
    assert!(grown > 16e6 && grown < 80e6, "{trend}");
}

#[test]
fn command_ends_with_the_watch() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
    let (ran, child) = watched(&script, &file);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(json(&ran)["ending"], "was still running when the time was over");
    until("the command's child is gone", || is_gone(child.trim()).then_some(()));
}

#[test]
fn interrupt_ends_the_watch_and_the_report_is_written() {
    let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
    let arguments = ["watch", &sleeper.id().to_string(), "-i", "50ms"];
    let mut watch = crate::common::mallow(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.by_ref().take(4).all(|line| !line.contains("average")));
    let pid = nix::unistd::Pid::from_raw(watch.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    assert!(rest.iter().any(|line| line.contains("the watch was interrupted")), "{rest:?}");
    assert!(rest.iter().any(|line| line.starts_with(" RSS")), "{rest:?}");
    assert!(sleeper.try_wait().unwrap().is_none());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn watch_ends_with_its_reader() {
    let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
    let arguments = ["watch", &sleeper.id().to_string(), "-i", "20ms"];
    let mut watch = crate::common::mallow(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    drop(watch.stdout.take());
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn running_process_is_left_alone() {
    let mut sleeper = Command::new("sleep").arg("100").stdout(Stdio::null()).spawn().unwrap();
    let pid = sleeper.id().to_string();
    let report = json(&run(&["watch", &pid, "-i", "50ms", "--duration", "400ms", "--json"]));
    assert!(report["ending"].as_str().unwrap().contains("still running"));
    assert_eq!(report["command"], "sleep 100");
    assert!(sleeper.try_wait().unwrap().is_none());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    refuses(&["watch", "4194303"], 7, &["no process 4194303"]);
    refuses(&["watch", "--", "/nowhere/x"], 127, &["/nowhere/x"]);
}

#[test]
fn a_watch_that_is_shorter_than_an_interval_has_a_sample_of_its_end() {
    let mut sleeper = Command::new("sleep").arg("100").stdout(Stdio::null()).spawn().unwrap();
    let pid = sleeper.id().to_string();
    let report = json(&run(&["watch", &pid, "-i", "20s", "--duration", "1s", "--json"]));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let samples = report["samples"].as_array().unwrap();
    let times: Vec<f64> = samples.iter().map(|at| at["time_s"].as_f64().unwrap()).collect();
    assert!(matches!(times[..], [first, last] if first < 1.0 && last > 0.9), "{times:?}");
}

/// The sample at the end is one of them; the name of a process may hold what moves a terminal's cursor.
#[test]
fn a_watch_ends_with_a_sample_and_tells_of_any_name_in_one_line() {
    let mut child = Command::new("bash")
        .args(["-c", "exec -a $'slee\\np\\x1b[31m' sleep 60"])
        .spawn()
        .expect("bash starts");
    let pid = child.id().to_string();
    while !std::fs::read(format!("/proc/{pid}/cmdline")).unwrap().starts_with(b"slee\n") {
        std::thread::sleep(Duration::from_millis(5));
    }
    let watched = run(&["watch", "-d", "600ms", "-i", "600ms", &pid]);
    let explained = run(&["explain", &pid]);
    child.kill().unwrap();
    child.wait().unwrap();
    let name = "slee\\np\\u{1b}[31m 60";
    assert!(watched.stdout.contains(&format!("\n{name} under glibc: ")), "{}", watched.stdout);
    let rows = watched.stdout.lines().take_while(|line| !line.is_empty()).count();
    assert_eq!(rows, 3, "a heading and two samples: {}", watched.stdout);
    let heading = format!("Process {pid}: {name} (1 thread, malloc by glibc)\n");
    assert!(explained.stdout.starts_with(&heading), "{}", explained.stdout);
}

/// A process may take its words away; the kernel has a name for it still.
#[test]
fn a_process_without_a_command_line_is_named() {
    let mut command = Command::new("bash");
    let mut child = command.args(["-c", "exec -a '' bash"]).stdin(Stdio::piped()).spawn().unwrap();
    let pid = child.id().to_string();
    while std::fs::read(format!("/proc/{pid}/cmdline")).unwrap() != b"\0" {
        std::thread::sleep(Duration::from_millis(5));
    }
    let watched = run(&["watch", "-d", "100ms", &pid]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(watched.stdout.contains("\nbash under "), "{}", watched.stdout);
}

/// It is what the figures stop at.
#[test]
fn how_the_command_failed_is_said() {
    let ending = |end: &str| {
        let script = format!("sleep 0.4; {end}");
        let ran = run(&["watch", "-q", "-i", "20ms", "--json", "--", "sh", "-c", &script]);
        (json(&ran)["ending"].as_str().unwrap().to_owned(), ran.code)
    };
    assert_eq!(ending("kill -SEGV $$"), ("was killed by SIGSEGV".into(), Some(139)));
    assert_eq!(ending("exit 3"), ("ended with exit code 3".into(), Some(3)));
    assert_eq!(ending("true"), ("ended".into(), Some(0)));
}
