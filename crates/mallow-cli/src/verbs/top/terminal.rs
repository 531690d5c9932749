// SPDX-License-Identifier: MIT
//! The terminal while the list has it: it is given back at the end, at a panic, and while the list is
//! stopped.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mallow_process::processes;
use nix::libc::{SIGCONT, SIGHUP, SIGTSTP};
use ratatui::{DefaultTerminal, Frame};
use signal_hook::flag::register;
use signal_hook::low_level::emulate_default_handler;

use crate::error::{Error, Result};
use crate::output::screen;
use crate::signals;

pub struct Terminal {
    /// Dropped, it would write to a standard error that may be gone too, and panic.
    terminal: ManuallyDrop<DefaultTerminal>,
    ended: Arc<AtomicBool>,
    stopped: Arc<AtomicBool>,
    continued: Arc<AtomicBool>,
}

impl Terminal {
    pub fn open() -> Result<Terminal> {
        let failed = || Error::io("The signal handler cannot be installed");
        let ended = signals::watch()?;
        let flag = |signal| -> Result<Arc<AtomicBool>> {
            let flag = Arc::new(AtomicBool::new(false));
            register(signal, Arc::clone(&flag)).map_err(failed())?;
            Ok(flag)
        };
        let (stopped, continued) = (flag(SIGTSTP)?, flag(SIGCONT)?);
        // The window may stay, as where only the process is told.
        register(SIGHUP, Arc::clone(&ended)).map_err(failed())?;
        Ok(Terminal { terminal: init()?, ended, stopped, continued })
    }

    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// False if nobody is there any more to see it.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame)) -> bool {
        self.terminal.draw(draw).is_ok()
    }

    /// Waits until there is something to read, a signal or so long. False if the terminal is gone.
    pub fn wait(&self, pause: Duration) -> bool {
        screen::wait_for_keys(pause)
    }

    /// Does what signals asked for; true if the screen has to be drawn anew.
    pub fn obey_signals(&mut self) -> Result<bool> {
        if self.stopped.swap(false, Ordering::Relaxed) {
            self.stop()?;
            return Ok(true);
        }
        // Stopped by a signal that nobody sees: a shell may have changed the terminal meanwhile.
        if self.continued.swap(false, Ordering::Relaxed) {
            self.give_back();
            self.terminal = init()?;
            return Ok(true);
        }
        Ok(false)
    }

    /// As Ctrl-Z does it.
    pub fn stop(&mut self) -> Result<()> {
        self.give_back();
        let stopped = emulate_default_handler(SIGTSTP);
        stopped.map_err(Error::io("The list cannot be stopped"))?;
        self.continued.store(false, Ordering::Relaxed);
        self.terminal = init()?;
        Ok(())
    }

    /// Each frame hides the cursor, and ratatui leaves it so.
    fn give_back(&mut self) {
        screen::give_back(&mut self.terminal);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// From here on a panic gives the terminal back, but not one of the reader, which survives what it
/// meets in files and memory of others.
fn init() -> Result<ManuallyDrop<DefaultTerminal>> {
    let terminal = ratatui::try_init().map_err(Error::io("The terminal cannot be used"))?;
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().name() != Some(processes::THREAD) {
            hook(info);
        }
    }));
    Ok(ManuallyDrop::new(terminal))
}
