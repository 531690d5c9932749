// SPDX-License-Identifier: MIT
//! Profiles of the heap that Mallow writes, in `mallow report`, in pprof and in jeprof: the stacks that a
//! full recording of the same program names, with their bytes within the error of sampling.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{build_id, compile_file, hexadecimal, json, mallow, ran, refuses, run};

const PROGRAM: &str = include_str!("programs/holders.cc");
/// Mean distance between two samples, as a power of two.
const LG_SAMPLE: u32 = 12;
const HOLDERS: usize = 5;

struct Profiled {
    folder: tempfile::TempDir,
    program: PathBuf,
    profile: PathBuf,
}

impl Profiled {
    /// `None`, visibly, without a C++ compiler.
    fn new(settings: &str) -> Option<Profiled> {
        Profiled::in_form(settings, "jemalloc")
    }

    fn in_form(settings: &str, form: &str) -> Option<Profiled> {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("holders.cc");
        let flags = ["-g", "-O1", "-Wl,--build-id=sha1"];
        let program = compile_file("g++", &source, PROGRAM, &flags)?;
        let prefix = folder.path().join("out");
        let conf = format!(
            "prof:true,prof_final:true,lg_prof_sample:{LG_SAMPLE},prof_prefix:{},{settings}",
            prefix.display()
        );
        let mut command = mallow(&["run", "--", program.to_str().unwrap()]);
        command.env("MALLOC_CONF", conf).env("MALLOW_CONF", format!("prof_format:{form}"));
        let ran = ran(command.output().unwrap());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let is_profile = |path: &PathBuf| path.extension().is_some_and(|end| end == "heap");
        let profile = files.into_iter().find(is_profile).unwrap();
        Some(Profiled { folder, program, profile })
    }

