// SPDX-License-Identifier: MIT
//! Reads `/proc/PID/smaps`, one entry for each mapping, and the `Name: value kB` lists of
//! `/proc/PID/status` and `smaps_rollup`.

use std::collections::BTreeMap;
use std::io::BufRead;

use crate::maps::{self, Line};

/// A mapping and what the kernel counts for it; sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vma {
    pub start: u64,
    pub end: u64,
    /// Such as `rw-p`.
    pub perms: String,
    pub offset: u64,
    pub inode: u64,
    /// A path, a name in brackets, or empty.
    pub name: String,
    pub rss: u64,
    pub pss: u64,
    pub private_dirty: u64,
    /// What no file has: of a private mapping of one, the pages that were written to.
    pub anonymous: u64,
    pub swap: u64,
    pub huge: u64,
    pub lazy_free: u64,
    pub locked: u64,
    /// How much of a mapping behind a file's data is zeroed data of that file, if it is known.
    pub zeroed_data: Option<u64>,
}

impl Vma {
    pub fn size(&self) -> u64 {
        self.end - self.start
    }

    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    pub fn is_writable(&self) -> bool {
        self.perms.as_bytes().get(1) == Some(&b'w')
    }

    pub fn is_executable(&self) -> bool {
        self.perms.as_bytes().get(2) == Some(&b'x')
    }

    pub fn is_private(&self) -> bool {
        self.perms.ends_with('p')
    }

    pub fn is_without_access(&self) -> bool {
        self.perms.starts_with("---")
    }

    /// No file behind it; it may have a name in brackets.
    pub fn is_anonymous(&self) -> bool {
        self.inode == 0
    }

    /// Memory in huge pages of hugetlbfs: the kernel gives it a file's name, and counts it in no RSS.
    pub fn is_hugetlb(&self) -> bool {
        self.name.starts_with("/anon_hugepage")
    }
}

/// `None` if the text is no smaps.
pub fn parse(text: &str) -> Option<Vec<Vma>> {
    read(text.as_bytes()).ok()?
}

/// The same from a file, a line at a time: of a process with a million mappings it is a gigabyte.
pub fn read(mut file: impl BufRead) -> std::io::Result<Option<Vec<Vma>>> {
    let mut vmas = Vec::new();
    let mut line = Vec::new();
    while file.read_until(b'\n', &mut line)? > 0 {
        if add_line(&mut vmas, String::from_utf8_lossy(&line).trim_end_matches('\n')).is_none() {
            return Ok(None);
        }
        line.clear();
    }
    Ok(Some(vmas))
}

fn add_line(vmas: &mut Vec<Vma>, line: &str) -> Option<()> {
    if let Some(vma) = parse_header(line) {
        vmas.push(vma);
        return Some(());
    }
    let (key, value) = line.split_once(':')?;
    let vma = vmas.last_mut()?;
    let Some(bytes) = kilobytes(value) else { return Some(()) };
    // Nothing of a mapping is larger than itself.
    let bytes = bytes.min(vma.size());
    match key {
        "Rss" => vma.rss = bytes,
        "Pss" => vma.pss = bytes,
        "Private_Dirty" => vma.private_dirty = bytes,
        "Anonymous" => vma.anonymous = bytes,
        "Swap" => vma.swap = bytes,
        "AnonHugePages" | "ShmemPmdMapped" | "FilePmdMapped" => {
            vma.huge = vma.huge.saturating_add(bytes).min(vma.size());
        }
        "LazyFree" => vma.lazy_free = bytes,
        "Locked" => vma.locked = bytes,
        _ => {}
    }
    Some(())
}

/// Whether the mappings are in order and none lies over another. The kernel gives them out some at
/// a time, and a process may join or split them in between.
pub fn is_whole(vmas: &[Vma]) -> bool {
    vmas.windows(2).all(|pair| pair[0].end <= pair[1].start)
}

