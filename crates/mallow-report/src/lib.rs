// SPDX-License-Identifier: MIT
//! What a trace of `mallow record` says, computed in one pass and in memory that does not grow
//! with the length of the trace: it grows with the blocks live at a time, the threads, and the
//! different stacks.
//!
//! [`Analysis`] takes the records in time order and becomes a [`Findings`]; with the names of the
//! stacks' frames, which the caller looks up ([`Names`]), a [`Profile`] comes out of it, and from
//! both the [`Summary`], which is what is printed. [`baseline`] holds what a command allocates against
//! what it allocated before. This crate reads and writes nothing.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod analysis;
pub mod baseline;
mod buckets;
mod detail;
pub mod flame;
mod frequent;
mod gaps;
mod heap;
mod heap_profile;
mod held;
mod jit;
mod names;
pub mod pprof;
mod profile;
mod stacks;
mod summary;
mod tasks;
mod timeline;

pub use analysis::{Analysis, Findings};
pub use buckets::{Bucket, Buckets};
pub use detail::Detail;
pub use gaps::gaps;
pub use heap_profile::{HeapProfile, HeapProfileError, HeapStack};
pub use held::Amount;
pub use jit::perf_map_frame;
pub use names::{Names, name_stacks};
pub use profile::{Costs, Frame, Metric, Profile, Sample};
pub use summary::*;
pub use timeline::Step;
