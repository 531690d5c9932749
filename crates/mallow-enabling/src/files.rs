// SPDX-License-Identifier: MIT
//! Files that are put into a system whole, or not at all. Whoever owns a folder, which may be another user than the one
//! who runs this, can put something else in the place of each file in it at any time: what is known of a file, and what
//! is changed of it, is of the one that was opened.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use nix::libc::{ELOOP, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{AccessFlags, access, geteuid};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use mallow_launch::words;

/// What a file holds: text, where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    Text(String),
    Bytes(Vec<u8>),
}

impl Content {
    pub fn new(bytes: Vec<u8>) -> Content {
        String::from_utf8(bytes)
            .map_or_else(|error| Content::Bytes(error.into_bytes()), Content::Text)
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Content::Text(text) => text.as_bytes(),
            Content::Bytes(bytes) => bytes,
        }
    }
}

/// A file as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub content: Content,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

impl Kept {
    /// Whether `mallow enable` wrote it.
    pub fn is_of_mallow(&self) -> bool {
        matches!(&self.content, Content::Text(text) if crate::is_of_mallow(text))
    }
}

/// What a file is now; `None` if there is none.
pub fn read(path: &Path) -> Result<Option<Kept>> {
    match read_if_plain(path) {
        Ok(Some(kept)) => Ok(Some(kept)),
        Ok(None) => Err(Error::Unsupported(format!(
            "{} is a link, a folder or a pipe, and mallow replaces plain files only. Move it away first.",
            path.display()
        ))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(refused(path, error)),
    }
}

/// `None` of what is no plain file.
fn read_if_plain(path: &Path) -> std::io::Result<Option<Kept>> {
    // That a pipe is opened is something that it notices.
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(None);
    }
    let flags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.raw_os_error() == Some(ELOOP) => return Ok(None),
        opened => opened?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some(Kept {
        content: Content::new(bytes),
        mode: metadata.mode() & 0o7777,
        uid: metadata.uid(),
        gid: metadata.gid(),
    }))
}

/// Fails as writing or removing the file would, as far as rights and file systems decide that.
pub fn check_writable(path: &Path) -> Result<()> {
    let missing = missing_folders(path);
    let first = missing.first().map_or(path, PathBuf::as_path);
    let folder = first.parent().unwrap_or(Path::new("/"));
    access(folder, AccessFlags::W_OK | AccessFlags::X_OK)
        .map_err(|error| refused(first, error.into()))
}

/// A draft beside the file, renamed when it is whole: a reader sees the old file or the new one.
pub fn write(path: &Path, content: &Content, mode: u32, owner: Option<(u32, u32)>) -> Result<()> {
    let draft = draft_of(path);
    let written = fs::remove_file(&draft)
        .or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
        .and_then(|()| {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
            file.write_all(content.bytes())?;
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            if let Some((uid, gid)) = owner
                && geteuid().is_root()
            {
                fchown(&file, Some(uid), Some(gid))?;
                // A change of owner takes the bits of setuid and setgid away.
                file.set_permissions(fs::Permissions::from_mode(mode))?;
            }
            file.sync_all()?;
            fs::rename(&draft, path)
        });
    written.map_err(|error| {
        let _ = fs::remove_file(&draft);
        refused(path, error)
    })?;
    sync_folder(path);
    Ok(())
}

/// Neither login shells nor systemd read a file of this name.
fn draft_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.mallow-draft"))
}

pub fn remove_draft(path: &Path) {
    let _ = fs::remove_file(draft_of(path));
}

/// The file, and the draft that an interruption may have left beside it.
pub fn remove(path: &Path) -> Result<()> {
    remove_draft(path);
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(refused(path, error)),
        _ => {
            sync_folder(path);
            Ok(())
        }
    }
}

