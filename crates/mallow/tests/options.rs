// SPDX-License-Identifier: MIT
//! What the program sets when it is compiled holds, and the figures follow what it does.

use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: mallow::Mallow = mallow::Mallow;

mallow::options!(c"junk:alloc");

#[test]
fn new_blocks_are_filled_as_the_program_said() {
    let block = black_box(Vec::<u8>::with_capacity(100));
    // SAFETY: the block has 100 bytes, which the allocator has filled.
    let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), 100) };
    assert!(bytes.iter().all(|byte| *byte == 0xa5), "{bytes:x?}");
}

#[test]
fn figures_grow_by_what_is_held() {
    let before = mallow::stats().expect("there is memory");
    let held = black_box(vec![1_u8; 64 << 20]);
    let after = mallow::stats().expect("there is memory");
    assert!(after.allocated >= before.allocated + (60 << 20), "{before:?} {after:?}");
    assert!(after.resident >= after.active && after.active >= 60 << 20, "{after:?}");
    assert!(after.allocations >= before.allocations, "{before:?} {after:?}");
    assert!(after.allocations >= after.frees, "{before:?} {after:?}");
    drop(held);
    let last = mallow::stats().expect("there is memory");
    assert!(last.allocated < after.allocated - (60 << 20), "{after:?} {last:?}");
}
