// SPDX-License-Identifier: MIT
//! The trace format of `mallow record`: what a trace says ([`Record`], [`Header`]), a [`Writer`],
//! and a streaming [`Reader`]. `docs/trace-format.md` describes the bytes.
//!
//! This crate takes `Read` and `Write` and opens nothing itself. The memory that it needs does not
//! grow with the length of a trace.
//!
//! ```
//! use mallow_trace::{Call, Event, Header, Op, Reader, Record, Writer};
//!
//! let mut writer = Writer::new(Vec::new(), &Header::default())?;
//! let call = Call { op: Op::Malloc, size: 100, address: 0x7f00_1000, ..Call::default() };
//! writer.write(&Record { time: 5, thread: 1, event: Event::Call(call) })?;
//! let bytes = writer.finish()?;
//!
//! let reader = Reader::new(bytes.as_slice())?;
//! assert_eq!(reader.header().version, mallow_trace::VERSION);
//! let records: Vec<Record> = reader.merged().collect::<Result<_, _>>()?;
//! assert_eq!(records[0].event, Event::Call(call));
//! # Ok::<(), mallow_trace::Error>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod block;
mod call;
mod codec;
mod error;
mod merge;
mod model;
mod reader;
mod writer;

pub use block::BlockInfo;
pub use error::{Error, Result};
pub use merge::Merged;
pub use model::*;
pub use reader::{Block, Reader, Records, Totals};
pub use writer::Writer;