/// Fails if a link on the way to a file of the system `root` leads out of that system, or nowhere, or if `..` might. Out
/// of the system that runs there is no way.
pub fn check_way(root: &Path, path: &Path) -> Result<()> {
    if root != Path::new("/") && crate::has_way_up(path) {
        return Err(Error::Unsupported(format!(
            "The path {} has .. in it, which may lead out of {}. Give it without.",
            path.display(),
            root.display()
        )));
    }
    let is_there = |folder: &&Path| folder.symlink_metadata().is_ok();
    let Some(folder) = path.ancestors().skip(1).find(is_there) else { return Ok(()) };
    let where_to = match folder.canonicalize() {
        Ok(real) if real.starts_with(root) => return Ok(()),
        Ok(real) => format!("to {}, which is outside of {}", real.display(), root.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => "to nothing".into(),
        Err(error) => return Err(refused(folder, error)),
    };
    Err(Error::Unsupported(format!(
        "On the way to {} there is a link that leads {where_to}. Make it lead to a folder of the \
         system, by a relative path.",
        path.display()
    )))
}

/// So that a rename outlives a loss of power.
fn sync_folder(path: &Path) {
    if let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) {
        let _ = folder.sync_all();
    }
}

/// The folders above a file that are not there, the outermost first.
pub fn missing_folders(path: &Path) -> Vec<PathBuf> {
    let above = path.ancestors().skip(1).take_while(|folder| !folder.exists());
    let mut missing: Vec<PathBuf> = above.map(Path::to_owned).collect();
    missing.reverse();
    missing
}

pub fn make_folders(folders: &[PathBuf]) -> Result<()> {
    // The umask of a root shell must not shut others out of a folder of the system, and a change of its rights
    // afterwards would be one of what has its name by then.
    let usual = Mode::S_IWGRP | Mode::S_IWOTH;
    let own = geteuid().is_root().then(|| umask(usual));
    let make = |folder: &PathBuf| match DirBuilder::new().mode(0o755).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(refused(folder, error)),
        _ => Ok(()),
    };
    let made = folders.iter().try_for_each(make);
    if let Some(own) = own {
        umask(own);
    }
    made
}

/// Those in which nobody has put anything.
pub fn remove_folders(folders: &[PathBuf]) {
    for folder in folders.iter().rev() {
        let _ = fs::remove_dir(folder);
    }
}

/// Why something cannot be written, and what to do.
pub fn refused(path: &Path, error: std::io::Error) -> Error {
    let what = path.display();
    match error.kind() {
        ErrorKind::PermissionDenied if geteuid().is_root() => Error::Permission(format!(
            "{what} may not be changed, not even by root: {error}. See: lsattr -d {what}."
        )),
        ErrorKind::PermissionDenied => {
            let arguments: Vec<_> = std::env::args_os().skip(1).collect();
            let line = words::line(&arguments);
            Error::Permission(format!(
                "{what} may not be changed by this user. Run it as root: sudo mallow {line}"
            ))
        }
        ErrorKind::ReadOnlyFilesystem => Error::Permission(format!(
            "{what} is on a file system that is mounted read-only. Mount it for writing, or enable \
             in the image that it is made from, with --root."
        )),
        _ => Error::Io { what: format!("{what} cannot be changed"), source: error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// As the owner of a folder can do it while root looks at a file there.
    #[test]
    fn a_link_that_takes_the_place_of_a_file_is_never_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("secret"), "secret").unwrap();
        fs::write(path("file"), "own").unwrap();
        let is_over = AtomicBool::new(false);
        let swap = || {
            while !is_over.load(Ordering::Relaxed) {
                fs::write(path("new"), "own").unwrap();
                fs::rename(path("new"), path("file")).unwrap();
                symlink(path("secret"), path("new")).unwrap();
                fs::rename(path("new"), path("file")).unwrap();
            }
        };
        let seen: Vec<Kept> = std::thread::scope(|scope| {
            scope.spawn(swap);
            let found = (0..50_000).filter_map(|_| read(&path("file")).ok().flatten());
            let found = found.collect();
            is_over.store(true, Ordering::Relaxed);
            found
        });
        let is_own = |kept: &Kept| kept.content == Content::Text("own".into());
        assert!(!seen.is_empty() && seen.iter().all(is_own));
    }
}
