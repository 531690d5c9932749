// SPDX-License-Identifier: MIT
//! `mallow guard`: one planted fault each, found and explained; and programs without one left alone.

use std::path::{Path, PathBuf};

use crate::common::chance::{LONGER, one_succeeds};
use crate::common::daemon::hears_a_daemon;
use crate::common::disk::beside_small_disk;
use crate::common::{
    Ran, build_id, compile, compile_file, hexadecimal, is_root, json, objcopy, run,
};
use serde_json::Value;
use tempfile::TempDir;

const FAULTS: &str = include_str!("programs/faults.c");

struct Program {
    _folder: TempDir,
    path: String,
}

impl Program {
    fn new(flags: &[&str]) -> Option<Program> {
        let folder = tempfile::tempdir().unwrap();
        let flags = [&["-w", "-g", "-O1", "-fno-builtin", "-pthread"], flags].concat();
        let path: PathBuf = compile("cc", folder.path(), FAULTS, &flags)?;
        Some(Program { path: path.to_str().unwrap().to_owned(), _folder: folder })
    }

    fn guard(&self, options: &[&str], fault: &str) -> Ran {
        run(&[&["guard"], options, &["--", &self.path, fault]].concat())
    }

    fn found(&self, options: &[&str], fault: &str) -> Value {
        let ran = self.guard(&[&["--json"], options].concat(), fault);
        assert_eq!(ran.code, Some(3), "{fault}: {}{}", ran.stdout, ran.stderr);
        let report = json(&ran);
        assert_eq!(report["schema"], "mallow.guard/1");
        assert_eq!(report["signal"], "SIGABRT", "{report:#}");
        assert_eq!(report["findings"].as_array().unwrap().len(), 1, "{report:#}");
        report["findings"][0].clone()
    }
}

/// The functions of a stack of a finding, innermost first.
fn functions<'a>(finding: &'a Value, at: &str) -> Vec<&'a str> {
    let stacks = finding["stacks"].as_array().unwrap();
    let stack = stacks.iter().find(|stack| stack["at"] == at);
    let calls = stack.map(|stack| stack["calls"].as_array().unwrap());
    calls.into_iter().flatten().map(|call| call["function"].as_str().unwrap()).collect()
}

#[test]
fn a_double_free_is_told_with_three_stacks() {
    let program = Program::new(&[]).unwrap();
    let finding = program.found(&[], "double");
    assert_eq!(
        (finding["id"].as_str(), finding["kind"].as_str()),
        (Some("MLW4101"), Some("double-free"))
    );
    assert_eq!(finding["block"]["size"], 40, "{finding:#}");
    for (at, first) in [("now", "give_back"), ("allocated", "make_block"), ("freed", "give_back")] {
        let calls = functions(&finding, at);
        assert_eq!(calls.first(), Some(&first), "{at}: {finding:#}");
        assert!(calls.contains(&"main"), "{at}: {finding:#}");
    }
    let call = &finding["stacks"][0]["calls"][0];
    assert!(call["file"].as_str().unwrap().ends_with("program.c"), "{call}");
    let ran = program.guard(&[], "double");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), "begun\n"));
    for part in ["MLW4101", "give_back", "program.c:", "Allocated by thread", "Freed by thread"] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    assert!(ran.stderr.trim_end().ends_with("It was ended by SIGABRT."), "{}", ran.stderr);
}

#[test]
fn each_fault_has_its_kind() {
    let program = Program::new(&[]).unwrap();
    for (fault, kind) in [("interior", "interior-free"), ("thread", "double-free")] {
        for mode in ["debug", "secure"] {
            let finding = program.found(&["--mode", mode], fault);
            assert_eq!(finding["kind"], kind, "{mode}: {finding:#}");
            assert!(!finding["sentence"].as_str().unwrap().is_empty());
        }
    }
    let finding = program.found(&[], "after");
    assert_eq!(finding["kind"], "write-after-free", "{finding:#}");
    assert!(functions(&finding, "freed").contains(&"main"), "{finding:#}");
}

#[test]
fn an_access_is_told_at_its_own_instruction() {
    let program = Program::new(&[]).unwrap();
    let finding = program.found(&["--opt", "guard_first:1000"], "look");
    assert_eq!(finding["kind"], "read-after-free", "{finding:#}");
    assert_eq!(functions(&finding, "now")[..2], ["look_into", "main"], "{finding:#}");
    for (at, first) in [("allocated", "make_block"), ("freed", "give_back")] {
        assert_eq!(functions(&finding, at)[..2], [first, "main"], "{at}: {finding:#}");
    }
}

