// SPDX-License-Identifier: MIT
//! One fault of the heap, by the number in the first argument.

use std::alloc::{Layout, alloc, dealloc};
use std::hint::black_box;

#[inline(never)]
fn make_buffer(size: usize) -> *mut u8 {
    let layout = Layout::from_size_align(size, 8).unwrap();
    unsafe {
        let buffer = alloc(layout);
        buffer.write_bytes(b'm', size);
        buffer
    }
}

#[inline(never)]
fn drop_buffer(buffer: *mut u8, size: usize) {
    unsafe { dealloc(buffer, Layout::from_size_align(size, 8).unwrap()) };
    black_box(size);
}

#[inline(never)]
fn write_beyond() {
    let buffer = make_buffer(40);
    unsafe { buffer.add(40).write_volatile(b'X') };
    drop_buffer(buffer, 40);
    black_box(buffer);
}

#[inline(never)]
fn free_twice() {
    let buffer = make_buffer(40);
    drop_buffer(buffer, 40);
    drop_buffer(buffer, 40);
    black_box(buffer);
}

#[inline(never)]
fn write_freed() {
    let buffer = make_buffer(40);
    drop_buffer(buffer, 40);
    unsafe { buffer.add(3).write_volatile(b'X') };
    for _ in 0..1_000_000 {
        drop_buffer(make_buffer(40), 40);
    }
}

#[inline(never)]
fn read_freed() -> u8 {
    let buffer = make_buffer(200_000);
    drop_buffer(buffer, 200_000);
    unsafe { buffer.add(3).read_volatile() }
}

fn main() {
    let mut seen = 0;
    match std::env::args().nth(1).unwrap_or_default().as_str() {
        "0" => write_beyond(),
        "1" => free_twice(),
        "2" => write_freed(),
        "3" => seen = read_freed(),
        _ => {}
    }
    println!("{seen}");
}
