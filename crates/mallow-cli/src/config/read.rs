// SPDX-License-Identifier: MIT
//! Opens a file of settings: a plain one of bounded size, and in the working folder one that this user or
//! root put there. What a file is gets known of what was opened, before anything of it is read.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc::{O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_PATH};

use crate::error::{Error, Result};

/// Nobody writes so much by hand.
const MOST_BYTES: u64 = 1 << 20;

#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    Text(String),
    Nothing,
    /// It, or the link that leads to it, belongs to neither this user nor root.
    Foreign,
    /// As in a home that is not this user's, which some ways to become another leave.
    Forbidden,
}

/// `must_be_own`: others may write to its folder.
pub fn read(path: &Path, must_be_own: bool) -> Result<Found> {
    let opened = if must_be_own { open_own(path) } else { open(path, 0).map(Some) };
    let file = match opened {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(Found::Foreign),
        Err(error) => {
            return match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(Found::Nothing),
                ErrorKind::PermissionDenied => Ok(Found::Forbidden),
                _ => Err(failed(path)(error)),
            };
        }
    };
    let metadata = file.metadata().map_err(failed(path))?;
    if is_null(&metadata) {
        return Ok(Found::Nothing);
    }
    if !metadata.is_file() {
        return Err(Error::Usage(format!(
            "{} is no plain file, so no settings are read from it. Move it away.",
            path.display()
        )));
    }
    text(path, file).map(Found::Text)
}

fn text(path: &Path, file: File) -> Result<String> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed(path))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Error::Usage(format!(
            "{} is larger than 1 MiB, so it is no file of settings. Move it away.",
            path.display()
        )));
    }
    String::from_utf8(bytes).map_err(|_| Error::Usage(format!("{} is not text.", path.display())))
}

/// A pipe does not wait for its other end.
fn open(path: &Path, flags: i32) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(O_NONBLOCK | O_NOCTTY | flags).open(path)
}

/// `None` if it is somebody else's. Of a link both the link and what it leads to have to be trusted.
fn open_own(path: &Path) -> std::io::Result<Option<File>> {
    let place = OpenOptions::new().read(true).custom_flags(O_PATH | O_NOFOLLOW).open(path)?;
    let metadata = place.metadata()?;
    if !is_trusted(&metadata) {
        return Ok(None);
    }
    let file = if metadata.is_symlink() {
        // The link that was looked at, whatever stands there by now.
        let target = PathBuf::from(nix::fcntl::readlinkat(&place, "")?);
        open(&path.parent().unwrap_or(Path::new("")).join(target), 0)?
    } else {
        open(path, O_NOFOLLOW)?
    };
    let is_own = is_trusted(&file.metadata()?);
    Ok(is_own.then_some(file))
}

/// A file in a folder that others may write to must not decide what this user's commands do.
fn is_trusted(metadata: &Metadata) -> bool {
    [0, nix::unistd::geteuid().as_raw()].contains(&metadata.uid())
}

/// A link to /dev/null turns a file off.
fn is_null(metadata: &Metadata) -> bool {
    let null = std::fs::metadata("/dev/null");
    null.is_ok_and(|null| metadata.rdev() != 0 && metadata.rdev() == null.rdev())
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    Error::io(format!("{} cannot be read", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use nix::unistd::{Uid, chown, geteuid, mkfifo};
    use std::os::unix::fs::{lchown, symlink};

    #[test]
    fn what_is_no_plain_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        mkfifo(&path("pipe"), Mode::from_bits_truncate(0o600)).unwrap();
        symlink("/dev/zero", path("zero")).unwrap();
        symlink("/dev/null", path("off")).unwrap();
        symlink("nowhere", path("dangling")).unwrap();
        File::create(path("large")).unwrap().set_len(3 << 30).unwrap();
        std::fs::write(path("bytes"), b"\xff\xfe").unwrap();
        for must_be_own in [true, false] {
            let read = |name: &str| read(&path(name), must_be_own);
            for (name, part) in [
                ("pipe", "no plain file"),
                ("zero", "no plain file"),
                ("", "no plain file"),
                ("large", "larger than 1 MiB"),
                ("bytes", "is not text"),
            ] {
                let error = read(name).unwrap_err();
                assert!(error.to_string().contains(part), "{name}: {error}");
                assert_eq!(error.exit_code(), 2, "{name}");
            }
            assert_eq!(read("off").unwrap(), Found::Nothing);
            assert_eq!(read("dangling").unwrap(), Found::Nothing);
            assert_eq!(read("bytes/below").unwrap(), Found::Nothing);
        }
    }

    #[test]
    fn links_are_followed_where_they_are_the_users_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "quiet = true\n").unwrap();
        symlink("file", path("link")).unwrap();
        let text = Found::Text("quiet = true\n".into());
        assert_eq!(read(&path("link"), true).unwrap(), text);
        if !geteuid().is_root() {
            println!("skipped: only root gives files away");
            return;
        }
        // Another user's link to a trusted file, a link of the user's to another's file, that file, a pipe.
        let other = Some(Uid::from_raw(65534));
        lchown(path("link"), Some(65534), None).unwrap();
        assert_eq!(read(&path("link"), true).unwrap(), Found::Foreign);
        assert_eq!(read(&path("link"), false).unwrap(), text);
        chown(&path("file"), other, None).unwrap();
        symlink("file", path("own")).unwrap();
        mkfifo(&path("pipe"), Mode::from_bits_truncate(0o600)).unwrap();
        chown(&path("pipe"), other, None).unwrap();
        for name in ["own", "file", "pipe"] {
            assert_eq!(read(&path(name), true).unwrap(), Found::Foreign, "{name}");
        }
    }
}
