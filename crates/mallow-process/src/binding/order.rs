// SPDX-License-Identifier: MIT
//! In which order the loader searches the objects of a process, and which of them ask the next one.

use std::collections::VecDeque;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::Loaded;
use crate::{allocators, linkmap};

/// Libraries that count the calls and have the next definition in search order carry them out.
const COUNTERS: [&str; 3] = ["libmallow-recorder", "libheaptrack_preload", "libmemusage"];

/// The object that carries out a function which `first`, one of `objects`, defines.
pub(super) fn behind<'a>(function: &str, first: &'a Loaded, objects: &'a [Loaded]) -> &'a Loaded {
    let is_counter =
        |path: &Path| allocators::stem(path).is_some_and(|stem| COUNTERS.contains(&stem));
    if !is_counter(&first.path) {
        return first;
    }
    let after = objects.iter().skip_while(|object| object.path != first.path).skip(1);
    let mut next = after.filter(|object| !is_counter(&object.path));
    next.find(|object| object.info.defined.contains(function)).unwrap_or(first)
}

/// The loader's own list: main program first, then in search order.
pub(super) fn sort_by_chain(objects: &mut [Loaded], chain: &[linkmap::Entry], exe: &Path) {
    let place = |object: &Loaded| {
        if object.path == exe {
            return 0;
        }
        // musl's loader is the C library too; it comes first in its list, but is searched last.
        let is_musl = |name: &[u8]| name == b"libc.so" || name.starts_with(b"ld-musl");
        if object.path.file_name().is_some_and(|name| is_musl(name.as_bytes())) {
            return usize::MAX;
        }
        let found = chain.iter().position(|entry| entry.bias == object.bias);
        found.map_or(usize::MAX, |index| index + 1)
    };
    objects.sort_by_key(place);
}

/// Main program, LD_PRELOAD, then what each needs, breadth first, then the rest.
pub(super) fn search_order(
    mut objects: Vec<Loaded>,
    exe: &Path,
    preloads: &[PathBuf],
) -> Vec<Loaded> {
    let mut ordered: Vec<Loaded> = Vec::new();
    let mut queue = VecDeque::new();
    let mut take = |objects: &mut Vec<Loaded>, wanted: &dyn Fn(&Loaded) -> bool| {
        let index = objects.iter().position(wanted)?;
        let object = objects.remove(index);
        let needed = object.info.needed.clone();
        ordered.push(object);
        Some(needed)
    };
    queue.extend(take(&mut objects, &|object| object.path == exe));
    for preload in preloads {
        queue.extend(take(&mut objects, &|object| {
            object.path == *preload || object.path.file_name() == Some(preload.as_os_str())
        }));
    }
    while let Some(needed) = queue.pop_front() {
        for name in needed {
            queue.extend(take(&mut objects, &|object| {
                object.info.soname.as_deref() == Some(name.as_str())
                    || object
                        .path
                        .file_name()
                        .is_some_and(|file| file.as_bytes() == name.as_bytes())
            }));
        }
    }
    ordered.extend(objects);
    ordered
}

pub(super) fn preloads(proc: &Path) -> Vec<PathBuf> {
    let environment = std::fs::read(proc.join("environ")).unwrap_or_default();
    environment
        .split(|&byte| byte == 0)
        .filter_map(|variable| variable.strip_prefix(b"LD_PRELOAD="))
        .flat_map(|value| value.split(|byte| matches!(byte, b':' | b' ')))
        .filter(|entry| !entry.is_empty())
        .map(|entry| PathBuf::from(std::ffi::OsStr::from_bytes(entry)))
        .collect()
}
