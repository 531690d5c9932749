// SPDX-License-Identifier: MIT
//! `mallow guard` on native code in the runtimes of languages: the same faults, planted in a program or in
//! a library that the runtime loads, are found and told by their lines.

use std::path::Path;
use std::process::Command;

use crate::common::{mallow, ran};
use tempfile::TempDir;

const C: (&str, &str) = ("plant.c", include_str!("programs/plant.c"));
const CXX: (&str, &str) = ("plant.cc", include_str!("programs/plant.cc"));
const RUST: (&str, &str) = ("plant.rs", include_str!("programs/plant.rs"));
const JAVA: (&str, &str) = ("Plant.java", include_str!("programs/Plant.java"));

/// By its number: the function with the fault, and how the sentence begins.
const FAULTS: [(&str, &str); 4] = [
    ("write_beyond", "overflow of 0x"),
    ("free_twice", "double free of 0x"),
    ("write_freed", "write after free: byte 3 of 0x"),
    ("read_freed", "read after free: byte 3 of 0x"),
];
const ALL: [(&str, usize); 8] = [
    ("debug", 0),
    ("debug", 1),
    ("debug", 2),
    ("debug", 3),
    ("secure", 0),
    ("secure", 1),
    ("secure", 2),
    ("secure", 3),
];
/// Of a library that is loaded in another way.
const SOME: [(&str, usize); 2] = [("debug", 0), ("secure", 1)];
/// Found when the slot is to be used again, whoever asks for it: the calls need not be those of the fault.
const FOUND_LATER: (&str, usize) = ("secure", 2);
/// What the runtimes say of a signal: nothing of it stands above the report.
const OF_RUNTIMES: [&str; 4] =
    ["[BUG]", "A fatal error has been detected", "Segmentation fault", "Fatal Python error"];

/// A source in a folder that the commands run in.
struct Plant {
    folder: TempDir,
    source: (&'static str, &'static str),
}

impl Plant {
    /// `None`, visibly, where the compiler or the runtime is missing.
    fn new(
        source: (&'static str, &'static str),
        build: &[&str],
        runtime: &[&str],
    ) -> Option<Plant> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [source, JAVA] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let is_there = |words: &[&str]| {
            let mut command = Command::new(words[0]);
            let output = command.args(&words[1..]).current_dir(folder.path()).output();
            output.is_ok_and(|output| output.status.success())
        };
        if !is_there(runtime) {
            eprintln!("skipped: {} is not installed", runtime.join(" "));
            return None;
        }
        assert!(is_there(&[build, &[source.0]].concat()), "{build:?} failed");
        Some(Plant { folder, source })
    }

    fn library(name: &str, runtime: &[&str]) -> Option<Plant> {
        let flags = ["cc", "-g", "-O1", "-w", "-fno-builtin", "-shared", "-fPIC", "-o", name];
        Plant::new(C, &flags, runtime)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// The command gets the number of the fault as its last word.
    #[track_caller]
    fn holds(&self, command: &[&str], faults: &[(&str, usize)]) {
        for &(mode, fault) in faults {
            let number = fault.to_string();
            let words = [&["guard", "--mode", mode, "--"], command, &[&number]].concat();
            let ran = ran(mallow(&words).current_dir(&self.folder).output().unwrap());
            let (function, sentence) = FAULTS[fault];
            let what = format!("{mode}, {function}: {}", ran.stderr);
            assert_eq!(ran.code, Some(3), "{what}");
            let ours = ran.stderr.find(&format!("mallow: {sentence}")).expect(&what);
            for said in OF_RUNTIMES {
                assert!(!ran.stderr[..ours].contains(said), "{what}");
            }
            assert!((mode, fault) == FOUND_LATER || self.line_of(&ran.stderr, function), "{what}");
            assert!(ran.stderr.trim_end().ends_with("It was ended by SIGABRT."), "{what}");
        }
        let left = std::fs::read_dir(self.folder.path()).unwrap().flatten();
        let mut names = left.map(|entry| entry.file_name().into_string().unwrap());
        assert!(names.all(|name| !name.starts_with("hs_err") && !name.starts_with("core")));
        let words = [&["guard", "--"], command, &["9"]].concat();
        let ran = ran(mallow(&words).current_dir(&self.folder).output().unwrap());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    }

    /// Whether a call of the function stands there with a line of it.
    fn line_of(&self, report: &str, function: &str) -> bool {
        let (file, text) = self.source;
        let lines: Vec<&str> = text.lines().collect();
        let first = lines.iter().position(|line| line.contains(&format!("{function}("))).unwrap();
        let last = first + lines[first..].iter().position(|line| *line == "}").unwrap();
        let calls = report.lines().filter(|line| line.contains(function));
        let numbers =
            calls.filter_map(|call| call.rsplit_once(&format!("{file}:"))?.1.parse().ok());
        numbers.into_iter().any(|line: usize| (first + 1..=last + 1).contains(&line))
    }
}

