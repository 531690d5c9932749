// SPDX-License-Identifier: MIT
//! `c/layout.h` in Rust. A test compares the two.

use std::sync::atomic::{AtomicU32, AtomicU64};

pub const MAGIC: u32 = 0x314d_524d;
pub const SLOT_COUNT: usize = 4096;
pub const RING_HEADER: usize = 8192;
pub const SLOT_FREE: u32 = 0;
pub const SLOT_READY: u32 = 2;

/// Of the kernel, which maps whole ones.
pub fn page_size() -> usize {
    // SAFETY: sysconf takes a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// A part of memory that two processes do not both write to.
#[repr(C, align(64))]
pub struct Line<T>(pub T);

#[repr(C)]
pub struct Control {
    pub magic: AtomicU32,
    pub ring_words: AtomicU32,
    pub stacks: AtomicU32,
    pub when_full: AtomicU32,
    pub clock: AtomicU32,
    pub copy_bytes: AtomicU32,
    pub stack_distance: AtomicU64,
    pub first_slot: AtomicU64,
    pub slot_size: AtomicU64,
    pub shared: Line<Shared>,
    pub states: Line<[AtomicU32; SLOT_COUNT]>,
}

#[repr(C)]
pub struct Shared {
    pub bell: AtomicU32,
    pub is_waiting: AtomicU32,
    pub beat: AtomicU32,
    pub is_closed: AtomicU32,
    pub lost_threads: AtomicU32,
    pub slots_used: AtomicU32,
    pub programs: AtomicU32,
}

#[repr(C)]
pub struct RingHeader {
    pub head: AtomicU64,
    pub dropped: AtomicU64,
    pub tail: Line<AtomicU64>,
}

/// What a message is, in the lowest byte of its first word. Calls have the numbers of
/// `mallow_trace::Op`.
pub mod message {
    pub const THREAD: u8 = 64;
    pub const PROCESS: u8 = 65;
    pub const MAP: u8 = 66;
    pub const STACK: u8 = 67;
    pub const STACK_COPY: u8 = 68;
    pub const MARKER: u8 = 69;
    pub const MAPS_CHANGED: u8 = 70;
    pub const SCRIPT_CODE: u8 = 71;
    pub const SCRIPT: u8 = 72;
}

/// What a `SCRIPT_CODE` says of a code object.
pub mod script_part {
    pub const FILE: u8 = 0;
    pub const NAME: u8 = 1;
    pub const TABLE: u8 = 2;
}

/// Of a frame, in a `SCRIPT`.
pub const SCRIPT_WORDS: usize = 3;
/// The outermost frame of those that one call of the evaluating function runs.
pub const SCRIPT_ENTRY: u64 = 1 << 32;
/// The place is a line, of Ruby's; else an instruction of Python's.
pub const SCRIPT_IS_LINE: u64 = 1 << 33;

pub const SIZE_FOLLOWS: u64 = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// The numbers are what a C compiler says about the structs in c/layout.h.
    #[test]
    fn layout_is_the_recorders() {
        let folder = std::env::temp_dir().join(format!("mallow-layout-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let crate_dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let source = format!(
            "#include <stdio.h>\n#include \"{}/src/c/layout.h\"\nint main(void) {{ printf(\"%zu %zu %zu \
             %zu %zu %zu %zu %zu %zu %zu %zu %d %d\\n\", sizeof(struct control), offsetof(struct control, \
             stack_distance), offsetof(struct control, first_slot), offsetof(struct control, bell), \
             offsetof(struct control, is_closed), offsetof(struct control, programs), offsetof(struct \
             control, states), offsetof(struct ring, head), offsetof(struct ring, dropped), \
             offsetof(struct ring, tail), (size_t)MESSAGE_SCRIPT, OP_DELETE_ARRAY_ALIGNED_NOTHROW, SCRIPT_WORDS); \
             return 0; }}\n",
            crate_dir.display()
        );
        let (file, program) = (folder.join("a.c"), folder.join("a"));
        std::fs::write(&file, source).expect("writable");
        let built = std::process::Command::new("cc")
            .arg("-I")
            .arg(mallow_sys::SOURCES)
            .arg("-o")
            .args([&program, &file])
            .status()
            .expect("there is a C compiler");
        assert!(built.success());
        let output = std::process::Command::new(&program).output().expect("it runs");
        let numbers: Vec<usize> = String::from_utf8_lossy(&output.stdout)
            .split_whitespace()
            .map(|number| number.parse().expect("a number"))
            .collect();
        let shared = offset_of!(Control, shared);
        let expected = [
            size_of::<Control>(),
            offset_of!(Control, stack_distance),
            offset_of!(Control, first_slot),
            shared + offset_of!(Shared, bell),
            shared + offset_of!(Shared, is_closed),
            shared + offset_of!(Shared, programs),
            offset_of!(Control, states),
            offset_of!(RingHeader, head),
            offset_of!(RingHeader, dropped),
            offset_of!(RingHeader, tail),
            usize::from(message::SCRIPT),
            32,
            SCRIPT_WORDS,
        ];
        assert_eq!(numbers, expected);
        std::fs::remove_dir_all(folder).expect("ours");
    }
}
