// SPDX-License-Identifier: MIT
//! Names of code: symbol tables and debug information of ELF files, and perf map files.
//!
//! A file counts only if its build id is that of the recorded module: after an update of a package
//! the names would be wrong rather than missing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use addr2line::Loader;
use mallow_report::{Findings, Frame, Names, perf_map_frame};
use mallow_trace::{Module, ModuleKind};
use object::{Object, ObjectSymbol, SymbolKind};

use super::modules::open_plain;
use super::perf_map;

/// Where distributions put debug information.
const DEBUG_FOLDER: &str = "/usr/lib/debug";

/// Where names are looked for beside the recorded files themselves.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// With programs, debug files and perf map files.
    pub folders: &'a [PathBuf],
    /// Debug files of the system's packages count. Without them the names on all machines are the same.
    pub debug_files: bool,
}

pub struct Symbols<'a> {
    sources: Sources<'a>,
    /// That of the system's packages.
    debug_folder: PathBuf,
    files: HashMap<u32, Option<ModuleFile>>,
    jit: HashMap<u32, PerfMap>,
    pids: HashMap<u32, u32>,
    started: SystemTime,
    /// Modules that are not here, and those that are here in another build.
    missing: BTreeSet<String>,
    changed: BTreeSet<String>,
    /// Places in no file that no perf map names either.
    unnamed_places: u64,
}

struct ModuleFile {
    path: String,
    /// Debug information, or at least a symbol table.
    debug: Option<Loader>,
    /// What the file offers to others, for files without a symbol table: by address, size and name.
    dynamic: BTreeMap<u64, (u64, String)>,
}

/// By start, size and name.
type PerfMap = BTreeMap<u64, (u64, String)>;

impl<'a> Symbols<'a> {
    pub fn new(findings: &Findings, sources: Sources<'a>) -> Symbols<'a> {
        let started = Duration::from_nanos(findings.header.started_unix_ns);
        Symbols::of(findings.pids().collect(), SystemTime::UNIX_EPOCH + started, sources)
    }

    /// For processes that began at `started`: their numbers, by those that modules name them by.
    pub fn of(pids: HashMap<u32, u32>, started: SystemTime, sources: Sources<'a>) -> Symbols<'a> {
        Symbols {
            sources,
            debug_folder: DEBUG_FOLDER.into(),
            files: HashMap::new(),
            jit: HashMap::new(),
            pids,
            started,
            missing: BTreeSet::new(),
            changed: BTreeSet::new(),
            unnamed_places: 0,
        }
    }

    /// What could not be used, and what to do about it.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        if !self.missing.is_empty() {
            complaints.push(format!(
                "Functions have no names where the file is not here ({}); give its folder with \
                 --symbols.",
                some_of(&self.missing)
            ));
        }
        if !self.changed.is_empty() {
            complaints.push(format!(
                "Functions have no names where the file is another build now than when it was \
                 recorded ({}); give the folder of the recorded one with --symbols.",
                some_of(&self.changed)
            ));
        }
        if self.unnamed_places > 0 {
            complaints.push(format!(
                "{} places are in no file that was mapped then: in code that was made at run time, whose names \
                 python3 -X perf, node --perf-basic-prof and Java's Compiler.perfmap write, or in a library \
                 that was closed.",
                self.unnamed_places
            ));
        }
        complaints
    }

    fn open(&mut self, module: &Module) -> Option<ModuleFile> {
        let path = Path::new(&module.path);
        let mut changed = false;
        let mut usable = |candidate: &Path| match build_id(candidate) {
            Some(id) if id == module.build_id => true,
            Some(_) => {
                changed |= candidate == path;
                false
            }
            None => false,
        };
        let binary = self.binaries(path).into_iter().find(|candidate| usable(candidate));
        // Without a build id nothing tells whether it is the same build.
        let may_be_linked = self.sources.debug_files && !module.build_id.is_empty();
        let linked = binary.as_deref().filter(|_| may_be_linked).and_then(linked_files);
        let debug = self.debug_files(module).into_iter().chain(linked.into_iter().flatten());
        // One that names itself has nothing more.
        let mut debug = debug.filter(|candidate| Some(candidate) != binary.as_ref());
        let debug = debug.find(|candidate| usable(candidate));
        if binary.is_none() && debug.is_none() {
            let complaints = if changed { &mut self.changed } else { &mut self.missing };
            complaints.insert(module.path.clone());
            return None;
        }
        let dynamic = binary.as_deref().and_then(dynamic_symbols).unwrap_or_default();
        let loader = [debug, binary].into_iter().flatten().find_map(|file| load(&file));
        Some(ModuleFile { path: module.path.clone(), debug: loader, dynamic })
    }

