// SPDX-License-Identifier: MIT
//! From the stacks of a trace to stacks with names.

use std::collections::HashMap;

use mallow_trace::{Module, ModuleKind};

use crate::analysis::Findings;
use crate::jit::perf_map_frame;
use crate::profile::{Frame, Profile};

/// Where names come from: the caller reads symbol tables, debug information and perf map files.
pub trait Names {
    /// The functions at an address of a module, innermost first; more than one where functions were
    /// inlined; empty where nothing is known.
    fn frames(&mut self, module: &Module, address: u64) -> Vec<Frame>;
}

/// Names every stack; each place is looked up once. `goes_on` is called before each, and says whether to.
pub fn name_stacks(
    findings: &Findings,
    names: &mut dyn Names,
    goes_on: &mut dyn FnMut() -> bool,
) -> Profile {
    let mut profile = Profile::default();
    let mut known: HashMap<mallow_trace::Frame, Vec<u32>> = HashMap::new();
    let mut is_over = false;
    for (stack, costs) in findings.stacks.costs(&findings.peak) {
        let places = findings.stacks.frames.get(&stack).map_or(&[][..], |frames| frames);
        let mut frames = Vec::with_capacity(places.len());
        for place in places {
            let of_place = known.entry(*place).or_insert_with(|| {
                is_over = is_over || !goes_on();
                if is_over {
                    return Vec::new();
                }
                let found = look_up(findings, names, *place);
                found.into_iter().map(|frame| profile.intern(frame)).collect()
            });
            frames.extend_from_slice(of_place);
        }
        profile.add(frames, &costs);
    }
    profile
}

/// At least one frame. The address is a return address: the call lies before it.
fn look_up(findings: &Findings, names: &mut dyn Names, place: mallow_trace::Frame) -> Vec<Frame> {
    let address = place.address.saturating_sub(1);
    let Some(module) = findings.modules.get(&place.module) else {
        return vec![unnamed("unknown module", address)];
    };
    let recorded = findings.symbols.get(&module.id).and_then(|symbols| {
        let (start, (size, name)) = symbols.range(..=address).next_back()?;
        (address - start < *size).then(|| perf_map_frame(name))
    });
    if let Some(frame) = recorded {
        return vec![frame];
    }
    let found = names.frames(module, address);
    if !found.is_empty() {
        return found;
    }
    match module.kind {
        // By address, each call would be a function of its own in flame graphs.
        ModuleKind::Jit => vec![named("(code without a name)")],
        ModuleKind::Vdso => vec![named("[vdso]")],
        ModuleKind::File => {
            let file = module.path.rsplit('/').next().unwrap_or(&module.path);
            let frame = unnamed(file, address);
            vec![Frame { module: Some(module.path.clone()), ..frame }]
        }
    }
}

fn named(function: &str) -> Frame {
    Frame { function: function.into(), ..Frame::default() }
}

fn unnamed(place: &str, address: u64) -> Frame {
    Frame { function: format!("{place}+{address:#x}"), ..Frame::default() }
}
