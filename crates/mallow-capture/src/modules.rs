// SPDX-License-Identifier: MIT
//! ELF files that code is mapped from: their identity, and where their segments belong.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::OFlag;
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, ReadCache, elf};

use super::unwind::Sections;
use mallow_process::binding;
use mallow_process::maps::Mapping;
use mallow_process::page_size;
use mallow_process::stat::folder;

/// A plain file, for reading. Maps and debug links may name anything: to open a device can do
/// something, and to open a pipe waits for its other end.
pub fn open_plain(path: &Path) -> Option<File> {
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    // Another file may have taken its place since.
    let flags = (OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().is_ok_and(|found| found.is_file()).then_some(file)
}

#[derive(Clone, Debug, Default)]
pub struct ElfFacts {
    pub build_id: Vec<u8>,
    /// Offset in the file, size and address of each loadable segment.
    segments: Vec<(u64, u64, u64)>,
}

impl ElfFacts {
    pub fn read(path: &Path) -> Option<ElfFacts> {
        let cache = ReadCache::new(open_plain(path)?);
        let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let endian = file.endian();
        let mut facts = ElfFacts {
            build_id: file.build_id().ok().flatten().unwrap_or_default().to_vec(),
            segments: Vec::new(),
        };
        for segment in file.elf_header().program_headers(endian, &cache).ok()? {
            if segment.p_type(endian) == elf::PT_LOAD {
                let (offset, size) = (segment.p_offset(endian), segment.p_filesz(endian));
                facts.segments.push((offset, size, segment.p_vaddr(endian)));
            }
        }
        Some(facts)
    }

    /// What to subtract from an address in this mapping to get the file's own.
    ///
    /// A segment that begins within a page is mapped from the page's begin, where the end of the
    /// segment before may lie as well; of all that the first page holds, the last one is meant.
    fn bias(&self, mapping: &Mapping) -> Option<u64> {
        // Both may say anything.
        let first_page = mapping.end.saturating_sub(mapping.start).min(page_size());
        let candidates = self.segments.iter().filter(|(offset, size, _)| {
            *offset < mapping.offset.saturating_add(first_page)
                && mapping.offset < offset.saturating_add(*size)
        });
        let (offset, _, address) = candidates.max_by_key(|(offset, _, _)| *offset)?;
        Some(mapping.start.wrapping_sub(address.wrapping_add(mapping.offset).wrapping_sub(*offset)))
    }
}

/// The parts that unwinding needs. They may be large, so they are read only for it.
fn read_sections(path: &Path) -> Option<Sections> {
    let cache = ReadCache::new(open_plain(path)?);
    let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let range = |name: &str| {
        let section = file.section_by_name(name)?;
        Some(section.address()..section.address() + section.size())
    };
    let data = |name: &str| -> Option<Arc<[u8]>> {
        Some(file.section_by_name(name)?.uncompressed_data().ok()?.as_ref().into())
    };
    Some(Sections {
        base_svma: 0,
        text_svma: range(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        ..Sections::default()
    })
}

/// The size of the exported function at an address of a file, if that is of this build.
pub fn symbol_size(path: &Path, build_id: &[u8], address: u64) -> Option<u64> {
    let cache = ReadCache::new(open_plain(path)?);
    let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    if file.build_id().ok()?.unwrap_or_default() != build_id {
        return None;
    }
    let symbol = file.dynamic_symbols().find(|symbol| symbol.address() == address)?;
    Some(symbol.size())
}

/// Where nothing is known of the file: its code is usually linked to begin at address 0.
pub fn bias(facts: Option<&ElfFacts>, mapping: &Mapping) -> u64 {
    let known = facts.and_then(|facts| facts.bias(mapping));
    known.unwrap_or(mapping.start.wrapping_sub(mapping.offset))
}

/// Path and inode: a file that has the name by now may be another build.
type Key = (PathBuf, u64);

/// What was read of the files that processes have mapped. Those that could not be found are looked for again: the process
/// that is asked next may see them.
#[derive(Default)]
pub struct Files {
    facts: BTreeMap<Key, ElfFacts>,
    sections: BTreeMap<Key, Sections>,
}

impl Files {
    pub fn facts(&mut self, pid: u32, mapping: &Mapping) -> Option<&ElfFacts> {
        known(&mut self.facts, pid, mapping, ElfFacts::read)
    }

    pub fn sections(&mut self, pid: u32, mapping: &Mapping) -> Option<Sections> {
        known(&mut self.sections, pid, mapping, read_sections).cloned()
    }

    pub fn bias(&mut self, pid: u32, mapping: &Mapping) -> u64 {
        bias(self.facts(pid, mapping), mapping)
    }
}

fn known<'a, T>(
    files: &'a mut BTreeMap<Key, T>,
    pid: u32,
    mapping: &Mapping,
    read: fn(&Path) -> Option<T>,
) -> Option<&'a T> {
    match files.entry((mapping.path.clone(), mapping.inode)) {
        Entry::Occupied(known) => Some(known.into_mut()),
        Entry::Vacant(unknown) => {
            let proc = folder(pid);
            let mut places = binding::places(&proc, mapping);
            Some(unknown.insert(places.find_map(|(place, _)| read(&place))?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn mapping(path: PathBuf, inode: u64, offset: u64, start: u64) -> Mapping {
        let end = start + page_size();
        Mapping { start, end, offset, inode, path, deleted: false, is_executable: true }
    }

    #[test]
    fn a_segment_is_found_although_the_one_before_ends_in_its_first_page() {
        let page = page_size();
        // As lld lays them out: code at 1.5 pages of the file belongs at 2.5 pages.
        let segments = vec![(0, page + page / 2, 0), (page * 3 / 2, page * 4, page * 5 / 2)];
        let facts = ElfFacts { segments, ..ElfFacts::default() };
        let mapping = |offset, start| mapping(PathBuf::new(), 1, offset, start);
        let base = 1 << 40;
        assert_eq!(facts.bias(&mapping(0, base)), Some(base));
        assert_eq!(facts.bias(&mapping(page, base + 2 * page)), Some(base));
        assert_eq!(facts.bias(&mapping(2 * page, base + 3 * page)), Some(base));
    }

    #[test]
    fn another_file_that_has_the_name_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let (path, newer) = (folder.path().join("libx.so"), folder.path().join("newer"));
        for copy in [&path, &newer] {
            std::fs::copy("/proc/self/exe", copy).unwrap();
        }
        let mapping = mapping(path.clone(), path.metadata().unwrap().ino(), 0, 1 << 40);
        let found = || {
            let (pid, mut files) = (std::process::id(), Files::default());
            let is_known = files.facts(pid, &mapping).is_some();
            (is_known, files.sections(pid, &mapping).is_some(), files.bias(pid, &mapping))
        };
        assert!(matches!(found(), (true, true, _)));
        std::fs::rename(&newer, &path).unwrap();
        assert_eq!(found(), (false, false, 1 << 40));
    }
}
