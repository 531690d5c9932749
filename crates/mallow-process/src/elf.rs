// SPDX-License-Identifier: MIT
//! What an ELF file says about memory allocation: its interpreter, what it needs, which of the
//! allocation functions it defines, imports and relocates. Of a large one only the parts needed are read.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use mallow_os::open_plain;
use object::elf;
use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::{
    Endianness, Object, ObjectSection as _, ObjectSymbol, ReadCache, ReadRef, RelocationFlags,
    RelocationTarget,
};

use crate::allocators;

/// The functions that decide who serves a program's memory.
pub const SERVED: [&str; 6] =
    ["malloc", "free", "calloc", "realloc", "operator new", "operator delete"];

/// Variables that tell another process about the heap of malloc or of a runtime.
pub(crate) const DATA_SYMBOLS: [&str; 3] =
    ["mw_stats_page", "TCMalloc_SystemTaken", "gHotSpotVMStructs"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Libc {
    Glibc,
    Musl,
}

impl Libc {
    pub fn name(self) -> &'static str {
        match self {
            Libc::Glibc => "glibc",
            Libc::Musl => "musl",
        }
    }
}

/// An allocation function and a place in one object: the function itself, or the word in which the
/// loader stores its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    pub function: &'static str,
    /// Relative to the object's load address.
    pub offset: u64,
}

#[derive(Clone, Debug, Default)]
pub struct ElfInfo {
    pub machine: u16,
    pub is_64: bool,
    pub interpreter: Option<String>,
    pub soname: Option<String>,
    pub needed: Vec<String>,
    /// The first loadable segment's address, which the load address is counted from.
    pub first_vaddr: u64,
    /// Functions of SERVED that other objects can bind to.
    pub defined: BTreeSet<&'static str>,
    /// Where those functions are, relative to the load address.
    pub definitions: Vec<Slot>,
    /// Functions of SERVED that this object asks others for.
    pub imported: BTreeSet<&'static str>,
    /// Marker symbols that it defines for others, asks for, or has inside.
    pub defined_markers: BTreeSet<&'static str>,
    pub imported_markers: BTreeSet<&'static str>,
    pub inner_markers: BTreeSet<&'static str>,
    pub slots: Vec<Slot>,
    /// Where it has variables of DATA_SYMBOLS, relative to the load address.
    pub data_symbols: BTreeMap<&'static str, u64>,
    pub is_go: bool,
}

/// A file that is no larger is read in one piece: else each name of a symbol is two calls of the kernel, of which
/// libc alone has three thousand.
const WHOLE: u64 = 8 << 20;

fn parse_class<'data, R: ReadRef<'data>>(class: u8, data: R) -> object::read::Result<ElfInfo> {
    if class == elf::ELFCLASS64.0 {
        parse::<elf::FileHeader64<Endianness>, _>(data)
    } else {
        parse::<elf::FileHeader32<Endianness>, _>(data)
    }
}

impl ElfInfo {
    /// Reads `path`; `None` if the file is not ELF at all.
    pub fn read(path: &Path) -> std::io::Result<Option<ElfInfo>> {
        let mut file = open_plain(path)?;
        let mut start = [0u8; 5];
        if file.read(&mut start)? < 5 || &start[..4] != b"\x7fELF" {
            return Ok(None);
        }
        let size = file.metadata()?.len();
        let info = if size <= WHOLE {
            file.rewind()?;
            let mut bytes = Vec::new();
            file.take(WHOLE).read_to_end(&mut bytes)?;
            parse_class(start[4], bytes.as_slice())
        } else {
            parse_class(start[4], &ReadCache::new(file))
        };
        info.map(Some).map_err(|error| {
            std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                format!("damaged ELF file: {error}"),
            )
        })
    }

    pub fn is_static(&self) -> bool {
        self.interpreter.is_none()
    }

    /// The C library that the file was linked with; `None` if it needs neither.
    pub fn libc(&self) -> Option<Libc> {
        if let Some(interpreter) = &self.interpreter {
            return Some(if interpreter.contains("ld-musl") { Libc::Musl } else { Libc::Glibc });
        }
        let needs = |name: &str| self.needed.iter().any(|needed| needed == name);
        if self.needed.iter().any(|needed| needed.starts_with("libc.musl-")) || needs("libc.so") {
            Some(Libc::Musl)
        } else if needs("libc.so.6") {
            Some(Libc::Glibc)
        } else {
            None
        }
    }

    pub fn machine_name(&self) -> String {
        match (elf::Machine(self.machine), self.is_64) {
            (elf::EM_X86_64, true) => "x86-64".into(),
            (elf::EM_X86_64, false) => "x32".into(),
            (elf::EM_386, _) => "32-bit x86".into(),
            (elf::EM_AARCH64, _) => "aarch64".into(),
            (elf::EM_ARM, _) => "32-bit arm".into(),
            (elf::EM_RISCV, _) => "riscv".into(),
            (elf::EM_PPC64, _) => "ppc64".into(),
            (elf::EM_S390, _) => "s390x".into(),
            (other, _) => format!("ELF machine {}", other.0),
        }
    }
}

