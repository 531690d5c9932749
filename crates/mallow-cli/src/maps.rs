//! Reads the lines of `/proc/PID/maps`.

use std::path::PathBuf;

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

pub fn parse(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(parse_line).collect()
}

/// `start-end perms offset dev inode   path`
fn parse_line(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut field = || -> Option<&str> {
        rest = rest.trim_start_matches(' ');
        let end = rest.find(' ').unwrap_or(rest.len());
        let (field, tail) = rest.split_at(end);
        rest = tail;
        (!field.is_empty()).then_some(field)
    };
    let (start, end) = field()?.split_once('-')?;
    let _perms = field()?;
    let offset = field()?;
    let _device = field()?;
    let inode = field()?;
    let path = rest.trim_start_matches(' ');
    let (path, deleted) = match path.strip_suffix(" (deleted)") {
        Some(path) => (path, true),
        None => (path, false),
    };
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        offset: u64::from_str_radix(offset, 16).ok()?,
        inode: inode.parse().ok()?,
        path: PathBuf::from(path),
        deleted,
    })
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
