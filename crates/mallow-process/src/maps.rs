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

pub fn parse(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(split).map(Mapping::from).collect()
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

impl From<Line<'_>> for Mapping {
    fn from(line: Line) -> Mapping {
        let Line { start, end, offset, inode, name, .. } = line;
        let path = name.strip_suffix(DELETED);
        let deleted = path.is_some();
        Mapping { start, end, offset, inode, path: PathBuf::from(path.unwrap_or(name)), deleted }
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
        let maps = parse(text);
        assert_eq!(maps.len(), 3);
        assert_eq!((maps[0].start, maps[0].end, maps[0].offset), (0x7f00, 0x7f10, 0x1000));
        assert_eq!(maps[0].path, PathBuf::from("/opt/a b/lib.so"));
        assert!(maps[0].deleted && maps[0].inode == 42);
        assert_eq!(maps[1].path, PathBuf::from("[stack]"));
        assert_eq!(maps[2].path, PathBuf::new());
    }
}
