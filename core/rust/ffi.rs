// SPDX-License-Identifier: MIT
//! The declarations of `mallow.h`, which says what each function promises.

#![allow(non_camel_case_types)]

use core::ffi::{c_char, c_int, c_uint, c_void};

/// The layout of glibc's `struct mallinfo2`; `mallow.h` says what each field counts.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct mw_mallinfo2 {
    pub arena: usize,
    pub ordblks: usize,
    pub smblks: usize,
    pub hblks: usize,
    pub hblkhd: usize,
    pub usmblks: usize,
    pub fsmblks: usize,
    pub uordblks: usize,
    pub fordblks: usize,
    pub keepcost: usize,
}

/// One figure, as `mw_stats_each` shows it. The strings live as long as the call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mw_stat {
    pub name: *const c_char,
    pub value: u64,
    /// A value of the header's `enum mw_stat_type`.
    pub r#type: c_uint,
    pub unit: *const c_char,
    pub help: *const c_char,
}

/// What `mw_stats_each` calls with each figure.
pub type mw_stats_visitor = unsafe extern "C" fn(context: *mut c_void, stat: *const mw_stat);

unsafe extern "C" {
    pub fn mw_malloc(size: usize) -> *mut c_void;
    pub fn mw_calloc(count: usize, size: usize) -> *mut c_void;
    pub fn mw_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    pub fn mw_reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void;
    pub fn mw_free(block: *mut c_void);
    pub fn mw_free_sized(block: *mut c_void, size: usize);
    pub fn mw_free_aligned_sized(block: *mut c_void, alignment: usize, size: usize);
    pub fn mw_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    pub fn mw_memalign(alignment: usize, size: usize) -> *mut c_void;
    pub fn mw_posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
    pub fn mw_valloc(size: usize) -> *mut c_void;
    pub fn mw_pvalloc(size: usize) -> *mut c_void;
    pub fn mw_malloc_usable_size(block: *const c_void) -> usize;
    pub fn mw_malloc_good_size(size: usize) -> usize;
    pub fn mw_mallinfo2() -> mw_mallinfo2;
    pub fn mw_malloc_trim(pad: usize) -> c_int;
    pub fn mw_mallopt(param: c_int, value: c_int) -> c_int;
    pub fn mw_malloc_info(options: c_int, stream: *mut c_void) -> c_int;
    pub fn mw_malloc_stats();
    pub fn mw_stats_each(visit: mw_stats_visitor, context: *mut c_void) -> bool;
    pub fn mw_stats_read(name: *const c_char, value: *mut u64) -> bool;
    pub fn mw_collect(force: bool);
    pub fn mw_version() -> *const c_char;
    pub fn mw_heap_is_valid() -> bool;
}
