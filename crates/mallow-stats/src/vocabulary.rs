// SPDX-License-Identifier: MIT
//! The one vocabulary. Sizes are in bytes; what an allocator does not tell is `None`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// As in the table of allocators: jemalloc, mimalloc, glibc, mallow.
    pub allocator: String,
    pub version: Option<String>,
    /// Since the start of the allocator; of a process that lives, since its own.
    pub uptime_ns: Option<u64>,
    /// What the allocator takes for a page.
    #[serde(default)]
    pub page_size: Option<u64>,
    /// That are alive and assigned to an arena, as a thread is when it first allocates.
    pub threads: Option<u64>,
    /// Arenas that threads are spread over; more may be there for other uses.
    pub arenas_for_threads: Option<u64>,
    pub totals: Totals,
    pub arenas: Vec<Arena>,
    /// By size. Of all arenas together.
    pub classes: Vec<Class>,
    /// Blocks with pages of their own, of whatever size.
    pub large: Large,
    /// Of all arenas together, and those that the process has once.
    pub locks: Vec<Lock>,
    pub dirty_purges: Purges,
    pub muzzy_purges: Purges,
    pub options: BTreeMap<String, String>,
    /// What is not there, or is not what it seems, in sentences.
    pub missing: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// With the program.
    pub allocated: Option<u64>,
    /// In pages that hold at least one block of the program.
    pub active: Option<u64>,
    /// The allocator's own bookkeeping.
    pub metadata: Option<u64>,
    /// In physical memory.
    pub resident: Option<u64>,
    /// Address space in use: without what is retained.
    pub mapped: Option<u64>,
    /// Address space without memory behind it.
    pub retained: Option<u64>,
    /// Free pages that are resident.
    pub dirty: Option<u64>,
    /// Free pages that the kernel may take.
    pub muzzy: Option<u64>,
    /// Free blocks in the caches of threads.
    pub cached: Option<u64>,
    /// In huge pages, as the kernel says.
    #[serde(default)]
    pub huge: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arena {
    pub name: String,
    pub threads: Option<u64>,
    #[serde(flatten)]
    pub totals: Totals,
}

/// Blocks of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    pub size: u64,
    /// Cut from slabs; otherwise each block has pages of its own.
    pub is_small: bool,
    pub slab_size: Option<u64>,
    pub blocks_per_slab: Option<u64>,
    pub slabs: Option<u64>,
    /// Blocks with the program and in the caches of threads.
    pub used: Option<u64>,
    /// Blocks that were asked for since the start.
    pub requests: Option<u64>,
    /// Allocations from the arena; those of a cache that is filled included.
    pub allocations: Option<u64>,
    /// How often a thread's cache was empty and was filled, or full and was flushed.
    pub fills: Option<u64>,
    pub flushes: Option<u64>,
    pub lock: Option<Lock>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Large {
    pub allocated: Option<u64>,
    /// From the arena, not from a cache.
    pub allocations: Option<u64>,
    pub requests: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    pub name: String,
    pub operations: u64,
    /// Times that a thread slept until the lock was free.
    pub waits: Option<u64>,
    /// Times that a thread got it while it spun.
    pub spins: Option<u64>,
    pub owner_switches: Option<u64>,
    /// Of all threads together.
    pub wait_ns: Option<u64>,
    pub longest_wait_ns: Option<u64>,
    pub most_waiting: Option<u64>,
}

/// Pages that went back to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purges {
    pub rounds: Option<u64>,
    pub calls: Option<u64>,
    pub bytes: Option<u64>,
}

impl Stats {
    pub fn lock(&self, name: &str) -> Option<&Lock> {
        self.locks.iter().find(|lock| lock.name == name)
    }

    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// None too where it is so far from all that is of use that it may be anything.
    pub fn number(&self, option: &str) -> Option<i64> {
        const TOO_MUCH: u64 = 1 << 53;
        self.option(option)?.parse().ok().filter(|value: &i64| value.unsigned_abs() < TOO_MUCH)
    }

    /// All requests for blocks since the start.
    pub fn requests(&self) -> u64 {
        self.classes.iter().filter_map(|class| class.requests).fold(0, u64::saturating_add)
    }

    /// Seconds since the start of the allocator.
    pub fn uptime_s(&self) -> Option<f64> {
        self.uptime_ns.filter(|time| *time > 0).map(|time| time as f64 / 1e9)
    }
}

impl Class {
    /// Bytes of slabs that no block takes.
    pub fn free(&self) -> Option<u64> {
        let blocks = self.slabs?.saturating_mul(self.blocks_per_slab?);
        Some(blocks.saturating_sub(self.used?).saturating_mul(self.size))
    }
}

impl Lock {
    /// Times that a thread found it taken.
    pub fn contended(&self) -> u64 {
        self.waits.unwrap_or(0).saturating_add(self.spins.unwrap_or(0))
    }

    /// Threads that waited for it, on average over this time.
    pub fn waiting(&self, uptime_ns: Option<u64>) -> Option<f64> {
        let uptime = uptime_ns.filter(|time| *time > 0)?;
        Some(self.wait_ns? as f64 / uptime as f64)
    }

    /// Adds the counters of the same lock of another arena.
    pub fn add(&mut self, other: &Lock) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        self.operations = self.operations.saturating_add(other.operations);
        self.waits = sum(self.waits, other.waits);
        self.spins = sum(self.spins, other.spins);
        self.owner_switches = sum(self.owner_switches, other.owner_switches);
        self.wait_ns = sum(self.wait_ns, other.wait_ns);
        self.longest_wait_ns = self.longest_wait_ns.max(other.longest_wait_ns);
        self.most_waiting = self.most_waiting.max(other.most_waiting);
    }
}
