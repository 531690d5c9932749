// SPDX-License-Identifier: MIT
//! Reads a trace on a thread of its own, ahead of who takes the records: unpacking and sorting them takes
//! about as long as what is done with them.

use std::io::Read;
use std::panic::resume_unwind;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use mallow_trace::{Error as TraceError, Reader, Record};

use crate::error::{Error, Result};

/// Records that are handed over at once.
const BATCH: usize = 1024;
/// Batches that wait at most; one takes 64 KiB.
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
    let reading = thread::Builder::new()
        .spawn(move || send_all(reader, &sender))
        .map_err(Error::io("A thread that reads the trace cannot be started"))?;
    // After a failure nobody waits for the thread: it may wait for a pipe that has nothing to say.
    batches.into_iter().try_for_each(take)?;
    reading.join().unwrap_or_else(|panic| resume_unwind(panic));
    Ok(())
}

fn send_all<R: Read>(reader: Reader<R>, sender: &SyncSender<Batch>) {
    let mut merged = reader.merged();
    loop {
        let records: Vec<_> = merged.by_ref().take(BATCH).collect();
        let is_last = records.len() < BATCH;
        let batch = Batch { records, position: merged.reader().position() };
        if sender.send(batch).is_err() || is_last {
            return;
        }
    }
}
