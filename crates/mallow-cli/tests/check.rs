// SPDX-License-Identifier: MIT
//! `mallow check` on programs whose allocations are known.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::disk::beside_small_disk;
use crate::common::{Ran, compile, json, mallow, ran};
use serde_json::Value;
use tempfile::TempDir;

const SOURCE: &str = include_str!("programs/checked.c");

/// A folder with a program and its baseline.
struct Checked {
    folder: TempDir,
}

impl Checked {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Builds the program anew; what is not given is 10 items, and nothing else.
    fn build(&self, flags: &[&str]) {
        let defaults = ["ITEMS=10", "LEAKED=0", "RANDOM=0", "THREADS=0"];
        let name = |flag: &str| flag.split('=').next().unwrap().to_owned();
        let missing =
            defaults.iter().filter(|default| !flags.iter().any(|f| name(f) == name(default)));
        let flags: Vec<String> =
            missing.chain(flags).map(|definition| format!("-D{definition}")).collect();
        let mut words = vec!["-g", "-O1", "-pthread"];
        words.extend(flags.iter().map(String::as_str));
        compile("gcc", self.folder.path(), SOURCE, &words).expect("gcc is there");
    }

    /// In the folder, where the baseline is and the sources are.
    fn check(&self, words: &[&str]) -> Ran {
        self.check_with(&[], words)
    }

    /// With further variables in the environment.
    fn check_with(&self, variables: &[(&str, &str)], words: &[&str]) -> Ran {
        let command = if words.contains(&"--") { &[][..] } else { &["--", "./program"] };
        let words = [&["check"], words, command].concat();
        let mut check = mallow(&words);
        check.current_dir(self.folder.path()).env_remove("GITHUB_WORKSPACE");
        check.envs(variables.iter().copied());
        ran(check.output().unwrap())
    }

    fn baseline(&self) -> String {
        std::fs::read_to_string(self.path("mallow.baseline.json")).unwrap()
    }
}

/// `None`, visibly, without a compiler.
fn checked(flags: &[&str]) -> Option<Checked> {
    if Command::new("gcc").arg("--version").output().is_err() {
        println!("skipped: gcc is not installed");
        return None;
    }
    let checked = Checked { folder: tempfile::tempdir().unwrap() };
    checked.build(flags);
    Some(checked)
}

#[track_caller]
fn ended(ran: &Ran, code: i32) {
    assert_eq!(ran.code, Some(code), "{}\n{}", ran.stdout, ran.stderr);
}

fn metric<'a>(report: &'a Value, name: &str) -> &'a Value {
    let metrics = report["metrics"].as_array().unwrap();
    metrics.iter().find(|judged| judged["metric"] == name).unwrap()
}

#[track_caller]
fn change<'a>(report: &'a Value, name: &str) -> &'a Value {
    let changes = report["changes"].as_array().unwrap();
    changes.iter().find(|change| change["metric"] == name).unwrap_or_else(|| panic!("{report}"))
}

/// A baseline but for its peak, which threads that meet by chance make larger.
fn without_peak(baseline: &str) -> String {
    let (before, rest) = baseline.split_once("\"peak\": {").unwrap();
    let (_, after) = rest.split_once('}').unwrap();
    format!("{before}{after}")
}

/// Every run reads a file on standard input from where the first one did.
#[test]
fn each_run_reads_the_same_input() {
    let source = "#include <stdio.h>\n#include <stdlib.h>\nchar line[64], *volatile block;\n\
        int main(void) { while (fgets(line, 64, stdin)) block = malloc(100); return block == NULL; }";
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile("gcc", folder.path(), source, &["-O1"]) else { return };
    let (input, baseline) = (folder.path().join("input"), folder.path().join("baseline.json"));
    std::fs::write(&input, "a line\n".repeat(500)).unwrap();
    let check = |words: &[&str]| {
        let mut check = mallow(&["check", "--baseline", baseline.to_str().unwrap()]);
        check.args(words).arg("--").arg(&program).stdin(std::fs::File::open(&input).unwrap());
        ran(check.output().unwrap())
    };
    ended(&check(&["--update", "-r", "1"]), 0);
    let same = check(&["--json", "-r", "3"]);
    ended(&same, 0);
    let report = json(&same);
    let counted = &metric(&report, "allocations")["after"];
    assert_eq!(counted["low"], counted["high"]);
    assert!(counted["low"].as_u64().unwrap() >= 500, "{counted}");
}

