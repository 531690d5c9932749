// SPDX-License-Identifier: MIT
//! Where the memory of a process is, and why there is so much of it.
//!
//! `gather` makes the report of a picture of the process, `rules` draws conclusions from it.

mod gather;
mod report;
mod rules;

pub use gather::{NO_MEMORY, REPLACED, assemble, conclude, report};
pub use report::{Finding, Report, SCHEMA, System, Thread, Totals};
