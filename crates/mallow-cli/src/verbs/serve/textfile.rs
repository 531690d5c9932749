// SPDX-License-Identifier: MIT
//! Metrics for the node exporter's textfile collector: a file that is always whole.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::accept::Form;
use super::collect::Snapshot;
use super::metrics;
use crate::error::{Error, Result};
use crate::output::{self, Notes};
use crate::signals;

/// Ctrl-C is noticed within this time.
const STEP: Duration = Duration::from_millis(100);

/// With an interval, what fails later may pass, and so may a full disk at the first time: it is said once, and tried
/// again at the next turn.
pub fn write(
    file: &Path,
    interval: Option<Duration>,
    mut read: impl FnMut() -> Option<Arc<Snapshot>>,
    notes: Notes,
) -> Result<u8> {
    let interrupted = signals::watch()?;
    let (mut is_first, mut is_failing) = (true, false);
    loop {
        let next = interval.map(|interval| Instant::now() + interval);
        let written = read()
            .ok_or_else(unread)
            .and_then(|snapshot| replace(file, &metrics::render(&snapshot, Form::Prometheus)));
        let Some(next) = next else { return written.map(|()| 0) };
        let fails = written.is_err();
        match written {
            Ok(()) if is_failing => notes.note(&format!("{} is written again.", file.display())),
            Err(error) if is_first && !is_full(&error) => return Err(error),
            Err(error) if !is_failing => {
                notes.note(&format!("{error}. It is tried again at each interval."));
            }
            _ => {}
        }
        (is_first, is_failing) = (false, fails);
        while Instant::now() < next {
            if interrupted.load(Ordering::Relaxed) {
                return Ok(0);
            }
            std::thread::sleep(STEP.min(next.saturating_duration_since(Instant::now())));
        }
    }
}

fn unread() -> Error {
    Error::Permission(
        "The processes cannot be read: no thread can be started for it, or the kernel waits for file servers that do \
         not answer in too many. Choose processes by --pid or --unit"
            .into(),
    )
}

/// Whether there is no room for the file.
fn is_full(error: &Error) -> bool {
    let full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge];
    matches!(error, Error::Io { source, .. } if full.contains(&source.kind()))
}

fn replace(file: &Path, text: &str) -> Result<()> {
    // The node exporter has a user of its own.
    output::replace_file(file, text, Some(0o644))
        .map_err(Error::io(format!("The metrics cannot be written to {}", file.display())))
}
