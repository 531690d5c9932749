// SPDX-License-Identifier: MIT
//! Measured runs of programs, and what they prove.
//!
//! `run` measures one run of a command, `service` one of a server under load; `observe` looks at
//! who serves malloc in a command's processes. `rounds` has everything run in random order;
//! `statistics` and `verdict` say what the runs mean. `timeline` is values over time, `watched` a
//! run whose memory was followed, `values` numbers that a program prints, `machine` where it was.
//! `search` finds settings that suit a program.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod error;
pub mod machine;
pub mod observe;
pub mod rounds;
pub mod run;
pub mod search;
pub mod service;
pub mod statistics;
pub mod timeline;
pub mod values;
pub mod verdict;
pub mod watched;

pub use error::{Error, Result};