/// An update writes the same bytes; so does one after a rebuild that moves code and lines.
#[test]
fn the_same_source_is_ok_and_its_baseline_stable() {
    let Some(checked) = checked(&["THREADS=4"]) else { return };
    ended(&checked.check(&["--update", "-r", "2"]), 0);
    let baseline = checked.baseline();
    assert!(baseline.contains("make_item (program.c) < load (program.c) < main (program.c)"));
    ended(&checked.check(&["--update", "-r", "1"]), 0);
    assert_eq!(without_peak(&checked.baseline()), without_peak(&baseline));

    checked.build(&["THREADS=4", "SHIFTED"]);
    let same = checked.check(&["--json", "-r", "2"]);
    ended(&same, 0);
    let report = json(&same);
    assert_eq!((&report["schema"], &report["verdict"]), (&"mallow.check/1".into(), &"ok".into()));
    // 10 items and 400 of the threads; the C library's own for threads may come on top.
    let counted = metric(&report, "allocations")["after"]["low"].as_u64().unwrap();
    assert!((410..450).contains(&counted), "{report}");
    assert_eq!(report["changes"], Value::Array(Vec::new()), "{report}");
}

#[test]
fn changes_are_judged_and_their_function_named() {
    let Some(checked) = checked(&[]) else { return };
    ended(&checked.check(&["--update", "-r", "1"]), 0);

    checked.build(&["ITEMS=11"]);
    let more = checked.check(&["--json", "-r", "1"]);
    ended(&more, 3);
    let report = json(&more);
    assert_eq!(metric(&report, "allocations")["verdict"], "regressed");
    assert_eq!(metric(&report, "leaks")["verdict"], "ok");
    let calls = change(&report, "allocations");
    assert!(calls["stack"].as_str().unwrap().starts_with("make_item (program.c) < load"));
    assert_eq!((&calls["before"], &calls["after"]["low"]), (&10.into(), &11.into()));
    assert_eq!(calls["file"], "program.c");
    let line = calls["line"].as_u64().unwrap() as usize;
    assert!(SOURCE.lines().nth(line - 1).unwrap().contains("malloc(100"), "{line}");
    // Tolerances hold for this call; what they allow is no regression.
    let words = ["-r", "1", "-t", "allocations=10%,bytes=20%", "-t", "peak=20"];
    ended(&checked.check(&words), 0);
    formats_are_valid(&checked);

    checked.build(&["ITEMS=9"]);
    let fewer = checked.check(&["-r", "1"]);
    ended(&fewer, 0);
    assert!(fewer.stdout.starts_with("Improved against mallow.baseline.json: allocations, bytes"));
    assert!(fewer.stderr.contains("--update"), "{}", fewer.stderr);

    checked.build(&["LEAKED=2"]);
    let leaking = checked.check(&["--json", "-r", "1"]);
    ended(&leaking, 3);
    let report = json(&leaking);
    assert_eq!(metric(&report, "allocations")["verdict"], "ok");
    let leak = change(&report, "leaks");
    assert!(leak["stack"].as_str().unwrap().starts_with("make_item"), "{report}");
    assert_eq!((&leak["before"], &leak["after"]["high"]), (&0.into(), &217.into()));
}

