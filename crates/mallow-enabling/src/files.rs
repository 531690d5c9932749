// SPDX-License-Identifier: MIT
//! Files that are put into a system whole, or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, Gid, Uid, access, chown, geteuid};
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
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused(path, error)),
    };
    if !metadata.is_file() {
        return Err(Error::Unsupported(format!(
            "{} is a link, a folder or a pipe, and mallow replaces plain files only. Move it away first.",
            path.display()
        )));
    }
    let bytes = fs::read(path).map_err(|error| refused(path, error))?;
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
                chown(&draft, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
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

/// Fails if a link on the way to a file of the system `root` leads out of that system, or nowhere.
pub fn check_way(root: &Path, path: &Path) -> Result<()> {
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
    for folder in folders {
        match DirBuilder::new().mode(0o755).create(folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(refused(folder, error)),
            // The umask of a root shell must not shut others out of a folder of the system.
            Ok(()) if geteuid().is_root() => {
                fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
                    .map_err(|error| refused(folder, error))?;
            }
            Ok(()) => {}
        }
    }
    Ok(())
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
