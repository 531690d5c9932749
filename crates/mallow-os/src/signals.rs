// SPDX-License-Identifier: MIT
//! Signals to this process that are meant for the command that it has started.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{is_caught, is_ignored, is_in_foreground};

/// No command runs: signals do here what they do by default, but for those that somebody else caught first.
static IS_OVER: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Those of which that is settled: it is for the whole process, though commands follow each other.
static SETTLED: Mutex<Vec<Signal>> = Mutex::new(Vec::new());

fn settle(signal: Signal) -> io::Result<()> {
    let mut settled = SETTLED.lock().expect("nothing panics with it");
    if !settled.contains(&signal) {
        if !is_caught(signal as i32) {
            signal_hook::flag::register_conditional_default(signal as i32, IS_OVER.clone())?;
        }
        settled.push(signal);
    }
    Ok(())
}

/// What was caught and not passed on yet. Each has a flag of its own: a service manager sends SIGHUP right behind SIGTERM
/// (`SendSIGHUP=`), and a command may ignore one of the two. Dropped, it is over as by `end`.
pub struct ForCommand {
    /// In the order of their numbers.
    flags: Vec<(Signal, Arc<AtomicBool>)>,
}

impl ForCommand {
    /// For one command at a time. What is ignored here the command ignores too, as under nohup: a handler would not be
    /// inherited.
    pub fn catch(signals: &[Signal]) -> io::Result<ForCommand> {
        let mut wanted = signals.to_vec();
        wanted.retain(|signal| !is_ignored(*signal as i32));
        wanted.sort_unstable_by_key(|signal| *signal as i32);
        let mut flags = Vec::new();
        IS_OVER.store(false, Ordering::Relaxed);
        for signal in wanted {
            let flag = Arc::new(AtomicBool::new(false));
            settle(signal)?;
            signal_hook::flag::register(signal as i32, Arc::clone(&flag))?;
            flags.push((signal, flag));
        }
        Ok(ForCommand { flags })
    }

    /// The command has ended: from now on they do here what they do by default.
    pub fn end(&self) {
        IS_OVER.store(true, Ordering::Relaxed);
    }

    fn take(&self) -> impl Iterator<Item = Signal> {
        let came = self.flags.iter().filter(|(_, flag)| flag.swap(false, Ordering::Relaxed));
        came.map(|(signal, _)| *signal)
    }

    /// Call it now and then; whether any came. Those of its terminal's keys reach the command by themselves, and it may be
    /// at work on its answer.
    pub fn pass_on(&self, pid: u32) -> bool {
        let mut has_come = false;
        for signal in self.take() {
            has_come = true;
            let is_key = matches!(signal, Signal::SIGINT | Signal::SIGQUIT);
            if !is_key || !is_in_foreground() {
                let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
            }
        }
        has_come
    }
}

impl Drop for ForCommand {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::raise;

    #[test]
    fn no_signal_takes_the_place_of_another() {
        let (first, second) = (Signal::SIGUSR1, Signal::SIGUSR2);
        let caught = ForCommand::catch(&[second, first]).expect("there can be handlers");
        for signal in [second, first, second] {
            raise(signal).expect("it is caught");
        }
        assert_eq!(caught.take().collect::<Vec<_>>(), [first, second]);
        assert_eq!(caught.take().count(), 0);
    }
}
