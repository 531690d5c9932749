// SPDX-License-Identifier: MIT
//! What is known of one process at a refresh.

use serde::{Serialize, Serializer};

/// Sizes in bytes. What belongs to another process is cleaned where it is shown.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub pid: u32,
    pub parent: u32,
    pub name: String,
    pub command: String,
    pub user: String,
    /// As the kernel has it, such as `S` for sleeping.
    pub state: char,
    pub threads: u64,
    /// Unknown until it was looked at, or for ever.
    pub allocator: Option<String>,
    pub size: u64,
    pub rss: u64,
    pub swap: u64,
    /// With the program.
    pub live: Option<u64>,
    /// Free, but resident.
    pub free: Option<u64>,
    /// How old these two are.
    pub heap_age_s: Option<f64>,
    pub why_no_heap: Option<Why>,
    /// How fast RSS changes.
    pub rss_per_s: Option<f64>,
    /// RSS at the last refreshes, the latest last.
    pub rss_history: Vec<u64>,
    pub limit: Option<Bound>,
}

/// The limit that leaves the process the least room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bound {
    pub of: BoundOf,
    pub bytes: u64,
    pub used: u64,
    pub room: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundOf {
    ControlGroup,
    AddressSpace,
}

impl Bound {
    pub fn new(of: BoundOf, bytes: u64, used: u64) -> Bound {
        Bound { of, bytes, used, room: bytes.saturating_sub(used) }
    }

    pub fn name(&self) -> &'static str {
        match self.of {
            BoundOf::ControlGroup => "control group",
            BoundOf::AddressSpace => "address space",
        }
    }

    /// Less than a tenth is left.
    pub fn is_near(&self) -> bool {
        self.room < self.bytes / 10
    }
}

/// Why a heap has no figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Waiting,
    OtherUser,
    NoPtrace,
    NoCounters,
    Changing,
    Unreadable,
    NoAnswer,
    Ended,
    Kernel,
}

impl Why {
    /// Eleven characters at the most.
    pub fn short(self) -> &'static str {
        match self {
            Why::Waiting => "waiting",
            Why::OtherUser => "other user",
            Why::NoPtrace => "no ptrace",
            Why::NoCounters => "no counters",
            Why::Changing => "changing",
            Why::Unreadable | Why::NoAnswer => "unreadable",
            Why::Ended => "ended",
            Why::Kernel => "kernel",
        }
    }

    pub fn sentence(self) -> &'static str {
        match self {
            Why::Waiting => "the heap was not read yet",
            Why::OtherUser => {
                "the process belongs to another user: run mallow as that user or as root"
            }
            Why::NoPtrace => "its memory may not be read: run mallow as root, or allow ptrace",
            Why::NoCounters => "the heap of its allocator cannot be read from outside",
            Why::Changing => "the heap changed all the time while it was read",
            Why::Unreadable => "what its memory says of the heap cannot be",
            Why::NoAnswer => {
                "reading it did not come back: a file that it has mapped may lie on a server that does not answer"
            }
            Why::Ended => "it has ended, and its parent has not asked how",
            Why::Kernel => "it is a thread of the kernel",
        }
    }
}

impl Serialize for Why {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.sentence())
    }
}
