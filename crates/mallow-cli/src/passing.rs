// SPDX-License-Identifier: MIT
//! What a command writes to its standard error, read while the command runs, to be passed on.

use std::io::{Read, stderr};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PIECE: usize = 64 << 10;
/// How soon the command's end is seen.
const PAUSE: Duration = Duration::from_millis(10);

/// Calls `take` with all that comes, until nobody can write any more or the command has ended. What it started may
/// go on, as a daemon does, and write on: for that the pipe is left to another process.
pub fn read(
    mut pipe: impl Read + AsFd + Into<Stdio>,
    has_ended: &AtomicBool,
    most: usize,
    mut take: impl FnMut(&[u8]),
) {
    let mut buffer = vec![0; PIECE];
    // What the command wrote is in the pipe when it ends, and a pipe holds no more than `most`.
    let mut left = most;
    while left > 0 {
        let is_last = has_ended.load(Ordering::Acquire);
        let wait = if is_last { Duration::ZERO } else { PAUSE };
        match mallow_os::wait_readable(&pipe, wait) {
            Ok(true) => {}
            Ok(false) if is_last => break,
            Ok(false) => continue,
            Err(_) => return,
        }
        match pipe.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(read) => {
                take(&buffer[..read]);
                left -= if is_last { read.min(left) } else { 0 };
            }
        }
    }
    // Out of the reach of Ctrl-C, which daemons are too. Without it they are told that nobody reads.
    let mut rest = Command::new("cat");
    rest.stdin(pipe).stdout(stderr()).stderr(Stdio::null()).process_group(0);
    let _ = rest.spawn();
}
