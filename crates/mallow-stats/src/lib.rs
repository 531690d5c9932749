// SPDX-License-Identifier: MIT
//! What an allocator counts, in one vocabulary whichever allocator it is.
//!
//! `jemalloc`, `mimalloc` and `glibc` read the dumps of these three, `live` takes a heap that was read
//! from outside. `vocabulary` is what all of them end in; `figures` writes quantities as people read
//! them, and `filter` takes dumps out of what a program writes. No files, no output format.
//!
//! A dump may stand anywhere in a text, such as a log, and the last whole one is taken. What a dump
//! does not hold is `None`, and a sentence in [`Stats::missing`] says so.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod definitions;
mod dumps;
mod fields;
pub mod figures;
mod filter;
mod glibc;
mod jemalloc;
pub mod live;
mod mimalloc;
mod vocabulary;

pub use dumps::read;
pub use filter::Filter;
pub use vocabulary::{Arena, Class, Large, Lock, Purges, Stats, Totals};

use thiserror::Error;

/// Why a text gives no statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Error {
    #[error("it is empty")]
    Empty,
    #[error(
        "it is no statistics that are known here: jemalloc's JSON, mimalloc's JSON, or the XML of \
         malloc_info"
    )]
    Foreign,
    #[error(
        "it is jemalloc's text; ask for JSON with MALLOC_CONF=stats_print:true,stats_print_opts:J"
    )]
    JemallocText,
    #[error("the statistics of {0} are cut off or damaged")]
    Damaged(&'static str),
}
