// SPDX-License-Identifier: MIT
//! The size of the kernel's pages.

use std::sync::OnceLock;

use nix::unistd::{SysconfVar, sysconf};

/// In bytes, a power of two: 4,096 on most machines, up to 65,536 on some.
pub fn page_size() -> u64 {
    static SIZE: OnceLock<u64> = OnceLock::new();
    *SIZE.get_or_init(|| {
        let size =
            sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|n| u64::try_from(n).ok());
        size.filter(|size| size.is_power_of_two()).unwrap_or(4096)
    })
}
