// SPDX-License-Identifier: MIT
//! Names of files and processes may be any bytes, also half a letter: the kernel cuts the name of a process after 15
//! bytes. Here they become text, in which what is none is replaced.

use std::path::{Path, PathBuf};

use serde::Serializer;

/// The text of a file, such as `stat` and `status` in /proc, which hold the name.
pub fn read(path: impl AsRef<Path>) -> Option<String> {
    Some(text(std::fs::read(path).ok()?))
}

/// The bytes of a file as text, without a copy where they are text.
pub fn text(bytes: Vec<u8>) -> String {
    let replaced = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    String::from_utf8(bytes).unwrap_or_else(|error| replaced(error.as_bytes()))
}

/// For `serialize_with`: serde takes no other path than one of UTF-8.
pub fn path<S: Serializer>(path: &impl AsRef<Path>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.as_ref().to_string_lossy())
}

/// The same of one that may not be there.
pub fn some_path<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(found) => to.serialize_some(&found.to_string_lossy()),
        None => to.serialize_none(),
    }
}

/// The same of several.
pub fn paths<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}
