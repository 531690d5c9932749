// SPDX-License-Identifier: MIT
//! What the runtimes of languages keep where, beside malloc's heap, told by what lies in memory:
//! nothing of the process is called, and no symbol is needed but Java's.

pub mod go;
mod hsperf;
mod java;
pub mod native;
mod python;
mod ruby;
mod v8;

use serde::{Deserialize, Serialize};

use crate::binding::Inspector;
use crate::mappings::{Kind, Runtime, Space, runtime};
use crate::memory::Memory;
use crate::process::Process;
use crate::smaps::Vma;

/// Places that are looked at in one process: each may cost 64 KiB of reading.
const MOST_PLACES: u64 = 1 << 16;

/// What a runtime keeps, by its own headers; sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub what: String,
    pub size: u64,
    /// By objects that are there, dead ones that were not yet collected included.
    pub used: Option<u64>,
    /// Of a part of something that has mappings; the others' is that of the mappings so named.
    #[serde(default)]
    pub rss: Option<u64>,
}

#[derive(Debug, Default)]
pub struct Found {
    pub spaces: Vec<Space>,
    pub kept: Vec<Kept>,
    /// Of the runtime, as it calls itself.
    pub version: Option<String>,
}

pub fn find(process: &Process, memory: &dyn Memory, inspector: &mut Inspector) -> Found {
    match runtime(process) {
        Runtime::Python => python::find(process, memory),
        Runtime::Ruby => ruby::find(process, memory),
        Runtime::Go => go::find(process, memory),
        Runtime::Node => v8::find(process, memory),
        Runtime::Java => java::find(process, memory, inspector),
        Runtime::Erlang | Runtime::Libgc | Runtime::None => Found::default(),
    }
}

/// Memory that a runtime may have taken from the kernel. The smallest comes first: a block of
/// gigabytes does not use up the looks that others need.
fn own_mappings(process: &Process) -> impl Iterator<Item = &Vma> {
    let is_own = |vma: &&Vma| {
        let is_low = vma.end < 1 << 57;
        vma.is_anonymous()
            && vma.is_private()
            && vma.name.is_empty()
            && is_low
            && vma.rss + vma.swap > 0
    };
    let mut own: Vec<&Vma> = process.vmas.iter().filter(is_own).collect();
    own.sort_by_key(|vma| vma.size());
    own.into_iter()
}

/// The multiples of a size that a mapping holds whole, as long as places are left to be looked at.
fn places<'a>(vma: &Vma, size: u64, left: &'a mut u64) -> impl Iterator<Item = u64> + use<'a> {
    let last = vma.end.saturating_sub(size);
    let all = (vma.start.next_multiple_of(size)..=last).step_by(size as usize);
    all.take_while(move |_| {
        let is_one_left = *left > 0;
        *left = left.saturating_sub(1);
        is_one_left
    })
}

/// Ranges that lie one behind the other, or not farther apart than this, become one.
fn joined(ranges: &[(u64, u64)], gap: u64) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for &(start, end) in ranges {
        match joined.last_mut() {
            Some(last) if start <= last.1.saturating_add(gap) => last.1 = end.max(last.1),
            _ => joined.push((start, end)),
        }
    }
    joined
}

fn space((start, end): (u64, u64), kind: Kind, label: &str) -> Space {
    Space { start, end, kind, label: label.to_owned() }
}

/// A word of bytes that were read.
fn word(bytes: &[u8], index: usize) -> u64 {
    bytes
        .get(8 * index..8 * index + 8)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

/// A half word of these.
fn half(bytes: &[u8], index: usize) -> u64 {
    let half = bytes.get(4 * index..4 * index + 4).and_then(|b| b.try_into().ok());
    half.map_or(0, |bytes| u32::from_le_bytes(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_are_one() {
        let ranges = [(0, 10), (10, 20), (25, 30), (50, 60)];
        assert_eq!(joined(&ranges, 0), [(0, 20), (25, 30), (50, 60)]);
        assert_eq!(joined(&ranges, 5), [(0, 30), (50, 60)]);
    }

    #[test]
    fn the_smallest_mappings_come_first() {
        let vma = |start, end| Vma { start, end, perms: "rw-p".into(), rss: 1, ..Vma::default() };
        let vmas = vec![vma(0x1000, 0x9000), vma(0xa000, 0xb000), vma(0xc000, 0xe000)];
        let process = Process { vmas, ..Process::default() };
        let starts: Vec<u64> = own_mappings(&process).map(|vma| vma.start).collect();
        assert_eq!(starts, [0xa000, 0xc000, 0x1000]);
    }

    #[test]
    fn whole_multiples_alone_are_places() {
        let vma = Vma { start: 0x1800, end: 0x5800, ..Vma::default() };
        let mut left = 5;
        assert_eq!(places(&vma, 0x1000, &mut left).collect::<Vec<_>>(), [0x2000, 0x3000, 0x4000]);
        assert_eq!((places(&vma, 0x1000, &mut left).count(), left), (2, 0));
        let small = Vma { start: 0x1800, end: 0x2800, ..Vma::default() };
        assert_eq!(places(&small, 0x1000, &mut 5).count(), 0);
    }
}
