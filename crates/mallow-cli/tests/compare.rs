// SPDX-License-Identifier: MIT
//! `mallow compare` measures, judges and reports; what fails, is limited or interrupted is told.

use std::io::{Seek, SeekFrom, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::chance::own_listener;
use crate::common::{compile, json, mallow, ran, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The kernel counts a command together with the copy of mallow that became it: of one that is smaller no peak is
/// known, and no difference is claimed.
#[test]
fn compare_judges_no_peak_that_is_its_own() {
    let compared = |script: &str| {
        let small =
            ["compare", "-a", "glibc,mallow", "-r", "7", "--json", "--", "sh", "-c", script];
        let ran = run(&small);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        json(&ran)["conditions"][0]["entries"][1].clone()
    };
    let entry = compared("true");
    assert!(entry["peak_rss"].is_null() && entry["memory"].is_null(), "{entry}");
    assert!(entry["runs"][0]["peak_rss"].is_null(), "{entry}");
    assert!(entry["peak_rss_below"].as_f64().unwrap() > 1e6, "{entry}");
    let entry = compared("x=$(head -c 30000000 /dev/zero | tr '\\0' a)");
    assert!(entry["peak_rss"]["median"].as_f64().unwrap() > 3e7, "{entry}");
    assert!(entry["peak_rss_below"].is_null() && entry["memory"]["verdict"].is_string(), "{entry}");
}

#[test]
fn compare_measures_and_judges() {
    let arguments =
        ["compare", "-a", "glibc,mallow", "-r", "8", "--seed", "7", "--json", "--", "true"];
    let ran = run(&arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stderr, "", "nothing is drawn off a terminal");
    let report = json(&ran);
    assert_eq!(report["schema"], "mallow.compare/1");
    let entries = report["conditions"][0]["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0]["is_baseline"], true);
    for entry in entries {
        assert_eq!(entry["runs_finished"], 8);
        assert_eq!(entry["runs"].as_array().unwrap().len(), 8);
        let value = &entry["wall_s"];
        let median = value["median"].as_f64().unwrap();
        assert!(median > 0.0);
        assert!(value["interval"]["low"].as_f64().unwrap() <= median);
        assert!(value["max"].as_f64().unwrap() >= median);
    }
    let verdict = entries[1]["time"]["verdict"].as_str().unwrap();
    assert!(["less", "more", "no_difference", "inconclusive"].contains(&verdict));
    assert!(!report["verdict"].as_str().unwrap().is_empty());
    // The two swap places from round to round.
    let places: Vec<i64> = entries[0]["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["place"].as_i64().unwrap())
        .collect();
    assert!(places.contains(&0) && places.contains(&1), "{places:?}");
}

/// A command that reads a file on standard input gets it anew in each run, from where the caller stands in it.
#[test]
fn compare_gives_each_run_the_input_that_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (input, copies) = (folder.path().join("input"), folder.path().join("copies"));
    std::fs::write(&input, "first\nsecond\n").unwrap();
    let script = format!("cat >> '{}'", copies.display());
    let words =
        ["compare", "-a", "glibc,mallow", "-r", "2", "-w", "1", "-q", "--", "sh", "-c", &script];
    let mut file = std::fs::File::open(&input).unwrap();
    file.seek(SeekFrom::Start(6)).unwrap();
    let same = file.try_clone().unwrap();
    let ended = ran(mallow(&words).stdin(file).output().unwrap());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(&copies).unwrap(), "second\n".repeat(6));
    assert_eq!((&same).stream_position().unwrap(), 6, "the caller's place has moved");
}

/// What is piped cannot be read twice, and that is said.
#[test]
fn compare_says_that_a_pipe_is_not_read() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"text\n").unwrap();
    let words =
        ["compare", "-a", "glibc,mallow", "-r", "7", "--", "sh", "-c", "test -z \"$(cat)\""];
    let ended = ran(mallow(&words).stdin(reader).output().unwrap());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("What a pipe brings can be read once"), "{}", ended.stderr);
}

