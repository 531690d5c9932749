// SPDX-License-Identifier: MIT
//! Fault reports, and the messages of the C library.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for fault in mallow_faults::read(bytes) {
        assert!(!fault.kind.word().is_empty());
    }
    for line in String::from_utf8_lossy(bytes).lines() {
        mallow_faults::glibc::read(line);
    }
});
