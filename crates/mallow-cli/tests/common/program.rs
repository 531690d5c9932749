//! Programs that run while they are looked at.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{json, run};

/// A running program that is ended with the test, and what it said about itself.
pub struct Program {
    pub child: Child,
    pub own: Value,
}

impl Program {
    pub fn start(command: &mut Command) -> Program {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let own = serde_json::from_str(&line).unwrap_or(Value::Null);
        Program { child, own }
    }

    /// The same, of a program that rests soon after that line.
    #[track_caller]
    pub fn at_rest(command: &mut Command) -> Program {
        let program = Program::start(command);
        let stat = format!("/proc/{}/stat", program.child.id());
        loop {
            let state = std::fs::read_to_string(&stat).unwrap();
            assert!(!state.contains(") Z "), "it ended: {command:?}");
            if state.contains(") S ") {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
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

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