    /// The module itself: as recorded, or in one of the folders.
    fn binaries(&self, path: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for folder in self.sources.folders {
            found.push(folder.join(path.strip_prefix("/").unwrap_or(path)));
            found.extend(path.file_name().map(|name| folder.join(name)));
        }
        found.push(path.to_owned());
        found
    }

    /// Files that hold the debug information of a module which was stripped of it.
    fn debug_files(&self, module: &Module) -> Vec<PathBuf> {
        let mut found = Vec::new();
        if !self.sources.debug_files {
            return found;
        }
        if let Some((first, rest)) = module.build_id.split_first() {
            let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
            let name = format!(".build-id/{first:02x}/{rest}.debug");
            found.extend(
                self.sources.folders.iter().chain([&self.debug_folder]).map(|dir| dir.join(&name)),
            );
            let fetched = format!("{first:02x}{rest}/debuginfo");
            found.extend(debuginfod_folders().map(|dir| dir.join(&fetched)));
        }
        let path = Path::new(&module.path);
        if let Some(file) = path.file_name() {
            let name = format!("{}.debug", file.to_string_lossy());
            found.extend(self.sources.folders.iter().map(|folder| folder.join(&name)));
        }
        found
    }

    fn perf_map(&self, process: u32) -> PerfMap {
        let Some(pid) = self.pids.get(&process) else { return PerfMap::new() };
        let standard = PathBuf::from(perf_map::FOLDER);
        let folders = self.sources.folders.iter().chain([&standard]);
        let mut places = folders.map(|folder| perf_map::place(folder, *pid));
        // A file from before the recording is of another process that had the number.
        let fresh = |path: &PathBuf| {
            let written = path.metadata().and_then(|metadata| metadata.modified());
            written.is_ok_and(|written| written >= self.started)
        };
        let text = places.find(fresh).and_then(|path| perf_map::read(&path)).unwrap_or_default();
        by_start(&text)
    }
}

impl Names for Symbols<'_> {
    fn frames(&mut self, module: &Module, address: u64) -> Vec<Frame> {
        match module.kind {
            ModuleKind::Vdso => Vec::new(),
            ModuleKind::Jit => {
                if !self.jit.contains_key(&module.process) {
                    let map = self.perf_map(module.process);
                    self.jit.insert(module.process, map);
                }
                let map = self.jit.get(&module.process);
                let name = map.and_then(|map| containing(map, address));
                self.unnamed_places += u64::from(name.is_none());
                name.map(perf_map_frame).into_iter().collect()
            }
            ModuleKind::File => {
                if !self.files.contains_key(&module.id) {
                    let file = self.open(module);
                    self.files.insert(module.id, file);
                }
                let file = self.files.get(&module.id).and_then(Option::as_ref);
                file.map(|file| file.frames(address)).unwrap_or_default()
            }
        }
    }
}

impl ModuleFile {
    fn frames(&self, address: u64) -> Vec<Frame> {
        let symbol = self.symbol(address);
        let mut frames = self.debug_frames(address);
        if frames.is_empty() {
            frames.extend(symbol.map(|function| Frame { function, ..Frame::default() }));
        } else if let (Some(last), Some(symbol)) = (frames.last_mut(), symbol) {
            // Debug information names a function without what surrounds it, or, of line tables alone,
            // not at all; the symbol has it all.
            last.function = symbol;
        }
        for frame in &mut frames {
            frame.module = Some(self.path.clone());
        }
        frames
    }

