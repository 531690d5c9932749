// SPDX-License-Identifier: MIT
//! Files that the user names, opened so that none of them makes the command wait in silence.

use std::fs::{File, OpenOptions};
use std::io::{Chain, Cursor, Error, ErrorKind, Read, Result};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use mallow_os::threads;
use nix::fcntl::OFlag;

/// How long a pipe is waited for that nobody has opened to write.
const PATIENCE: Duration = Duration::from_secs(5);

/// A file whose first bytes were read to see what it is. A pipe cannot be opened a second time for that.
pub type Peeked = Chain<Cursor<Vec<u8>>, File>;

/// Whether a name stands for standard input or output.
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Opens a file to read, or standard input. Of a pipe whoever writes decides when there is more; of anything
/// else what is not there now is an error, see `nothing_now`.
pub fn open(path: &Path) -> Result<File> {
    if is_standard(path) {
        return std::io::stdin().as_fd().try_clone_to_owned().map(File::from);
    }
    let is_pipe = path.metadata().is_ok_and(|found| found.file_type().is_fifo());
    if is_pipe {
        return open_pipe(path);
    }
    OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)
}

/// The kernel lets a reader wait until there is a writer: so a thread does, which ends with the command.
fn open_pipe(path: &Path) -> Result<File> {
    let (opened, result) = mpsc::channel();
    let path = path.to_owned();
    let open = move || opened.send(File::open(path));
    threads::spawn("pipe", open).map_err(|error| Error::new(ErrorKind::OutOfMemory, error))?;
    result.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        let why = format!("it is a pipe, and nobody wrote to it for {} s", PATIENCE.as_secs());
        Err(Error::new(ErrorKind::WouldBlock, why))
    })
}

/// The first bytes, at most `most`, and the whole file from its beginning.
pub fn peek(mut file: File, most: u64) -> Result<(Vec<u8>, Peeked)> {
    let mut head = Vec::new();
    file.by_ref().take(most).read_to_end(&mut head)?;
    Ok((head.clone(), Cursor::new(head).chain(file)))
}

/// Says in words that there was nothing to read.
pub fn nothing_now(error: Error) -> Error {
    if error.raw_os_error().is_none() || error.kind() != ErrorKind::WouldBlock {
        return error;
    }
    Error::new(ErrorKind::WouldBlock, "it has nothing to read now, and reading would wait")
}