#[test]
fn compare_measures_conditions_and_a_seed_repeats_the_order() {
    // The allocator is the same; the environment of one condition makes the command slow.
    let script = "if [ \"$SLOW\" = 1 ]; then sleep 0.1; fi";
    let mut verdicts = Vec::new();
    let mut order = |seed: &str| {
        let report = json(&run(&[
            "compare", "-a", "glibc", "-r", "12", "--matrix", "SLOW=0,1", "--seed", seed, "--json",
            "--", "sh", "-c", script,
        ]));
        let [fast, slow] = [0, 1].map(|at| report["conditions"][0]["entries"][at].clone());
        assert_eq!(slow["condition"], "SLOW=1");
        // However busy the machine is, a sleep is never shorter than it says.
        assert!(slow["wall_s"]["min"].as_f64().unwrap() >= 0.1, "{slow}");
        // One allocator: what the conditions make of it is what is compared.
        assert_eq!((&fast["is_baseline"], &slow["is_baseline"]), (&true.into(), &false.into()));
        let (of_slow, of_all) = (&slow["time"]["verdict"], report["verdict"].as_str().unwrap());
        verdicts.push((of_slow.as_str().unwrap().to_owned(), of_all.to_owned()));
        let runs = fast["runs"].as_array().unwrap().clone();
        runs.iter().map(|run| run["place"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    let first = order("5");
    assert_eq!(first, order("5"));
    // Two seeds that give one order would be one chance in 4,096.
    assert_ne!(first, order("6"));
    assert!(first.contains(&0) && first.contains(&1), "{first:?}");
    // A machine that stops again and again during one of them proves nothing by it.
    let is_right = |(of_slow, of_all): &(String, String)| {
        of_slow == "more" && of_all.contains("nothing is faster than glibc with SLOW=0")
    };
    assert!(verdicts.iter().any(is_right), "{verdicts:?}");
}

#[test]
fn compare_writes_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result");
    let exported = folder.path().join("result.json");
    for (format, start) in [
        ("csv", "condition,allocator,runs,"),
        ("md", "`true`"),
        ("html", "<!DOCTYPE html>"),
        ("table", "true\n"),
    ] {
        let ran =
            ran(mallow(&["compare", "-a", "glibc,mallow", "-r", "6", "--format", format, "-o"])
                .arg(&file)
                .arg("--export-json")
                .arg(&exported)
                .args(["--", "true"])
                .output()
                .unwrap());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with(start), "{format}: {text}");
        assert!(text.contains("mallow"));
        let report: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&exported).unwrap()).unwrap();
        assert_eq!(report["schema"], "mallow.compare/1");
    }
}

/// Holds 40 MiB for a while and then 10, or 30 and 20 where a library is preloaded.
const LEVELS: &str = "#include <stdlib.h>\n#include <string.h>\n#include <sys/mman.h>\n\
    #include <unistd.h>\n\
    int main(void) { int two = getenv(\"LD_PRELOAD\") != NULL; \
    size_t high = (two ? 30 : 40) << 20, low = (two ? 20 : 10) << 20; \
    char *p = mmap(0, high, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); \
    memset(p, 1, high); usleep(200000); munmap(p + low, high - low); usleep(100000); }\n";