#[test]
fn a_report_that_nobody_reads_changes_no_exit_code() {
    let program = Program::new(&[]).unwrap();
    let (mallow, program) = (env!("CARGO_BIN_EXE_mallow"), &program.path);
    // Of the pipe's reader nothing is left when the report comes.
    let script =
        format!("(sleep 0.3; '{mallow}' guard -- '{program}' double 2>&1 >&4; echo $? >&3) | true");
    let ran = std::process::Command::new("sh")
        .args(["-c", &format!("({script}) 3>&1 4>/dev/null")])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "3\n", "{ran:?}");
}

#[test]
fn an_overflow_is_told_to_the_byte() {
    let program = Program::new(&[]).unwrap();
    for mode in ["debug", "secure"] {
        let finding = program.found(&["--mode", mode], "overflow");
        assert_eq!(finding["kind"], "overflow", "{mode}: {finding:#}");
        assert_eq!(finding["block"]["size"], 40, "{mode}: {finding:#}");
        assert_eq!(finding["damage"]["offset"], 40, "{mode}: {finding:#}");
        assert_eq!(finding["damage"]["length"], 2, "{mode}: {finding:#}");
        let ran = program.guard(&["--mode", mode], "overflow");
        assert!(ran.stderr.contains("[58 59]"), "{mode}: {}", ran.stderr);
    }
}

/// The function's name and the command hold characters that HTML gives a meaning.
const TEMPLATE: &str = "#include <cstdlib>\n#include <cstring>\n\
    template <class T> __attribute__((noinline)) void spill(T *volatile block) {\n\
      memcpy((void *)(block + 40), \"XY\", 2);\n\
      free((void *)block);\n  asm volatile(\"\");\n}\n\
    int main() { spill((char *)malloc(40)); return 0; }\n";

#[test]
fn a_page_holds_the_finding() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-x", "c++", "-w", "-g", "-O1", "-fno-builtin"];
    let Some(program) = compile("c++", folder.path(), TEMPLATE, &flags) else { return };
    let page = folder.path().join("page.html");
    let page = page.to_str().unwrap();
    for mode in ["debug", "secure"] {
        let ran = run(&[
            "guard",
            "--mode",
            mode,
            "--html",
            page,
            "--",
            program.to_str().unwrap(),
            "<b>&</b>",
        ]);
        assert_eq!(ran.code, Some(3), "{mode}: {}", ran.stderr);
        let text = std::fs::read_to_string(page).unwrap();
        let parts =
            ["MLW4106", "overflow of 0x", "spill&lt;char&gt;(char", "program.c:5", "[58 59]"];
        for part in [&parts[..], &["&lt;b&gt;&amp;&lt;/b&gt;"]].concat() {
            assert!(text.contains(part), "{mode}: {part} is not in {text}");
        }
        assert!(!text.contains("spill<") && !text.contains("<b>"), "{mode}: {text}");
    }
}