/// Of a program that regressed.
fn formats_are_valid(checked: &Checked) {
    let sarif = checked.check(&["-r", "1", "--format", "sarif"]);
    ended(&sarif, 3);
    let log = json(&sarif);
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "mallow");
    let rules: Vec<&str> =
        driver["rules"].as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap()).collect();
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 3, "{log}");
    for result in results {
        assert!(rules.contains(&result["ruleId"].as_str().unwrap()), "{result}");
        assert_eq!(result["level"], "error");
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["artifactLocation"]["uri"].is_string(), "{result}");
        assert!(place["region"]["startLine"].as_u64().unwrap() > 0, "{result}");
    }

    let github = checked.check(&["-r", "1", "--format", "github"]);
    ended(&github, 3);
    let places =
        github.stdout.lines().filter(|line| line.starts_with("::error file=program.c,line="));
    assert_eq!(places.count(), 2, "{}", github.stdout);

    let junit = checked.path("junit.xml");
    let words = ["-r", "1", "--format", "junit", "-o", junit.to_str().unwrap()];
    ended(&checked.check(&words), 3);
    let script = "import sys, xml.etree.ElementTree as tree\n\
        root = tree.parse(sys.argv[1]).getroot()\n\
        suite = root.find('testsuite')\n\
        cases = suite.findall('testcase')\n\
        failed = [case.get('name') for case in cases if case.find('failure') is not None]\n\
        assert len(cases) == int(suite.get('tests')) == 5, cases\n\
        assert len(failed) == int(suite.get('failures')) == 3, failed\n\
        assert 'make_item' in cases[0].find('failure').text\n";
    match Command::new("python3").args(["-c", script]).arg(&junit).output() {
        Ok(output) => ended(&ran(output), 0),
        Err(_) => println!("skipped: python3 is not installed"),
    }
}

#[test]
fn what_flaps_is_left_out_with_a_note() {
    let Some(checked) = checked(&["ITEMS=2000", "RANDOM=1"]) else { return };
    ended(&checked.check(&["--update"]), 0);
    assert!(checked.baseline().contains("\"allocations\":null"), "{}", checked.baseline());
    let flapping = checked.check(&["--json", "-r", "2"]);
    ended(&flapping, 0);
    let report = json(&flapping);
    let calls = metric(&report, "allocations");
    assert_eq!(calls["left_out_stacks"], 1, "{report}");
    assert_eq!((&calls["before"]["low"], &calls["verdict"]), (&2000.into(), &"ok".into()));
    assert!(report["notes"].to_string().contains("1 stack with"), "{report}");

    // Where most flaps, the rest says nothing.
    checked.build(&["ITEMS=1", "RANDOM=1"]);
    // With fewer runs their random numbers lie apart now and then.
    ended(&checked.check(&["--update", "-b", "other.json", "-r", "5"]), 0);
    let unknown = checked.check(&["-b", "other.json", "-r", "5"]);
    ended(&unknown, 6);
    assert!(unknown.stdout.starts_with("Inconclusive: allocations"), "{}", unknown.stdout);
}

/// Which is not the same where the baseline was written and in CI.
#[test]
fn what_the_environment_makes_is_left_out_where_it_is_another() {
    let Some(checked) = checked(&["ITEMS=500", "COPIED"]) else { return };
    ended(&checked.check(&["--update", "-r", "2"]), 0);
    assert!(!checked.check(&["-r", "2"]).stderr.contains("Left out"));
    let more = [("ONE", "1"), ("TWO", "a longer one")];
    let same = checked.check_with(&more, &["-r", "2"]);
    ended(&same, 0);
    assert!(
        same.stderr.contains("the environment, which is not the baseline's"),
        "{}",
        same.stderr
    );

    checked.build(&["ITEMS=501", "COPIED"]);
    let report = json(&checked.check_with(&more, &["--json", "-r", "2"]));
    assert_eq!(report["verdict"], "regressed");
    let calls = change(&report, "allocations");
    assert!(calls["stack"].as_str().unwrap().starts_with("make_item"), "{report}");

    // Of a program that does nothing else there is nothing to say.
    checked.build(&["ITEMS=1", "COPIED"]);
    ended(&checked.check(&["--update", "-b", "other.json", "-r", "2"]), 0);
    ended(&checked.check(&["-b", "other.json", "-r", "2"]), 0);
    ended(&checked.check_with(&more, &["-b", "other.json", "-r", "2"]), 6);
}

