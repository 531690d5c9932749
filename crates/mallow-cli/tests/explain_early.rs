// SPDX-License-Identifier: MIT
//! `mallow explain` on programs that have just begun: nothing is allocated yet, or another program
//! takes the place of the one that is looked at.

use std::process::Command;

use crate::common::program::Program;
use crate::common::{compile, json, run};

/// The C library's puts allocates, write does not.
const ALLOCATES_NOTHING: &str = "#include <unistd.h>\n\
    int main(void) { if (write(1, \"{}\\n\", 3) != 3) return 1; for (;;) pause(); }\n";

#[test]
fn a_program_that_has_allocated_nothing_yet_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cc", folder.path(), ALLOCATES_NOTHING, &["-O1"]).unwrap();
    let program = Program::at_rest(&mut Command::new(program));
    let report = program.explain();
    let notes = report["notes"].to_string();
    assert!(notes.contains("has not allocated anything by malloc yet"), "{notes}");
    assert_eq!(report["heap"]["kind"], "glibc");
    assert!(report["totals"]["rss"].as_f64().unwrap() > 0.0);
    let stats = run(&["stats", &program.pid()]);
    assert_eq!(stats.code, Some(0), "{}", stats.stderr);
    assert!(stats.stdout.contains("has not allocated anything"), "{}", stats.stdout);
    let page = folder.path().join("page.html");
    let ran = run(&["explain", &program.pid(), "--html", page.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

/// Starts itself anew, again and again, after as many microseconds.
const EXECS: &str = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
    int main(int c, char **v) { for (int i = 0; i < 200; i++) memset(malloc(5000), 1, 5000);\n\
    if (c == 2 && write(1, \"{}\\n\", 3) != 3) return 1; usleep((unsigned)atoi(v[1]));\n\
    execl(\"/proc/self/exe\", v[0], v[1], \"again\", (char *)0); return 1; }\n";

#[test]
fn a_process_that_starts_other_programs_is_not_taken_for_one_that_may_not_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cc", folder.path(), EXECS, &["-O1", "-fno-builtin"]).unwrap();
    for wait_us in ["200", "2000000"] {
        let program = Program::start(Command::new(&program).arg(wait_us));
        for _ in 0..8 {
            let ran = run(&["explain", &program.pid(), "--json"]);
            match ran.code {
                // Within two seconds it is looked at again.
                Some(0) => assert!(!json(&ran)["notes"].to_string().contains("exec")),
                Some(6) => {
                    assert!(ran.stderr.contains("started another program"), "{}", ran.stderr)
                }
                code => panic!("{code:?}: {}", ran.stderr),
            }
        }
    }
}
