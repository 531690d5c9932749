// SPDX-License-Identifier: MIT
//! Reads the lines of `/proc/PID/maps`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

const DELETED: &str = " (deleted)";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub inode: u64,
    /// Empty for memory without a file.
    pub path: PathBuf,
    /// The file has been removed or replaced since.
    pub deleted: bool,
    pub is_executable: bool,
}

/// A line as it stands there.
pub struct Line<'a> {
    pub start: u64,
    pub end: u64,
    /// Such as `rw-p`.
    pub perms: &'a str,
    pub offset: u64,
    pub inode: u64,
    /// A path, a name in brackets, or empty.
    pub name: &'a str,
}

/// Names of files may be any bytes. A line feed in one is written as `\\012`.
pub fn parse(text: &[u8]) -> Vec<Mapping> {
    text.split(|&byte| byte == b'\n').filter_map(mapping).collect()
}

/// One line.
pub fn mapping(bytes: &[u8]) -> Option<Mapping> {
    let text = String::from_utf8_lossy(bytes);
    let line = split(&text)?;
    // What the kernel writes before it are plain letters and digits, so that it begins at the same place.
    let (before, name) = text.split_at(text.len() - line.name.len());
    let name = if before.is_ascii() { &bytes[before.len()..] } else { name.as_bytes() };
    let path = name.strip_suffix(DELETED.as_bytes());
    let deleted = path.is_some();
    let path = PathBuf::from(OsStr::from_bytes(&with_line_feeds(path.unwrap_or(name))));
    let Line { start, end, perms, offset, inode, .. } = line;
    let is_executable = perms.as_bytes().get(2) == Some(&b'x');
    Some(Mapping { start, end, offset, inode, path, deleted, is_executable })
}

/// A name as it was given.
pub fn with_line_feeds(name: &[u8]) -> Vec<u8> {
    const WRITTEN: &[u8] = b"\\012";
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(&first) = rest.first() {
        match rest.strip_prefix(WRITTEN) {
            Some(tail) => {
                bytes.push(b'\n');
                rest = tail;
            }
            None => {
                bytes.push(first);
                rest = &rest[1..];
            }
        }
    }
    bytes
}

/// `start-end perms offset dev inode   path`
pub fn split(line: &str) -> Option<Line<'_>> {
    let mut rest = line;
    let mut field = || -> Option<&str> {
        rest = rest.trim_start_matches(' ');
        let end = rest.find(' ').unwrap_or(rest.len());
        let (field, tail) = rest.split_at(end);
        rest = tail;
        (!field.is_empty()).then_some(field)
    };
    let (start, end) = field()?.split_once('-')?;
    let perms = field()?;
    let offset = field()?;
    let _device = field()?;
    let inode = field()?;
    Some(Line {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        perms,
        offset: u64::from_str_radix(offset, 16).ok()?,
        inode: inode.parse().ok()?,
        name: rest.trim_start_matches(' '),
    })
}

/// The name that a file had: the kernel adds a word to that of one that was removed or replaced.
pub fn without_deleted(path: PathBuf) -> PathBuf {
    match path.as_os_str().as_bytes().strip_suffix(DELETED.as_bytes()) {
        Some(name) => PathBuf::from(OsStr::from_bytes(name)),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_every_kind() {
        let text = "7f00-7f10 r-xp 00001000 fe:01 42                 /opt/a b/lib.so (deleted)\n\
                    7ffc000-7ffd000 rw-p 00000000 00:00 0            [stack]\n\
                    5000-6000 rw-p 00000000 00:00 0 \n\
                    not a line\n";
        let maps = parse(text.as_bytes());
        assert_eq!(maps.len(), 3);
        assert_eq!((maps[0].start, maps[0].end, maps[0].offset), (0x7f00, 0x7f10, 0x1000));
        assert_eq!(maps[0].path, PathBuf::from("/opt/a b/lib.so"));
        assert!(maps[0].deleted && maps[0].is_executable && maps[0].inode == 42);
        assert_eq!(maps[1].path, PathBuf::from("[stack]"));
        assert_eq!(maps[2].path, PathBuf::new());
    }

    #[test]
    fn names_are_any_bytes() {
        let maps =
            parse(b"1000-2000 r-xp 0 fe:01 42   /d\xe9\xff/a\\012b\n2000-3000 r--p 0 0:0 1 /x");
        assert_eq!(maps[0].path.as_os_str().as_bytes(), b"/d\xe9\xff/a\nb");
        assert_eq!(maps[1].path, PathBuf::from("/x"));
        assert_eq!(parse(b"1000-2000 r-xp 0 \xff 42 /y")[0].path, PathBuf::from("/y"));
    }
}