#[test]
fn children_count_and_a_name_chooses_among_them() {
    let Some(checked) = checked(&[]) else { return };
    let command = ["--", "sh", "-c", "./program; ./program; ls /"];
    let all = checked.check(&[&["--update", "--json", "-r", "1"], &command[..]].concat());
    ended(&all, 0);
    let report = json(&all);
    assert!(report["processes"].as_array().unwrap().contains(&"program".into()), "{report}");
    let of_all = metric(&report, "allocations")["after"]["low"].as_u64().unwrap();
    assert!(of_all > 20, "{report}");
    let words = ["--update", "-b", "one.json", "--json", "-r", "1", "--process", "prog*"];
    let one = checked.check(&[&words, &command[..]].concat());
    ended(&one, 0);
    let report = json(&one);
    assert_eq!(report["processes"], serde_json::json!(["program"]));
    assert_eq!(metric(&report, "allocations")["after"]["low"], 20, "{report}");
    let none = checked.check(&[&["--update", "--process", "nobody"], &command[..]].concat());
    ended(&none, 2);
    assert!(none.stderr.contains("nobody") && none.stderr.contains("program"), "{}", none.stderr);
}

/// There is room for the old one alone.
#[test]
fn a_disk_that_is_full_leaves_the_old_baseline() {
    let Some(checked) = checked(&[]) else { return };
    let script = "$MALLOW check -q --update -b disk/b -r 1 -- ./program >&2 || exit 98; \
        cp disk/b before; cat /dev/zero >disk/rest 2>/dev/null; \
        $MALLOW check -q --update -b disk/b -r 1 -- sh -c 'ls /; ./program; sort /dev/null' >&2; \
        code=$?; cmp disk/b before || exit 97; ls -A disk; exit $code";
    let Some(ran) = beside_small_disk(checked.folder.path(), script) else { return };
    assert_eq!((ran.code, &*ran.stdout), (Some(5), "b\nrest\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("baseline cannot be written"), "{}", ran.stderr);
}

/// What the recording held goes with it.
#[test]
fn a_recording_without_room_names_the_folder_to_change() {
    let Some(checked) = checked(&["ITEMS=20000"]) else { return };
    let script = "head -c 252k /dev/zero >disk/rest; export TMPDIR=$PWD/disk; \
        $MALLOW check --update -r 1 -- ./program >&2; code=$?; \
        $MALLOW tune --search replay -- ./program >&2; [ $? -eq $code ] || exit 97; exit $code";
    let Some(ran) = beside_small_disk(checked.folder.path(), script) else { return };
    assert_eq!(ran.code, Some(5), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("(set TMPDIR to a folder with more room)").count(), 2);
    assert!(!ran.stderr.contains("calls are in"), "{}", ran.stderr);
}

#[test]
fn what_is_wrong_is_said_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let checked = Checked { folder };
    let sentence = |ran: &Ran, code: i32, word: &str| {
        ended(ran, code);
        assert_eq!((ran.stdout.as_str(), ran.stderr.lines().count()), ("", 1), "{}", ran.stderr);
        assert!(ran.stderr.contains(word), "{word}: {}", ran.stderr);
    };
    sentence(&checked.check(&["--", "true"]), 2, "--update");
    sentence(&checked.check(&["--update", "--", "./nothing"]), 127, "nothing");
    let failing = ["--update", "--", "sh", "-c", "exit 9"];
    sentence(&checked.check(&failing), 9, "exit code 9 in run 1 of 7");
    assert!(!checked.path("mallow.baseline.json").exists());
    let killed = ["--update", "--", "sh", "-c", "kill -9 $$"];
    sentence(&checked.check(&killed), 137, "SIGKILL");
    ended(&checked.check(&["-t", "speed=5%", "--", "true"]), 2);

    let first = checked.check(&["--update", "-r", "1", "--", "true"]);
    ended(&first, 0);
    assert!(first.stdout.starts_with("mallow.baseline.json is written; there"), "{}", first.stdout);
    let second = checked.check(&["--update", "-r", "1", "--", "true"]);
    assert!(!second.stdout.contains("is written;"), "{}", second.stdout);
    sentence(&checked.check(&["--depth", "9", "--", "true"]), 2, "8 frames");
    sentence(&checked.check(&["--stacks", "fp", "--", "true"]), 2, "--stacks full");
    let good = checked.baseline();
    let write = |text: &str| std::fs::write(checked.path("mallow.baseline.json"), text).unwrap();
    write(&good.replace("\"libc\": \"glibc\"", "\"libc\": \"musl\""));
    let other = checked.check(&["-r", "1", "--", "true"]);
    assert!(other.stderr.contains("the libc was musl and is glibc"), "{}", other.stderr);
    let half = &good[..good.len() / 2];
    let newer = good.replace("mallow.baseline/1", "mallow.baseline/2");
    let mut turned: Value = serde_json::from_str(&good).unwrap();
    turned["metrics"]["bytes"] = serde_json::json!({"low": 9, "high": 8});
    let turned = turned.to_string();
    for damaged in [half, "", "{}", "{\"schema\": \"other/1\"}", &newer, &turned] {
        write(damaged);
        for words in [&["--", "true"][..], &["--update", "--", "true"]] {
            sentence(&checked.check(words), 7, "no baseline of mallow check");
        }
        assert_eq!(checked.baseline(), damaged, "nothing else is overwritten");
    }
}

#[test]
fn a_python_program_is_the_same_twice() {
    if !Path::new("/usr/bin/python3").exists() {
        println!("skipped: /usr/bin/python3 is not installed");
        return;
    }
    let checked = Checked { folder: tempfile::tempdir().unwrap() };
    let command = ["--", "/usr/bin/python3", "-I", "-S", "-c", "print(len([0] * 100_000))"];
    let words = ["--stacks", "fp", "-r", "2"];
    ended(&checked.check(&[&["--update"], &words[..], &command].concat()), 0);
    let same = checked.check(&[&["--json"], &words[..], &command].concat());
    ended(&same, 0);
    assert!(same.stderr.contains("100000"), "what it prints is shown: {}", same.stderr);
    assert!(metric(&json(&same), "bytes")["after"]["low"].as_u64().unwrap() > 800_000);
}

/// As Python's print does. What is printed is shown once all the same.
#[test]
fn runs_are_equal_though_the_program_looks_at_its_output() {
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <sys/stat.h>\n\
                  int main(void) { struct stat at; fstat(1, &at); puts(\"printed\");\n\
                  for (int n = S_ISCHR(at.st_mode) ? 100 : 1; n > 0; n--)\n\
                  if (!malloc(1000)) return 1;\n  return 0; }\n";
    let checked = Checked { folder: tempfile::tempdir().unwrap() };
    if compile("cc", checked.folder.path(), source, &["-O0"]).is_none() {
        return;
    }
    let first = checked.check(&["--update", "-r", "2"]);
    ended(&first, 0);
    let same = checked.check(&["--json", "-r", "2"]);
    ended(&same, 0);
    assert_eq!(same.stderr.matches("printed").count(), 1, "{}", same.stderr);
    assert!(!same.stderr.contains("Left out"), "{}", same.stderr);
}

/// A runner of tests looks into the folder where the baseline is.
#[test]
fn the_baseline_is_there_while_it_is_measured() {
    let Some(checked) = checked(&[]) else { return };
    let list = ["--", "ls", "."];
    let first = checked.check(&[&["--update"][..], &list].concat());
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let again = checked.check(&list);
    assert_eq!(again.code, Some(0), "{}{}", again.stdout, again.stderr);
}

#[test]
fn no_baseline_is_left_where_none_could_be_measured() {
    let Some(checked) = checked(&[]) else { return };
    let ran = checked.check(&["--update", "--", "./no-such-program"]);
    assert_ne!(ran.code, Some(0));
    assert!(!checked.path("mallow.baseline.json").exists());
}