#[test]
fn a_stripped_program_is_named_by_the_file_of_its_build() {
    let program = Program::new(&["-Wl,--build-id=sha1"]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let id = hexadecimal(&build_id(Path::new(&program.path)));
    let place = folder.path().join(".build-id").join(&id[..2]);
    std::fs::create_dir_all(&place).unwrap();
    let names = place.join(format!("{}.debug", &id[2..]));
    objcopy(&["--only-keep-debug", &program.path, names.to_str().unwrap()]);
    objcopy(&["--strip-all", &program.path]);
    let finding = program.found(&[], "double");
    let unnamed = functions(&finding, "allocated");
    assert!(unnamed[0].starts_with("program+0x"), "{finding:#}");
    let finding = program.found(&["--symbols", folder.path().to_str().unwrap()], "double");
    for (at, first) in [("now", "give_back"), ("allocated", "make_block"), ("freed", "give_back")] {
        let stacks = finding["stacks"].as_array().unwrap();
        let call = &stacks.iter().find(|stack| stack["at"] == at).unwrap()["calls"][0];
        assert_eq!(call["function"], first, "{at}: {finding:#}");
        assert!(call["file"].as_str().unwrap().ends_with("program.c"), "{at}: {finding:#}");
        assert!(call["line"].as_u64().is_some(), "{at}: {finding:#}");
    }
}

const CLOSES: &str = "#include <dlfcn.h>\n#include <stdlib.h>\n\
    int main(int count, char **words) { void *library = dlopen(words[1], RTLD_NOW);\n\
    if (!library) return 9;\n\
    char *(*make)(void) = dlsym(library, \"make\"); char *volatile block = make();\n\
    dlclose(library); free(block); free(block); return 0; }\n";
const CLOSED: &str = "#include <stdlib.h>\n\
    char *make(void) { char *volatile block = malloc(40); return block; }\n";

/// Its code is in no file any more, and was not made at run time either.
#[test]
fn calls_of_a_library_that_was_closed_are_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-w", "-g", "-O1", "-fno-builtin", "-Wl,--no-as-needed", "-ldl"];
    let program = compile("cc", folder.path(), CLOSES, &flags).unwrap();
    let flags = ["-g", "-O1", "-fno-builtin", "-shared", "-fPIC"];
    let library = compile_file("cc", &folder.path().join("closed.c"), CLOSED, &flags).unwrap();
    let ran = run(&["guard", "--json", "--", program.to_str().unwrap(), library.to_str().unwrap()]);
    let report = json(&ran);
    assert_eq!(ran.code, Some(3), "{report:#}");
    let allocated = functions(&report["findings"][0], "allocated");
    assert!(allocated[0].starts_with("0x") && allocated.contains(&"main"), "{report:#}");
    let notes = report["notes"].to_string();
    assert!(notes.contains("in no file") && notes.contains("that was closed"), "{report:#}");
}

#[test]
fn a_write_after_free_is_told_to_the_byte() {
    let program = Program::new(&[]).unwrap();
    for mode in ["debug", "secure"] {
        let finding = program.found(&["--mode", mode], "after");
        assert_eq!(finding["damage"]["offset"], 3, "{mode}: {finding:#}");
        assert_eq!(finding["damage"]["length"], 1, "{mode}: {finding:#}");
        // Whoever uses the block again, or the access itself where the block has a page of its own.
        let call = finding["call"].as_str().unwrap();
        assert!(["malloc", "free", "access"].contains(&call), "{mode}: {finding:#}");
    }
    // At the end of the program nobody calls.
    let finding = program.found(&["--mode", "secure"], "after-once");
    assert_eq!(finding["call"], "sweep", "{finding:#}");
}

#[test]
fn sampling_finds_faults_with_three_stacks() {
    let program = Program::new(&[]).unwrap();
    let every = ["--mode", "sample", "--opt", "guard_sample:1"];
    for (fault, kind) in
        [("double", "double-free"), ("interior", "interior-free"), ("after", "write-after-free")]
    {
        let finding = program.found(&every, fault);
        assert_eq!(finding["kind"], kind, "{finding:#}");
        assert_eq!(finding["block"]["size"], 40, "{finding:#}");
        assert_eq!(functions(&finding, "allocated").first(), Some(&"make_block"), "{finding:#}");
        assert!(functions(&finding, "now").contains(&"main"), "{finding:#}");
        let freed = functions(&finding, "freed");
        assert_eq!(freed.contains(&"give_back"), fault != "interior", "{finding:#}");
    }
    let finding = program.found(&every, "overflow");
    assert_eq!((&finding["kind"], &finding["damage"]["length"]), (&"overflow".into(), &2.into()));
    let ran = program.guard(&every, "crash");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(139), "begun\n"));
    assert!(ran.stderr.contains("No misuse of memory was found. It was ended by SIGSEGV."));
}

#[test]
fn programs_without_a_fault_are_left_alone() {
    let program = Program::new(&[]).unwrap();
    for mode in ["debug", "secure", "sample", "glibc"] {
        let ran = program.guard(&["--mode", mode], "none");
        if mode == "glibc" && ran.code == Some(4) {
            println!("skipped: {}", ran.stderr);
            continue;
        }
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(7), "begun\n", ""));
    }
    for (mode, hints) in [("debug", false), ("secure", true)] {
        let ran = program.guard(&["--mode", mode], "crash");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(139), "begun\n"));
        assert!(ran.stderr.contains("No misuse of memory was found. It was ended by SIGSEGV."));
        assert_eq!(ran.stderr.contains("--mode debug tells"), hints, "{}", ran.stderr);
    }
}

