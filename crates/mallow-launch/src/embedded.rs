// SPDX-License-Identifier: MIT
//! The Mallow libraries inside the command, and their way to a place that children can read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::geteuid;

use crate::error::{Error, Result};

pub struct Library {
    pub name: &'static str,
    pub file: &'static str,
    /// Of the content, so that different versions lie side by side.
    pub hash: &'static str,
    pub bytes: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/libraries.rs"));

/// Writes the library where programs can load it from, or finds it there, and returns its path.
///
/// The folder belongs to the user and nobody else may write to it; the files are world-readable,
/// because a child may run as somebody else. Several commands may do this at once: each writes a
/// file of its own and renames it, and all of them have the same content.
pub fn materialise(library: &Library) -> Result<PathBuf> {
    let mut reasons = Vec::new();
    for root in candidate_roots() {
        match materialise_under(&root, library) {
            Ok(path) => return Ok(path),
            Err(reason) => reasons.push(format!("{}: {reason}", root.display())),
        }
    }
    Err(Error::Unsupported(format!(
        "There is no folder that the Mallow library can be loaded from ({}). Set XDG_CACHE_HOME to \
         a folder that is writable, yours alone and not mounted noexec.",
        reasons.join("; ")
    )))
}

fn candidate_roots() -> Vec<PathBuf> {
    let mut roots = Vec::new();
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    if let Some(cache) = absolute("XDG_CACHE_HOME") {
        roots.push(cache.join("mallow"));
    }
    if geteuid().is_root() {
        roots.push(PathBuf::from("/var/cache/mallow"));
    } else if let Some(home) = absolute("HOME") {
        roots.push(home.join(".cache/mallow"));
    }
    let user = geteuid();
    roots.push(PathBuf::from(format!("/tmp/mallow-{user}")));
    roots.push(PathBuf::from(format!("/dev/shm/mallow-{user}")));
    // A path with these characters cannot be written in LD_PRELOAD.
    roots.retain(|root| !crate::words::has_separator(root.as_os_str()));
    roots
}

fn materialise_under(root: &Path, library: &Library) -> io::Result<PathBuf> {
    let folder = root.join(library.hash);
    DirBuilder::new().recursive(true).mode(0o755).create(&folder)?;
    for checked in [root, &folder] {
        check_only_ours(checked)?;
    }
    if statvfs(&folder)?.flags().contains(FsFlags::ST_NOEXEC) {
        return Err(io::Error::other("mounted noexec"));
    }
    let path = folder.join(library.file);
    if fs::read(&path).is_ok_and(|bytes| bytes == library.bytes) && check_only_ours(&path).is_ok() {
        return Ok(path);
    }
    let draft = folder.join(format!(".{}.{:08x}", library.file, rand::random::<u32>()));
    let put = write_file(&draft, library.bytes).and_then(|()| fs::rename(&draft, &path));
    // On a full disk each call would leave another part of it.
    put.inspect_err(|_| drop(fs::remove_file(&draft)))?;
    Ok(path)
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let _ = fs::remove_file(path);
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o755).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// What we load must not be writable by anybody else; a link could point anywhere.
fn check_only_ours(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_symlink() {
        return Err(io::Error::other("is a symbolic link"));
    }
    if metadata.uid() != geteuid().as_raw() && metadata.uid() != 0 {
        return Err(io::Error::other("belongs to somebody else"));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(io::Error::other("is writable by others"));
    }
    Ok(())
}

pub fn by_name(name: &str) -> Option<&'static Library> {
    LIBRARIES.iter().find(|library| library.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn damaged_copy_is_replaced_and_many_writers_agree() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let library = &LIBRARIES[0];
        let path = materialise_under(folder.path(), library).expect("writable");
        fs::write(&path, b"damaged").expect("writable");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| materialise_under(folder.path(), library).is_ok());
            }
        });
        let path = materialise_under(folder.path(), library).expect("writable");
        assert_eq!(fs::read(&path).expect("readable"), library.bytes);
    }

    #[test]
    fn folder_that_others_can_write_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("ours");
        let error = materialise_under(folder.path(), &LIBRARIES[0]).expect_err("unsafe folder");
        assert!(error.to_string().contains("writable by others"));
    }

    #[test]
    fn embedded_library_defines_what_it_should() {
        for library in LIBRARIES {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let path = folder.path().join(library.file);
            fs::write(&path, library.bytes).expect("writable");
            let info = mallow_process::elf::ElfInfo::read(&path).expect("readable").expect("ELF");
            for function in mallow_process::elf::SERVED {
                assert!(info.defined.contains(function), "{}: {function}", library.name);
            }
            assert!(info.defined_markers.contains("mw_version"));
            assert_eq!(info.libc(), None, "serves glibc and musl programs");
            assert_eq!(info.soname.as_deref(), Some(library.file));
        }
    }
}
