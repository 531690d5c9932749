// SPDX-License-Identifier: MIT
//! Traces, and what a report makes of their records.
#![no_main]

use mallow_fuzz::repair::repaired;
use mallow_report::Analysis;
use mallow_trace::Reader;

fn read(bytes: &[u8]) {
    let Ok(reader) = Reader::new(bytes) else { return };
    let mut analysis = Analysis::new(reader.header());
    let mut records = 0;
    for record in reader.merged().flatten() {
        analysis.add(&record);
        records += 1;
    }
    // Each is a byte or more, and a file cannot claim to hold more than this.
    assert!(records <= (16 << 20) + 64 * bytes.len());
    analysis.finish();
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    // And behind the checksums.
    read(&repaired(bytes));
});
