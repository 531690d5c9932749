//! Ctrl-C and SIGTERM.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::error::{Error, Result};

/// Set by the first one, which ends a measurement, not the report of what is finished.
pub fn watch() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [nix::libc::SIGINT, nix::libc::SIGTERM] {
        // A second one ends the command as usual.
        let flag = Arc::clone(&interrupted);
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, flag))
            .map_err(Error::io("The signal handler cannot be installed"))?;
    }
    Ok(interrupted)
}
