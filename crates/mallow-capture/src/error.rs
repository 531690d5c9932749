// SPDX-License-Identifier: MIT
//! Why nothing was recorded, or not all, as sentences with the remedy.

use mallow_process::binding::Failure;
use thiserror::Error;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Error)]
pub enum Error {
    #[error(transparent)]
    Launch(#[from] mallow_launch::Error),

    #[error("The command {command} could not be started: {reason}.")]
    NotStarted { command: String, reason: String },

    /// The program, or this machine, cannot be recorded.
    #[error("{0}")]
    Unsupported(String),

    #[error("{0}")]
    Permission(String),

    #[error("{}", failure.sentence(*pid))]
    Process { pid: u32, failure: Failure },

    /// The trace ends too early. `code` is that of the command, 0 if it goes on.
    #[error("{why}. The trace is cut off: {kept}.")]
    CutOff { why: Box<Error>, kept: String, code: u8 },

    #[error("{what}: {}", mallow_os::reason(source))]
    Io { what: String, source: std::io::Error },

    /// The trace's own rules were broken: a mistake of this crate.
    #[error(transparent)]
    Trace(mallow_trace::Error),
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }
}