/// `operator new` and `operator delete` stand for their mangled forms.
pub(crate) fn served_name(symbol: &str) -> Option<&'static str> {
    match symbol {
        "_Znwm" | "_Znam" | "_Znwj" | "_Znaj" => Some("operator new"),
        "_ZdlPv" | "_ZdaPv" | "_ZdlPvm" | "_ZdaPvm" => Some("operator delete"),
        other => SERVED.into_iter().find(|&name| name == other),
    }
}

/// The symbol, if it is one of the table of allocators.
pub(crate) fn marker_name(symbol: &str) -> Option<&'static str> {
    let known = allocators::by_symbol(symbol)?;
    known.symbols.iter().find(|&&marker| marker == symbol).copied()
}

/// The allocator that an object is, by its name and the symbols that it defines.
pub fn identify(path: &Path, info: &ElfInfo) -> String {
    let file = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    if file.starts_with("libc.so.6") || file.starts_with("libc-2") || file.starts_with("ld-linux") {
        return "glibc".into();
    }
    if file == "libc.so"
        || file.contains("ld-musl")
        || file.starts_with("libc.musl")
        || info.soname.as_deref() == Some("libc.so")
    {
        return "musl".into();
    }
    // A program that an allocator was linked into may tell others no more of it than malloc.
    let inside = || info.defined.contains("malloc").then_some(&info.inner_markers);
    match allocators::by_file(path)
        .or_else(|| allocators::by_symbols(&info.defined_markers))
        .or_else(|| allocators::by_symbols(inside()?))
    {
        Some(known) => known.name.to_owned(),
        None if file.is_empty() => "unknown".into(),
        None => file.to_owned(),
    }
}

/// The machine of this program, as ELF files name it.
pub fn own_machine() -> u16 {
    match std::env::consts::ARCH {
        "x86_64" => elf::EM_X86_64.0,
        "aarch64" => elf::EM_AARCH64.0,
        "riscv64" => elf::EM_RISCV.0,
        "powerpc64" => elf::EM_PPC64.0,
        "s390x" => elf::EM_S390.0,
        _ => 0,
    }
}

/// Whether a program was built by Go, with or without C in it.
pub fn is_go(path: &Path) -> bool {
    let Ok(file) = open_plain(path) else { return false };
    let data = ReadCache::new(file);
    let file = ElfFile::<elf::FileHeader64<Endianness>, _>::parse(&data);
    file.is_ok_and(|file| has_go_sections(&file))
}

/// The version of Go that built a program, such as `go1.22.5`, from Go 1.18 on.
pub fn go_version(path: &Path) -> Option<String> {
    /// A magic word, the size of pointers and flags, then the version behind its length.
    const MAGIC: &[u8] = b"\xff Go buildinf:";
    const FLAGS: usize = 15;
    const INLINE: u8 = 2;
    const VERSION: usize = 32;
    let file = open_plain(path).ok()?;
    let data = ReadCache::new(file.try_clone().ok()?);
    let elf = ElfFile::<elf::FileHeader64<Endianness>, _>::parse(&data).ok()?;
    let (offset, _) = elf.section_by_name(".go.buildinfo")?.file_range()?;
    let mut bytes = [0; 160];
    file.read_exact_at(&mut bytes, offset).ok()?;
    // Lengths of a byte do for all versions.
    let length = usize::from(bytes[VERSION]);
    if !bytes.starts_with(MAGIC) || bytes[FLAGS] & INLINE == 0 || length >= 128 {
        return None;
    }
    let text = std::str::from_utf8(bytes.get(VERSION + 1..VERSION + 1 + length)?).ok()?;
    text.contains("go1.").then(|| text.to_owned())
}

fn has_go_sections<'data, Elf, R>(file: &ElfFile<'data, Elf, R>) -> bool
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let sections = [".go.buildinfo", ".note.go.buildid"];
    sections.iter().any(|name| file.section_by_name(name).is_some())
}

/// How many bytes of address space a 64-bit file takes when it is loaded, zeroed data included.
pub fn loaded_size(path: &Path) -> Option<u64> {
    let data = ReadCache::new(open_plain(path).ok()?);
    let header = elf::FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let loaded =
        |segment: &&elf::ProgramHeader64<Endianness>| segment.p_type(endian) == elf::PT_LOAD;
    let segments = || header.program_headers(endian, &data).into_iter().flatten().filter(loaded);
    let start = segments().map(|segment| segment.p_vaddr(endian)).min()?;
    let end = segments()
        .map(|segment| segment.p_vaddr(endian).saturating_add(segment.p_memsz(endian)))
        .max()?;
    end.checked_sub(start)
}