    fn profile(&self) -> &str {
        self.profile.to_str().unwrap()
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

/// The stacks of most bytes, as `outermost;...;innermost`.
fn top(folded: &str) -> Vec<(String, f64)> {
    let line = |line: &str| {
        let (stack, bytes) = line.rsplit_once(' ').unwrap();
        (stack.to_owned(), bytes.parse().unwrap())
    };
    let mut stacks: Vec<(String, f64)> = folded.lines().map(line).collect();
    stacks.sort_by(|a, b| b.1.total_cmp(&a.1));
    stacks.truncate(HOLDERS);
    stacks
}

/// Five standard deviations.
fn error(bytes: f64) -> f64 {
    5.0 * (bytes * f64::from(1u32 << LG_SAMPLE)).sqrt()
}

/// `store::add_rows` of `...;main;store::add_rows(int)`.
fn function(stack: &str) -> &str {
    stack.rsplit(';').next().unwrap().split('(').next().unwrap()
}

#[test]
fn the_profile_names_the_stacks_of_a_full_recording() {
    let Some(profiled) = Profiled::new("") else { return };
    let trace = profiled.path("trace.mlwt");
    let program = profiled.program.to_str().unwrap();
    let recorded = run(&["record", "--sample", "all", "-o", &trace, "--", program]);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    let truth = run(&["report", &trace, "--folded=leaked"]);
    assert_eq!(truth.code, Some(0), "{}", truth.stderr);
    let truth = top(&truth.stdout);
    assert!(truth[HOLDERS - 1].0.contains("store::add_arrays"), "{truth:?}");

    let folded = run(&["report", profiled.profile(), "--folded"]);
    assert_eq!((folded.code, folded.stderr.as_str()), (Some(0), ""));
    let ours = top(&folded.stdout);
    check(&ours, &truth, "mallow report");
    in_pprof(&profiled, &truth);
    in_jeprof(&profiled, &truth);
}

#[track_caller]
fn check(found: &[(String, f64)], truth: &[(String, f64)], reader: &str) {
    assert_eq!(found.len(), HOLDERS, "{reader}: {found:?}");
    for ((stack, bytes), (true_stack, true_bytes)) in found.iter().zip(truth) {
        assert_eq!(stack, true_stack, "{reader}");
        assert!((bytes - true_bytes).abs() < error(*true_bytes), "{reader}: {bytes} {true_bytes}");
    }
}

/// Functions alone: each reader writes the outermost ones, of the C library, in its own way.
fn functions(stacks: &[(String, f64)]) -> Vec<(String, f64)> {
    stacks.iter().map(|(stack, bytes)| (function(stack).to_owned(), *bytes)).collect()
}

/// `go tool pprof`, which needs no network.
fn in_pprof(profiled: &Profiled, truth: &[(String, f64)]) {
    let file = profiled.path("profile.pb.gz");
    let ran = run(&["report", profiled.profile(), "--pprof", &file]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let Some(text) = traces(profiled, &["-symbolize=none", &file]) else { return };
    assert!(text.contains("Type: inuse_space"), "{text}");
    let id = hexadecimal(&build_id(&profiled.program));
    assert!(text.contains(&format!("Build ID: {id}")), "{text}");
    check(&top_of_traces(&text), &functions(truth), "pprof");
}

/// What pprof prints of a profile; `None`, visibly, without Go.
fn traces(profiled: &Profiled, arguments: &[&str]) -> Option<String> {
    let mut pprof = crate::common::pprof(profiled.folder.path());
    pprof.args(["-traces", "-unit=B"]).args(arguments);
    let Ok(output) = pprof.output() else {
        eprintln!("skipped: pprof: no go");
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Type: "), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}

fn top_of_traces(text: &str) -> Vec<(String, f64)> {
    let mut stacks = Vec::new();
    for block in text.split("-----------+").skip(1) {
        let mut lines =
            block.lines().skip(1).filter(|line| !line.trim_start().starts_with("bytes:"));
        let Some((bytes, innermost)) = lines.next().and_then(|l| l.trim().split_once("B ")) else {
            continue;
        };
        let bytes: f64 = bytes.parse().unwrap();
        // Names of the standard library stand before the program's own.
        let mut all = std::iter::once(innermost).chain(lines).map(str::trim);
        let own = all.find(|name| name.contains("store::")).unwrap_or("");
        stacks.push((function(own).to_owned(), bytes));
    }
    stacks.sort_by(|a, b| b.1.total_cmp(&a.1));
    stacks.truncate(HOLDERS);
    stacks
}

/// In the form of gperftools, which pprof reads without our help.
#[test]
fn profiles_for_pprof_are_read_by_it_by_jeprof_and_here() {
    let Some(profiled) = Profiled::in_form("", "pprof") else { return };
    let folded = run(&["report", profiled.profile(), "--folded"]);
    assert_eq!((folded.code, folded.stderr.as_str()), (Some(0), ""));
    let ours = top(&folded.stdout);
    assert!(ours[0].0.contains("store::add_rows"), "{ours:?}");
    in_jeprof(&profiled, &ours);
    let program = profiled.program.to_str().unwrap();
    let Some(text) = traces(&profiled, &[program, profiled.profile()]) else { return };
    // The pprof that comes with Go names functions of Go alone; that of github.com/google/pprof names these too.
    let bytes = |stacks: &[(String, f64)]| stacks.iter().map(|(_, bytes)| *bytes).collect();
    let (found, expected): (Vec<f64>, Vec<f64>) = (bytes(&top_of_traces(&text)), bytes(&ours));
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 0.001 * b;
    assert!(found.iter().zip(&expected).all(is_near), "{found:?} {expected:?}");
    assert_eq!(found.len(), HOLDERS);
}

fn in_jeprof(profiled: &Profiled, truth: &[(String, f64)]) {
    let mut jeprof = Command::new("jeprof");
    jeprof.arg("--collapsed").arg(&profiled.program).arg(&profiled.profile);
    let Ok(output) = jeprof.output() else {
        eprintln!("skipped: jeprof is not installed");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let mut stacks = top(&text);
    for (stack, _) in &mut stacks {
        let own = stack.split(';').find(|name| name.contains("store::add")).unwrap_or("");
        *stack = own.split(['(', '<']).next().unwrap().to_owned();
    }
    check(&stacks, &functions(truth), "jeprof");
}

#[test]
fn what_was_freed_is_there_if_it_was_counted() {
    let Some(profiled) = Profiled::new("prof_accum:true") else { return };
    let report = json(&run(&["report", profiled.profile(), "--json"]));
    assert_eq!(report["schema"], "mallow.heap/1");
    assert_eq!(report["sample_distance"], 1 << LG_SAMPLE);
    let first = &report["stacks"][0];
    let innermost = first["frames"][0]["function"].as_str().unwrap();
    // 200 strings of 200,001 bytes with their objects: more than any that stay.
    assert!(innermost.contains("pass_through"), "{innermost}");
    assert!(first["allocated"]["bytes"].as_f64().unwrap() > 35e6);
    assert!(first["live"]["bytes"].as_f64().unwrap() < 1e6);
    let text = run(&["report", profiled.profile(), "--by", "leaked"]).stdout;
    let first = text.lines().find(|line| line.starts_with("    ")).unwrap();
    assert!(first.contains("store::add_rows"), "{text}");
    assert!(text.contains("ever asked for"), "{text}");
    let csv = run(&["report", profiled.profile(), "--csv"]).stdout;
    assert!(csv.starts_with("live_bytes,live_blocks,allocated_bytes,allocated_blocks,stack\n"));
}

#[test]
fn other_builds_and_missing_files_are_told_of() {
    let Some(profiled) = Profiled::new("") else { return };
    // Another file in the program's place, with the same bytes: nobody can know that.
    let copy = profiled.path("copy");
    std::fs::copy(&profiled.program, &copy).unwrap();
    std::fs::rename(&copy, &profiled.program).unwrap();
    let text = run(&["report", profiled.profile()]).stdout;
    assert!(text.contains("Names may be wrong: ") && text.contains("store::add_rows"), "{text}");
    // Elsewhere, with its folder given.
    let folder = profiled.path("symbols");
    std::fs::create_dir(&folder).unwrap();
    std::fs::rename(&profiled.program, Path::new(&folder).join("holders")).unwrap();
    let text = run(&["report", profiled.profile()]).stdout;
    assert!(!text.contains("store::add_rows") && text.contains("holders+0x"), "{text}");
    assert!(text.contains("the file is not here"), "{text}");
    let text = run(&["report", profiled.profile(), "--symbols", &folder]).stdout;
    assert!(text.contains("store::add_rows"), "{text}");
}

#[test]
fn damaged_profiles_and_what_they_lack_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.heap");
    std::fs::write(&path, "heap_v2/4096\n  t*: 1: 10 [0: 0]\n").unwrap();
    let cut = path.to_str().unwrap();
    refuses(&["report", cut], 7, &["cut off", "MAPPED_LIBRARIES"]);
    std::fs::write(&path, "heap_v2/4096\n@ 12\n\nMAPPED_LIBRARIES:\n").unwrap();
    refuses(&["report", cut], 7, &["line 2", "not understood"]);
    std::fs::write(&path, "heap_v2/4096\n  t*: 0: 0 [0: 0]\n\nMAPPED_LIBRARIES:\n").unwrap();
    assert_eq!(run(&["report", cut]).code, Some(0));
    for more in [&["--by", "peak"][..], &["--folded=temporary"], &["--csv=sizes"], &["--diff", cut]]
    {
        refuses(&[&["report", cut], more].concat(), 2, &["a profile of the heap", "mallow record"]);
    }
}

#[test]
fn a_profile_goes_through_a_pipe() {
    let Some(profiled) = Profiled::new("") else { return };
    let file = profiled.path("profile.pb.gz");
    let ran = run(&["report", profiled.profile(), "--pprof", &file]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut command = mallow(&["report", "-", "--pprof", "-"]);
    let output = command.stdin(std::fs::File::open(&profiled.profile).unwrap()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, std::fs::read(&file).unwrap());
    let mut command = mallow(&["report", "-"]);
    let trace = std::fs::File::open(&profiled.program).unwrap();
    let output = command.stdin(trace).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A map may name what waits for its other end when it is opened.
#[test]
fn maps_that_name_no_plain_file_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, profile) = (folder.path().join("pipe"), folder.path().join("x.heap"));
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let maps = format!(
        "1000-2000 r-xp 0 00:00 1 {}\n2000-3000 r-xp 0 00:00 1 /dev/zero\n",
        pipe.display()
    );
    let stacks = "@ 0x1001 0x2001\n  t*: 1: 100 [0: 0]\n";
    std::fs::write(&profile, format!("heap_v2/1\n{stacks}\nMAPPED_LIBRARIES:\n{maps}")).unwrap();
    let ran = run(&["report", profile.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("pipe+0x"), "{}", ran.stdout);
}
