// SPDX-License-Identifier: MIT
//! Where the memory of a process is, and why there is so much of it.
//!
//! `gather` makes the report of a picture of the process, `answer` and `rules` draw conclusions from it.

mod answer;
mod gather;
mod report;
mod rules;

pub use gather::{NO_MEMORY, REPLACED, assemble, conclude, report};
pub use report::{Finding, Report, SCHEMA, System, Thread, Totals};
