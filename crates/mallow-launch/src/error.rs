// SPDX-License-Identifier: MIT
//! Why a program cannot be started under an allocator, as sentences with the remedy.

use std::path::PathBuf;

use thiserror::Error;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Error)]
pub enum Error {
    /// What the user asked for makes no sense.
    #[error("{0}")]
    Usage(String),

    /// The program, or this machine, cannot be served.
    #[error("{0}")]
    Unsupported(String),

    #[error("{0}")]
    Permission(String),

    #[error("There is no allocator called {name} here. {remedy}")]
    UnknownAllocator { name: String, remedy: String },

    #[error("The library {} cannot be used: {reason}. {remedy}.", path.display())]
    Library { path: PathBuf, reason: String, remedy: String },

    #[error("The command {0} was not found. Check its spelling, or give its full path.")]
    CommandNotFound(String),

    #[error("The command {} cannot be executed: {reason}.", path.display())]
    NotExecutable { path: PathBuf, reason: String },

    #[error("{what}: {}", mallow_os::reason(source))]
    Io { what: String, source: std::io::Error },
}

impl Error {
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }

    /// The command is missing on the command line.
    pub fn no_command() -> Error {
        Error::Usage(
            "There is no command. Write it behind --, such as: mallow run -- ls -l.".into(),
        )
    }
}
