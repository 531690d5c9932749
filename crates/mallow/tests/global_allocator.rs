// SPDX-License-Identifier: MIT
//! A program whose global allocator is Mallow works, in several threads and with odd alignments.

use std::alloc::{GlobalAlloc, Layout, alloc_zeroed, dealloc, realloc};
use std::collections::BTreeMap;

#[global_allocator]
static ALLOCATOR: mallow::Mallow = mallow::Mallow;

#[test]
fn threads_exchange_collections() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let threads: Vec<_> = (0..4u64)
        .map(|thread| {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for round in 0..200u64 {
                    let map: BTreeMap<u64, String> =
                        (0..50).map(|n| (n, format!("{thread}-{round}-{n}"))).collect();
                    sender.send(map).expect("the receiver lives to the end");
                }
            })
        })
        .collect();
    drop(sender);
    let entries: usize = receiver.iter().map(|map| map.len()).sum();
    for thread in threads {
        thread.join().expect("no thread panics");
    }
    assert_eq!(entries, 4 * 200 * 50);
    mallow::collect(true);
}

#[test]
fn alignment_and_content_survive_realloc() {
    for alignment in [1, 8, 16, 64, 4096, 65536] {
        let layout = Layout::from_size_align(100, alignment).expect("valid layout");
        // SAFETY: the block is checked, used within its size, and freed with its last layout.
        unsafe {
            let block = alloc_zeroed(layout);
            assert!(!block.is_null());
            assert_eq!(block as usize % alignment, 0);
            assert!((0..100).all(|at| *block.add(at) == 0));
            block.write_bytes(0x5a, 100);
            let grown = realloc(block, layout, 70_000);
            assert!(!grown.is_null());
            assert_eq!(grown as usize % alignment, 0);
            assert!((0..100).all(|at| *grown.add(at) == 0x5a));
            let layout = Layout::from_size_align(70_000, alignment).expect("valid layout");
            dealloc(grown, layout);
        }
    }
}

#[test]
fn impossible_sizes_give_null() {
    let layout = Layout::from_size_align(isize::MAX as usize - 4096, 1).expect("valid layout");
    // SAFETY: the size is not zero; a null result is not used.
    assert!(unsafe { ALLOCATOR.alloc(layout) }.is_null());
}

#[test]
fn version_is_the_crates() {
    assert!(mallow::version().starts_with(env!("CARGO_PKG_VERSION")));
}