#[test]
fn compare_shows_memory_over_time() {
    let folder = tempfile::tempdir().unwrap();
    let program = crate::common::compile("cc", folder.path(), LEVELS, &["-O1"]).unwrap();
    let exported = folder.path().join("result.json");
    let ran = ran(mallow(&["compare", "-a", "glibc,mallow", "-r", "9", "--timeline"])
        .arg("--export-json")
        .arg(&exported)
        .arg("--")
        .arg(&program)
        .output()
        .unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&exported).unwrap()).unwrap();
    let lines = |entry: usize| report["conditions"][0]["entries"][entry]["timeline"].clone();
    let level =
        |entry: usize, of: &str| lines(entry)[of]["median"].as_f64().unwrap() / f64::from(1 << 20);
    // Program and library are about two more.
    for (entry, peak, end) in [(0, 40.0, 10.0), (1, 30.0, 20.0)] {
        assert!((peak..peak + 4.0).contains(&level(entry, "peak")), "{}", level(entry, "peak"));
        assert!((end..end + 4.0).contains(&level(entry, "end")), "{}", level(entry, "end"));
        let average = level(entry, "average");
        assert!(average > end && average < peak + 4.0, "{average}");
        let points = lines(entry)["points"].as_array().unwrap().len();
        assert!((5..=400).contains(&points), "{points}");
    }
    assert_eq!(lines(1)["peak"]["versus"]["verdict"], "less");
    assert_eq!(lines(1)["end"]["versus"]["verdict"], "more");
    let ratio = lines(1)["end"]["versus"]["ratio"].as_f64().unwrap();
    assert!((ratio - level(1, "end") / level(0, "end")).abs() < 0.05, "{ratio}");
    assert!(ran.stdout.contains("RSS over time") && ran.stdout.contains("Over time "));
}

#[test]
fn commands_that_fail_everywhere_are_refused() {
    let everywhere = "Under every allocator";
    crate::common::refuses(
        &["compare", "-a", "glibc,mallow", "--", "sh", "-c", "exit 3"],
        3,
        &[everywhere, "exit code 3"],
    );
    crate::common::refuses(
        &["compare", "-a", "glibc,mallow", "--", "sh", "-c", "kill -SEGV $$"],
        139,
        &["SIGSEGV"],
    );
    let arguments = ["compare", "-a", "glibc,mallow", "--timeout", "300ms", "--", "sleep", "1000"];
    crate::common::refuses(&arguments, 137, &["did not end in time", "--timeout"]);
    let ignored = run(&["compare", "-i", "-r", "3", "-a", "glibc", "--", "sh", "-c", "exit 3"]);
    assert_eq!(ignored.code, Some(0), "{}", ignored.stderr);
}

/// The script fails in every third run, by a counter in a file.
fn sometimes(failure: &str, extra: &[&str]) -> (crate::common::Ran, serde_json::Value) {
    let folder = tempfile::tempdir().unwrap();
    let counter = folder.path().join("counter");
    std::fs::write(&counter, "0").unwrap();
    let script = format!(
        "read n < {0}; n=$((n + 1)); echo $n > {0}; [ $((n % 3)) != 0 ] || {failure}",
        counter.display()
    );
    let mut arguments = vec!["compare", "-a", "glibc,mallow", "-r", "6", "--json"];
    arguments.extend(extra);
    arguments.extend(["--", "sh", "-c", &script]);
    let ran = run(&arguments);
    let report = json(&ran);
    (ran, report)
}

#[test]
fn failures_in_some_runs_leave_the_others_in_the_report() {
    // One run alone takes all of a time that is long enough for the others.
    for (failure, extra, code, text, failures) in [
        ("exit 5", &[][..], 5, "exit code 5", 4),
        ("kill -ABRT $$", &[], 134, "SIGABRT", 4),
        ("[ $n != 9 ] || sleep 1000", &["--timeout", "10s"], 137, "did not end in time", 1),
    ] {
        let (ran, report) = sometimes(failure, extra);
        assert_eq!(ran.code, Some(code), "{failure}: {}", ran.stderr);
        assert!(ran.stderr.contains(text), "{}", ran.stderr);
        let entries = report["conditions"][0]["entries"].as_array().unwrap();
        let finished: u64 = entries.iter().map(|e| e["runs_finished"].as_u64().unwrap()).sum();
        let failed: u64 = entries
            .iter()
            .flat_map(|e| e["failures"].as_array().unwrap())
            .map(|f| f["count"].as_u64().unwrap())
            .sum();
        assert_eq!((finished, failed), (12 - failures, failures), "{failure}: {report}");
    }
}

