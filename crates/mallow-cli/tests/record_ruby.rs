// SPDX-License-Identifier: MIT
//! Stacks of Ruby: functions and lines of an interpreter that was not prepared for it.

use std::path::Path;

use crate::common::{json, run};

const RUBY: &str = "/usr/bin/ruby3.1";

/// Large enough for malloc: from a method, a block that C calls, a fiber, a thread, evaluated text and
/// a child process; while objects are collected and moved.
const SCRIPT: &str = "\
def rd(n)
  'x' * n
end

class Box
  def fill(n)
    @data = 'b' * n
  end
end

keep = [3].map { |n| rd(n * 1_000_001) }
Box.new.fill(3_000_002)
keep << Fiber.new { rd(3_000_003) }.resume
Thread.new { keep << rd(3_000_004) }.join
keep << eval('rd(3_000_005)', binding, 'made.rb', 40)
GC.compact
20.times { |n| 500.times { keep << 'c' * 700 }; GC.start }
pid = fork { rd(3_000_006); exit!(0) }
Process.wait(pid)
puts keep.size
";

#[test]
fn functions_and_lines_stand_among_the_frames_of_c() {
    if !Path::new(RUBY).exists() {
        eprintln!("skipped: no {RUBY}");
        return;
    }
    for options in [&["--sample", "all"][..], &["--stacks", "fp"]] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (script, trace) = (path("script.rb"), path("t.trace"));
        std::fs::write(&script, SCRIPT).unwrap();
        let mut words = vec!["record", "-o", &trace];
        words.extend(options);
        words.extend(["--", RUBY, "--disable-gems", &script]);
        let recorded = run(&words);
        assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
        let report = json(&run(&["report", &trace, "--json", "-n", "10000"]));
        let stacks: Vec<Vec<String>> =
            report["stacks"].as_array().unwrap().iter().map(frames).collect();
        let has = |expected: &[&str]| {
            let found = stacks.iter().any(|stack| {
                let ours = stack.iter().filter(|frame| frame.contains(".rb:"));
                ours.map(String::as_str).eq(expected.iter().copied())
            });
            assert!(found, "{options:?}: {expected:?} in {stacks:#?}");
        };
        has(&["rd script.rb:2", "block in <main> script.rb:11", "<main> script.rb:11"]);
        has(&["fill script.rb:7", "<main> script.rb:12"]);
        has(&["rd script.rb:2", "block in <main> script.rb:13"]);
        has(&["rd script.rb:2", "block in <main> script.rb:14"]);
        has(&["rd script.rb:2", "<main> made.rb:40", "<main> script.rb:15"]);
        has(&["rd script.rb:2", "block in <main> script.rb:18", "<main> script.rb:18"]);
        assert!(!report["notes"].to_string().contains("Ruby"), "{}", report["notes"]);
        if options == ["--stacks", "fp"] {
            continue;
        }
        // Between the block and its caller runs the map of C, and outermost is the program's begin.
        let stack = stacks.iter().find(|stack| stack.contains(&"rb_yield ?:0".to_owned())).unwrap();
        let at = |name: &str| stack.iter().position(|frame| frame.starts_with(name)).unwrap();
        assert!(at("rb_yield") < at("<main>"), "{stack:#?}");
        assert!(at("<main>") < at("ruby_run_node"), "{stack:#?}");
        assert!(!stack.iter().any(|frame| frame.starts_with("rb_vm_exec")), "{stack:#?}");
    }
}

/// `function file:line` of each, innermost first.
fn frames(stack: &serde_json::Value) -> Vec<String> {
    let frames = stack["frames"].as_array().unwrap().iter().map(|frame| {
        let file = frame["file"].as_str().unwrap_or("?").rsplit('/').next().unwrap();
        let line = frame["line"].as_u64().unwrap_or(0);
        format!("{} {file}:{line}", frame["function"].as_str().unwrap())
    });
    frames.collect()
}

/// `check` names them too.
#[test]
fn a_baseline_has_rubys_functions() {
    if !Path::new(RUBY).exists() {
        eprintln!("skipped: no {RUBY}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("script.rb"), SCRIPT).unwrap();
    let mut check =
        crate::common::mallow(&["check", "--update", "-r", "1", "--", RUBY, "script.rb"]);
    let ran = check.current_dir(folder.path()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let baseline = std::fs::read_to_string(folder.path().join("mallow.baseline.json")).unwrap();
    assert!(baseline.contains("rd (script.rb) < block in <main> (script.rb)"), "{baseline}");
}
