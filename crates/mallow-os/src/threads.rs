// SPDX-License-Identifier: MIT
//! Threads and processes of this command, which the system may refuse: then a sentence says what to do.

use std::fmt::{Display, Formatter, Result as FmtResult};
use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use nix::errno::Errno;

/// The system gave no thread.
#[derive(Debug)]
pub struct NoThread(io::Error);

impl Display for NoThread {
    fn fmt(&self, out: &mut Formatter) -> FmtResult {
        let what = "No thread can be started";
        write!(
            out,
            "{what}: {}. Allow more processes ({MORE}), or more memory (ulimit -v).",
            self.0
        )
    }
}

impl std::error::Error for NoThread {}

/// Threads count as processes.
const MORE: &str = "ulimit -u, or pids.max of the control group";

/// What `std::thread::spawn` does, but for its panic.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, NoThread> {
    Builder::new().name(name.into()).spawn(work).map_err(NoThread)
}

/// With a stack of this size; the others have the usual one.
pub fn spawn_with_stack<T: Send + 'static>(
    name: &str,
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, NoThread> {
    Builder::new().name(name.into()).stack_size(size).spawn(work).map_err(NoThread)
}

/// The same of `Scope::spawn`.
pub fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, NoThread> {
    Builder::new().name(name.into()).spawn_scoped(scope, work).map_err(NoThread)
}

/// Why a command could not be started, behind a colon.
pub fn why_not_started(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN) => format!("there may be no more processes; allow more ({MORE})"),
        _ => crate::reason(error),
    }
}
