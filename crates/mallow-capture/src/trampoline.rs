// SPDX-License-Identifier: MIT
//! The code that `python -X perf` makes for each function, so that profilers see it: `Python/asm_trampoline.S` of
//! CPython 3.12 and 3.13, over and over from the begin of a mapping on. On x86-64 it has neither unwind tables
//! nor a frame pointer. That of 3.14 and 3.15 has one, by which stacks go on.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// `endbr64`, with which some distributions build it.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// `sub $8, %rsp; call *%rcx; add $8, %rsp; ret`
pub const CODE: [u8; 11] = [0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3];

/// Whether such code begins there in a living process whose memory may be read.
pub fn begins_at(pid: u32, address: u64) -> bool {
    let mut bytes = [0; ENDBR64.len() + CODE.len()];
    let memory = File::open(format!("/proc/{pid}/mem"));
    let is_read = memory.and_then(|memory| memory.read_exact_at(&mut bytes, address)).is_ok();
    is_read && bytes.strip_prefix(&ENDBR64).unwrap_or(&bytes).starts_with(&CODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_known_with_and_without_a_landing_pad() {
        let begins = |bytes: &[u8]| begins_at(std::process::id(), bytes.as_ptr() as u64);
        assert!(begins(&[&CODE[..], &[0; 4]].concat()));
        assert!(begins(&[ENDBR64.as_slice(), &CODE].concat()));
        assert!(!begins(&[&CODE[1..], &[0; 5]].concat()));
        assert!(!begins_at(std::process::id(), 8));
    }
}
