// SPDX-License-Identifier: MIT
//! The loader's list of loaded objects, read from a process's memory: what debuggers use.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;
const PT_DYNAMIC: u32 = 2;
const PT_PHDR: u32 = 6;
const DT_NULL: u64 = 0;
const DT_DEBUG: u64 = 21;
const PROGRAM_HEADER_SIZE: u64 = 56;
/// More than any program loads; ends the walk if the list is torn.
const MAX_OBJECTS: usize = 10_000;

#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What the loader added to the addresses in the file.
    pub bias: u64,
}

/// The objects in the loader's order, the main program first. `None` where there is no list yet or it
/// cannot be read.
pub fn read(proc: &Path, memory: &File) -> Option<Vec<Entry>> {
    let auxv = std::fs::read(proc.join("auxv")).ok()?;
    let headers = auxiliary(&auxv, AT_PHDR)?;
    let count = auxiliary(&auxv, AT_PHNUM)?.min(1000);
    let (mut self_vaddr, mut dynamic_vaddr) = (None, None);
    for at in (0..count).map(|index| headers.wrapping_add(index * PROGRAM_HEADER_SIZE)) {
        match word(memory, at)? as u32 {
            PT_PHDR => self_vaddr = Some(word(memory, at.wrapping_add(16))?),
            PT_DYNAMIC => dynamic_vaddr = Some(word(memory, at.wrapping_add(16))?),
            _ => {}
        }
    }
    let bias = headers.wrapping_sub(self_vaddr?);
    let debug = debug_pointer(memory, bias.wrapping_add(dynamic_vaddr?))?;
    let mut next = word(memory, debug.wrapping_add(8))?;
    let mut entries = Vec::new();
    while next != 0 && entries.len() < MAX_OBJECTS {
        entries.push(Entry { bias: word(memory, next)? });
        next = word(memory, next.wrapping_add(24))?;
    }
    (!entries.is_empty()).then_some(entries)
}

fn debug_pointer(memory: &File, dynamic: u64) -> Option<u64> {
    for at in (0..1000).map(|index| dynamic.wrapping_add(index * 16)) {
        match word(memory, at)? {
            DT_NULL => return None,
            DT_DEBUG => return word(memory, at.wrapping_add(8)).filter(|pointer| *pointer != 0),
            _ => {}
        }
    }
    None
}

fn auxiliary(auxv: &[u8], key: u64) -> Option<u64> {
    auxv.chunks_exact(16).find_map(|pair| {
        let word = |at: usize| pair[at..at + 8].try_into().ok().map(u64::from_ne_bytes);
        (word(0)? == key).then(|| word(8))?
    })
}

fn word(memory: &File, address: u64) -> Option<u64> {
    let mut bytes = [0u8; 8];
    memory.read_exact_at(&mut bytes, address).ok()?;
    Some(u64::from_ne_bytes(bytes))
}
