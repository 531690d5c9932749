// SPDX-License-Identifier: MIT
//! A loaded ELF object as it lies in a process's memory, for where its file is gone: replaced by an
//! update, say. Of what `elf` reads from a file, what the loader needs is here too: the table of the
//! symbols for other objects, and where their addresses are stored.

use std::fs::File;
use std::os::unix::fs::FileExt;

use object::elf;

use crate::elf::{DATA_SYMBOLS, ElfInfo, Slot, marker_name, served_name, stores_symbol_address};
use crate::page_size;

/// More than the largest libraries have.
const MOST_HEADERS: u64 = 100;
const MOST_ENTRIES: u64 = 10_000;
const MOST_SYMBOLS: u64 = 1 << 20;
const MOST_RELOCATIONS: u64 = 1 << 21;
const LONGEST_NAMES: u64 = 64 << 20;
/// Sizes of the 64-bit format.
const SEGMENT: usize = 56;
const SYMBOL: usize = 24;
const RELOCATION: usize = 24;

/// The object whose first byte is mapped at an address; `None` if there is none of 64 bits.
pub fn read(memory: &File, base: u64) -> Option<ElfInfo> {
    let image = Image { memory, base, bias: 0 };
    let header = image.bytes(base, 64)?;
    let is_elf = header.starts_with(b"\x7fELF") && header[4] == elf::ELFCLASS64.0;
    if !is_elf || usize::from(half(&header, 54)) != SEGMENT {
        return None;
    }
    let segments = base.wrapping_add(word(&header, 32));
    let count = u64::from(half(&header, 56)).min(MOST_HEADERS);
    let segments = image.bytes(segments, count * SEGMENT as u64)?;
    let of_kind = |kind: elf::ProgramType| {
        let all = segments.chunks_exact(SEGMENT);
        all.filter(move |segment| number(segment, 0) == kind.0).map(|segment| word(segment, 16))
    };
    let first_vaddr = of_kind(elf::PT_LOAD).min()?;
    let bias = base.wrapping_sub(first_vaddr & !(page_size() - 1));
    let image = Image { bias, ..image };
    let dynamic = image.dynamic(bias.wrapping_add(of_kind(elf::PT_DYNAMIC).next()?))?;
    let mut info =
        ElfInfo { machine: half(&header, 18), is_64: true, first_vaddr, ..ElfInfo::default() };
    image.fill(&dynamic, &mut info)?;
    Some(info)
}

/// Tags and values.
type Dynamic = Vec<(u64, u64)>;

struct Image<'a> {
    memory: &'a File,
    base: u64,
    /// Add an address of the file to this.
    bias: u64,
}

