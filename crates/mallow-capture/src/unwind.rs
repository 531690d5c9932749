// SPDX-License-Identifier: MIT
//! Stacks by unwind tables, from the copy of a stack.

use std::sync::Arc;

use framehop::{
    CacheNative, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module,
    UnwindRegsNative, Unwinder as _, UnwinderNative,
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

    /// Code whose every function has one word between its return address and that of what it calls.
    pub fn add_one_word_frames(&mut self, start: u64, end: u64) {
        let eh_frame: Arc<[u8]> = one_word_frames(end.saturating_sub(start)).into();
        let sections = Sections {
            eh_frame_svma: Some(0..eh_frame.len() as u64),
            eh_frame: Some(eh_frame),
            ..Sections::default()
        };
        self.add(start, end, start, sections);
    }

    /// What begins at `start`.
    pub fn remove(&mut self, start: u64) {
        self.unwinder.remove_module(start);
    }
}

/// An .eh_frame (Linux Standard Base, 10.6.1) for code of this length from address 0 on: the caller's
/// stack pointer is 16 above, and its return address lies below that.
fn one_word_frames(length: u64) -> Vec<u8> {
    const RSP: u8 = 7;
    const RETURN_ADDRESS: u8 = 16;
    const DEF_CFA: u8 = 0x0c;
    const OFFSET: u8 = 0x80;
    // Version 1, no augmentation, factors 1 and -8; padded to 20 bytes with DW_CFA_nop.
    let rule = [DEF_CFA, RSP, 16, OFFSET | RETURN_ADDRESS, 1, 0, 0];
    let mut bytes = [&20u32.to_le_bytes()[..], &[0; 4], &[1, 0, 1, 0x78, RETURN_ADDRESS]].concat();
    bytes.extend(rule);
    bytes.resize(24, 0);
    let to_rule = bytes.len() as u32 + 4;
    bytes.extend(20u32.to_le_bytes());
    bytes.extend(to_rule.to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend([0; 4]);
    bytes
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
pub struct Unwound {
    pub addresses: Vec<u64>,
    pub ends: Vec<u64>,
}

#[derive(Default)]
pub struct Unwinder {
    cache: CacheNative<MayAllocateDuringUnwind>,
}

impl Unwinder {
    /// The return addresses, innermost first, and where in the stack the frames end that they are of.
    pub fn unwind(&mut self, tables: &Tables, copy: &Copy, stack: &mut Unwound) {
        let Unwound { addresses, ends } = stack;
        addresses.clear();
        ends.clear();
        let mut read = |address: u64| -> Result<u64, ()> {
            let distance = address.checked_sub(copy.sp).ok_or(())?;
            let at = usize::try_from(distance / 8).map_err(|_| ())?;
            if distance % 8 == 0 { copy.stack.get(at).copied().ok_or(()) } else { Err(()) }
        };
        let mut registers = registers(copy);
        let mut next = Some(FrameAddress::from_instruction_pointer(copy.ip));
        while let Some(frame) = next
            && addresses.len() < MOST_FRAMES
        {
            let (cache, unwinder) = (&mut self.cache, &tables.unwinder);
            let caller = unwinder.unwind_frame(frame, &mut registers, cache, &mut read);
            addresses.push(frame.address());
            ends.push(registers.sp());
            next = caller.ok().flatten().and_then(FrameAddress::from_return_address);
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    fn unwound(tables: &Tables, copy: &Copy) -> Vec<u64> {
        let mut stack = Unwound::default();
        Unwinder::default().unwind(tables, copy, &mut stack);
        stack.addresses
    }

    #[test]
    fn frames_of_one_word_are_passed_until_their_code_is_removed() {
        let mut tables = Tables::default();
        tables.add_one_word_frames(0x10000, 0x20000);
        let stack = [7, 0x10013, 7, 0x1ffff, 7, 0x500];
        let copy = Copy { ip: 0x10006, sp: 0x7000, fp: 0, distance: 1, stack: &stack };
        assert_eq!(unwound(&tables, &copy), [0x10006, 0x10013, 0x1ffff, 0x500]);
        let mut frames = Unwound::default();
        Unwinder::default().unwind(&tables, &copy, &mut frames);
        assert_eq!(frames.ends[..3], [0x7010, 0x7020, 0x7030]);
        tables.remove(0x10000);
        assert_eq!(unwound(&tables, &copy), [0x10006]);
    }
}
