// SPDX-License-Identifier: MIT
//! The recorder, and the memory that it shares with the collector.
//!
//! `c/` is what is preloaded into programs; the command builds and embeds it. This crate is the
//! other side of the memory: taking out what the threads of the programs have written. It knows
//! nothing of processes or files. `probe` is the other way to see calls: probes of the kernel.

mod channel;
mod clock;
mod definitions;
pub mod layout;
mod probe;

/// The folder of the recorder's C sources, where this crate was compiled; `recorder.c` includes the
/// others. They need those of `mallow-sys` as well.
pub const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/c");

pub use channel::{
    Channel, NAME as CHANNEL_NAME, Settings, StackMode, VARIABLE as CHANNEL_VARIABLE,
};
pub use clock::{Clock, Timeline, system_ns};
pub use definitions::Point;
pub use probe::{Hit, Probes, StackCopy};