fn program_in(folder: &Path) -> String {
    folder.join("plant").to_str().unwrap().to_owned()
}

#[test]
fn faults_of_c_plus_plus_are_told() {
    let build = ["c++", "-g", "-O1", "-w", "-o", "plant"];
    let Some(plant) = Plant::new(CXX, &build, &["c++", "--version"]) else { return };
    plant.holds(&[&program_in(plant.folder.path())], &ALL);
}

#[test]
fn faults_of_rust_are_told() {
    let build = ["rustc", "--edition", "2024", "-g", "-C", "opt-level=1", "-o", "plant"];
    let Some(plant) = Plant::new(RUST, &build, &["rustc", "--version"]) else { return };
    plant.holds(&[&program_in(plant.folder.path())], &ALL);
}

#[test]
fn faults_in_a_library_of_python_are_told() {
    let script = "import ctypes, sys; ctypes.CDLL('./plant.so').plant(int(sys.argv[1]))";
    let Some(plant) = Plant::library("plant.so", &["python3", "-c", "import ctypes"]) else {
        return;
    };
    plant.holds(&["python3", "-c", script], &ALL);
    // It handles SIGSEGV itself, as under pytest.
    plant.holds(&["python3", "-X", "faulthandler", "-c", script], &[("debug", 3)]);
}

#[test]
fn faults_in_an_extension_of_python_are_told() {
    let Some(plant) = Plant::library("plant.so", &["python3", "--version"]) else { return };
    let script = "import plant, sys; plant.plant(int(sys.argv[1]))";
    plant.holds(&["python3", "-c", script], &SOME);
}

/// Its machine handles SIGSEGV as part of its work.
#[test]
fn faults_in_a_library_of_java_are_told() {
    let Some(plant) = Plant::library("plant.so", &["javac", "-version"]) else { return };
    plant.holds(&["java", "Plant.java", &plant.path("plant.so")], &ALL);
}

/// Node sets all handlers back when it starts.
#[test]
fn faults_in_an_add_on_of_node_are_told() {
    let Some(plant) = Plant::library("plant.node", &["node", "--version"]) else { return };
    let script = "require('./plant.node')(Number(process.argv[1]))";
    plant.holds(&["node", "-e", script], &ALL);
}

/// Ruby prints pages about a signal.
#[test]
fn faults_in_a_library_of_ruby_are_told() {
    let Some(plant) = Plant::library("plant.so", &["ruby", "-r", "fiddle", "-e", "0"]) else {
        return;
    };
    let script = "plant = Fiddle.dlopen('./plant.so')['plant']
        Fiddle::Function.new(plant, [Fiddle::TYPE_INT], Fiddle::TYPE_INT).call(ARGV[0].to_i)";
    plant.holds(&["ruby", "-r", "fiddle", "-e", script], &ALL);
}

#[test]
fn faults_in_an_extension_of_ruby_are_told() {
    let Some(plant) = Plant::library("plant.so", &["ruby", "--version"]) else { return };
    plant.holds(&["ruby", "-e", "require './plant.so'; plant(ARGV[0].to_i)"], &SOME);
}