/// A script under glibc alone.
fn two_runs(options: &[&str], script: &str) -> crate::common::Ran {
    let begin = ["compare", "-a", "glibc", "-r", "2"];
    run(&[&begin[..], options, &["--", "sh", "-c", script]].concat())
}

#[test]
fn memory_limit_ends_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let end = folder.path().join("end");
    let script = format!(
        "[ $BIG = 0 ] || {{ x=$(head -c 60000000 /dev/zero | tr '\\0' a); sleep 30; : >{}; }}",
        end.display()
    );
    let options = ["-w", "0", "--mem-limit", "30M", "--matrix", "BIG=0,1", "--json"];
    let ran = two_runs(&options, &script);
    assert_eq!(ran.code, Some(137), "{}", ran.stderr);
    let report = json(&ran);
    let entries = &report["conditions"][0]["entries"];
    assert_eq!(entries[0]["runs_finished"], 2);
    let failures = &entries[1]["failures"];
    assert_eq!(failures[0]["outcome"]["kind"], "over_memory", "{report}");
    assert!(!end.exists(), "it came to its end");
}

/// A comparison that is interrupted while its command runs for this time, probes and warm-up
/// counted.
fn interrupted_at(run: u32, arguments: &[&str]) -> crate::common::Ran {
    let folder = tempfile::tempdir().unwrap();
    let [count, waits] = ["count", "waits"].map(|name| folder.path().join(name));
    let script = format!(
        "echo x >> {0}; [ $(wc -l < {0}) = {run} ] && {{ : > {1}; exec sleep 100; }}; true",
        count.display(),
        waits.display()
    );
    let mut child = mallow(&[arguments, &["--", "sh", "-c", &script]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !waits.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before run {run}");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    let ran = ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
    ran
}

#[test]
fn interruption_reports_what_is_finished() {
    let ran = interrupted_at(9, &["compare", "-a", "glibc,mallow", "-r", "500", "--json"]);
    let report = json(&ran);
    let finished = report["conditions"][0]["entries"][0]["runs_finished"].as_u64().unwrap();
    assert!(finished > 0 && finished < 500, "{finished}");
}

#[test]
fn interruption_gives_no_verdict_on_what_was_not_run() {
    // The fourth run after two probes.
    let arguments =
        ["compare", "-a", "glibc,mallow", "--matrix", "A=1,2", "-r", "9", "-w", "0", "--seed", "1"];
    let ran = interrupted_at(5, &arguments);
    let verdict = ran.stdout.lines().last().unwrap();
    assert!(verdict.contains("Not run"), "{}", ran.stdout);
    assert!(!verdict.contains("did not finish") && !verdict.contains("finished"), "{verdict}");
    let each: Vec<&str> = verdict.split("With A=").skip(1).collect();
    assert!(each.len() == 2 && each.iter().all(|text| text.contains("verdict")), "{verdict}");
}

#[test]
fn memory_is_limited_from_the_first_run_on() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
        int main(int n, char **words) { for (int i = 0; i < 100; i++) { \
        memset(malloc(4 << 20), 1, 4 << 20); usleep(10000); } sleep(30); return !fopen(words[1], \"w\"); }\n";
    let Some(program) = compile("cc", folder.path(), source, &["-w"]) else { return };
    let program = program.to_str().unwrap();
    // It would go on to 400 MiB, and write a file at last; each run is ended long before.
    let end = folder.path().join("end");
    let end = end.to_str().unwrap();
    let ran = run(&["compare", "-a", "glibc,mallow", "--mem-limit", "80M", "--", program, end]);
    assert_eq!(ran.code, Some(137), "{}", ran.stderr);
    assert!(ran.stderr.contains("passed the memory limit, so there is nothing"), "{}", ran.stderr);
    assert!(!std::fs::exists(end).unwrap(), "it came to its end");
    // Of a small command the kernel's figure is that of the copy of mallow that became it.
    let small =
        run(&["compare", "-a", "glibc,mallow", "-r", "2", "--mem-limit", "4M", "--", "true"]);
    assert_eq!(small.code, Some(0), "{}", small.stderr);
    let server = format!("sh -c 'echo begin; exec {program} {end}'");
    let arguments = ["--server", &server, "--ready", "never", "--load", "true"];
    let refused =
        run(&[&["compare", "-a", "glibc", "--mem-limit", "80M"][..], &arguments].concat());
    assert_eq!(refused.code, Some(137), "{}", refused.stderr);
    assert!(refused.stderr.contains("Raise --mem-limit"), "{}", refused.stderr);
    assert!(!std::fs::exists(end).unwrap(), "it came to its end");
}

#[test]
fn strict_wants_a_verdict() {
    // Three runs cannot show anything, which is known before and after.
    let arguments = ["compare", "-a", "glibc,mallow", "-r", "3", "--strict", "--", "true"];
    let ran = run(&arguments);
    assert_eq!(ran.code, Some(6), "{}", ran.stderr);
    assert!(ran.stderr.contains("at least 7 runs of each, and --runs says 3"), "{}", ran.stderr);
    assert!(ran.stdout.contains("No verdict: it needs at least 7 runs of each"), "{}", ran.stdout);
    let enough = run(&["compare", "-a", "glibc,mallow", "-r", "8", "--", "true"]);
    assert!(!enough.stderr.contains("verdict") && !enough.stdout.contains("No verdict"));
}

#[test]
fn hooks_run_when_they_should() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let say = |word: &str| format!("echo {word} >> {}", log.display());
    let (setup, prepare, cleanup, command) = (say("s"), say("p"), say("c"), say("x"));
    let options = ["-w", "1", "--setup", &setup, "--prepare", &prepare, "--cleanup", &cleanup];
    let ran = two_runs(&options, &command);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let words: Vec<String> =
        std::fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(words.join(""), "spxpxpxc");
    crate::common::refuses(
        &["compare", "-a", "glibc", "--setup", "exit 4", "--", "true"],
        4,
        &["setup command failed"],
    );
}

#[test]
fn service_is_measured_under_load() {
    let server = "import os,signal,sys,time; print('up', flush=True); time.sleep(1000)";
    if Command::new("python3").args(["-c", "pass"]).status().is_err() {
        eprintln!("skipped: python3 is not installed");
        return;
    }
    let server = format!("python3 -c \"{server}\"");
    let arguments = [
        "compare",
        "-a",
        "glibc,mallow",
        "-r",
        "2",
        "--server",
        &server,
        "--ready",
        "^up$",
        "--matrix",
        "THREADS=3",
        "--load",
        "sleep 0.2; echo tps: 7; echo threads: $THREADS",
        "--value",
        "threads=^threads: ([0-9]+)",
        "--value",
        "none=^x([0-9])",
        "--json",
    ];
    let ran = run(&arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report = json(&ran);
    let entry = &report["conditions"][0]["entries"][1];
    let wall = entry["wall_s"]["median"].as_f64().unwrap();
    // That of the load: the server has 1,000 s of its own.
    assert!((0.2..1000.0).contains(&wall), "{wall}");
    assert!(entry["peak_rss"]["median"].as_f64().unwrap() > 4e6, "the server's memory: {entry}");
    assert_eq!(entry["values"][0]["name"], "threads");
    assert_eq!(entry["values"][0]["metric"]["median"], 3.0, "the load has the matrix: {entry}");
    assert!(entry["values"][1]["metric"].is_null());
    let refused = ["compare", "-a", "glibc", "--server", "true", "--ready", "x", "--load", "true"];
    crate::common::refuses(&refused, 4, &["ended before it was ready"]);
    let refused =
        ["compare", "-a", "glibc", "--timeout", "500ms", "--server", "sleep 100", "--ready", "x"];
    let refused = [&refused[..], &["--load", "true"]].concat();
    crate::common::refuses(&refused, 4, &["was not ready within the 0.5 s of --timeout"]);
}

/// The server prints nothing, and closes what it could print to.
#[test]
fn a_server_is_ready_when_it_takes_connections() {
    if Command::new("python3").args(["-c", "pass"]).status().is_err() {
        eprintln!("skipped: python3 is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let script = folder.path().join("server.py");
    let text = "import os, socket, sys\nos.close(1)\nos.close(2)\nplace = sys.argv[1]\n\
        if place.startswith('/'):\n    if os.path.exists(place): os.unlink(place)\n    \
        server = socket.socket(socket.AF_UNIX)\n    server.bind(place)\n\
        else:\n    server = socket.create_server(('127.0.0.1', int(place)))\nserver.listen()\n\
        while True: server.accept()\n";
    std::fs::write(&script, text).unwrap();
    let free = own_listener();
    let port = free.local_addr().unwrap().port().to_string();
    let words = |place: &str, ready: &str| {
        let server = format!("python3 {} {place}", script.display());
        let options = ["compare", "-a", "glibc,mallow", "-r", "2", "--load", "true"];
        let service = ["--server", &server, "--ready", ready];
        [&options[..], &service].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let refuses = |words: &[String], code, sentence: &str| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = run(&words);
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        assert!(ran.stderr.contains(sentence), "{}", ran.stderr);
    };
    let by_port = words(&port, &format!("port:{port}"));
    refuses(&by_port, 4, "has its place taken");
    drop(free);
    let by_address = words(&port, &format!("127.0.0.1:{port}"));
    let by_path = words(path.to_str().unwrap(), &format!("unix:{}", path.display()));
    for words in [by_port, by_address, words(&port, &port), by_path] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = run(&words);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
    refuses(&words("x", &format!("port:{port}")), 4, "ended before it was ready");
    refuses(&words("x", "port:70000"), 2, "port:70000");
}

/// A database that is killed has to recover, and PostgreSQL then refuses to start again at once.
#[test]
fn a_service_is_asked_to_end_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = folder.path().join("server.sh");
    let text = format!(
        "echo begin >> {log}\ntrap 'echo end >> {log}; exit 0' TERM\necho up\n\
        while :; do sleep 0.05; done\n",
        log = log.display()
    );
    std::fs::write(&script, text).unwrap();
    let server = format!("sh {}", script.display());
    let service = ["--server", &server, "--ready", "^up$", "--load", "true"];
    let ran = run(&[&["compare", "-a", "glibc,mallow", "-r", "2"][..], &service].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let log = std::fs::read_to_string(&log).unwrap();
    let count = |word| log.lines().filter(|line| *line == word).count();
    assert!(count("begin") >= 6, "two looks, and two runs of each: {log}");
    assert_eq!(count("begin"), count("end"), "{log}");
}

#[test]
fn looking_at_a_program_with_threads_does_not_stop_it() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <pthread.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
        static void *work(void *arg) { for (int i = 0; i < 800; i++) { free(malloc(9)); usleep(1000); }\n\
        return arg; }\n\
        int main(void) { pthread_t t[8];\n\
        for (int i = 0; i < 8; i++) pthread_create(&t[i], 0, work, 0);\n\
        for (int i = 0; i < 8; i++) pthread_join(t[i], 0); return 0; }\n";
    let Some(program) = crate::common::compile("cc", folder.path(), source, &["-pthread"]) else {
        return;
    };
    let program = program.to_str().unwrap();
    // The look comes after half a second, in the middle of the work.
    for _ in 0..3 {
        let arguments = ["compare", "-a", "mallow", "-r", "1", "--timeout", "300s", "--", program];
        let ran = run(&arguments);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
}
