//! Everything that can go wrong, as sentences for the user with the remedy, and the exit codes.

use std::path::PathBuf;

use thiserror::Error;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Error)]
pub enum Error {
    #[error("{0}")]
    Usage(String),

    #[error("{0}")]
    Unmet(String),

    #[error("{0}")]
    Unsupported(String),

    #[error("{0}")]
    Permission(String),

    #[error("{0}")]
    Inconclusive(String),

    #[error("{0}")]
    Damaged(String),

    #[error("There is no allocator called {name} here. {remedy}")]
    UnknownAllocator { name: String, remedy: String },

    #[error("The library {} cannot be used: {reason}. {remedy}.", path.display())]
    Library { path: PathBuf, reason: String, remedy: String },

    #[error("The command {0} was not found. Check its spelling, or give its full path.")]
    CommandNotFound(String),

    #[error("The command {} cannot be executed: {reason}.", path.display())]
    NotExecutable { path: PathBuf, reason: String },

    #[error("The command {command} could not be started: {reason}.")]
    NotStarted { command: String, reason: String },

    #[error("{message}")]
    Child { message: String, code: u8 },

    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },

    #[error(
        "This should not happen: {0}. Please report it with the command line and mallow --version."
    )]
    Internal(String),
}

impl Error {
    /// The exit codes of the command line's contract.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_) | Error::UnknownAllocator { .. } | Error::Library { .. } => 2,
            Error::Unmet(_) => 3,
            Error::Unsupported(_) => 4,
            Error::Permission(_) => 5,
            Error::Inconclusive(_) => 6,
            Error::Damaged(_) => 7,
            Error::Child { code, .. } => *code,
            Error::Io { source, .. } => match source.kind() {
                std::io::ErrorKind::PermissionDenied => 5,
                _ => 70,
            },
            Error::Internal(_) => 70,
            Error::NotStarted { .. } => 125,
            Error::NotExecutable { .. } => 126,
            Error::CommandNotFound(_) => 127,
        }
    }

    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }
}