impl Image<'_> {
    fn bytes(&self, address: u64, size: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        self.memory.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }

    fn dynamic(&self, address: u64) -> Option<Dynamic> {
        let mut entries = Vec::new();
        for index in 0..MOST_ENTRIES {
            let entry = self.bytes(address.wrapping_add(16 * index), 16)?;
            if word(&entry, 0) == 0 {
                break;
            }
            entries.push((word(&entry, 0), word(&entry, 8)));
        }
        Some(entries)
    }

    /// glibc adds the load address to the pointers in place, musl leaves them as they are in the file.
    fn pointer(&self, dynamic: &Dynamic, tag: elf::DynamicTag) -> Option<u64> {
        let value = value(dynamic, tag)?;
        Some(if value < self.base { self.bias.wrapping_add(value) } else { value })
    }

    fn fill(&self, dynamic: &Dynamic, info: &mut ElfInfo) -> Option<()> {
        let names = value(dynamic, elf::DT_STRSZ)?.min(LONGEST_NAMES);
        let names = self.bytes(self.pointer(dynamic, elf::DT_STRTAB)?, names)?;
        let text = |at: u64| text(&names, usize::try_from(at).ok()?);
        let needed = dynamic.iter().filter(|(tag, _)| *tag == elf::DT_NEEDED.0 as u64);
        info.needed = needed.filter_map(|(_, at)| text(*at)).map(str::to_owned).collect();
        info.soname = value(dynamic, elf::DT_SONAME).and_then(text).map(str::to_owned);
        let count = self.symbol_count(dynamic)?.min(MOST_SYMBOLS);
        let symbols = self.bytes(self.pointer(dynamic, elf::DT_SYMTAB)?, count * SYMBOL as u64)?;
        for symbol in symbols.chunks_exact(SYMBOL) {
            if let Some(name) = text(number(symbol, 0).into()) {
                add_symbol(info, name, half(symbol, 6) != 0, word(symbol, 8));
            }
        }
        let tables = [(elf::DT_RELA, elf::DT_RELASZ), (elf::DT_JMPREL, elf::DT_PLTRELSZ)];
        for (table, size) in tables {
            let Some(at) = self.pointer(dynamic, table) else { continue };
            let size = value(dynamic, size)?.min(MOST_RELOCATIONS * RELOCATION as u64);
            for relocation in self.bytes(at, size)?.chunks_exact(RELOCATION) {
                let (offset, what) = (word(relocation, 0), word(relocation, 8));
                let symbol = symbols.chunks_exact(SYMBOL).nth((what >> 32) as usize);
                let name = symbol.and_then(|symbol| text(number(symbol, 0).into()));
                let function = name.and_then(served_name);
                let is_stored = stores_symbol_address(info.machine, what as u32);
                info.slots.extend(
                    function.filter(|_| is_stored).map(|function| Slot { function, offset }),
                );
            }
        }
        Some(())
    }

    /// By a table of hashes, of either kind.
    fn symbol_count(&self, dynamic: &Dynamic) -> Option<u64> {
        if let Some(at) = self.pointer(dynamic, elf::DT_HASH) {
            return Some(number(&self.bytes(at, 8)?, 4).into());
        }
        let at = self.pointer(dynamic, elf::DT_GNU_HASH)?;
        let header = self.bytes(at, 16)?;
        let [buckets, first, bloom] = [0, 4, 8].map(|place| u64::from(number(&header, place)));
        let buckets_at = at.wrapping_add(16).wrapping_add(8 * bloom);
        let all = self.bytes(buckets_at, 4 * buckets.min(MOST_SYMBOLS))?;
        let last = all.chunks_exact(4).map(|bucket| u64::from(number(bucket, 0))).max()?;
        // Those of the last bucket, up to one that is marked.
        let chains = buckets_at.wrapping_add(4 * buckets);
        for symbol in last.max(first)..MOST_SYMBOLS {
            let hash = self.bytes(chains.wrapping_add(4 * (symbol - first)), 4)?;
            if last < first || number(&hash, 0) & 1 != 0 {
                return Some(if last < first { first } else { symbol + 1 });
            }
        }
        None
    }
}

fn add_symbol(info: &mut ElfInfo, name: &str, is_defined: bool, address: u64) {
    if let Some(served) = served_name(name) {
        if is_defined {
            info.defined.insert(served);
            info.definitions.push(Slot { function: served, offset: address });
        } else {
            info.imported.insert(served);
        }
    }
    if let Some(marker) = marker_name(name) {
        let markers =
            if is_defined { &mut info.defined_markers } else { &mut info.imported_markers };
        markers.insert(marker);
    }
    if let Some(known) = DATA_SYMBOLS.into_iter().find(|&known| known == name && is_defined) {
        info.data_symbols.insert(known, address);
    }
}

fn value(dynamic: &Dynamic, tag: elf::DynamicTag) -> Option<u64> {
    dynamic.iter().find(|(found, _)| *found == tag.0 as u64).map(|(_, value)| *value)
}

fn text(names: &[u8], at: usize) -> Option<&str> {
    let rest = names.get(at..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

fn bytes<const N: usize>(all: &[u8], at: usize) -> [u8; N] {
    all.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

fn half(all: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes(all, at))
}

fn number(all: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes(all, at))
}

fn word(all: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes(all, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps;

    /// What is read of the loaded objects of this process is what their files say.
    #[test]
    fn memory_says_what_the_file_says() {
        let maps = maps::parse(&std::fs::read("/proc/self/maps").unwrap());
        let memory = File::open("/proc/self/mem").unwrap();
        let mut compared = 0;
        for mapping in maps.iter().filter(|mapping| mapping.offset == 0 && mapping.inode != 0) {
            let Ok(Some(file)) = ElfInfo::read(&mapping.path) else { continue };
            let Some(image) = read(&memory, mapping.start) else {
                let now = maps::parse(&std::fs::read("/proc/self/maps").unwrap());
                let is_there = now
                    .iter()
                    .any(|other| other.start == mapping.start && other.path == mapping.path);
                assert!(!is_there, "{}", mapping.path.display());
                continue; // another test has unmapped it
            };
            let seen = |info: &ElfInfo| {
                let mut slots: Vec<_> =
                    info.slots.iter().map(|slot| (slot.offset, slot.function)).collect();
                slots.sort_unstable();
                (info.soname.clone(), info.needed.clone(), info.defined.clone(), slots)
            };
            assert_eq!(seen(&image), seen(&file), "{}", mapping.path.display());
            assert_eq!(image.imported, file.imported);
            assert_eq!((image.machine, image.first_vaddr), (file.machine, file.first_vaddr));
            compared += 1;
        }
        assert!(compared > 0, "nothing is loaded here");
    }
}
