// SPDX-License-Identifier: MIT
//! Ctrl-C, SIGTERM and a terminal that hangs up, and what the kernel sends instead of an error.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::Thread;
use std::time::Duration;

use mallow_os::threads;
use nix::libc::SIGHUP;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Error, Result};

/// How soon an interruption is seen by who waits for something else.
const PAUSE: Duration = Duration::from_millis(20);

pub const NO_HANDLER: &str = "The signal handler cannot be installed";

/// The one that came last.
static LAST: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// Set by the first one, which ends a measurement, not the report of what is finished.
pub fn watch() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let asked_to_end = Arc::new(AtomicBool::new(false));
    for signal in [nix::libc::SIGINT, nix::libc::SIGTERM] {
        // A second one of these ends the command as usual.
        let (flag, again) = (Arc::clone(&interrupted), Arc::clone(&asked_to_end));
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&again))
            .and_then(|_| signal_hook::flag::register_usize(signal, LAST.clone(), signal as usize))
            .and_then(|_| signal_hook::flag::register(signal, again))
            .and_then(|_| signal_hook::flag::register(signal, flag))
            .map_err(Error::io(NO_HANDLER))?;
    }
    // Under nohup it is ignored, and stays so. Of a window that is closed, the kernel and the shell both tell: the
    // second one is no wish to give up.
    if !mallow_os::is_ignored(SIGHUP) {
        let flag = Arc::clone(&interrupted);
        signal_hook::flag::register_usize(SIGHUP, LAST.clone(), SIGHUP as usize)
            .and_then(|_| signal_hook::flag::register(SIGHUP, flag))
            .map_err(Error::io(NO_HANDLER))?;
    }
    Ok(interrupted)
}

/// Of a command that one of these cut short.
pub fn exit_code() -> u8 {
    let last = u8::try_from(LAST.load(Ordering::Relaxed)).unwrap_or(0);
    128 + if last == 0 { nix::libc::SIGINT as u8 } else { last }
}

/// A limit on the size of files (`ulimit -f`) lets a write fail, as a full disk does, and does not end this process: so
/// what was written before is reported. By a handler, which the programs that are started do not inherit.
pub fn let_long_files_fail() {
    let _ = signal_hook::flag::register(nix::libc::SIGXFSZ, Arc::default());
}

/// The terminal sends its signals to the command too, and others send them to this process alone: then all
/// that was started by the work ends at once.
pub fn ended_by<T>(interrupted: &AtomicBool, work: impl FnOnce() -> T) -> Result<T> {
    struct Over<'a>(&'a AtomicBool, Thread);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
            self.1.unpark();
        }
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = || {
            while !is_over.load(Ordering::Acquire) {
                if interrupted.load(Ordering::Relaxed) {
                    end_children();
                }
                std::thread::park_timeout(PAUSE);
            }
        };
        let watch = threads::spawn_scoped(scope, "interruption", watch)?;
        let _over = Over(&is_over, watch.thread().clone());
        Ok(work())
    })
}

fn end_children() {
    let own = std::process::id();
    let mut pids = Vec::new();
    mallow_process::descendants(own, &mut pids);
    for pid in pids.into_iter().filter(|pid| *pid != own) {
        let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
    }
}