#[test]
fn faults_of_children_are_found() {
    let program = Program::new(&[]).unwrap();
    let ran = program.guard(&["--json"], "fork");
    let report = json(&ran);
    // The command itself ended well.
    assert_eq!((ran.code, report["exit_code"].as_u64()), (Some(3), Some(0)), "{report:#}");
    assert_eq!(report["findings"][0]["kind"], "double-free", "{report:#}");
}

/// The command itself as well as what it starts.
#[test]
fn what_runs_in_another_environment_is_named() {
    let report = one_succeeds(LONGER, |seconds| {
        let script = format!("sleep {seconds} & exec env -i sleep {seconds}");
        let ran = run(&["guard", "--json", "--", "sh", "-c", &script]);
        let report = json(&ran);
        let (findings, notes) = (&report["findings"], &report["notes"]);
        let none = serde_json::json!([]);
        assert_eq!((ran.code, findings), (Some(0), &none), "{report:#}");
        if *notes == none { Err(format!("{report:#}")) } else { Ok(report) }
    });
    let notes = report["notes"].as_array().unwrap();
    let note = notes.first().and_then(Value::as_str).unwrap_or_default();
    // One of the two alone.
    assert!(note.starts_with("Not guarded: sleep (process "), "{report:#}");
    assert!(note.contains("), which did not get the command's environment"), "{report:#}");
    assert_eq!((notes.len(), note.matches("sleep (").count()), (1, 1), "{report:#}");
}

#[test]
fn a_fault_of_a_child_that_can_open_no_file_is_not_lost() {
    let program = Program::new(&[]).unwrap();
    let ran = program.guard(&["--json"], "files");
    let report = json(&ran);
    assert_eq!((ran.code, &report["exit_code"]), (Some(3), &Value::from(0)), "{report:#}");
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{report:#}");
    let sentence = findings[0]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("a process could not report its fault"), "{report:#}");
    assert!(ran.stderr.contains("mallow: double free of"), "{}", ran.stderr);
}

#[test]
fn reports_of_the_same_moment_do_not_mix() {
    let program = Program::new(&[]).unwrap();
    let report = json(&program.guard(&["--json"], "children"));
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 8, "{report:#}");
    for finding in findings {
        assert_eq!(finding["stacks"].as_array().unwrap().len(), 3, "{finding:#}");
    }
    assert_eq!(report["notes"], serde_json::json!([]), "{report:#}");
}

#[test]
fn who_becomes_another_user_reports_too() {
    if !is_root() {
        eprintln!("skipped: only root becomes another user");
        return;
    }
    let program = Program::new(&[]).unwrap();
    assert_eq!(program.found(&[], "user")["kind"], "double-free");
}

#[test]
fn messages_of_the_c_library_are_explained() {
    let program = Program::new(&[]).unwrap();
    let ran = program.guard(&["--mode", "glibc", "--json"], "double");
    if ran.code == Some(4) {
        println!("skipped: {}", ran.stderr);
        return;
    }
    let report = json(&ran);
    assert_eq!(ran.code, Some(3), "{report:#}");
    // An option is a tunable; the last of two holds, and 0 is without checks that end the program.
    let ran = program.guard(&["--mode", "glibc", "--opt", "check:0", "--json"], "overflow");
    assert_eq!(json(&ran)["findings"].as_array().unwrap().len(), 0, "{}", ran.stdout);
    let finding = &report["findings"][0];
    assert!(!finding["meaning"].as_str().unwrap().is_empty(), "{report:#}");
    // "free(): invalid pointer" as well, of a block that is none but for its end.
    let report = json(&program.guard(&["--mode", "glibc", "--json"], "overflow"));
    assert_eq!(report["findings"][0]["kind"], "misuse", "{report:#}");
}

/// What the command asks for comes before its line ends. A daemon that it leaves behind keeps nobody waiting, and is
/// heard later.
#[test]
fn what_goes_on_behind_the_command_keeps_nobody_waiting() {
    let program = Program::new(&[]).unwrap();
    if program.guard(&["--mode", "glibc"], "none").code == Some(4) {
        println!("skipped: glibc's debugging library is not installed");
        return;
    }
    assert_eq!(hears_a_daemon(&["guard", "--mode", "glibc"]), Some(3));
}

