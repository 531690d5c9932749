// SPDX-License-Identifier: MIT
//! What a command that is run several times reads on its standard input.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::process::Stdio;

/// Another opening of the same file, with a position of its own.
const OPENED_ANEW: &str = "/proc/self/fd/0";

/// For each run of a command: the file that standard input is, from where it stands now, so that every run reads the
/// same and nobody else's place in it moves. Nothing if it is no file, or cannot be opened once more.
pub fn each_run() -> Stdio {
    file_from_here().map_or_else(|_| Stdio::null(), Stdio::from)
}

fn file_from_here() -> io::Result<File> {
    let mut given = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    if !given.metadata()?.is_file() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let here = given.stream_position()?;
    let mut file = File::open(OPENED_ANEW)?;
    file.seek(SeekFrom::Start(here))?;
    Ok(file)
}

/// Why the runs of a command read nothing though there is something on standard input; `None` where there is nothing,
/// or it is a file.
pub fn why_none() -> Option<String> {
    const SENTENCE: &str = "What a pipe brings can be read once, so the runs of the command read nothing from \
                            standard input. Give it as a file: < FILE.";
    let given = File::from(io::stdin().as_fd().try_clone_to_owned().ok()?);
    if given.metadata().ok()?.is_file() {
        return file_from_here().err().map(|error| {
            format!(
                "The runs of the command read nothing from standard input: its file cannot be opened once more \
                 ({error})."
            )
        });
    }
    let is_pipe = nix::sys::stat::fstat(&given)
        .is_ok_and(|found| found.st_mode & nix::libc::S_IFMT == nix::libc::S_IFIFO);
    let mut waiting = [nix::poll::PollFd::new(given.as_fd(), nix::poll::PollFlags::POLLIN)];
    let found = nix::poll::poll(&mut waiting, nix::poll::PollTimeout::ZERO).ok()?;
    let has_some = waiting[0].revents()?.contains(nix::poll::PollFlags::POLLIN);
    (is_pipe && found > 0 && has_some).then(|| SENTENCE.into())
}
