// SPDX-License-Identifier: MIT
//! What the player prints about a run.

use serde::{Deserialize, Serialize};

/// Of the calls that were timed, in nanoseconds; with the cost of reading the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub timed: u64,
    pub p50_ns: f64,
    pub p99_ns: f64,
    pub p999_ns: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub calls: u64,
    /// Calls that returned no memory.
    pub failed: u64,
    pub wall_ns: u64,
    pub user_us: u64,
    pub system_us: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Resident memory without the player's tables.
    pub peak_rss: u64,
    pub final_rss: u64,
    /// What was subtracted.
    pub table_bytes: u64,
    /// Calls into the kernel that manage memory; -1 where they were not counted.
    pub kernel_calls: i64,

    /// Of lockstep.
    #[serde(default)]
    pub order_hash: Option<String>,
    #[serde(default)]
    pub peak_live_bytes: Option<u64>,
    #[serde(default)]
    pub live_bytes: Option<u64>,
    #[serde(default)]
    pub average_rss: Option<u64>,
    /// Recorded time, resident memory, and what of it belongs to no file.
    #[serde(default)]
    pub samples: Vec<(u64, u64, u64)>,

    /// Of free mode.
    #[serde(default)]
    pub allocate: Option<Latency>,
    #[serde(default)]
    pub free: Option<Latency>,
}
