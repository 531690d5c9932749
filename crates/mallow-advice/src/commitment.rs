// SPDX-License-Identifier: MIT
//! Memory that the kernel may not promise, as `explain` and `advise` tell of it.

use mallow_process::process::Commitment;

use crate::amounts::size;

/// What is seen, the line to set, and what it brings.
pub struct Tight {
    pub evidence: String,
    pub set: String,
    pub effect: &'static str,
}

/// Where nine tenths of what may be promised are.
pub fn tight(of: &Commitment) -> Option<Tight> {
    if of.promised.saturating_mul(10) < of.limit.saturating_mul(9) {
        return None;
    }
    Some(Tight {
        evidence: format!(
            "{} of {} that the kernel may promise to all processes (vm.overcommit_memory=2)",
            size(of.promised),
            size(of.limit)
        ),
        set: format!("sysctl vm.overcommit_ratio={}", ratio(of)),
        effect: "mmap, malloc and fork go on working; what is promised beyond memory and swap may \
                 end a process when it is used",
    })
}

/// What makes the limit half larger: it is all swap, and so many hundredths of memory.
fn ratio(of: &Commitment) -> u64 {
    let larger = of.limit.saturating_add(of.limit / 2);
    larger.saturating_sub(of.swap).saturating_mul(100).div_ceil(of.memory.max(1))
}
