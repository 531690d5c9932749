// SPDX-License-Identifier: MIT
//! The processes of a recording, and which file the code at an address of theirs comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use mallow_trace::{Event, Frame, Module, ModuleKind, Process, Start, Symbol};
use rustc_hash::FxHashMap;

use super::modules::{Files, symbol_size};
use super::perf_map;
use super::script::Script;
use super::trampoline;
use super::unwind::Tables;
use mallow_process::maps::{self, Mapping};
use mallow_process::stat::folder;

/// The map of a living process is not read more often than this.
const MAPS_EVERY: Duration = Duration::from_millis(20);

/// A process, from its start or exec on.
pub struct Image {
    /// As numbered by the trace.
    pub number: u32,
    pub pid: u32,
    pub is_alive: bool,
    /// Executable mappings by their start.
    code: BTreeMap<u64, Code>,
    maps_read: Option<Instant>,
    jit: Option<u32>,
    jit_addresses: BTreeSet<u64>,
    /// Filled where stacks are unwound here.
    pub tables: Tables,
    /// Numbers of stacks by their return addresses.
    pub known_stacks: FxHashMap<Box<[u64]>, u32>,
    pub script: Script,
    /// Of the recorder's slots, how much of their memory is mapped here: it stays when their threads have ended.
    rings: BTreeMap<usize, u64>,
    /// When it was last known to be alive.
    last_alive: u64,
}

#[derive(Clone, Copy)]
struct Code {
    end: u64,
    module: u32,
    /// Subtracted from addresses.
    bias: u64,
}

/// What the recorder says about a process.
pub struct Introduction {
    pub id: u64,
    pub parent_id: u64,
    pub pid: u32,
    pub parent_pid: u32,
    pub text: Vec<u8>,
}

/// A process that was started by another may be seen only after that one has ended. Longer ago it was another one that
/// had the number of this parent.
const SEEN_LATE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Images {
    list: Vec<Image>,
    by_id: FxHashMap<u64, usize>,
    /// The living ones.
    by_pid: BTreeMap<u32, usize>,
    /// Those whose end was seen, and when.
    ended: BTreeMap<u32, (usize, Instant)>,
    files: Files,
    modules: BTreeMap<(String, Vec<u8>), u32>,
    module_count: u32,
    unwinds: bool,
    /// What the reading of maps and files has taken.
    pub reading: Duration,
    /// Definitions to be written before the next record.
    pub definitions: Vec<Event>,
}

impl Images {
    /// `unwinds`: with the tables that unwinding needs.
    pub fn new(unwinds: bool) -> Images {
        Images { unwinds, ..Images::default() }
    }

