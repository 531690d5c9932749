//! /proc/PID/maps.
#![no_main]

use mallow_process::maps;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let lines = text.lines().filter(|line| maps::split(line).is_some()).count();
    assert_eq!(maps::parse(text).len(), lines);
});
