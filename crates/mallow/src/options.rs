// SPDX-License-Identifier: MIT
//! Options that a program brings with it.

use core::ffi::{CStr, c_char};

/// What [`options!`](crate::options) defines: a pointer that the allocator reads when it starts.
#[repr(transparent)]
pub struct Options(*const c_char);

// SAFETY: the text behind the pointer is constant.
unsafe impl Sync for Options {}

impl Options {
    /// For the macro.
    pub const fn new(text: &'static CStr) -> Options {
        Options(text.as_ptr())
    }
}

/// Sets options of the allocator for this program, once, in its main file. They are written as in
/// `MALLOW_CONF`, which comes after them, and are C strings: `mallow::options!(c"dirty_decay_ms:0");`
#[cfg(not(feature = "export-libc"))]
#[macro_export]
macro_rules! options {
    ($text:expr) => {
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static mw_malloc_conf: $crate::Options = $crate::Options::new($text);
    };
}

/// Sets options of the allocator for this program, once, in its main file. They are written as in
/// `MALLOW_CONF`, which comes after them, and are C strings: `mallow::options!(c"dirty_decay_ms:0");`
#[cfg(feature = "export-libc")]
#[macro_export]
macro_rules! options {
    ($text:expr) => {
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static malloc_conf: $crate::Options = $crate::Options::new($text);
    };
}
