// SPDX-License-Identifier: MIT
//! What a runtime says of itself when it is asked, which the process notices.

use std::process::{Command, Output, Stdio};

use mallow_process::mappings::Runtime;
use mallow_process::runtimes::native::{self, Native};

use crate::error::{Error, Result};
use crate::output::clean;

/// `jcmd` waits for ever for a machine that does not answer.
const SECONDS: &str = "30";
const OFF: &str = "not enabled";

/// The spaces that a Java machine counts. The `jcmd` is that of the user's own path: the one beside the
/// process's program may be anybody's.
pub fn native(pid: u32, runtime: Runtime) -> Result<Vec<Native>> {
    if runtime != Runtime::Java {
        return Err(Error::Usage(format!(
            "--ask asks a Java machine, and process {pid} is none. Leave --ask out."
        )));
    }
    let pid = pid.to_string();
    let words = ["-k", "1", SECONDS, "jcmd", &pid, "VM.native_memory", "summary", "scale=B"];
    let answer = Command::new("timeout").args(words).stdin(Stdio::null()).output();
    let answer = answer.map_err(Error::io("timeout, which runs jcmd, cannot be started"))?;
    let text = String::from_utf8_lossy(&answer.stdout);
    native::parse(&text).ok_or_else(|| refusal(&pid, &text, &answer))
}

fn refusal(pid: &str, text: &str, answer: &Output) -> Error {
    let said = [text.as_bytes(), &answer.stderr].concat();
    let said = clean::line(String::from_utf8_lossy(&said).trim()).into_owned();
    Error::Unsupported(match answer.status.code() {
        _ if text.contains(OFF) => format!(
            "The Java machine {pid} does not count its memory. Start it with \
             -XX:NativeMemoryTracking=summary."
        ),
        Some(127) => "There is no jcmd. Install the JDK, or leave --ask out.".into(),
        Some(124 | 137) => format!("The Java machine {pid} did not answer jcmd in {SECONDS} s."),
        _ => format!(
            "The Java machine {pid} could not be asked: {said}. Run mallow as its user, with the jcmd \
             of its version."
        ),
    })
}
