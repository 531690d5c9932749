// SPDX-License-Identifier: MIT
//! Stacks by unwind tables, from the copy of a stack.

use std::sync::Arc;

use framehop::{
    CacheNative, ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, UnwindRegsNative,
    Unwinder as _, UnwinderNative,
};

/// Deeper frames are the outermost ones of a recursion.
const MOST_FRAMES: usize = 256;

pub type Sections = ExplicitModuleSectionInfo<Arc<[u8]>>;

/// The unwind tables of one process.
#[derive(Clone, Default)]
pub struct Tables {
    unwinder: UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>,
}

impl Tables {
    /// The code at `start..end`, whose addresses are `bias` above those of its file.
    pub fn add(&mut self, start: u64, end: u64, bias: u64, sections: Sections) {
        self.unwinder.add_module(Module::new(String::new(), start..end, bias, sections));
    }

    pub fn remove(&mut self, bias: u64) {
        self.unwinder.remove_module(bias);
    }
}

/// A thread at the return from an allocation function.
pub struct Copy<'a> {
    pub ip: u64,
    pub sp: u64,
    pub fp: u64,
    /// Mean number of bytes between two such copies.
    pub distance: u64,
    /// What lies at `sp`.
    pub stack: &'a [u64],
}

#[derive(Default)]
pub struct Unwinder {
    cache: CacheNative<MayAllocateDuringUnwind>,
}

impl Unwinder {
    /// The return addresses, innermost first.
    pub fn unwind(&mut self, tables: &Tables, copy: &Copy, addresses: &mut Vec<u64>) {
        addresses.clear();
        let mut read = |address: u64| -> Result<u64, ()> {
            let distance = address.checked_sub(copy.sp).ok_or(())?;
            let at = usize::try_from(distance / 8).map_err(|_| ())?;
            if distance % 8 == 0 { copy.stack.get(at).copied().ok_or(()) } else { Err(()) }
        };
        let registers = registers(copy);
        let mut frames =
            tables.unwinder.iter_frames(copy.ip, registers, &mut self.cache, &mut read);
        while let Ok(Some(frame)) = frames.next() {
            addresses.push(frame.address());
            if addresses.len() >= MOST_FRAMES {
                break;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn registers(copy: &Copy) -> UnwindRegsNative {
    UnwindRegsNative::new(copy.ip, copy.sp, copy.fp)
}

/// What the link register held is not known any more, and only leaf functions need it.
#[cfg(target_arch = "aarch64")]
fn registers(copy: &Copy) -> UnwindRegsNative {
    UnwindRegsNative::new(copy.ip, copy.sp, copy.fp)
}
