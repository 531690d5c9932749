//! Traces, and what a report makes of their records.
#![no_main]

use mallow_fuzz::repaired;
use mallow_report::Analysis;
use mallow_trace::Reader;

fn read(bytes: &[u8]) {
    let Ok(reader) = Reader::new(bytes) else { return };
    let mut analysis = Analysis::new(reader.header());
    for record in reader.merged().flatten() {
        analysis.add(&record);
    }
    analysis.finish();
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    // And behind the checksums.
    read(&repaired(bytes));
});
