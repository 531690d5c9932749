// SPDX-License-Identifier: MIT
//! What stacks do not show, and what would.

use std::collections::BTreeMap;

use mallow_trace::Stacks;

use crate::analysis::Findings;
use crate::profile::{Frame, Profile};

/// Stacks that end too early are spoken of from this part of the allocations on.
const NOTEWORTHY: f64 = 0.05;
const MOST_NAMED: usize = 3;
/// Of Python 3, whose frames the recorder reads.
const PYTHONS: std::ops::RangeInclusive<u32> = 11..=15;

/// Sentences for the user. The profile has every frame.
pub fn gaps(findings: &Findings, profile: &Profile) -> Vec<String> {
    let callers = missing_callers(findings.header.stacks, profile);
    [callers, missing_python(findings), missing_ruby(findings)].into_iter().flatten().collect()
}

fn missing_callers(kind: Stacks, profile: &Profile) -> Option<String> {
    let (mut all, mut cut) = (0u64, 0u64);
    let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
    for sample in profile.samples.iter().filter(|sample| !sample.frames.is_empty()) {
        let frame = |index: &u32| &profile.frames[*index as usize];
        let blocks = sample.costs.allocated.blocks;
        all = all.saturating_add(blocks);
        let outermost: Vec<&Frame> = sample.frames.iter().rev().take(2).map(frame).collect();
        if outermost.iter().any(|frame| is_begin(frame)) {
            continue;
        }
        cut = cut.saturating_add(blocks);
        let module = outermost[0].module.as_deref().unwrap_or("code made at run time");
        *ends.entry(file_of(module)).or_default() += blocks;
    }
    let part = cut as f64 / all.max(1) as f64;
    if part < NOTEWORTHY {
        return None;
    }
    let mut ends: Vec<(&str, u64)> = ends.into_iter().collect();
    ends.sort_by_key(|(_, blocks)| std::cmp::Reverse(*blocks));
    let names: Vec<&str> = ends.iter().take(MOST_NAMED).map(|(name, _)| *name).collect();
    let percent = part * 100.0;
    let names = names.join(", ");
    Some(match kind {
        Stacks::Full => format!(
            "The outermost callers are missing in {percent:.0} % of the allocations that have a \
             stack: it is deeper than what is copied of it, or there are no unwind tables ({names})."
        ),
        _ => format!(
            "Callers are missing in {percent:.0} % of the allocations that have a stack, because \
             code keeps no frame pointers ({names}). Record with --stacks full, or build it with \
             -fno-omit-frame-pointer."
        ),
    })
}

/// Where a program or a thread begins, or where the loader runs a library's beginning.
fn is_begin(frame: &Frame) -> bool {
    const FUNCTIONS: [&str; 8] =
        ["main", "_start", "start_thread", "clone", "clone3", "__clone", "__clone3", "_start_c"];
    const FILES: [&str; 5] = ["libc.so.6", "ld-linux", "ld-musl-", "libc.musl-", "libpthread"];
    let file = file_of(frame.module.as_deref().unwrap_or_default());
    FUNCTIONS.contains(&frame.function.as_str())
        || frame.function.starts_with("__libc_start")
        || FILES.iter().any(|name| file.starts_with(name))
}

fn missing_python(findings: &Findings) -> Option<String> {
    let modules = || findings.modules.values().map(|module| module.path.as_str());
    if findings.stacks.frames.is_empty() || modules().any(|path| path.starts_with("[Python of ")) {
        return None;
    }
    let (file, minor) = modules().find_map(|path| {
        let file = file_of(path);
        let rest = file.strip_prefix("lib").unwrap_or(file).strip_prefix("python3.")?;
        let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next()?;
        Some((file, digits.parse::<u32>().ok()?))
    })?;
    let reason = if PYTHONS.contains(&minor) {
        "but not of a process that ran before it was recorded (-p), nor where the interpreter is \
         loaded later, nor of alphas and betas"
            .into()
    } else {
        format!("and this is 3.{minor}")
    };
    Some(format!(
        "Stacks through {file} show the interpreter's own functions, not those of Python: these are \
         known of Python 3.{} to 3.{}, {reason}.",
        PYTHONS.start(),
        PYTHONS.end()
    ))
}

fn missing_ruby(findings: &Findings) -> Option<String> {
    let modules = || findings.modules.values().map(|module| module.path.as_str());
    if findings.stacks.frames.is_empty() || modules().any(|path| path.starts_with("[Ruby of ")) {
        return None;
    }
    let file = modules().map(file_of).find(|file| file.starts_with("libruby"))?;
    Some(format!(
        "Stacks through {file} show the interpreter's own functions, not those of Ruby: these are \
         known of Ruby 3.1."
    ))
}

fn file_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::Amount;
    use crate::profile::Costs;

    #[test]
    fn callers_that_are_missing_are_said_with_the_remedy() {
        let mut profile = Profile::default();
        let mut frame = |function: &str, module: &str| {
            profile.intern(Frame {
                function: function.into(),
                module: Some(module.into()),
                ..Frame::default()
            })
        };
        let [grow, work, start] = [
            frame("grow", "/usr/lib/libgrow.so"),
            frame("work", "/bin/program"),
            frame("libc.so.6+0x27", "/lib/libc.so.6"),
        ];
        let costs =
            |blocks| Costs { allocated: Amount { blocks, bytes: 8 * blocks }, ..Costs::default() };
        profile.add(vec![grow, work, start], &costs(97));
        profile.add(vec![], &costs(1000));
        profile.add(vec![grow], &costs(3));
        assert_eq!(missing_callers(Stacks::Fp, &profile), None);
        profile.add(vec![grow], &costs(22));
        profile.add(vec![work], &costs(3));
        let note = missing_callers(Stacks::Fp, &profile).unwrap();
        assert!(note.contains("in 22 % of") && note.contains("--stacks full"), "{note}");
        assert!(note.contains("(libgrow.so, program)"), "{note}");
        let note = missing_callers(Stacks::Full, &profile).unwrap();
        assert!(note.contains("deeper than what is copied"), "{note}");
    }
}
