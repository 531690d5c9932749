//! What is known of one process at a refresh, and how two of them compare.

use std::cmp::Ordering;

use clap::ValueEnum;
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
            Why::Unreadable => "unreadable",
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    #[default]
    Rss,
    Live,
    Free,
    Rate,
    Room,
    Pid,
    Name,
    Allocator,
    User,
}

impl Sort {
    pub fn name(self) -> &'static str {
        match self {
            Sort::Rss => "RSS",
            Sort::Live => "live",
            Sort::Free => "free",
            Sort::Rate => "rate",
            Sort::Room => "room",
            Sort::Pid => "PID",
            Sort::Name => "name",
            Sort::Allocator => "allocator",
            Sort::User => "user",
        }
    }

    /// The one that lies so many places behind.
    pub fn step(self, by: usize) -> Sort {
        let all = Sort::value_variants();
        let place = all.iter().position(|sort| *sort == self).unwrap_or(0);
        all[(place + by) % all.len()]
    }

    pub fn back(self) -> Sort {
        self.step(Sort::value_variants().len() - 1)
    }

    /// Large ones first, little room first, names by the alphabet; what is not known comes last
    /// either way.
    pub fn compare(self, reverse: bool, a: &Row, b: &Row) -> Ordering {
        let turned = |order: Ordering| if reverse { order.reverse() } else { order };
        let order = match self {
            Sort::Rss => turned(b.rss.cmp(&a.rss)),
            Sort::Live => known_first(a.live, b.live, |a, b| turned(b.cmp(a))),
            Sort::Free => known_first(a.free, b.free, |a, b| turned(b.cmp(a))),
            Sort::Rate => known_first(a.rss_per_s, b.rss_per_s, |a, b| turned(b.total_cmp(a))),
            Sort::Room => {
                let room = |row: &Row| row.limit.map(|limit| limit.room);
                known_first(room(a), room(b), |a, b| turned(a.cmp(b)))
            }
            Sort::Pid => turned(a.pid.cmp(&b.pid)),
            Sort::Name => turned(a.name.cmp(&b.name)),
            Sort::Allocator => {
                known_first(a.allocator.as_ref(), b.allocator.as_ref(), |a, b| turned(a.cmp(b)))
            }
            Sort::User => turned(a.user.cmp(&b.user)),
        };
        order.then(b.rss.cmp(&a.rss)).then(a.pid.cmp(&b.pid))
    }
}

fn known_first<T>(a: Option<T>, b: Option<T>, by: impl Fn(&T, &T) -> Ordering) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => by(&a, &b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

#[cfg(test)]
impl Row {
    /// For tests: a process that is known by little.
    pub fn of_test(pid: u32, parent: u32, name: &str, rss: u64) -> Row {
        Row {
            pid,
            parent,
            name: name.into(),
            command: format!("/bin/{name}"),
            user: "root".into(),
            state: 'S',
            threads: 1,
            allocator: Some("glibc".into()),
            size: 2 * rss,
            rss,
            swap: 0,
            live: Some(rss / 2),
            free: Some(rss / 8),
            heap_age_s: Some(3.0),
            why_no_heap: None,
            rss_per_s: Some(0.0),
            rss_history: vec![rss; 8],
            limit: None,
        }
    }
}
