// SPDX-License-Identifier: MIT
//! One process, live or saved: what its program is, what it has mapped, who serves its malloc, and
//! what its heaps hold. Nothing of the process is changed, and it is not stopped.
//!
//! `allocators` is the one table of allocators. `elf`, `image`, `maps`, `smaps`, `linkmap` and `memory` read
//! one source each; `process` and `binding` put them together; `heap` walks heaps, `runtimes` looks
//! for what languages keep beside them; `stat` is what costs next to nothing, `vitals` little more;
//! `mappings` says what each mapping is; `picture` takes all of it at one moment. `processes` follows
//! all processes of the machine. `position` is of threads that read them and may not come back.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod allocators;
pub mod binding;
pub mod elf;
mod failure;
pub mod heap;
pub mod image;
pub mod linkmap;
pub mod lossy;
pub mod mappings;
pub mod maps;
pub mod memory;
mod page;
pub mod picture;
pub mod position;
pub mod process;
pub mod processes;
pub mod runtimes;
pub mod smaps;
pub mod sparse;
pub mod stat;
mod tree;
pub mod vitals;

/// What to say where `can_be_read` is false.
pub const NO_PROC: &str = "There is no /proc here, from which processes are read. Mount it: \
                           mount -t proc proc /proc.";

/// Whether the kernel tells of processes here: a chroot or a container may have an empty folder instead.
pub fn can_be_read() -> bool {
    std::path::Path::new("/proc/self/stat").exists()
}

/// What to say where `is_own` is false.
pub const FOREIGN_PROC: &str = "The /proc here is that of another PID namespace, where what is started now has \
                                another number. Mount this one's: mount -t proc proc /proc (unshare has \
                                --mount-proc for it).";

/// Whether /proc has the numbers by which this process knows others, and not those of the PID namespace that its
/// own was made in.
pub fn is_own() -> bool {
    let own = std::fs::read_link("/proc/self").unwrap_or_default();
    own.to_str() == Some(std::process::id().to_string().as_str())
}

pub use page::page_size;
pub use tree::descendants;
