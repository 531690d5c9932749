//! The `mallow` command.
//!
//! Facts come first and alone: `elf`, `ldcache`, `packages`, `maps`, `stats`, `timeline` know nothing
//! of the command line. `allocator`, `target` and `preload` put them together; `commands` are the verbs.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod chart;
pub mod cli;
pub mod commands;
pub mod compare;
pub mod error;
pub mod explain;
pub mod findings;
pub mod output;
pub mod record;
pub mod regions;
pub mod replay;
pub mod report;
pub mod watch;
pub mod wording;
