// SPDX-License-Identifier: MIT
//! A trace as a recorder writes it, which promises after each record that nothing earlier comes.

use mallow_trace::{Header, Record, Writer};

pub fn written(header: &Header, records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), header).unwrap();
    for record in records {
        writer.write(record).unwrap();
        writer.promise(record.time).unwrap();
    }
    writer.finish().unwrap()
}
