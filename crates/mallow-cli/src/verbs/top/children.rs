// SPDX-License-Identifier: MIT
//! What is started for one process of the list: this same command, to explain it or to record it. It
//! runs beside the screen, and what it says comes as text.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use mallow_os::threads::{self, why_not_started};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Error, Result};

/// This very program, even if its file has been replaced.
const SELF: &str = "/proc/self/exe";
/// Of what it says; a summary has a few thousand bytes.
const MOST_TEXT: u64 = 4 << 20;
pub const RECORDED: Duration = Duration::from_secs(10);
/// For one that is asked to end, before it is made to: a recorder closes its trace.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    Explain { pid: u32 },
    Record { pid: u32, file: PathBuf },
}

impl Errand {
    pub fn title(&self) -> String {
        match self {
            Errand::Explain { pid } => format!("mallow explain {pid}"),
            Errand::Record { pid, file } => format!("mallow record -p {pid} -o {}", file.display()),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(SELF);
        command.arg0("mallow").args(["--color", "never"]);
        match self {
            Errand::Explain { pid } => {
                command.args(["explain", "--format", "table"]).arg(pid.to_string());
            }
            Errand::Record { pid, file } => {
                let time = format!("{}s", RECORDED.as_secs());
                command.args(["record", "--duration", &time, "--output"]).arg(file);
                command.arg("--pid").arg(pid.to_string());
            }
        }
        command
    }
}

/// One that runs.
pub struct Running {
    pub errand: Errand,
    pub since: Instant,
    child: Child,
    text: Receiver<String>,
}

impl Running {
    pub fn start(errand: Errand) -> Result<Running> {
        let failed = || Error::io(format!("{} cannot be started", errand.title()));
        let (mut reader, writer) = std::io::pipe().map_err(failed())?;
        let mut command = errand.command();
        // Signals of the terminal are for the screen.
        command.process_group(0).stdin(Stdio::null());
        command.stdout(writer.try_clone().map_err(failed())?).stderr(writer);
        let (sender, text) = channel();
        let read = move || {
            let mut bytes = Vec::new();
            let _ = reader.by_ref().take(MOST_TEXT).read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        };
        // Without it the errand does not begin.
        threads::spawn("errand", read)?;
        let started = command.spawn();
        // It holds the other end of the pipe.
        drop(command);
        let child = started.map_err(|error| Error::NotStarted {
            command: errand.title(),
            reason: why_not_started(&error),
        })?;
        Ok(Running { errand, since: Instant::now(), child, text })
    }

    /// What it said, when it has ended.
    pub fn result(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(None) => None,
            _ => Some(self.text.recv_timeout(Duration::from_secs(1)).unwrap_or_default()),
        }
    }

    /// Ends it before its time.
    pub fn end(mut self) {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        let _ = kill(pid, Signal::SIGINT);
        let end = Instant::now() + ENDS_WITHIN;
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A name that no file has, in the current folder.
pub fn trace_name(pid: u32) -> PathBuf {
    let names = (1..).map(|number| match number {
        1 => PathBuf::from(format!("mallow-{pid}.trace")),
        number => PathBuf::from(format!("mallow-{pid}-{number}.trace")),
    });
    let is_free = |path: &Path| path.symlink_metadata().is_err();
    names.into_iter().find(|path| is_free(path)).unwrap_or_default()
}