/// Takes out what lies over the mapping before it.
pub fn drop_overlaps(vmas: &mut Vec<Vma>) {
    let mut end = 0;
    vmas.retain(|vma| {
        let is_next = vma.start >= end;
        end = end.max(vma.end);
        is_next
    });
}

/// The keys of the lines below have no `-` in front.
fn parse_header(line: &str) -> Option<Vma> {
    let Line { start, end, perms, offset, inode, name } = maps::split(line)?;
    // The name of the program, which it is compared with, has them too.
    let name = maps::with_line_feeds(name.as_bytes());
    let (perms, name) = (perms.to_owned(), String::from_utf8_lossy(&name).into_owned());
    (end > start).then(|| Vma { start, end, perms, offset, inode, name, ..Vma::default() })
}

fn kilobytes(value: &str) -> Option<u64> {
    value.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The lines `Name: value` of status; sizes are turned into bytes.
pub fn parse_fields(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(key, value)| {
            let value = kilobytes(value).map_or(value.trim().to_owned(), |b| b.to_string());
            (key.to_owned(), value)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_line_feeds() {
        let vmas = parse("1000-2000 r-xp 0 fe:01 42   /d/a\\012b\nRss: 4 kB\n").unwrap();
        assert_eq!((vmas[0].name.as_str(), vmas[0].rss), ("/d/a\nb", 4096));
    }

    const TEXT: &str = "7f000-83000 r-xp 00001000 fe:01 42     /opt/a b/lib.so (deleted)\n\
        Size:                 16 kB\nRss:                  8 kB\nPss:                  2 kB\n\
        Anonymous:             4 kB\nAnonHugePages:         0 kB\nSwap:                  4 kB\nVmFlags: rd ex mr\n\
        ffff0000-ffff1000 ---p 00000000 00:00 0 \nRss:                  0 kB\n";

    #[test]
    fn huge_pages_are_no_more_than_their_mapping() {
        let huge = "AnonHugePages: 18014398509481983 kB\n";
        let text = format!("1000-ffffffffffffe000 rw-p 0 00:00 0 \n{huge}{huge}");
        let vmas = parse(&text).unwrap();
        assert_eq!(vmas[0].huge, vmas[0].size());
    }

    #[test]
    fn entries_are_read() {
        let vmas = parse(TEXT).unwrap();
        assert_eq!(vmas.len(), 2);
        assert_eq!((vmas[0].rss, vmas[0].pss, vmas[0].swap), (8192, 2048, 4096));
        assert_eq!(vmas[0].anonymous, 4096);
        assert_eq!(vmas[0].name, "/opt/a b/lib.so (deleted)");
        assert!(vmas[0].is_executable() && !vmas[0].is_anonymous());
        assert!(vmas[1].is_without_access() && vmas[1].is_anonymous());
    }

    #[test]
    fn mappings_that_lie_over_each_other_are_noticed() {
        let text = "1000-3000 rw-p 0 00:00 0 \nRss: 8 kB\n2000-4000 rw-p 0 00:00 0 \nRss: 4 kB\n\
                    4000-5000 rw-p 0 00:00 0 \nRss: 4 kB\n";
        let mut vmas = parse(text).unwrap();
        assert!(!is_whole(&vmas));
        drop_overlaps(&mut vmas);
        assert!(is_whole(&vmas));
        assert_eq!(vmas.iter().map(|vma| vma.start).collect::<Vec<_>>(), [0x1000, 0x4000]);
    }

    #[test]
    fn other_text_is_refused() {
        assert_eq!(parse("hello\n"), None);
        assert_eq!(parse("Rss: 4 kB\n"), None);
        assert_eq!(parse(""), Some(vec![]));
    }

    #[test]
    fn fields_are_bytes() {
        let fields = parse_fields("Name:\tcat\nVmPTE:\t      40 kB\nThreads:\t7\n");
        assert_eq!(fields["VmPTE"], "40960");
        assert_eq!((fields["Name"].as_str(), fields["Threads"].as_str()), ("cat", "7"));
    }
}
