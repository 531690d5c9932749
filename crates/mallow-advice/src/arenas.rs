// SPDX-License-Identifier: MIT
//! How many arenas of glibc are enough, as `explain` and `advise` both say.

use mallow_process::mappings::Runtime;

/// How many arenas other rules advise: who follows them is not told by MLW2104 to have more.
pub fn enough(runtime: Runtime, quota: Option<f64>) -> Option<u64> {
    const OF_RUNTIMES: u64 = 2; // MLW3401, MLW3403
    match runtime {
        Runtime::Java | Runtime::Ruby => Some(OF_RUNTIMES),
        _ => quota.map(for_quota),
    }
}

/// Twice the CPUs of a quota.
pub fn for_quota(quota: f64) -> u64 {
    (2.0 * quota).ceil().max(2.0) as u64
}
