// SPDX-License-Identifier: MIT
//! ELF files that code is mapped from: their identity, and where their segments belong.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::OFlag;
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, ReadCache, elf};

use super::unwind::Sections;
use mallow_process::maps::Mapping;
use mallow_process::page_size;

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
    fn read(path: &Path) -> Option<ElfFacts> {
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

/// The size of the exported function at an address of a file.
pub fn symbol_size(path: &Path, address: u64) -> Option<u64> {
    let cache = ReadCache::new(open_plain(path)?);
    let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let symbol = file.dynamic_symbols().find(|symbol| symbol.address() == address)?;
    Some(symbol.size())
}

/// What was read of files, by path and inode.
#[derive(Default)]
pub struct Files {
    facts: BTreeMap<(PathBuf, u64), Option<ElfFacts>>,
    sections: BTreeMap<(PathBuf, u64), Option<Sections>>,
}

impl Files {
    pub fn facts(&mut self, mapping: &Mapping) -> Option<&ElfFacts> {
        let key = (mapping.path.clone(), mapping.inode);
        self.facts.entry(key).or_insert_with_key(|(path, _)| ElfFacts::read(path)).as_ref()
    }

    pub fn sections(&mut self, mapping: &Mapping) -> Option<Sections> {
        let key = (mapping.path.clone(), mapping.inode);
        self.sections.entry(key).or_insert_with_key(|(path, _)| read_sections(path)).clone()
    }

    /// Where the file is not there any more: its code is usually linked to begin at address 0.
    pub fn bias(&mut self, mapping: &Mapping) -> u64 {
        self.facts(mapping)
            .and_then(|facts| facts.bias(mapping))
            .unwrap_or(mapping.start.wrapping_sub(mapping.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_found_although_the_one_before_ends_in_its_first_page() {
        let page = page_size();
        // As lld lays them out: code at 1.5 pages of the file belongs at 2.5 pages.
        let segments = vec![(0, page + page / 2, 0), (page * 3 / 2, page * 4, page * 5 / 2)];
        let facts = ElfFacts { segments, ..ElfFacts::default() };
        let mapping = |offset, start| Mapping {
            start,
            end: start + page,
            offset,
            inode: 1,
            path: PathBuf::new(),
            deleted: false,
            is_executable: false,
        };
        let base = 1 << 40;
        assert_eq!(facts.bias(&mapping(0, base)), Some(base));
        assert_eq!(facts.bias(&mapping(page, base + 2 * page)), Some(base));
        assert_eq!(facts.bias(&mapping(2 * page, base + 3 * page)), Some(base));
    }
}
