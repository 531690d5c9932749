// SPDX-License-Identifier: MIT
//! What follows from the figures of a process and of its allocator.
//!
//! [`explain`] says where the memory of a process is and why there is so much of it; [`advise`]
//! says what to change about an allocator's settings, and often that there is nothing. Each has
//! rules, which look at figures that others have read and answer with their evidence, and a report,
//! which is the result as data. [`findings`] is the catalogue of all that may be found.
//!
//! Nothing is read and nothing is printed here.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod advise;
mod amounts;
mod arenas;
mod commitment;
pub mod explain;
pub mod findings;