    fn symbol(&self, address: u64) -> Option<String> {
        let of_table = self.debug.as_ref().and_then(|debug| debug.find_symbol(address));
        let name = of_table.or_else(|| containing(&self.dynamic, address))?;
        Some(readable(name))
    }

    /// Innermost first; empty without debug information for the address.
    fn debug_frames(&self, address: u64) -> Vec<Frame> {
        let mut frames = Vec::new();
        // The library adds one to it. No code is there, but a profile may say so.
        if address == u64::MAX {
            return frames;
        }
        let Some(mut found) = self.debug.as_ref().and_then(|debug| debug.find_frames(address).ok())
        else {
            return frames;
        };
        while let Ok(Some(frame)) = found.next() {
            if frame.function.is_none() && frame.location.is_none() {
                continue;
            }
            let name = frame
                .function
                .as_ref()
                .and_then(|function| function.demangle().or_else(|_| function.raw_name()).ok());
            let location = frame.location.as_ref();
            frames.push(Frame {
                function: name.map_or_else(|| "?".into(), |name| name.into_owned()),
                module: None,
                file: location.and_then(|location| location.file).map(str::to_owned),
                line: location.and_then(|location| location.line),
                inlined: true,
            });
        }
        // All but the outermost were inlined into the one behind them.
        if let Some(last) = frames.last_mut() {
            last.inlined = false;
        }
        frames
    }
}

/// Where the file may be that a stripped one names as that of its debug information (`objcopy --add-gnu-debuglink`).
fn linked_files(path: &Path) -> Option<[PathBuf; 3]> {
    let cache = object::ReadCache::new(open_plain(path)?);
    let elf = object::File::parse(&cache).ok()?;
    let (name, _) = elf.gnu_debuglink().ok()??;
    let name = Path::new(std::str::from_utf8(name).ok()?).file_name()?;
    let folder = path.parent()?;
    let installed = Path::new(DEBUG_FOLDER).join(folder.strip_prefix("/").unwrap_or(folder));
    Some([folder.join(name), folder.join(".debug").join(name), installed.join(name)])
}

/// Where debuginfod's clients keep what they have fetched (debuginfod_find_debuginfo(3)).
fn debuginfod_folders() -> impl Iterator<Item = PathBuf> {
    let of = |name: &str, below: &str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
        Some(PathBuf::from(value).join(below))
    };
    let places = [
        of("DEBUGINFOD_CACHE_PATH", ""),
        of("XDG_CACHE_HOME", "debuginfod_client"),
        of("HOME", ".cache/debuginfod_client"),
        of("HOME", ".debuginfod_client_cache"),
    ];
    places.into_iter().flatten()
}

/// As the source has it. What is not mangled is left alone: a demangler takes the C function `i` for the type int.
fn readable(symbol: &str) -> String {
    // Such as `malloc@@GLIBC_2.2.5`.
    let name = symbol.split('@').next().unwrap_or(symbol);
    match name.starts_with("_Z") || name.starts_with("_R") {
        true => addr2line::demangle_auto(name.into(), None).into_owned(),
        false => name.to_owned(),
    }
}

fn containing(symbols: &BTreeMap<u64, (u64, String)>, address: u64) -> Option<&str> {
    let (start, (size, name)) = symbols.range(..=address).next_back()?;
    (address - start < *size).then_some(name)
}

/// The first few, and how many more there are.
fn some_of(paths: &BTreeSet<String>) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<&str> = paths.iter().take(SHOWN).map(String::as_str).collect();
    match paths.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn build_id(path: &Path) -> Option<Vec<u8>> {
    let file = open_plain(path)?;
    let cache = object::ReadCache::new(file);
    let elf = object::File::parse(&cache).ok()?;
    Some(elf.build_id().ok()?.unwrap_or_default().to_vec())
}

/// With the supplementary file that Debian's debug files share their strings in.
fn load(path: &Path) -> Option<Loader> {
    let supplement = {
        let file = open_plain(path)?;
        let cache = object::ReadCache::new(file);
        let elf = object::File::parse(&cache).ok()?;
        let link = elf.gnu_debugaltlink().ok()?.map(|(name, _)| name.to_vec());
        link.and_then(|name| {
            let name = String::from_utf8(name).ok()?;
            let place = path.parent()?.join(name);
            place.is_file().then_some(place)
        })
    };
    Loader::new_with_sup(path, supplement).ok()
}

