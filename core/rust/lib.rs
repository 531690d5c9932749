// SPDX-License-Identifier: MIT
//! Raw bindings to the Mallow allocator.
//!
//! This crate compiles Mallow's one C file and declares its functions; the crate `mallow` has a
//! safe interface and the global allocator. By default only the `mw_` names are defined. The
//! feature `export-libc` also defines `malloc`, `free`, `operator new` and the rest, so that the C
//! and C++ parts of the program use Mallow too.

//! [`SOURCES`] and [`HEADERS`] are for build scripts that compile the allocator in another way; they
//! need no feature (`default-features = false`).

#![no_std]

mod ffi;

/// The folder of the C sources, where this crate was compiled; `mallow.c` includes the others.
pub const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
/// The folder of `mallow.h`.
pub const HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");

pub use ffi::*;

#[cfg(all(test, feature = "library"))]
mod tests {
    use super::*;
    use core::ffi::CStr;

    #[test]
    fn version_names_the_mode_that_was_built() {
        // SAFETY: mw_version takes nothing and returns a static C string.
        let version = unsafe { CStr::from_ptr(mw_version()) }.to_bytes();
        let mode: &[u8] = match (cfg!(feature = "debug"), cfg!(feature = "secure")) {
            (true, _) => b"debug",
            (false, true) => b"secure",
            (false, false) => b"fast",
        };
        assert!(version.starts_with(env!("CARGO_PKG_VERSION").as_bytes()));
        assert!(version.ends_with(mode));
    }

    #[test]
    fn aligned_block_is_aligned_and_usable() {
        // SAFETY: the block is checked for null, written within its size and freed once.
        unsafe {
            let block = mw_aligned_alloc(4096, 100);
            assert!(!block.is_null());
            assert_eq!(block as usize % 4096, 0);
            assert!(mw_malloc_usable_size(block) >= 100);
            block.cast::<u8>().write_bytes(7, 100);
            mw_free(block);
        }
    }
}
