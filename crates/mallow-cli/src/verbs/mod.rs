// SPDX-License-Identifier: MIT
//! The verbs. None of them imports another; `tools/crates` checks that.

pub mod advise;
pub mod check;
pub mod compare;
pub mod completions;
pub mod config;
pub mod disable;
pub mod enable;
pub mod explain;
pub mod guard;
pub mod help;
pub mod list;
pub mod man;
pub mod record;
pub mod replay;
pub mod report;
pub mod run;
pub mod serve;
pub mod stats;
pub mod status;
pub mod top;
pub mod tune;
pub mod verify;
pub mod watch;
