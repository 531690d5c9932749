// SPDX-License-Identifier: MIT
//! Why a system is not changed, as sentences with the remedy.

use thiserror::Error;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Error)]
pub enum Error {
    /// A folder that does not exist, or a user who has none.
    #[error("{0}")]
    Usage(String),

    /// Others have changed a file, or are at it.
    #[error("{0}")]
    Unmet(String),

    /// A link, a folder or a pipe in the place of a file.
    #[error("{0}")]
    Unsupported(String),

    #[error("{0}")]
    Permission(String),

    /// A record that says nothing.
    #[error("{0}")]
    Damaged(String),

    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
}
