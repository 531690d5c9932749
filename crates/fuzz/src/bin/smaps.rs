// SPDX-License-Identifier: MIT
//! /proc/PID/smaps, and the fields of its like: smaps_rollup, status, meminfo; and stat.
#![no_main]

use mallow_process::smaps;
use mallow_process::stat::Stat;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    smaps::parse_fields(&text);
    if let Some(stat) = Stat::parse(&text) {
        assert!(text.contains(&stat.comm) && text.contains(stat.state));
    }
    let read = smaps::read(bytes);
    if let Some(mut vmas) = smaps::parse(&text) {
        smaps::drop_overlaps(&mut vmas);
        assert!(smaps::is_whole(&vmas));
        for vma in &vmas {
            assert!(vma.size() > 0 && vma.contains(vma.start) && !vma.contains(vma.end));
        }
    }
    drop(read);
});
