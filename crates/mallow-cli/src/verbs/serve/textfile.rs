// SPDX-License-Identifier: MIT
//! Metrics for the node exporter's textfile collector: a file that is always whole.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::accept::Form;
use super::collect::Collector;
use super::metrics;
use crate::error::{Error, Result};
use crate::output::Notes;
use crate::signals;

/// Ctrl-C is noticed within this time.
const STEP: Duration = Duration::from_millis(100);
/// As many as the kernel follows.
const MOST_LINKS: usize = 40;

/// With an interval, what fails later may pass, and so may a full disk at the first time: it is said once, and tried
/// again at the next turn.
pub fn write(
    file: &Path,
    interval: Option<Duration>,
    collector: &mut Collector,
    notes: Notes,
) -> Result<u8> {
    let interrupted = signals::watch()?;
    let (mut is_first, mut is_failing) = (true, false);
    loop {
        let next = interval.map(|interval| Instant::now() + interval);
        let written = replace(file, &metrics::render(&collector.snapshot(), Form::Prometheus));
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

/// Whether there is no room for the file.
fn is_full(error: &Error) -> bool {
    let full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge];
    matches!(error, Error::Io { source, .. } if full.contains(&source.kind()))
}

/// The new file takes the place of the old one at once; a device is written to as it is. Of a link the file that it
/// leads to is replaced.
fn replace(file: &Path, text: &str) -> Result<()> {
    let failed = || Error::io(format!("The metrics cannot be written to {}", file.display()));
    if file.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return std::fs::write(file, text).map_err(failed());
    }
    let file = end_of_links(file);
    // Its name does not end in .prom, so no collector reads it.
    let mut part = tempfile::Builder::new()
        .prefix(".mallow-")
        .tempfile_in(folder_of(&file))
        .map_err(failed())?;
    part.write_all(text.as_bytes()).map_err(failed())?;
    // The node exporter has a user of its own.
    part.as_file().set_permissions(PermissionsExt::from_mode(0o644)).map_err(failed())?;
    part.persist(file).map_err(|error| failed()(error.error))?;
    Ok(())
}

/// Where a link leads, also if there is nothing yet.
fn end_of_links(file: &Path) -> PathBuf {
    let mut file = file.to_owned();
    for _ in 0..MOST_LINKS {
        match file.read_link() {
            Ok(to) => file = folder_of(&file).join(to),
            Err(_) => break,
        }
    }
    file
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
