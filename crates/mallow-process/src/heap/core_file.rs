// SPDX-License-Identifier: MIT
//! Mallow's heap in the core file of a process that has ended: what the kernel wrote of its memory, and, for
//! what it left out, the files that were mapped there.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, ReadCache};

use super::bounded::Bounded;
use super::{mallow, stats_page};
use crate::memory::Memory;

/// A heap of any size is read in less.
const TIME: Duration = Duration::from_secs(30);

/// Whether a file that begins so is a core file of a 64-bit process.
pub fn is_core(head: &[u8]) -> bool {
    let is_elf = head.starts_with(b"\x7fELF") && head.get(4) == Some(&elf::ELFCLASS64.0);
    is_elf && head.get(16..18) == Some(&elf::ET_CORE.0.to_le_bytes())
}

/// The heap; `None` where the file has no statistics page of Mallow's.
///
/// # Errors
///
/// If the file cannot be read, or its headers are damaged.
pub fn read(file: File) -> io::Result<Option<mallow::Heap>> {
    let core = Core::open(file)?;
    let memory = Bounded::new(&core, TIME);
    let ranges = core.mapped.iter().filter(|mapped| mapped.is_object);
    let heaps = ranges.filter_map(|mapped| {
        let page = stats_page::search(&memory, &[(mapped.start, mapped.end)])?;
        mallow::read(&memory, &page)
    });
    // A library that is there without serving malloc has no arenas.
    let mut heaps = heaps.peekable();
    let first = heaps.peek().cloned();
    Ok(heaps.find(|heap| !heap.arenas.is_empty()).or(first))
}

/// Addresses of which the core file has the content.
struct Segment {
    start: u64,
    end: u64,
    offset: u64,
}

/// Addresses where a file was mapped.
struct Mapped {
    start: u64,
    end: u64,
    offset: u64,
    /// Index of `files`.
    file: usize,
    is_object: bool,
}

struct Core {
    file: File,
    /// Both by address.
    segments: Vec<Segment>,
    mapped: Vec<Mapped>,
    files: Vec<File>,
}

impl Core {
    fn open(file: File) -> io::Result<Core> {
        let damaged =
            |error: object::read::Error| io::Error::new(io::ErrorKind::InvalidData, error);
        let data = ReadCache::new(file.try_clone()?);
        let header = FileHeader64::<Endianness>::parse(&data).map_err(damaged)?;
        let endian = header.endian().map_err(damaged)?;
        let mut core = Core { file, segments: vec![], mapped: vec![], files: vec![] };
        for program in header.program_headers(endian, &data).map_err(damaged)? {
            if program.p_type(endian) == elf::PT_LOAD {
                let (start, offset) = (program.p_vaddr(endian), program.p_offset(endian));
                let end = start.saturating_add(program.p_filesz(endian));
                core.segments.push(Segment { start, end, offset });
            }
            // Without its notes, as when it is cut off, a core file still has memory.
            let Ok(Some(mut notes)) = program.notes(endian, &data) else { continue };
            while let Ok(Some(note)) = notes.next() {
                if note.n_type(endian) == elf::NT_FILE && note.name() == b"CORE" {
                    core.note_files(note.desc());
                }
            }
        }
        core.segments.sort_by_key(|segment| segment.start);
        core.mapped.sort_by_key(|mapped| mapped.start);
        Ok(core)
    }

    /// NT_FILE: how many, the size of a page, for each a start, an end and an offset in pages; then the names.
    fn note_files(&mut self, note: &[u8]) {
        let (words, _) = note.as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let (Some(count), Some(page)) = (words.next(), words.next()) else { return };
        let Some(names_at) = count.checked_mul(24).and_then(|bytes| bytes.checked_add(16)) else {
            return;
        };
        let names =
            usize::try_from(names_at).ok().and_then(|at| note.get(at..)).unwrap_or_default();
        let mut known = HashMap::new();
        for name in names.split(|byte| *byte == 0).take(count as usize) {
            let (Some(start), Some(end), Some(at)) = (words.next(), words.next(), words.next())
            else {
                return;
            };
            let path = Path::new(OsStr::from_bytes(name));
            let found = *known.entry(name).or_insert_with(|| self.open_mapped(path));
            if let Some((file, is_object)) = found {
                let offset = at.saturating_mul(page);
                // There is nothing behind the end of the file, whatever the note says.
                let length = self.files[file].metadata().map_or(0, |found| found.len());
                let end = end.min(start.saturating_add(length.saturating_sub(offset)));
                self.mapped.push(Mapped { start, end, offset, file, is_object });
            }
        }
    }

    /// The index of the file, and whether it is a program or library.
    fn open_mapped(&mut self, path: &Path) -> Option<(usize, bool)> {
        if !path.is_absolute() || !path.metadata().is_ok_and(|found| found.is_file()) {
            return None;
        }
        let file = File::open(path).ok()?;
        let mut magic = [0; 4];
        let is_object = file.read_exact_at(&mut magic, 0).is_ok() && &magic == b"\x7fELF";
        self.files.push(file);
        Some((self.files.len() - 1, is_object))
    }

    /// Where the content of an address is, and how far it goes on.
    fn place(&self, address: u64) -> Option<(&File, u64, u64)> {
        let behind = self.segments.partition_point(|segment| segment.start <= address);
        let segment = behind.checked_sub(1).map(|index| &self.segments[index]);
        if let Some(segment) = segment.filter(|segment| address < segment.end) {
            let offset = segment.offset.checked_add(address - segment.start)?;
            return Some((&self.file, offset, segment.end - address));
        }
        let behind_mapped = self.mapped.partition_point(|mapped| mapped.start <= address);
        let mapped = &self.mapped[behind_mapped.checked_sub(1)?];
        if address >= mapped.end {
            return None;
        }
        // The kernel may have written a part only: what it wrote holds.
        let next = self.segments.get(behind).map_or(u64::MAX, |segment| segment.start);
        let offset = mapped.offset.checked_add(address - mapped.start)?;
        Some((&self.files[mapped.file], offset, mapped.end.min(next) - address))
    }
}

impl Memory for Core {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let (mut at, mut rest) = (address, buffer);
        while !rest.is_empty() {
            let (file, offset, length) = self.place(at)?;
            let length = length.min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(length as usize);
            file.read_exact_at(now, offset).ok()?;
            rest = later;
            at = at.checked_add(length)?;
        }
        Some(())
    }
}
