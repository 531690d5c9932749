//! ELF files that code is mapped from: their identity, and where their segments belong.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object, ReadCache, elf};

use crate::maps::Mapping;

#[derive(Clone, Debug, Default)]
pub struct ElfFacts {
    pub build_id: Vec<u8>,
    /// Offset in the file, size and address of each loadable segment.
    segments: Vec<(u64, u64, u64)>,
}

impl ElfFacts {
    fn read(path: &Path) -> Option<ElfFacts> {
        let cache = ReadCache::new(std::fs::File::open(path).ok()?);
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
    fn bias(&self, mapping: &Mapping) -> Option<u64> {
        let length = mapping.end - mapping.start;
        let (offset, _, address) = self.segments.iter().find(|(offset, size, _)| {
            *offset < mapping.offset + length && mapping.offset < offset + size
        })?;
        Some(mapping.start.wrapping_sub(address.wrapping_add(mapping.offset).wrapping_sub(*offset)))
    }
}

/// What was read of files, by path and inode.
#[derive(Default)]
pub struct Files {
    facts: BTreeMap<(PathBuf, u64), Option<ElfFacts>>,
}

impl Files {
    pub fn facts(&mut self, mapping: &Mapping) -> Option<&ElfFacts> {
        let key = (mapping.path.clone(), mapping.inode);
        self.facts.entry(key).or_insert_with_key(|(path, _)| ElfFacts::read(path)).as_ref()
    }

    /// Where the file is not there any more: its code is usually linked to begin at address 0.
    pub fn bias(&mut self, mapping: &Mapping) -> u64 {
        self.facts(mapping)
            .and_then(|facts| facts.bias(mapping))
            .unwrap_or(mapping.start.wrapping_sub(mapping.offset))
    }
}