    pub fn find(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    pub fn get_mut(&mut self, index: usize) -> &mut Image {
        &mut self.list[index]
    }

    pub fn alive(&self) -> impl Iterator<Item = (u32, u32)> + use<'_> {
        self.by_pid.iter().map(|(&pid, &index)| (pid, self.list[index].number))
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// A new process; with it, the index of the one that it was before its exec.
    pub fn define(&mut self, introduction: &Introduction) -> (usize, Option<usize>) {
        let was = self.by_pid.get(&introduction.pid).copied();
        let parent = self.find(introduction.parent_id);
        let (start, parent) = match (parent, was) {
            (Some(parent), _) => (Start::Fork, Some(parent)),
            (None, Some(was)) => (Start::Exec, Some(was)),
            (None, None) => {
                let parent = self.parent(introduction.parent_pid);
                (if parent.is_some() { Start::Exec } else { Start::First }, parent)
            }
        };
        let index = self.list.len();
        let number = index as u32 + 1;
        let (code, tables) = match parent {
            // Of one that has ended the tables are gone, and the child says itself what code it has.
            Some(parent) if start == Start::Fork && self.list[parent].is_alive => {
                (self.list[parent].code.clone(), self.list[parent].tables.clone())
            }
            _ => Default::default(),
        };
        self.list.push(Image {
            number,
            pid: introduction.pid,
            is_alive: true,
            code,
            maps_read: None,
            jit: None,
            jit_addresses: BTreeSet::new(),
            tables,
            known_stacks: FxHashMap::default(),
            script: Script::default(),
            rings: BTreeMap::new(),
            last_alive: 0,
        });
        self.by_id.insert(introduction.id, index);
        self.by_pid.insert(introduction.pid, index);
        let mut process = read_text(&introduction.text);
        process.id = number;
        process.pid = introduction.pid;
        process.parent = parent.map_or(0, |parent| self.list[parent].number);
        process.start = start;
        self.definitions.push(Event::Process(Box::new(process)));
        (index, was.filter(|_| start != Start::Fork))
    }

    pub fn note_alive(&mut self, index: usize, time: u64) {
        let last = &mut self.list[index].last_alive;
        *last = time.max(*last);
    }

    /// When it was last known to be alive, which is before anything that waited for its end.
    pub fn last_alive(&self, index: usize) -> u64 {
        self.list[index].last_alive
    }

    /// One of its threads has used so much of its slot.
    pub fn note_ring(&mut self, index: usize, slot: usize, resident: u64) {
        let most = self.list[index].rings.entry(slot).or_default();
        *most = resident.max(*most);
    }

    /// How much of a process's memory is the recorder's.
    pub fn rings(&self, index: usize) -> u64 {
        self.list[index].rings.values().sum()
    }

    fn parent(&self, pid: u32) -> Option<usize> {
        let ended = || self.ended.get(&pid).filter(|(_, when)| when.elapsed() < SEEN_LATE);
        self.by_pid.get(&pid).copied().or_else(|| Some(ended()?.0))
    }

    pub fn end(&mut self, index: usize) {
        let image = &mut self.list[index];
        image.is_alive = false;
        image.known_stacks = FxHashMap::default();
        image.script = Script::default();
        image.tables = Tables::default();
        image.rings = BTreeMap::new();
        if self.by_pid.get(&image.pid) == Some(&index) {
            self.by_pid.remove(&image.pid);
            self.ended.retain(|_, (_, when)| when.elapsed() < SEEN_LATE);
            self.ended.insert(image.pid, (index, Instant::now()));
        }
        self.name_jit_code(index);
    }

    /// What the loader has unloaded may be replaced by something else.
    pub fn forget_maps(&mut self, index: usize) {
        let image = &mut self.list[index];
        image.code.clear();
        image.known_stacks.clear();
        image.tables = Tables::default();
        image.maps_read = None;
    }

    /// A line of the map of a process.
    pub fn add_line(&mut self, index: usize, line: &[u8]) {
        let rights = line.split(|&byte| byte == b' ').nth(1);
        if rights.is_none_or(|rights| rights.get(2) != Some(&b'x')) {
            return;
        }
        for mapping in maps::parse(line) {
            self.add_code(index, &mapping);
        }
    }

    /// What code a living process has, unless that was read just before.
    pub fn read_maps(&mut self, index: usize) {
        let image = &mut self.list[index];
        let is_recent = image.maps_read.is_some_and(|read| read.elapsed() < MAPS_EVERY);
        if !image.is_alive || is_recent {
            return;
        }
        let begin = Instant::now();
        image.maps_read = Some(begin);
        let text = std::fs::read(format!("/proc/{}/maps", image.pid)).unwrap_or_default();
        for line in text.split(|&byte| byte == b'\n') {
            self.add_line(index, line);
        }
        self.reading += begin.elapsed();
    }

    fn add_code(&mut self, index: usize, mapping: &Mapping) {
        let known = self.list[index].code.get(&mapping.start);
        if known.is_some_and(|code| code.end == mapping.end) {
            return;
        }
        let pid = self.list[index].pid;
        let kind = kind_of(mapping);
        let (module, bias) = match kind {
            ModuleKind::Jit => (self.jit_module(index), 0),
            kind => {
                let bias = match kind {
                    ModuleKind::Vdso => mapping.start,
                    _ => self.files.bias(pid, mapping),
                };
                (self.module(pid, mapping, kind), bias)
            }
        };
        let image = &mut self.list[index];
        let overlaps: Vec<u64> = image
            .code
            .range(..mapping.end)
            .filter(|(_, code)| code.end > mapping.start)
            .map(|(&start, _)| start)
            .collect();
        for start in overlaps {
            image.code.remove(&start);
            image.tables.remove(start);
        }
        match kind {
            ModuleKind::File if self.unwinds => {
                if let Some(sections) = self.files.sections(pid, mapping) {
                    image.tables.add(mapping.start, mapping.end, bias, sections);
                }
            }
            ModuleKind::Jit if self.unwinds && trampoline::begins_at(image.pid, mapping.start) => {
                image.tables.add_one_word_frames(mapping.start, mapping.end);
            }
            _ => {}
        }
        image.code.insert(mapping.start, Code { end: mapping.end, module, bias });
        let (start, end, process) = (mapping.start, mapping.end, image.number);
        self.definitions.push(Event::Mapping(mallow_trace::Mapping {
            process,
            module,
            start,
            end,
            bias,
        }));
    }

    fn module(&mut self, pid: u32, mapping: &Mapping, kind: ModuleKind) -> u32 {
        let path = mapping.path.to_string_lossy().into_owned();
        let build_id = match kind {
            ModuleKind::File => {
                let facts = self.files.facts(pid, mapping);
                facts.map(|facts| facts.build_id.clone()).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        if let Some(&id) = self.modules.get(&(path.clone(), build_id.clone())) {
            return id;
        }
        self.module_count += 1;
        let id = self.module_count;
        self.modules.insert((path.clone(), build_id.clone()), id);
        let module = Module { id, kind, path, build_id, process: 0 };
        self.definitions.push(Event::Module(Box::new(module)));
        id
    }

    fn jit_module(&mut self, index: usize) -> u32 {
        let image = &mut self.list[index];
        if let Some(id) = image.jit {
            return id;
        }
        self.module_count += 1;
        let id = self.module_count;
        image.jit = Some(id);
        let path = format!("[code of process {}]", image.pid);
        let process = image.number;
        let build_id = Vec::new();
        let kind = ModuleKind::Jit;
        let module = Module { id, kind, path, build_id, process };
        self.definitions.push(Event::Module(Box::new(module)));
        id
    }

    /// Whether there is code before each of these addresses, as far as can be found out.
    pub fn knows_all(&mut self, index: usize, addresses: &[u64]) -> bool {
        let first = addresses.iter().find(|&&address| self.known_frame(index, address).is_none());
        let Some(_) = first else { return true };
        let before = self.list[index].code.len();
        self.read_maps(index);
        self.list[index].code.len() == before
    }

    /// The frame of a return address; `None` if there is no code.
    pub fn frame(&mut self, index: usize, address: u64) -> Option<Frame> {
        if let Some(frame) = self.known_frame(index, address) {
            return Some(frame);
        }
        // Perhaps a library was loaded since.
        self.read_maps(index);
        self.known_frame(index, address)
    }

    fn known_frame(&mut self, index: usize, address: u64) -> Option<Frame> {
        let image = &mut self.list[index];
        let (_, code) = image.code.range(..address).next_back()?;
        // A return address may lie one behind the last byte of the code.
        if address > code.end {
            return None;
        }
        if image.jit == Some(code.module) {
            image.jit_addresses.insert(address);
        }
        Some(Frame { module: code.module, address: address.wrapping_sub(code.bias) })
    }

    /// The frame of a place in a script's code.
    pub fn script_frame(&mut self, index: usize, key: u64, place: u64) -> Frame {
        let Images { list, module_count, definitions, .. } = self;
        let image = &mut list[index];
        let next_module = || {
            *module_count += 1;
            *module_count
        };
        image.script.frame(image.number, (key, place), next_module, definitions)
    }

    /// Whether a return address is in the function that begins at `begin` and runs scripts.
    pub fn is_evaluation(&mut self, index: usize, address: u64, begin: u64) -> bool {
        let mut script = std::mem::take(&mut self.list[index].script);
        let is_it = script.is_evaluation(address, begin, || self.function(index, begin));
        self.list[index].script = script;
        is_it
    }

    /// Whether a frame is of the module in which the function begins that runs scripts.
    pub fn is_beside(&mut self, index: usize, frame: Frame, begin: u64) -> bool {
        self.frame(index, begin + 1).is_none_or(|evaluation| evaluation.module == frame.module)
    }

    /// Whether code that was made at run time lies before a return address.
    pub fn is_jit(&self, index: usize, frame: Frame) -> bool {
        self.list[index].jit == Some(frame.module)
    }

    /// Begin and end of the function that begins here, by its symbol.
    fn function(&mut self, index: usize, begin: u64) -> Option<(u64, u64)> {
        let frame = self.frame(index, begin + 1)?;
        let named = self.modules.iter().find(|(_, id)| **id == frame.module);
        let (path, build_id) = named?.0;
        let root = folder(self.list[index].pid).join("root");
        let places = [root.join(path.strip_prefix('/').unwrap_or(path)), path.into()];
        let address = frame.address - 1;
        let size = places.iter().find_map(|place| symbol_size(place, build_id, address))?;
        Some((begin, begin + size))
    }

    /// Takes from the perf map file of a process the names of the code that stacks have met.
    fn name_jit_code(&mut self, index: usize) {
        let image = &mut self.list[index];
        let (Some(module), false) = (image.jit, image.jit_addresses.is_empty()) else { return };
        let wanted = std::mem::take(&mut image.jit_addresses);
        let place = perf_map::place(Path::new(perf_map::FOLDER), image.pid);
        let Some(text) = perf_map::read(&place) else { return };
        self.definitions
            .extend(met(&text, &wanted, module).map(|symbol| Event::Symbol(Box::new(symbol))));
    }

    /// At the end of the recording, for processes that go on.
    pub fn finish(&mut self) {
        for index in 0..self.list.len() {
            self.name_jit_code(index);
        }
    }
}

/// The symbols of a perf map that one of these return addresses lies in.
fn met<'a>(
    map: &'a str,
    addresses: &'a BTreeSet<u64>,
    module: u32,
) -> impl Iterator<Item = Symbol> + 'a {
    perf_map::parse(map).filter(|(_, size, _)| *size > 0).filter_map(move |(start, size, name)| {
        // A return address lies behind the call.
        let behind = start.saturating_add(1)..=start.saturating_add(size);
        addresses.range(behind).next()?;
        Some(Symbol { module, start, size, name: name.to_owned() })
    })
}

fn kind_of(mapping: &Mapping) -> ModuleKind {
    let path = mapping.path.to_string_lossy();
    match path.as_ref() {
        "[vdso]" => ModuleKind::Vdso,
        "" => ModuleKind::Jit,
        path if path.starts_with("/memfd:") || path.starts_with("/dev/zero") => ModuleKind::Jit,
        path if path.starts_with('[') || path.starts_with("anon_inode:") => ModuleKind::Jit,
        _ => ModuleKind::File,
    }
}

/// A command may have megabytes of words, a record not.
const LONGEST_TEXT: usize = 64 << 10;

/// `allocator NUL executable NUL word NUL word NUL …`
fn read_text(text: &[u8]) -> Process {
    let text = &text[..text.len().min(LONGEST_TEXT)];
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    let mut parts =
        text.split(|&byte| byte == 0).map(|part| String::from_utf8_lossy(part).into_owned());
    Process {
        allocator: parts.next().unwrap_or_default(),
        executable: parts.next().unwrap_or_default(),
        command: parts.collect(),
        ..Process::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn introduction(id: u64, parent_id: u64, pid: u32, parent_pid: u32) -> Introduction {
        let text = b"/lib/libc.so.6\0/bin/x\0x\0-v\0".to_vec();
        Introduction { id, parent_id, pid, parent_pid, text }
    }

    #[test]
    fn of_a_long_command_the_first_words_are_kept() {
        let mut text = b"/lib/libc.so.6\0/bin/x".to_vec();
        for _ in 0..100_000 {
            text.extend(b"\0-word");
        }
        let process = read_text(&text);
        assert_eq!(process.executable, "/bin/x");
        assert_eq!(process.command[..2], ["-word", "-word"]);
        assert!(process.command.len() < LONGEST_TEXT / 5, "{}", process.command.len());
    }

    #[test]
    fn forks_and_execs_are_told_apart() {
        let mut images = Images::default();
        assert_eq!(images.define(&introduction(10, 0, 100, 1)), (0, None));
        assert_eq!(images.define(&introduction(11, 10, 101, 100)), (1, None));
        assert_eq!(images.define(&introduction(12, 0, 101, 100)), (2, Some(1)));
        // Forked and executed without a call in between.
        assert_eq!(images.define(&introduction(13, 0, 102, 100)), (3, None));
        let processes: Vec<_> = images
            .definitions
            .iter()
            .map(|event| match event {
                Event::Process(p) => (p.id, p.parent, p.start, p.command.len()),
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = [
            (1, 0, Start::First, 2),
            (2, 1, Start::Fork, 2),
            (3, 2, Start::Exec, 2),
            (4, 1, Start::Exec, 2),
        ];
        assert_eq!(processes, expected);
    }

    /// The collector may see the end of both before the beginning of the second.
    #[test]
    fn a_process_has_a_parent_whose_end_was_seen_first() {
        let mut images = Images::default();
        images.define(&introduction(10, 0, 100, 1));
        images.end(0);
        images.define(&introduction(11, 0, 101, 100));
        images.define(&introduction(12, 0, 102, 99));
        let parents: Vec<_> = images
            .definitions
            .iter()
            .filter_map(|event| match event {
                Event::Process(process) => Some((process.parent, process.start)),
                _ => None,
            })
            .collect();
        assert_eq!(parents, [(0, Start::First), (1, Start::Exec), (0, Start::First)]);
    }

    #[test]
    fn a_child_has_the_code_of_a_parent_that_lives() {
        let mut images = Images::default();
        images.define(&introduction(10, 0, u32::MAX, 1));
        images.add_line(0, b"1000-2000 r-xp 00000000 00:00 0 ");
        images.define(&introduction(11, 10, u32::MAX - 1, u32::MAX));
        images.end(0);
        images.define(&introduction(12, 10, u32::MAX - 2, u32::MAX));
        assert!(images.frame(1, 0x1500).is_some() && images.frame(2, 0x1500).is_none());
    }

    #[test]
    fn a_slot_counts_with_the_most_that_it_had() {
        let mut images = Images::default();
        images.define(&introduction(10, 0, 100, 1));
        images.define(&introduction(11, 10, 101, 100));
        for (slot, resident) in [(0, 8192), (3, 4096), (0, 4096), (3, 16384)] {
            images.note_ring(0, slot, resident);
        }
        assert_eq!((images.rings(0), images.rings(1)), (24576, 0));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn tables_of_code_that_is_gone_are_forgotten() {
        use crate::unwind::{Copy, Unwinder, Unwound};
        let mut images = Images::new(true);
        images.define(&introduction(10, 0, std::process::id(), 1));
        let bytes = &mut [0; 64];
        let start = bytes.as_ptr() as u64;
        let unwound = |images: &mut Images, bytes: &mut [u8; 64], code: &[u8], end: u64| {
            bytes[..code.len()].copy_from_slice(std::hint::black_box(code));
            images.add_line(0, format!("{start:x}-{end:x} r-xp 0 00:00 0 ").as_bytes());
            let stack = &[7, start + 20, 7, 0x500];
            let copy = Copy { ip: start + 6, sp: 0x7000, fp: 0, distance: 1, stack };
            let mut stack = Unwound::default();
            Unwinder::default().unwind(&images.get_mut(0).tables, &copy, &mut stack);
            stack.addresses.len()
        };
        assert_eq!(unwound(&mut images, bytes, &trampoline::CODE, start + 32), 3);
        assert_eq!(unwound(&mut images, bytes, &[0; 11], start + 64), 1, "other code there");
        // A program may write any line: one that ends before it begins holds nothing.
        let mut others = Images::new(true);
        others.define(&introduction(10, 0, std::process::id(), 1));
        assert_eq!(unwound(&mut others, bytes, &trampoline::CODE, 1), 1);
    }

    #[test]
    fn symbols_of_return_addresses() {
        let map = "1000 10 met\n0x2000 10 beside\n3000 0 empty\nffffffffffffffff 8 last\n";
        let of = |addresses: &[u64]| -> Vec<String> {
            met(map, &addresses.iter().copied().collect(), 1).map(|symbol| symbol.name).collect()
        };
        assert_eq!(of(&[0x1001, 0x1fff, 0x2011, 0x3000]), ["met"]);
        assert_eq!(of(&[0x1000, 0x1010, 0x2010]), ["met", "beside"]);
        assert_eq!(of(&[0x1000]), Vec::<String>::new());
        assert_eq!(of(&[u64::MAX]), ["last"]);
    }

    #[test]
    fn addresses_find_their_module() {
        let mut images = Images::default();
        images.define(&introduction(10, 0, u32::MAX, 1));
        images.add_line(0, b"1000-2000 r-xp 00000000 00:00 0 ");
        images.add_line(0, b"3000-4000 rw-p 00000000 00:00 0 ");
        images.add_line(0, b"5000-6000 r-xp 00001000 fe:01 7    /nonexistent/lib.so");
        assert_eq!(images.frame(0, 0x1500), Some(Frame { module: 1, address: 0x1500 }));
        assert_eq!(images.frame(0, 0x3500), None);
        assert_eq!(images.frame(0, 0x5010), Some(Frame { module: 2, address: 0x1010 }));
        assert_eq!(images.frame(0, 0x500), None);
    }
}