/// A fault whose report finds no room would be said to be none.
#[test]
fn a_full_disk_is_said_before_the_command_runs() {
    let program = Program::new(&[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "export TMPDIR=$PWD/disk; $MALLOW guard -- {0} double >&2; [ $? -eq 3 ] || exit 97; \
         cat /dev/zero >disk/rest 2>/dev/null; exec $MALLOW guard -- {0} double",
        program.path
    );
    let Some(ran) = beside_small_disk(folder.path(), &script) else { return };
    assert_eq!((ran.code, &*ran.stdout), (Some(5), ""), "{}", ran.stderr);
    let last = ran.stderr.lines().last().unwrap();
    assert!(last.contains("set TMPDIR to a folder with room"), "{}", ran.stderr);
}

#[test]
fn leaks_are_told_by_their_stack_unless_suppressed() {
    let program = Program::new(&[]).unwrap();
    let ran = program.guard(&["--leaks", "--json"], "leak");
    let report = json(&ran);
    assert_eq!(ran.code, Some(3), "{report:#}");
    let crashed = program.guard(&["--leaks"], "crash").stderr;
    assert!(crashed.contains("SIGSEGV, before leaks were looked for."), "{crashed}");
    let finding = &report["findings"][0];
    assert_eq!(finding["id"], "MLW4117");
    let leaks = finding["leaks"].as_array().unwrap();
    let of_make = leaks.iter().find(|leak| leak["bytes"].as_u64() == Some(3000)).unwrap();
    assert_eq!(of_make["calls"][0]["function"], "make_block", "{finding:#}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("suppressions");
    std::fs::write(&file, "# known\nleak:make_bl*k\n").unwrap();
    let words = ["--leaks", "--suppressions", file.to_str().unwrap(), "--json"];
    let ran = program.guard(&words, "leak");
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    // The library, which does not know of it, has told them.
    let report = json(&ran);
    let note = report["notes"][0].as_str().unwrap();
    assert!(note.starts_with("Leaks of ") && note.ends_with(" blocks are suppressed."), "{note}");
    let ran = program.guard(&words[..3], "leak");
    let last = ran.stderr.lines().last().unwrap();
    assert_eq!((ran.code, last), (Some(0), &*format!("mallow: {note}")), "{}", ran.stderr);
    let report = json(&program.guard(&words, "leaks"));
    let finding = &report["findings"][0];
    assert!(
        finding["sentence"].as_str().unwrap().ends_with("; 3040 bytes in 4 blocks suppressed"),
        "{finding:#}"
    );
    assert_eq!(finding["leaks"].as_array().unwrap().len(), 1, "{finding:#}");
    assert_eq!(finding["leaks"][0]["calls"][0]["function"], "i", "{finding:#}");
    std::fs::write(&file, "make_block\n").unwrap();
    let ran = program.guard(&words, "leak");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("line 1") && ran.stderr.contains("leak:PATTERN"), "{}", ran.stderr);
}

/// A list that is known to be lost is lost with its nodes, whoever made them.
#[test]
fn what_a_suppressed_leak_points_to_is_suppressed_with_it() {
    let program = Program::new(&[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("suppressions");
    std::fs::write(&file, "leak:make_list\n").unwrap();
    let words = ["--leaks", "--suppressions", file.to_str().unwrap(), "--json"];
    let ran = program.guard(&["--leaks", "--json"], "list");
    assert_eq!(ran.code, Some(3), "{}", ran.stdout);
    assert_eq!(makers(&json(&ran)["findings"][0]), ["make_list", "add_node"], "{}", ran.stdout);
    let ran = program.guard(&words, "list");
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    // What another leak points to as well stays.
    let ran = program.guard(&words, "lists");
    let finding = &json(&ran)["findings"][0];
    assert_eq!(ran.code, Some(3), "{finding:#}");
    assert_eq!(makers(finding), ["make_other", "add_to_both"], "{finding:#}");
    let sentence = finding["sentence"].as_str().unwrap();
    assert!(sentence.ends_with("; 320 bytes in 6 blocks suppressed"), "{finding:#}");
}

/// The functions that made what leaked.
fn makers(finding: &Value) -> Vec<&str> {
    let leaks = finding["leaks"].as_array().unwrap();
    leaks.iter().map(|leak| leak["calls"][0]["function"].as_str().unwrap()).collect()
}

#[test]
fn what_cannot_be_guarded_is_refused() {
    let Some(program) = Program::new(&["-static"]) else {
        println!("skipped: no static C library here");
        return;
    };
    let ran = program.guard(&[], "none");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(4), ""), "{}", ran.stderr);
}
