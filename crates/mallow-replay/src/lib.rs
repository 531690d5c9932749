// SPDX-License-Identifier: MIT
//! What `mallow replay` knows: how a trace becomes a plan for each thread ([`Compiler`]), what the
//! player says about a run ([`Run`]), how far a replay can be trusted ([`fidelity`]).
//!
//! The crate opens nothing itself: records come from an iterator, plans go to a `Write`. The player,
//! a C program that allocates nothing for itself, comes along as bytes ([`PLAYER`]).

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod compile;
pub mod fidelity;
mod live;
mod plan;
mod process;
mod result;

pub use compile::{Compiler, Finished, Selection};
pub use plan::{Plan, PlanWriter};
pub use process::{Coverage, RecordedSample, Summary};
pub use result::{Latency, Run};

/// The program that carries a plan out: `player PLAN lockstep|free pages|all|none [count] [small-pages]`.
pub const PLAYER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/player"));

/// Of the player's content, so that different versions can lie side by side.
pub const PLAYER_HASH: &str = env!("PLAYER_HASH");
