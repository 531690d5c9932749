// SPDX-License-Identifier: MIT
//! From return addresses to calls with names, after the program has ended: by the mappings and build ids
//! that it reported.

use std::collections::HashMap;
use std::path::Path;
use std::time::SystemTime;

use mallow_capture::modules::open_plain;
use mallow_faults::{Fault, Map};
use mallow_process::allocators::by_file;
use mallow_report::{Frame, Names};
use mallow_trace::{Module, ModuleKind};
use object::{Object, ObjectSegment, SegmentFlags};
use serde::Serialize;

use crate::recording::{Sources, Symbols};

/// A place in the program that called another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Call {
    pub function: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inlined: bool,
}

impl Call {
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let others = [self.file.as_deref(), self.module.as_deref()].into_iter().flatten();
        std::iter::once(self.function.as_str()).chain(others)
    }
}

/// The names of one process.
pub struct Resolver<'a> {
    maps: &'a [Map],
    symbols: Symbols<'a>,
    /// By path: the number of the module, and where parts of the file are in its own address space.
    modules: HashMap<&'a str, (u32, Vec<Part>)>,
}

/// A part of a file that is loaded.
struct Part {
    offset: u64,
    size: u64,
    address: u64,
}

impl<'a> Resolver<'a> {
    pub fn new(fault: &'a Fault, started: SystemTime, sources: Sources<'a>) -> Resolver<'a> {
        // Code without a file is of process 0, by whose number its perf map is found.
        let pids = fault.pid.map(|pid| (0, pid)).into_iter().collect();
        let symbols = Symbols::of(pids, started, sources);
        Resolver { maps: &fault.maps, symbols, modules: HashMap::new() }
    }

    /// The calls, innermost first, from the first one that is not the allocator's own. `trapped` is the
    /// address of an instruction; all others are return addresses.
    pub fn calls(&mut self, frames: &[u64], trapped: Option<u64>) -> Vec<Call> {
        let maps = self.maps;
        let is_own = |address: &u64| {
            let path = containing(maps, *address).map(|map| Path::new(map.path.as_str()));
            path.is_some_and(|path| by_file(path).is_some())
        };
        let first = frames.iter().take_while(|address| is_own(address)).count();
        // The call lies before its return address.
        let place = |address: u64| address - u64::from(address > 0 && Some(address) != trapped);
        frames[first..].iter().flat_map(|address| self.look_up(place(*address), *address)).collect()
    }

    /// Also what could not be found, and what to do about it.
    pub fn complaints(&self) -> Vec<String> {
        self.symbols.complaints()
    }

    fn look_up(&mut self, place: u64, address: u64) -> Vec<Call> {
        let Some(map) = containing(self.maps, place) else {
            let module = Module { kind: ModuleKind::Jit, id: u32::MAX, ..Module::default() };
            return named(self.symbols.frames(&module, place), || format!("{address:#x}"));
        };
        let in_file = place - map.start + map.offset;
        let next = u32::try_from(self.modules.len()).unwrap_or(u32::MAX);
        let (id, parts) = self
            .modules
            .entry(&map.path)
            .or_insert_with(|| (next, loaded_parts(Path::new(&map.path)).unwrap_or_default()));
        let part =
            parts.iter().find(|part| (part.offset..part.offset + part.size).contains(&in_file));
        let module = Module {
            id: *id,
            kind: ModuleKind::File,
            path: map.path.clone(),
            build_id: map.build_id.clone(),
            process: 0,
        };
        let frames = match part {
            Some(part) => self.symbols.frames(&module, in_file - part.offset + part.address),
            None => Vec::new(),
        };
        let file = map.path.rsplit('/').next().unwrap_or(&map.path).to_owned();
        let mut calls = named(frames, || format!("{file}+{in_file:#x}"));
        calls.iter_mut().for_each(|call| call.module = Some(map.path.clone()));
        calls
    }
}

fn containing(maps: &[Map], address: u64) -> Option<&Map> {
    maps.iter().find(|map| (map.start..map.end).contains(&address))
}

fn named(frames: Vec<Frame>, unnamed: impl FnOnce() -> String) -> Vec<Call> {
    if frames.is_empty() {
        return vec![Call { function: unnamed(), ..Call::default() }];
    }
    let call = |frame: Frame| Call {
        function: frame.function,
        file: frame.file,
        line: frame.line,
        module: frame.module,
        inlined: frame.inlined,
    };
    frames.into_iter().map(call).collect()
}

/// What of the file is loaded as code, and where. Its name is of the report, where processes of the command may have
/// written any.
fn loaded_parts(path: &Path) -> Option<Vec<Part>> {
    let cache = object::ReadCache::new(open_plain(path)?);
    let elf = object::File::parse(&cache).ok()?;
    let is_code = |flags| match flags {
        SegmentFlags::Elf { p_flags, .. } => p_flags.contains(object::elf::PF_X),
        _ => false,
    };
    let parts = elf.segments().filter(|segment| is_code(segment.flags())).map(|segment| {
        let (offset, size) = segment.file_range();
        Part { offset, size, address: segment.address() }
    });
    Some(parts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("libx.so");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(loaded_parts(&pipe).is_none()));
        assert_eq!(receiver.recv_timeout(std::time::Duration::from_secs(20)), Ok(true));
    }
}
