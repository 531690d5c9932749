// SPDX-License-Identifier: MIT
//! Where to put a probe on a function.
//!
//! The kernel carries out the instruction under a probe either by itself (a push, a jump, a nop:
//! below a microsecond) or by a single step of the processor, whose trap costs many times that in a
//! virtual machine. So the probe goes to the first instruction of the kind that it knows, as long
//! as arguments and stack pointer are still those of the call.

use std::fs::File;
use std::io::Read;

use object::{Object, ObjectSegment, ObjectSymbol};

/// A function's place in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    pub offset: u64,
}

/// The functions of these names that a file defines; of several with one address, the first name.
pub fn find(mut file: &File, names: &[&'static str]) -> std::io::Result<Vec<(&'static str, Site)>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let invalid = |error: object::Error| std::io::Error::other(error.to_string());
    let file = object::File::parse(bytes.as_slice()).map_err(invalid)?;
    // Its instructions would be taken for others, and a probe in the middle of one ends the program.
    if !file.is_64() {
        let why = "it is a 32-bit one, and the calls of 64-bit programs alone can be followed";
        return Err(std::io::Error::other(why));
    }
    let mut found: Vec<(&'static str, u64)> = Vec::new();
    for &name in names {
        let is_it = |symbol: &object::Symbol| symbol.is_definition() && symbol.name() == Ok(name);
        let symbol = file.dynamic_symbols().chain(file.symbols()).find(is_it);
        let Some(address) = symbol.map(|symbol| symbol.address()) else { continue };
        if !found.iter().any(|&(_, other)| other == address) {
            found.push((name, address));
        }
    }
    let place = |address: u64| {
        let segment = file.segments().find(|segment| {
            (segment.address()..segment.address() + segment.size()).contains(&address)
        })?;
        let (offset, size) = segment.file_range();
        let start = offset + (address - segment.address());
        let end = (start + 64).min(offset + size);
        let code = bytes.get(start as usize..end as usize)?;
        Some(Site { offset: start + first_known(code) })
    };
    Ok(found.into_iter().filter_map(|(name, address)| Some((name, place(address)?))).collect())
}

/// How far into the function the probe goes.
#[cfg(target_arch = "x86_64")]
fn first_known(code: &[u8]) -> u64 {
    use iced_x86::{
        Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, OpAccess, Register,
    };
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let mut facts = InstructionInfoFactory::new();
    while decoder.can_decode() {
        let at = decoder.position();
        let instruction = decoder.decode();
        if kernel_knows(&code[at..at + instruction.len()]) {
            return at as u64;
        }
        let spoils = facts.info(&instruction).used_registers().iter().any(|used| {
            let is_write = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
            let full = used.register().full_register();
            is_write && [Register::RSP, Register::RDI, Register::RSI, Register::RDX].contains(&full)
        });
        if spoils || instruction.flow_control() != FlowControl::Next || instruction.is_invalid() {
            break;
        }
    }
    0
}

/// What `arch/x86/kernel/uprobes.c` emulates: nop, push of a register, call, jmp, jumps on
/// conditions.
#[cfg(target_arch = "x86_64")]
fn kernel_knows(instruction: &[u8]) -> bool {
    matches!(
        instruction,
        [0x90]
            | [0x50..=0x57]
            | [0x41, 0x50..=0x57]
            | [0xe8 | 0xe9, _, _, _, _]
            | [0xeb | 0x70..=0x7f, _]
            | [0x0f, 0x80..=0x8f, _, _, _, _]
    )
}

/// Other kernels emulate most of what functions begin with.
#[cfg(not(target_arch = "x86_64"))]
fn first_known(_code: &[u8]) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn probes_go_where_the_kernel_emulates() {
        // push %rbp
        assert_eq!(first_known(&[0x55, 0x48, 0x89, 0xe5]), 0);
        // endbr64; push %r12
        assert_eq!(first_known(&[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x54]), 4);
        // test %rdi,%rdi; je +16; push %rbp
        assert_eq!(first_known(&[0x48, 0x85, 0xff, 0x74, 0x10, 0x55]), 3);
        // sub $8,%rsp; push: the stack is not the caller's any more
        assert_eq!(first_known(&[0x48, 0x83, 0xec, 0x08, 0x55]), 0);
        // mov %rsi,%rdi; push: an argument is gone
        assert_eq!(first_known(&[0x48, 0x89, 0xf7, 0x55]), 0);
        assert_eq!(first_known(&[]), 0);
    }

    #[test]
    fn functions_of_a_library_are_found() {
        let exe = File::open(std::env::current_exe().unwrap()).unwrap();
        let found = find(&exe, &["main", "no_such_function"]).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].1.offset > 0);
    }
}
