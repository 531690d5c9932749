// SPDX-License-Identifier: MIT
//! What allocators say of a program that misuses memory, in one vocabulary.
//!
//! `report` reads the fault reports of Mallow (docs/fault-report.md), `glibc` the messages with which
//! the C library ends a program, `suppressions` which leaks are known. No files, no names of functions, no output format.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod glibc;
mod kind;
mod report;
mod suppressions;

pub use kind::Kind;
pub use report::{Block, Bytes, Fault, Leak, Map, Stack, read};
pub use suppressions::{Misspelt, Suppressions};