fn dynamic_symbols(path: &Path) -> Option<BTreeMap<u64, (u64, String)>> {
    let file = open_plain(path)?;
    let cache = object::ReadCache::new(file);
    let elf = object::File::parse(&cache).ok()?;
    let functions = elf
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text)
        .filter_map(|symbol| {
            let name = symbol.name().ok()?;
            Some((symbol.address(), (symbol.size(), name.to_owned())))
        });
    Some(functions.collect())
}

fn by_start(map: &str) -> PerfMap {
    perf_map::parse(map).map(|(start, size, name)| (start, (size, name.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perf_maps_are_looked_up_by_range() {
        let map = by_start("1000 20 py::f:/a.py\n0x2000 10 second\nnonsense\n1000 8 new\n");
        assert_eq!(containing(&map, 0x1007), Some("new"));
        assert_eq!(containing(&map, 0x1008), None);
        assert_eq!(containing(&map, 0x200f), Some("second"));
        assert_eq!(containing(&map, 0xfff), None);
    }

    #[test]
    fn mangled_names_become_readable_and_others_stay() {
        assert_eq!(readable("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(readable("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(readable("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
        assert_eq!(readable("i"), "i");
        assert_eq!(readable("malloc@@GLIBC_2.2.5"), "malloc");
    }

    #[test]
    fn debug_information_is_found_in_the_systems_folder_by_build_id() {
        let path = std::env::current_exe().unwrap();
        let id = build_id(&path).unwrap();
        let Some((first, rest)) = id.split_first() else {
            println!("skipped: the linker gave this test no build id");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join(format!(".build-id/{first:02x}"));
        std::fs::create_dir_all(&place).unwrap();
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        std::os::unix::fs::symlink(&path, place.join(format!("{rest}.debug"))).unwrap();
        let module = Module { path: "/nowhere/program".into(), ..Module::default() };
        let is_found = |build_id: &[u8], debug_files| {
            let sources = Sources { folders: &[], debug_files };
            let mut symbols = Symbols::of(HashMap::new(), SystemTime::UNIX_EPOCH, sources);
            assert_eq!(symbols.debug_folder, Path::new("/usr/lib/debug"));
            symbols.debug_folder = folder.path().to_owned();
            let module = Module { build_id: build_id.to_vec(), ..module.clone() };
            symbols.open(&module).is_some_and(|file| file.debug.is_some())
        };
        assert!(is_found(&id, true));
        assert!(!is_found(&id, false), "the same names on all machines");
        let mut other = id.clone();
        other[0] ^= 1;
        assert!(!is_found(&other, true));
        // Under the name of another build nothing counts.
        std::fs::rename(&place, folder.path().join(format!(".build-id/{:02x}", other[0]))).unwrap();
        assert!(!is_found(&other, true) && !is_found(&id, true));
    }

    #[test]
    fn this_test_finds_itself() {
        let path = std::env::current_exe().unwrap();
        let mut module = Module { path: path.display().to_string(), ..Module::default() };
        module.build_id = build_id(&path).unwrap();
        let file =
            ModuleFile { path: module.path.clone(), debug: load(&path), dynamic: BTreeMap::new() };
        let elf = std::fs::read(&path).unwrap();
        let elf = object::File::parse(elf.as_slice()).unwrap();
        let wanted = "this_test_finds_itself";
        // Closures in it have its name in theirs; the linker decides which of them comes first.
        let is_wanted = |name: &str| name.contains(wanted) && !name.contains("closure");
        let symbol = elf.symbols().find(|s| s.name().is_ok_and(is_wanted)).unwrap();
        let frames = file.frames(symbol.address() + 1);
        assert!(frames.last().unwrap().function.ends_with(wanted), "{frames:?}");
        assert!(frames.last().unwrap().file.as_ref().unwrap().ends_with("symbols.rs"));
        assert!(!frames.last().unwrap().inlined);
    }
}
