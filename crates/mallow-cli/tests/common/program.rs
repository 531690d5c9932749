// SPDX-License-Identifier: MIT
//! Programs that run while they are looked at.

use std::io::{BufRead, BufReader};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::chance::until;
use super::{compile, json, mallow, run};

/// Holds 30 MB in blocks of 1,000 bytes, in two threads' arenas, and goes on allocating.
pub const HOLDS: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
    static char *kept[30000];\n\
    int main(void) { for (int i = 0; i < 30000; i++) { kept[i] = malloc(1000); memset(kept[i], 1, 1000); }\n\
    puts(\"{}\"); fflush(stdout);\n\
    for (;;) { for (int i = 0; i < 1000; i++) free(malloc(64 + i)); usleep(20000); } }\n";

/// A process that is ended with the test.
pub struct Running(pub Child);

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.kill();
        let _ = self.wait();
    }
}

/// Waits until it rests: a program that only waits has been loaded by then.
#[track_caller]
pub fn comes_to_rest(child: &Child) {
    let stat = format!("/proc/{}/stat", child.id());
    until("it does not rest", || {
        let state = std::fs::read_to_string(&stat).unwrap();
        assert!(!state.contains(") Z "), "it ended: {state}");
        state.contains(") S ").then_some(())
    });
}

/// A running program, and what it said about itself.
pub struct Program {
    pub child: Running,
    pub own: Value,
}

impl Program {
    pub fn start(command: &mut Command) -> Program {
        let mut child = Running(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let own = serde_json::from_str(&line).unwrap_or(Value::Null);
        Program { child, own }
    }

    /// The same, of a program that rests soon after that line.
    #[track_caller]
    pub fn at_rest(command: &mut Command) -> Program {
        let program = Program::start(command);
        comes_to_rest(&program.child);
        program
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    pub fn own(&self, name: &str) -> f64 {
        self.own[name].as_f64().unwrap()
    }

    pub fn explain(&self) -> Value {
        let ran = run(&["explain", &self.pid(), "--json"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        json(&ran)
    }
}

/// Holds as much, all of it by one function; a profile is written for each MiB.
pub const PROFILED: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
    static char *kept[30000];\n\
    __attribute__((noinline)) void hoard(int i) { kept[i] = malloc(1000); memset(kept[i], 1, 1000); }\n\
    int main(void) { for (int i = 0; i < 30000; i++) hoard(i); puts(\"{}\"); fflush(stdout);\n\
    for (;;) pause(); }\n";
const PROFILES: &str = "prof:true,lg_prof_sample:12,lg_prof_interval:20";

pub fn profiled(folder: &Path, settings: &str) -> Option<Program> {
    let program = compile("cc", folder, PROFILED, &["-g", "-O0"])?;
    let mut command = mallow(&["run", "--", program.to_str().unwrap()]);
    command.env("MALLOW_CONF", format!("{PROFILES}{settings}")).current_dir(folder);
    Some(Program::start(&mut command))
}
