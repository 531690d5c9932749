// SPDX-License-Identifier: MIT
//! `mallow check` with what runs the tests of other languages as its command: more allocations in one of the tests
//! are found, and nothing else is.

use std::path::Path;
use std::process::Command;

use crate::common::{json, mallow, ran};
use tempfile::TempDir;

const C: &str = "#include <stdlib.h>\n\
    int main(void) { int many = getenv(\"MORE\") ? 1500 : 1000;\n\
    for (int i = 0; i < many; i++) { volatile char *p = malloc(100); p[0] = 1; free((void *)p); } }\n";
const CMAKE: &str = "cmake_minimum_required(VERSION 3.10)\nproject(unit C)\nenable_testing()\n\
    add_executable(unit unit.c)\nadd_test(NAME unit COMMAND unit)\n";
const GO: &str = "package unit\n/*\n#include <stdlib.h>\n\
    static void work(int many) { for (int i = 0; i < many; i++) {\n\
    volatile char *p = malloc(100); p[0] = 1; free((void *)p); } }\n*/\nimport \"C\"\n\
    func Work(many int) { C.work(C.int(many)) }\n";
const GO_TEST: &str = "package unit\nimport (\"os\"; \"testing\")\n\
    func TestWork(t *testing.T) { many := 1000; if os.Getenv(\"MORE\") != \"\" { many = 1500 }; Work(many) }\n";

const CARGO: &str =
    "[package]\nname = \"unit\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
const RUST: &str = "#[test]\nfn work() {\n\
    let many = if std::env::var_os(\"MORE\").is_some() { 30_000 } else { 20_000 };\n\
    for i in 0..many { std::hint::black_box(vec![i as u8; 100]); } }\n";
const PYTEST: &str = "import ctypes, os\nlibc = ctypes.CDLL(None)\n\
    libc.malloc.restype = ctypes.c_void_p\nlibc.free.argtypes = [ctypes.c_void_p]\n\
    def test_work():\n    for _ in range(30000 if 'MORE' in os.environ else 20000):\n        \
    libc.free(libc.malloc(100))\n";

struct Project(TempDir);

