// SPDX-License-Identifier: MIT
//! The allocators of this machine, and how a program is started under one of them.
//!
//! `allocator` finds what is installed (`ldcache`, `packages`) and what the command carries inside
//! (`embedded`), `distribution` which package brings what is not there. `target` says what a command really is, `preload` writes the environment that puts
//! an allocator in front of it, `preflight` asks the loader whether that will work, `trial` starts a
//! program to see whether it does. `prepare` does all of it in the one order that is right; `contender` does it for several allocators.
//! `settings` says which settings of an allocator are worth trying, `installed` by which word a
//! system's own loader finds an allocator; `input` what a command reads that is run several times;
//! `go` what the Go tool needs to be recorded.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod allocator;
pub mod contender;
pub mod distribution;
pub mod embedded;
mod error;
pub mod go;
pub mod input;
pub mod installed;
pub mod ldcache;
pub mod options;
pub mod packages;
pub mod preflight;
pub mod preload;
mod prepare;
pub mod settings;
pub mod target;
pub mod trial;
pub mod words;

pub use allocator::Allocator;
pub use error::{Error, Result};
pub use prepare::{Prepared, prepare};
pub use target::Target;
