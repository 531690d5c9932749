// SPDX-License-Identifier: MIT
//! Files that are written anew again and again: what was there stays until the new text is whole.

use std::fs::{self, Permissions};
use std::io::{Result, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;

/// The new file takes the place of the old one at once; a device is written to as it is. Of a link the file that it
/// leads to is replaced. Without a mode it has the owner and the rights of the old one.
pub fn replace_file(file: &Path, text: &str, mode: Option<u32>) -> Result<()> {
    let old = file.metadata().ok();
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return fs::write(file, text);
    }
    let file = end_of_links(file);
    // Its name does not end in .prom, so no collector reads it.
    let mut part = tempfile::Builder::new()
        .prefix(".mallow-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder_of(&file))?;
    part.write_all(text.as_bytes())?;
    match (mode, old) {
        (Some(mode), _) => part.as_file().set_permissions(Permissions::from_mode(mode))?,
        (None, Some(old)) => {
            // Only root may give a file away.
            let _ = fchown(&part, Some(old.uid()), Some(old.gid()));
            part.as_file().set_permissions(old.permissions())?;
        }
        (None, None) => {}
    }
    part.persist(file).map(drop).map_err(|error| error.error)
}

/// Where a link leads, also if there is nothing yet.
fn end_of_links(file: &Path) -> PathBuf {
    let mut file = file.to_owned();
    for _ in 0..MOST_LINKS {
        match file.read_link() {
            Ok(to) => file = folder_of(&file).join(to),
            Err(_) => break,
        }
    }
    file
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
