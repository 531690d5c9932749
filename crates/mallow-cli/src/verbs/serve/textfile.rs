// SPDX-License-Identifier: MIT
//! Metrics for the node exporter's textfile collector: a file that is always whole.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::accept::Form;
use super::collect::Collector;
use super::metrics;
use crate::error::{Error, Result};
use crate::signals;

/// Ctrl-C is noticed within this time.
const STEP: Duration = Duration::from_millis(100);

pub fn write(file: &Path, interval: Option<Duration>, collector: &mut Collector) -> Result<u8> {
    let interrupted = signals::watch()?;
    loop {
        let next = interval.map(|interval| Instant::now() + interval);
        replace(file, &metrics::render(&collector.snapshot(), Form::Prometheus))?;
        let Some(next) = next else { return Ok(0) };
        while Instant::now() < next {
            if interrupted.load(Ordering::Relaxed) {
                return Ok(0);
            }
            std::thread::sleep(STEP.min(next.saturating_duration_since(Instant::now())));
        }
    }
}

/// The new file takes the place of the old one at once; a device is written to as it is.
fn replace(file: &Path, text: &str) -> Result<()> {
    let failed = || Error::io(format!("The metrics cannot be written to {}", file.display()));
    if file.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return std::fs::write(file, text).map_err(failed());
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    // Its name does not end in .prom, so no collector reads it.
    let mut part = tempfile::Builder::new()
        .prefix(".mallow-")
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .map_err(failed())?;
    part.write_all(text.as_bytes()).map_err(failed())?;
    // The node exporter has a user of its own.
    part.as_file().set_permissions(PermissionsExt::from_mode(0o644)).map_err(failed())?;
    part.persist(file).map_err(|error| failed()(error.error))?;
    Ok(())
}
