// SPDX-License-Identifier: MIT
//! A terminal on which something is shown until it ends, and which may be gone before.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::DefaultTerminal;

/// Waits until a key is pressed, a signal comes, or so long. False if the terminal is gone, as when its window is
/// closed: crossterm would then try to read for ever.
pub fn wait_for_keys(pause: Duration) -> bool {
    let input = std::io::stdin();
    let mut inputs = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    let ready = poll(&mut inputs, PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX));
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    ready.is_err() || !inputs[0].revents().is_some_and(|events| events.intersects(gone))
}

/// The screen and a cursor. Where nobody is there any more to be told of it, nothing is said.
pub fn give_back(terminal: &mut DefaultTerminal) {
    let _ = ratatui::try_restore();
    let _ = terminal.show_cursor();
}
