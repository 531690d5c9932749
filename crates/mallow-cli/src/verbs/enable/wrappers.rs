// SPDX-License-Identifier: MIT
//! Scripts that run a command under an allocator: `jemalloc.sh COMMAND`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::Plan;
use crate::error::{Error, Result};
use mallow_enabling::{Place, System, Wanted, absolute};
use mallow_launch::Allocator;
use mallow_launch::words::quoted;
use mallow_launch::{allocator, installed};
use mallow_process::allocators::{KNOWN, Origin, is_system_name};

pub fn plan(names: &[String], folder: &Path, system: &System) -> Result<Plan> {
    let folder = absolute(folder)
        .map_err(Error::io(format!("The folder {} cannot be used", folder.display())))?;
    if !mallow_process::can_be_read() {
        return Err(Error::Unsupported(mallow_process::NO_PROC.into()));
    }
    let tool = std::env::current_exe()
        .map_err(Error::io("The place of the command mallow cannot be told"))?;
    let chosen = chosen(names, system)?;
    let files = chosen
        .iter()
        .map(|(word, allocator)| Wanted {
            place: Place::Wrapper { folder: folder.clone() },
            allocator: allocator.name.clone(),
            word: word.clone(),
            library: allocator.path.clone().unwrap_or_default(),
            file: folder.join(format!("{}.sh", allocator.name)),
            text: script(word, &allocator.name, &tool),
            mode: 0o755,
        })
        .collect();
    let mut next = Vec::new();
    let is_on_path = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|other| other == folder));
    if !is_on_path && system.is_running() {
        let shown = quoted(folder.as_os_str());
        next.push(format!("The shell does not look there; to let it: PATH=$PATH:{shown}"));
    }
    let undo = format!("--wrappers {}", quoted(folder.as_os_str()));
    Ok(Plan { files, next, undo, ..Plan::default() })
}

/// What `-a` of `run` needs, and the allocator; all that are installed if none is named.
fn chosen(names: &[String], system: &System) -> Result<Vec<(String, Allocator)>> {
    if names.is_empty() {
        let mut chosen: Vec<(String, Allocator)> = Vec::new();
        for allocator in all(system)? {
            // One of each name: `run` takes the one that fits the program.
            if chosen.iter().all(|(name, _)| *name != allocator.name) {
                chosen.push((allocator.name.clone(), allocator));
            }
        }
        return Ok(chosen);
    }
    let named = |name: &String| {
        if is_system_name(name) {
            return Err(Error::Usage(format!(
                "{name} is what a command has anyway, and needs no wrapper."
            )));
        }
        let found = find(name, system)?;
        let is_safe = |b: u8| b.is_ascii_alphanumeric() || b"-_.+".contains(&b);
        if found.name.is_empty() || !found.name.bytes().all(is_safe) {
            return Err(Error::Usage(format!(
                "{} cannot be the name of a wrapper. Use letters, digits and dashes.",
                found.name
            )));
        }
        // A relative path is relative to this folder, and the wrapper runs in any.
        let word = match (&found.path, name.contains('/')) {
            (Some(path), true) => format!("{}={}", found.name, path.display()),
            _ => name.clone(),
        };
        Ok((word, found))
    };
    names.iter().map(named).collect()
}

/// What the command brings itself, and what the system has.
fn all(system: &System) -> Result<Vec<Allocator>> {
    if system.is_running() {
        let (mut usable, _) = allocator::discover()?;
        usable.retain(|allocator| allocator.path.is_some());
        return Ok(usable);
    }
    let known = KNOWN.iter().filter(|known| known.origin != Origin::Linked);
    let found = known.map(|known| (known.origin, find(known.name, system)));
    let is_there = |(origin, found): &(Origin, Result<Allocator>)| {
        *origin == Origin::Embedded || found.is_ok()
    };
    found.filter(is_there).map(|(_, found)| found).collect()
}

/// Of a system in a folder by the path that it has there.
fn find(name: &str, system: &System) -> Result<Allocator> {
    if system.is_running() {
        return Ok(allocator::find(name, None)?);
    }
    if let Some(allocator) = Allocator::embedded(name)? {
        return Ok(allocator);
    }
    let found = installed::find(&system.root, name)?;
    Ok(Allocator { path: Some(found.path.clone()), ..found.allocator(&system.root) })
}

/// `mallow run` refuses where the loader would not do as it is told.
fn script(word: &str, name: &str, tool: &Path) -> String {
    let tool: PathBuf = tool.to_owned();
    format!(
        "\
#!/bin/sh
# Written by mallow enable --wrappers; mallow disable --wrappers takes it away.
# Runs a command under {name}, and refuses where the preload would have no effect.
mallow={}
[ -x \"$mallow\" ] || mallow=mallow
if [ $# -eq 0 ]; then
  echo 'usage: {name}.sh COMMAND [ARGUMENT]...' >&2
  exit 2
fi
exec \"$mallow\" run -a {} -- \"$@\"
",
        quoted(tool.as_os_str()),
        quoted(OsStr::new(word)),
    )
}
