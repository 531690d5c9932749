// SPDX-License-Identifier: MIT
//! `mallow advise` on Ruby and Java in a control group with a quota of CPUs, as containers have: what it advises
//! takes most of the memory away that the runtime's threads left in glibc's arenas.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::program::Program;
use crate::common::{is_root, json, mallow, run};
use serde_json::Value;

/// A control group with one CPU, of either version; it goes with the test.
struct Group(PathBuf);

impl Group {
    fn of_one_cpu(name: &str) -> Option<Group> {
        let skip = |why: &str| {
            println!("skipped: {why}");
            None
        };
        if !is_root() {
            return skip("control groups are made by root");
        }
        let cpus = std::thread::available_parallelism().unwrap().get();
        if cpus < 2 {
            return skip("a quota of one CPU takes nothing from a machine that has one");
        }
        let name = format!("mallow-advise-{name}-{}", std::process::id());
        let limits =
            [("cgroup/cpu", "cpu.cfs_quota_us", "100000"), ("cgroup", "cpu.max", "100000 100000")];
        for (root, limit, value) in limits {
            let group = Group(Path::new("/sys/fs").join(root).join(&name));
            if fs::create_dir(&group.0).is_ok() && fs::write(group.0.join(limit), value).is_ok() {
                return Some(group);
            }
        }
        skip("no control group can be given a quota of CPUs here")
    }

    /// A command that enters the group first.
    fn command(&self, words: &[&str]) -> Command {
        let procs = self.0.join("cgroup.procs");
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ >$0 && exec \"$@\"", procs.to_str().unwrap()]).args(words);
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that was ended leaves it a moment later.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

fn rss(process: &Program) -> f64 {
    json(&run(&["explain", &process.pid(), "--json"]))["totals"]["rss"].as_f64().unwrap()
}

fn ids(report: &Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect()
}

/// The peak that `compare` shows for a value of the variable.
fn peak(compared: &Value, value: usize) -> f64 {
    compared["conditions"][0]["entries"][value]["peak_rss"]["median"].as_f64().unwrap()
}

/// The program in a group of one CPU, as it is and as it is advised; `rule` is the one for its runtime.
fn follow(name: &str, rule: &str, words: &[&str]) {
    if Command::new(words[0]).arg("--version").output().is_err() {
        println!("skipped: {} is not installed", words[0]);
        return;
    }
    let Some(group) = Group::of_one_cpu(name) else { return };
    let before = Program::start(&mut group.command(words));
    let report = json(&run(&["advise", "--json", &before.pid()]));
    let found = ids(&report);
    assert!(found.contains(&"MLW2105") && found.contains(&rule), "{report}");
    let findings = report["findings"].as_array().unwrap();
    let quota = findings.iter().find(|one| one["id"] == "MLW2105").unwrap();
    assert!(quota["evidence"].as_str().unwrap().contains("for 1.0 CPUs"), "{quota}");
    assert_eq!(quota["set"], "MALLOC_ARENA_MAX=2");

    let after = Program::start(group.command(words).env("MALLOC_ARENA_MAX", "2"));
    let (was, is) = (rss(&before), rss(&after));
    assert!(is < 0.8 * was, "{is} of {was} bytes");
    let report = json(&run(&["advise", "--json", &after.pid()]));
    // Nor is it told to have more arenas again.
    for id in ["MLW2104", "MLW2105", rule] {
        assert!(!ids(&report).contains(&id), "{report}");
    }

    // What the advice names as its check, with the same program.
    let mut check = vec!["compare", "--json", "-a", "glibc", "--runs", "2", "--matrix"];
    check.extend(["MALLOC_ARENA_MAX=,2", "--"]);
    check.extend(words);
    check.push("ends");
    let mallow = mallow(&check);
    let words: Vec<&str> = std::iter::once(mallow.get_program())
        .chain(mallow.get_args())
        .map(|word| word.to_str().unwrap())
        .collect();
    let ran = crate::common::ran(group.command(&words).output().unwrap());
    let compared = json(&ran);
    let (was, is) = (peak(&compared, 0), peak(&compared, 1));
    println!("{name}: peak {:.0} MiB, as advised {:.0}", was / 1048576.0, is / 1048576.0);
    assert!(is < 0.8 * was, "{is} of {was} bytes: {compared}");
}

fn program(name: &str) -> String {
    format!("{}/tests/programs/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn ruby_in_a_group_with_a_quota() {
    follow("ruby", "MLW3403", &["ruby", &program("turns.rb")]);
}

#[test]
fn java_in_a_group_with_a_quota() {
    let folder = tempfile::tempdir().unwrap();
    let classes = folder.path().to_str().unwrap();
    // Compiled once: started as a source, it would be compiled each time.
    let compiler = ["-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", classes];
    if let Ok(compiled) = Command::new("java").args(compiler).arg(program("Turns.java")).output() {
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    }
    let flags = ["java", "-Xms32m", "-Xmx32m", "-XX:+UseSerialGC", "-cp", classes, "Turns"];
    follow("java", "MLW3401", &flags);
}
