// SPDX-License-Identifier: MIT
//! The Mallow allocator for Rust programs.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: mallow::Mallow = mallow::Mallow;
//!
//! let squares: Vec<u64> = (0..1000).map(|n| n * n).collect();
//! assert_eq!(squares[31], 961);
//! println!("running on mallow {}", mallow::version());
//! ```
//!
//! Features, all off by default:
//!
//! - `secure`: the build that detects double and invalid frees with certainty.
//! - `debug`: the build that checks the most; it is slow, and wins over `secure`.
//! - `export-libc`: also defines `malloc`, `free`, `operator new` and the rest, so that the C and C++
//!   parts of the program use Mallow too.
//!
//! [`options!`] sets options when the program is compiled; the environment (`MALLOW_CONF`) has the
//! last word. [`stats`] says what the heap holds.

#![no_std]

mod options;
mod stats;

pub use options::Options;
pub use stats::{Stats, stats};

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::CStr;

/// Mallow as the global allocator of a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mallow;

/// What plain malloc aligns every block of this size to: 16, or 8 for blocks of up to 8 bytes.
const fn natural_alignment(size: usize) -> usize {
    if size <= 8 { 8 } else { 16 }
}

// SAFETY: every block comes from Mallow with at least the size and alignment of its layout, is
// given back to Mallow only, and nothing here unwinds.
unsafe impl GlobalAlloc for Mallow {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: both functions accept every size; a layout's alignment is a power of two.
        unsafe {
            if layout.align() <= natural_alignment(layout.size()) {
                mallow_sys::mw_malloc(layout.size()).cast()
            } else {
                mallow_sys::mw_aligned_alloc(layout.align(), layout.size()).cast()
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller promises that the block is from this allocator and alive.
        unsafe { mallow_sys::mw_free(block.cast()) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= natural_alignment(layout.size()) {
            // SAFETY: mw_calloc accepts every size.
            return unsafe { mallow_sys::mw_calloc(1, layout.size()).cast() };
        }
        // SAFETY: the block has layout.size() bytes when it is not null.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() <= natural_alignment(new_size) {
            // SAFETY: the block is alive and ours; GlobalAlloc promises new_size > 0.
            return unsafe { mallow_sys::mw_realloc(block.cast(), new_size).cast() };
        }
        // SAFETY: GlobalAlloc promises that new_size is valid for this alignment; both blocks have
        // at least the smaller of the two sizes, and they do not overlap.
        unsafe {
            let new_layout = Layout::from_size_align_unchecked(new_size, layout.align());
            let new_block = self.alloc(new_layout);
            if !new_block.is_null() {
                let kept = layout.size().min(new_size);
                core::ptr::copy_nonoverlapping(block, new_block, kept);
                self.dealloc(block, layout);
            }
            new_block
        }
    }
}

/// The version and the build, such as `0.1.0 fast`.
pub fn version() -> &'static str {
    // SAFETY: mw_version returns a C string that lives as long as the program.
    let version = unsafe { CStr::from_ptr(mallow_sys::mw_version()) };
    version.to_str().unwrap_or("unknown")
}

/// Gives the calling thread's cached memory back and lets decay run at once; with `force` all free
/// memory of the process goes back to the kernel now.
pub fn collect(force: bool) {
    // SAFETY: safe to call from any thread at any time.
    unsafe { mallow_sys::mw_collect(force) }
}