impl Project {
    fn new(files: &[(&str, &str)]) -> Project {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Project(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Whether it works; where it does not, the test is skipped visibly.
    fn prepare(&self, words: &[&str]) -> bool {
        let mut command = Command::new(words[0]);
        let output = command.args(&words[1..]).current_dir(self.path()).output();
        match output {
            Ok(output) if output.status.success() => true,
            Ok(output) => {
                println!("skipped: {words:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
                false
            }
            Err(error) => {
                println!("skipped: {}: {error}", words[0]);
                false
            }
        }
    }

    fn check(&self, words: &[&str], more: bool) -> crate::common::Ran {
        let mut command = mallow(&["check", "--json", "-r", "2"]);
        if !words.contains(&"--stacks") {
            command.args(["--stacks", "none"]);
        }
        // Go's own settings and counters go there too, and would make a folder that must not be.
        command.args(words).current_dir(self.path()).env("XDG_CONFIG_HOME", self.path());
        if more {
            command.env("MORE", "1");
        }
        ran(command.output().unwrap())
    }

    /// What equal runs differ in may make it inconclusive, but never a regression.
    #[track_caller]
    fn finds_more(&self, words: &[&str]) {
        let first = self.check(&[&["--update"], words].concat(), false);
        assert_eq!(first.code, Some(0), "{}", first.stderr);
        let same = self.check(words, false);
        assert!(matches!(same.code, Some(0 | 6)), "{}{}", same.stdout, same.stderr);
        let more = self.check(words, true);
        assert_eq!(more.code, Some(3), "{}{}", more.stdout, more.stderr);
        let report = json_of(&more);
        let metrics = report["metrics"].as_array().unwrap();
        let metric = metrics.iter().find(|metric| metric["metric"] == "allocations").unwrap();
        assert_eq!(metric["verdict"], "regressed", "{metric}");
    }
}

/// The command's own output may stand before it.
fn json_of(ran: &crate::common::Ran) -> serde_json::Value {
    let begin = ran.stdout.find("{\n").unwrap_or_else(|| panic!("{}", ran.stdout));
    json(&crate::common::Ran {
        stdout: ran.stdout[begin..].into(),
        stderr: String::new(),
        code: ran.code,
    })
}

#[test]
fn ctest() {
    let project = Project::new(&[("CMakeLists.txt", CMAKE), ("unit.c", C)]);
    if project.prepare(&["cmake", "-S", ".", "-B", "build"])
        && project.prepare(&["cmake", "--build", "build"])
    {
        project.finds_more(&["--process", "unit", "--", "ctest", "--test-dir", "build"]);
    }
}

fn go_project() -> Project {
    let files = [("go.mod", "module example.invalid/unit\ngo 1.18\n"), ("unit.go", GO)];
    Project::new(&[&files[..], &[("unit_test.go", GO_TEST)]].concat())
}

#[test]
fn tests_of_go_with_cgo() {
    let project = go_project();
    if project.prepare(&["go", "test", "-c", "-o", "tests", "."]) {
        // How many threads Go starts differs from run to run, and without stacks they are told from nothing.
        let words = ["--tolerance", "leaks=20", "--tolerance", "rss=1000", "--", "./tests"];
        project.finds_more(&[&["--stacks", "full"], &words[..]].concat());
    }
}

/// The tool itself is static, keeps results, and removes the program that it ran. How many threads Go needs
/// is left out, so that two runs of the same are no matter of luck.
#[test]
fn go_test_with_cgo() {
    let project = go_project();
    if !project.prepare(&["go", "test", "."]) {
        return;
    }
    let words = ["--stacks", "full", "--tolerance", "rss=1000", "--", "go", "test", "."];
    let first = project.check(&[&["--update"], &words[..]].concat(), false);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert!(first.stderr.contains("threads that Go starts"), "{}", first.stderr);
    let baseline = std::fs::read_to_string(project.path().join("mallow.baseline.json")).unwrap();
    let work = |line: &&str| line.contains("Cfunc_work") && line.contains("\"allocations\":1000");
    assert!(baseline.lines().any(|line| work(&line)), "{baseline}");
    let same = project.check(&words, false);
    assert_eq!(same.code, Some(0), "{}{}", same.stdout, same.stderr);
    assert_eq!(json_of(&same)["processes"], serde_json::json!(["unit.test"]));
    let more = project.check(&words, true);
    assert_eq!(more.code, Some(3), "{}{}", more.stdout, more.stderr);
    let changes = json_of(&more)["changes"].clone();
    assert!(changes[0]["stack"].as_str().unwrap().contains("Cfunc_work"), "{changes}");
}

/// The program of the test stays beside the trace, for its names.
#[test]
fn go_test_with_cgo_is_recorded() {
    let project = go_project();
    if !project.prepare(&["go", "test", "."]) {
        return;
    }
    let record = |sample: &str| {
        let words = ["record", "--sample", sample, "--", "go", "test", "."];
        let mut command = mallow(&words);
        command.current_dir(project.path()).env("XDG_CONFIG_HOME", project.path());
        ran(command.output().unwrap())
    };
    for recorded in [record("64K"), record("all")] {
        assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
        assert!(recorded.stderr.contains("mallow.trace.programs"), "{}", recorded.stderr);
    }
    let builds = std::fs::read_dir(project.path().join("mallow.trace.programs")).unwrap();
    assert_eq!(builds.count(), 1, "of the last recording alone");
    let mut report = mallow(&["report", "mallow.trace", "--json", "--top", "1000"]);
    let report = ran(report.current_dir(project.path()).output().unwrap());
    assert!(report.stdout.contains("Cfunc_work"), "{}{}", report.stdout, report.stderr);
}

/// Go without C never calls malloc.
#[test]
fn go_test_without_cgo_is_refused() {
    let files = [("go.mod", "module example.invalid/unit\ngo 1.18\n")];
    let test = "package unit\nimport \"testing\"\nfunc TestNothing(t *testing.T) {}\n";
    let project = Project::new(&[&files[..], &[("unit_test.go", test)]].concat());
    if project.prepare(&["go", "test", "."]) {
        let ran = project.check(&["--update", "--", "go", "test", "."], false);
        assert_eq!(ran.code, Some(4), "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("Go without cgo never calls malloc"), "{}", ran.stderr);
        let mut record = mallow(&["record", "--", "go", "test", "."]);
        record.current_dir(project.path()).env("XDG_CONFIG_HOME", project.path());
        let ran = crate::common::ran(record.output().unwrap());
        assert_eq!(ran.code, Some(4), "{}", ran.stderr);
        assert!(!project.path().join("mallow.trace.programs").exists());
    }
}

#[test]
fn cargo_test() {
    let project = Project::new(&[("Cargo.toml", CARGO), ("src/lib.rs", RUST)]);
    if project.prepare(&["cargo", "test", "--no-run", "--offline"]) {
        project.finds_more(&["--process", "unit-*", "--", "cargo", "test", "--offline", "--lib"]);
    }
}

#[test]
fn pytest() {
    let project = Project::new(&[("test_unit.py", PYTEST)]);
    let words = ["/usr/bin/python3", "-m", "pytest", "-p", "no:cacheprovider", "test_unit.py"];
    if project.prepare(&words) {
        project.finds_more(&[&["--"], &words[..]].concat());
    }
}