fn parse<'data, Elf, R>(data: R) -> object::read::Result<ElfInfo>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let file: ElfFile<'data, Elf, R> = ElfFile::parse(data)?;
    let endian = file.endian();
    let header = file.elf_header();
    let mut info = ElfInfo {
        machine: header.e_machine(endian).0,
        is_64: header.is_type_64(),
        first_vaddr: u64::MAX,
        ..ElfInfo::default()
    };
    for segment in file.elf_program_headers() {
        match segment.p_type(endian) {
            elf::PT_LOAD => {
                info.first_vaddr = info.first_vaddr.min(segment.p_vaddr(endian).into());
            }
            elf::PT_INTERP => {
                let bytes = segment.data(endian, data).unwrap_or_default();
                let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
                info.interpreter = Some(String::from_utf8_lossy(text).into_owned());
            }
            _ => {}
        }
    }
    read_dynamic(&file, &mut info)?;
    read_symbols(&file, &mut info);
    info.slots = read_slots(&file, info.machine);
    info.is_go = has_go_sections(&file);
    Ok(info)
}

fn read_dynamic<'data, Elf, R>(
    file: &ElfFile<'data, Elf, R>,
    info: &mut ElfInfo,
) -> object::read::Result<()>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let table = file.elf_dynamic_table()?;
    for entry in &table {
        let text = |entry| -> object::read::Result<String> {
            Ok(String::from_utf8_lossy(table.string(entry)?).into_owned())
        };
        match entry.tag {
            elf::DT_NEEDED => info.needed.push(text(entry)?),
            elf::DT_SONAME => info.soname = Some(text(entry)?),
            _ => {}
        }
    }
    Ok(())
}

fn read_symbols<'data, Elf, R>(file: &ElfFile<'data, Elf, R>, info: &mut ElfInfo)
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    for symbol in file.dynamic_symbols() {
        let Ok(name) = symbol.name() else { continue };
        if let Some(served) = served_name(name) {
            if symbol.is_undefined() {
                info.imported.insert(served);
            } else {
                info.defined.insert(served);
                info.definitions.push(Slot { function: served, offset: symbol.address() });
            }
        }
        if let Some(marker) = marker_name(name) {
            let set = if symbol.is_undefined() {
                &mut info.imported_markers
            } else {
                &mut info.defined_markers
            };
            set.insert(marker);
        }
    }
    for symbol in file.dynamic_symbols().chain(file.symbols()) {
        let known = |name: &str| DATA_SYMBOLS.into_iter().find(|&known| known == name);
        if let Some(name) = symbol.name().ok().and_then(known)
            && !symbol.is_undefined()
        {
            info.data_symbols.insert(name, symbol.address());
        }
    }
    for symbol in file.symbols().filter(|symbol| !symbol.is_undefined()) {
        if let Some(marker) = symbol.name().ok().and_then(marker_name) {
            info.inner_markers.insert(marker);
        }
    }
}

/// The relocation types by which a whole address of a symbol is stored, lazily or at start.
pub(crate) fn stores_symbol_address(machine: u16, relocation: u32) -> bool {
    match elf::Machine(machine) {
        elf::EM_X86_64 => matches!(relocation, 1 | 6 | 7),
        elf::EM_AARCH64 => matches!(relocation, 257 | 1025 | 1026),
        _ => false,
    }
}

fn read_slots<'data, Elf, R>(file: &ElfFile<'data, Elf, R>, machine: u16) -> Vec<Slot>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let Some(relocations) = file.dynamic_relocations() else { return Vec::new() };
    let symbols = file.elf_dynamic_symbol_table();
    let mut slots = Vec::new();
    for (offset, relocation) in relocations {
        let RelocationTarget::Symbol(index) = relocation.target() else { continue };
        let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
        if !stores_symbol_address(machine, r_type.0) {
            continue;
        }
        let name =
            symbols.symbol(index).and_then(|symbol| symbols.symbol_name(file.endian(), symbol));
        let Some(name) = name.ok().and_then(|name| std::str::from_utf8(name).ok()) else {
            continue;
        };
        if let Some(function) = served_name(name) {
            slots.push(Slot { function, offset });
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_is_a_dynamic_program_of_this_machine() {
        let info = ElfInfo::read(Path::new("/bin/sh")).expect("readable").expect("ELF");
        assert!(!info.is_static());
        assert!(info.is_64 && !info.is_go);
        assert!(info.libc().is_some());
        assert!(info.imported.contains("malloc") && info.defined.is_empty());
        assert!(info.slots.iter().any(|slot| slot.function == "malloc"));
    }

    #[test]
    fn text_is_not_elf_and_a_cut_file_is_an_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("file");
        std::fs::write(&path, "#!/bin/sh\n").expect("writable");
        assert!(ElfInfo::read(&path).expect("readable").is_none());
        let shell = std::fs::read("/bin/sh").expect("readable");
        std::fs::write(&path, &shell[..40]).expect("writable");
        let error = ElfInfo::read(&path).expect_err("40 bytes are no program");
        assert!(error.to_string().contains("damaged ELF file"));
    }
}
