// SPDX-License-Identifier: MIT
//! Reads a trace on a thread of its own, ahead of who takes the records: unpacking and sorting them takes
//! about as long as what is done with them.

use std::io::Read;
use std::panic::resume_unwind;
use std::sync::mpsc::{SyncSender, sync_channel};

use mallow_os::threads;
use mallow_trace::{Error as TraceError, Event, Reader, Record};

use crate::error::Result;

/// Records that are handed over at once, and what they may take in bytes, but for the last of them.
const BATCH: usize = 1024;
const BATCH_BYTES: usize = 256 << 10;
/// Batches that wait at most.
const WAITING: usize = 4;

pub struct Batch {
    pub records: Vec<std::result::Result<Record, TraceError>>,
    /// Bytes of the file that had been read then.
    pub position: u64,
}

/// Hands over all records in the order of time, until `take` fails.
pub fn read<R>(reader: Reader<R>, take: impl FnMut(Batch) -> Result<()>) -> Result<()>
where
    R: Read + Send + 'static,
{
    let (sender, batches) = sync_channel(WAITING);
    let reading = threads::spawn("trace", move || send_all(reader, &sender))?;
    // After a failure nobody waits for the thread: it may wait for a pipe that has nothing to say.
    batches.into_iter().try_for_each(take)?;
    reading.join().unwrap_or_else(|panic| resume_unwind(panic));
    Ok(())
}

fn send_all<R: Read>(reader: Reader<R>, sender: &SyncSender<Batch>) {
    let mut merged = reader.merged();
    let mut is_last = false;
    while !is_last {
        let (mut records, mut bytes) = (Vec::new(), 0);
        while records.len() < BATCH && bytes < BATCH_BYTES {
            let Some(record) = merged.next() else {
                is_last = true;
                break;
            };
            bytes += record.as_ref().map_or(0, size_of_record);
            records.push(record);
        }
        let batch = Batch { records, position: merged.reader().position() };
        if sender.send(batch).is_err() {
            return;
        }
    }
}

/// In memory, about.
fn size_of_record(record: &Record) -> usize {
    let beside = match &record.event {
        Event::Process(process) => {
            process.command.iter().map(|word| size_of::<String>() + word.len()).sum()
        }
        Event::Stack(stack) => size_of_val(stack.frames.as_slice()),
        Event::Regions(regions) => size_of_val(regions.regions.as_slice()),
        Event::Module(module) => module.path.len() + module.build_id.len(),
        Event::Symbol(symbol) => symbol.name.len(),
        Event::Thread(thread) => thread.name.len(),
        Event::ThreadName(text) | Event::Marker(text) => text.len(),
        _ => 0,
    };
    size_of::<Record>() + beside
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use mallow_trace::{COLLECTOR, Header, Process, Writer};

    use super::*;

    /// The most records that a trace of processes with so many words of command gives at once.
    fn most_at_once(processes: u32, words: usize) -> usize {
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        for id in 1..=processes {
            let command = vec![String::new(); words];
            let event = Event::Process(Box::new(Process { id, command, ..Process::default() }));
            writer.write(&Record { time: 0, thread: COLLECTOR, event }).unwrap();
        }
        let trace = Cursor::new(writer.finish().unwrap());
        let (mut most, mut count) = (0, 0);
        read(Reader::new(trace).unwrap(), |batch| {
            assert!(batch.records.iter().all(std::result::Result::is_ok));
            most = most.max(batch.records.len());
            count += batch.records.len();
            Ok(())
        })
        .unwrap();
        assert_eq!(count, processes as usize);
        most
    }

    #[test]
    fn a_batch_is_bounded_by_bytes_too() {
        assert_eq!(most_at_once(8, 1), 8);
        assert_eq!(most_at_once(8, BATCH_BYTES / size_of::<String>()), 1);
    }
}
