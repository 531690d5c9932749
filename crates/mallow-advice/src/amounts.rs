// SPDX-License-Identifier: MIT
//! Amounts of memory, as all rules see and write them.

use mallow_stats::figures;

pub const MIB: u64 = 1 << 20;
/// Below this nothing is worth a finding.
pub const NOTABLE: u64 = 16 * MIB;

pub fn size(bytes: u64) -> String {
    figures::bytes(bytes as f64)
}

pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}
