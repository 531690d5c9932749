// SPDX-License-Identifier: MIT
//! What can be wrong with a trace, as sentences for the user.

use thiserror::Error;

pub type Result<T> = std::result::Result<T, Error>;

/// After `CutOff` nothing follows. After `Damaged` the reader goes on with the next block.
#[derive(Debug, Error)]
pub enum Error {
    #[error("This is not a mallow trace; a trace is written by: mallow record -o FILE -- COMMAND.")]
    Foreign,

    #[error(
        "The trace has format version {found}, and this mallow reads versions up to {known}: use the \
         mallow that wrote it, or record again."
    )]
    Version { found: u16, known: u16 },

    #[error(
        "The trace is cut off after {bytes} bytes, so its end is missing; everything before was read."
    )]
    CutOff { bytes: u64 },

    #[error(
        "The trace is damaged at byte {at} ({what}), and a block of it was skipped; the rest was read."
    )]
    Damaged { at: u64, what: &'static str },

    #[error(
        "The trace is damaged at byte {at} ({what}), and nothing behind it can be read; everything \
         before was."
    )]
    Lost { at: u64, what: &'static str },

    #[error("A record is too large for a trace ({bytes} bytes).")]
    TooLarge { bytes: usize },

    #[error("The trace cannot be read or written: {0}.")]
    Io(#[from] std::io::Error),
}
