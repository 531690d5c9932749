// SPDX-License-Identifier: MIT
//! The allocators of a comparison: those that the user names, or all that can serve the program.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::allocator::{self, Allocator};
use crate::error::{Error, Result};
use crate::preload::Changes;
use crate::target::Target;
use crate::{embedded, preflight, prepare};
use mallow_process::allocators::{self, Family};

/// One allocator in the comparison.
#[derive(Clone, Debug)]
pub struct Contender {
    pub allocator: Allocator,
    pub changes: Changes,
}

/// What the user said about them.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// None named: all that are installed.
    pub allocators: &'a [String],
    pub baseline: Option<&'a str>,
    /// Mallow's other builds too.
    pub secure: bool,
    pub debug: bool,
    /// For the Mallow builds.
    pub options: &'a [(String, String)],
}

/// The baseline first: the one that is named, else the C library's own, else the first.
pub fn choose(args: Choice, target: &Target, note: &dyn Fn(&str)) -> Result<Vec<Contender>> {
    let mut allocators = if args.allocators.is_empty() {
        installed(args, target, note)?
    } else {
        let find = |name: &String| allocator::find(name.trim(), target.libc());
        args.allocators.iter().map(find).collect::<Result<Vec<_>>>()?
    };
    if let Some(name) = args.baseline {
        if allocators::is_system_name(name) {
            allocator::find(name, target.libc())?;
        }
        let wanted = |allocator: &Allocator| {
            allocator.name == name
                || (allocators::is_system_name(name) && allocator.family == Family::System)
        };
        let baseline = match allocators.iter().position(wanted) {
            Some(index) => allocators.remove(index),
            None => allocator::find(name, target.libc())?,
        };
        allocators.insert(0, baseline);
    } else if let Some(index) = allocators.iter().position(|a| a.family == Family::System) {
        let system = allocators.remove(index);
        allocators.insert(0, system);
    }
    for (index, allocator) in allocators.iter().enumerate() {
        if allocators[..index].iter().any(|other| other.name == allocator.name) {
            return Err(Error::Usage(format!(
                "The allocator {} is named twice. Give one of them another name: NAME=/path/lib.so.",
                allocator.name
            )));
        }
    }
    // Most notes are about the program, and the same for each allocator.
    let told = RefCell::new(BTreeSet::new());
    let note_once = |sentence: &str| {
        if told.borrow_mut().insert(sentence.to_owned()) {
            note(sentence);
        }
    };
    let mut contenders = Vec::new();
    for allocator in allocators {
        let options: &[(String, String)] = match allocator.family {
            Family::Mallow => args.options,
            _ => &[],
        };
        let changes = prepare::environment(target, &allocator, options, &note_once)?;
        match preflight::check(target, &allocator, &changes) {
            Ok(()) => {
                target.modules_note(&allocator).iter().for_each(|sentence| note_once(sentence));
                contenders.push(Contender { allocator, changes });
            }
            Err(error) if args.allocators.is_empty() && !contenders.is_empty() => {
                note(&format!("{} is left out: {error}", allocator.name));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(contenders)
}

/// Everything that is installed and can serve the target; Mallow's other builds only when asked
/// for.
fn installed(args: Choice, target: &Target, note: &dyn Fn(&str)) -> Result<Vec<Allocator>> {
    let (usable, _) = allocator::discover()?;
    let mut chosen = Vec::new();
    for allocator in usable {
        let skipped = match allocator.name.as_str() {
            "mallow-secure" => !args.secure,
            "mallow-debug" => !args.debug,
            _ => false,
        };
        if skipped {
            continue;
        }
        if allocator.family == Family::System {
            chosen.push(allocator::find("libc", target.libc())?);
            continue;
        }
        match target.check(&allocator) {
            Ok(_) => chosen.push(allocator),
            // If Mallow cannot serve the target, nothing can.
            Err(error) if embedded::by_name(&allocator.name).is_some() => return Err(error),
            Err(_) => note(&format!(
                "{} is left out: it is built for another C library than {}.",
                allocator.name, target.command
            )),
        }
    }
    Ok(chosen)
}
