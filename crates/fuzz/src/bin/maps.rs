// SPDX-License-Identifier: MIT
//! /proc/PID/maps.
#![no_main]

use mallow_process::maps;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.split('\n').filter(|line| maps::split(line).is_some()).count();
    assert_eq!(maps::parse(bytes).len(), lines);
});
