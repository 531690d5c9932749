//! Who serves the allocation functions in a running process.
//!
//! The answer that counts is the address that the loader has stored in each object for `malloc`,
//! `free` and the others, read from the process's memory. Where an object has none yet (lazy
//! binding) or memory may not be read, the loader's search order decides: the first object that
//! defines the name. The process is not stopped.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::Serialize;

use crate::allocators;
use crate::elf::identify;
use crate::elf::{ElfInfo, Slot};
pub use crate::failure::Failure;
use crate::linkmap;
use crate::maps::{self, Mapping};
use crate::page_size;
use crate::smaps;
use crate::stat::{Stat, folder};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Read from the process's memory.
    Bound,
    /// By the loader's search order.
    SearchOrder,
}

#[derive(Clone, Debug, Serialize)]
pub struct Binding {
    pub allocator: String,
    pub path: PathBuf,
    pub evidence: Evidence,
}

#[derive(Clone, Debug, Serialize)]
pub struct ObjectReport {
    pub path: PathBuf,
    /// By function name, only those that the object uses; for the main program always malloc, free.
    pub bindings: BTreeMap<&'static str, Binding>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Report {
    Dynamic {
        main: ObjectReport,
        libraries: Vec<ObjectReport>,
    },
    /// No loader, so no preload; the allocator inside if it can be told.
    Static {
        allocator: Option<String>,
    },
    /// Go without cgo.
    Go,
}

impl Failure {
    /// For the user, with the remedy.
    pub fn sentence(&self, pid: u32) -> String {
        match self {
            Failure::Vanished => match parent_of_ended(pid) {
                Some(parent) => format!(
                    "Process {pid} has ended, and nothing of it is left to read: it waits for its \
                     parent, process {parent}, to ask how it ended."
                ),
                None => format!(
                    "There is no process {pid}, or it has ended, or it is a thread of the kernel. \
                     Check the number with: ps -p {pid}."
                ),
            },
            Failure::NoPermission if is_own(pid) => format!(
                "Process {pid} is yours, but it does not let its memory map be read: it gave that up \
                 itself (prctl), or got other rights when it started. Run mallow as root."
            ),
            Failure::NoPermission => format!(
                "Process {pid} belongs to somebody else, and its memory map may not be read. Run \
                 mallow as its user or as root."
            ),
            Failure::Damaged(reason) => format!("Process {pid} cannot be examined: {reason}."),
        }
    }
}

/// Whether it runs as the user who asks.
fn is_own(pid: u32) -> bool {
    let status =
        String::from_utf8_lossy(&std::fs::read(folder(pid).join("status")).unwrap_or_default())
            .into_owned();
    let fields = smaps::parse_fields(&status);
    let users = fields.get("Uid").map(String::as_str).unwrap_or_default();
    let effective = users.split_whitespace().nth(1).and_then(|user| user.parse().ok());
    effective == Some(nix::unistd::geteuid().as_raw())
}

/// The parent of a process that has ended and that nobody has waited for.
fn parent_of_ended(pid: u32) -> Option<u32> {
    let stat = Stat::read(pid).ok()?;
    (stat.is_zombie() && stat.threads <= 1).then_some(stat.parent)
}

struct Loaded {
    path: PathBuf,
    /// Add a symbol's or slot's offset to this.
    bias: u64,
    info: Rc<ElfInfo>,
}

/// Looks at processes; remembers files, because processes share them.
#[derive(Default)]
pub struct Inspector {
    files: HashMap<(u64, PathBuf), Option<Rc<ElfInfo>>>,
}

impl Inspector {
    pub fn inspect(&mut self, pid: u32) -> Result<Report, Failure> {
        let proc = folder(pid);
        let maps = maps::parse(&std::fs::read(proc.join("maps"))?);
        if maps.is_empty() {
            // A zombie or a thread of the kernel.
            return Err(Failure::Vanished);
        }
        // As the mappings name it, also where the file was replaced by a newer one meanwhile.
        let exe_path = maps::without_deleted(std::fs::read_link(proc.join("exe"))?);
        let exe = self
            .program(&proc.join("exe"), &exe_path)?
            .ok_or_else(|| Failure::Damaged("its program is not an ELF file".into()))?;
        if exe.is_static() {
            return Ok(report_static(&exe));
        }
        let mut objects = self.objects(&proc, &maps);
        let memory = File::open(proc.join("mem")).ok();
        let chain = memory.as_ref().and_then(|memory| linkmap::read(&proc, memory));
        match chain {
            Some(chain) => sort_by_chain(&mut objects, &chain, &exe_path),
            None => objects = search_order(objects, &exe_path, &preloads(&proc)),
        }
        Ok(report_dynamic(&objects, &maps, memory.as_ref(), &exe_path))
    }

    /// The address of a variable that an object of the process defines, if `elf` looks for it.
    pub fn symbol(&mut self, pid: u32, name: &str) -> Option<u64> {
        let proc = folder(pid);
        let maps = maps::parse(&std::fs::read(proc.join("maps")).ok()?);
        let objects = self.objects(&proc, &maps);
        objects.iter().find_map(|object| {
            let offset = object.info.data_symbols.get(name)?;
            Some(object.bias.wrapping_add(*offset))
        })
    }

    /// The ELF files that are mapped, by address.
    fn objects(&mut self, proc: &Path, maps: &[Mapping]) -> Vec<Loaded> {
        let mut objects: Vec<Loaded> = Vec::new();
        let mut seen = BTreeSet::new();
        for mapping in maps.iter().filter(|mapping| mapping.inode != 0 && mapping.offset == 0) {
            if !seen.insert(&mapping.path) {
                continue;
            }
            if let Some(info) = self.file(proc, mapping) {
                let bias = mapping.start.wrapping_sub(info.first_vaddr & !(page_size() - 1));
                objects.push(Loaded { path: mapping.path.clone(), bias, info });
            }
        }
        objects
    }

    fn program(&mut self, exe: &Path, path: &Path) -> std::io::Result<Option<Rc<ElfInfo>>> {
        let key = (exe.metadata()?.ino(), path.to_owned());
        if let Some(known) = self.files.get(&key) {
            return Ok(known.clone());
        }
        let info = ElfInfo::read(exe)?.map(Rc::new);
        self.files.insert(key, info.clone());
        Ok(info)
    }

    fn file(&mut self, proc: &Path, mapping: &Mapping) -> Option<Rc<ElfInfo>> {
        let key = (mapping.inode, mapping.path.clone());
        if let Some(known) = self.files.get(&key) {
            return known.clone();
        }
        // Through the process's own root (a container), or, where that may not be followed, ours.
        let inside =
            proc.join("root").join(mapping.path.strip_prefix("/").unwrap_or(&mapping.path));
        let range = format!("map_files/{:x}-{:x}", mapping.start, mapping.end);
        let same = |path: &PathBuf| path.metadata().is_ok_and(|m| m.ino() == mapping.inode);
        let places = [inside, mapping.path.clone(), proc.join(range)];
        let info = places
            .into_iter()
            .filter(same)
            .find_map(|path| ElfInfo::read(&path).ok().flatten())
            .map(Rc::new);
        self.files.insert(key, info.clone());
        info
    }
}

fn report_static(exe: &ElfInfo) -> Report {
    if exe.is_go {
        return Report::Go;
    }
    let inside = allocators::by_symbols(&exe.inner_markers);
    Report::Static { allocator: inside.map(|known| known.name.to_owned()) }
}

/// The loader's own list: main program first, then in search order.
fn sort_by_chain(objects: &mut [Loaded], chain: &[linkmap::Entry], exe: &Path) {
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
fn search_order(mut objects: Vec<Loaded>, exe: &Path, preloads: &[PathBuf]) -> Vec<Loaded> {
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

fn preloads(proc: &Path) -> Vec<PathBuf> {
    let environment = std::fs::read(proc.join("environ")).unwrap_or_default();
    environment
        .split(|&byte| byte == 0)
        .filter_map(|variable| variable.strip_prefix(b"LD_PRELOAD="))
        .flat_map(|value| value.split(|byte| matches!(byte, b':' | b' ')))
        .filter(|entry| !entry.is_empty())
        .map(|entry| PathBuf::from(std::ffi::OsStr::from_bytes(entry)))
        .collect()
}

fn report_dynamic(
    objects: &[Loaded],
    maps: &[Mapping],
    memory: Option<&File>,
    exe: &Path,
) -> Report {
    let mut main = ObjectReport { path: exe.to_owned(), bindings: BTreeMap::new() };
    let mut libraries = Vec::new();
    for object in objects {
        let mut bindings = BTreeMap::new();
        for slot in &object.info.slots {
            let place = object.bias.wrapping_add(slot.offset);
            let bound = memory
                .and_then(|memory| read_word(memory, place))
                .and_then(|address| provider_at(address, slot.function, object, objects, maps));
            // One function may have several places, some of them not filled yet.
            if let Some(binding) = bound {
                bindings.insert(slot.function, binding);
            } else if let Some(binding) = first_definer(slot.function, objects) {
                bindings.entry(slot.function).or_insert(binding);
            }
        }
        if object.path == exe {
            for function in ["malloc", "free"] {
                if let Some(binding) = first_definer(function, objects) {
                    bindings.entry(function).or_insert(binding);
                }
            }
            main.bindings = bindings;
        } else if !bindings.is_empty() && !is_loader(&object.path) {
            libraries.push(ObjectReport { path: object.path.clone(), bindings });
        }
    }
    Report::Dynamic { main, libraries }
}

/// The loader uses a little allocator of its own until the C library is there.
fn is_loader(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-linux"))
}

fn read_word(memory: &File, address: u64) -> Option<u64> {
    let mut word = [0u8; 8];
    memory.read_exact_at(&mut word, address).ok()?;
    Some(u64::from_ne_bytes(word))
}

/// The object that the stored address lies in. An address in the asking object itself is its own
/// definition, or, if it has none, the stub that has the loader look it up at the first call.
fn provider_at(
    address: u64,
    function: &str,
    asking: &Loaded,
    objects: &[Loaded],
    maps: &[Mapping],
) -> Option<Binding> {
    let mapping = maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?;
    let provider = objects.iter().find(|object| object.path == mapping.path)?;
    let its_own = |place: &Slot| {
        place.function == function && asking.bias.wrapping_add(place.offset) == address
    };
    // A program that is not position-independent gives out the address of its own stub.
    if !provider.info.defined.contains(function) {
        return None;
    }
    if provider.path == asking.path && !asking.info.definitions.iter().any(its_own) {
        return None;
    }
    Some(binding(provider, Evidence::Bound))
}

fn first_definer(function: &str, objects: &[Loaded]) -> Option<Binding> {
    let provider = objects.iter().find(|object| object.info.defined.contains(function))?;
    Some(binding(provider, Evidence::SearchOrder))
}

fn binding(provider: &Loaded, evidence: Evidence) -> Binding {
    Binding {
        allocator: identify(&provider.path, &provider.info),
        path: provider.path.clone(),
        evidence,
    }
}

impl Report {
    /// The allocator that serves the main program, in one word or two.
    pub fn summary(&self) -> String {
        match self {
            Report::Dynamic { main, .. } => main
                .bindings
                .get("malloc")
                .map_or("none".into(), |binding| binding.allocator.clone()),
            Report::Static { allocator: Some(name) } => format!("{name} (static)"),
            Report::Static { allocator: None } => "its own (static)".into(),
            Report::Go => "Go's own".into(),
        }
    }

    /// Every binding that does not satisfy `accept`, as "OBJECT: FUNCTION by ALLOCATOR". Operators
    /// that come from a C++ library end in malloc and are left out.
    pub fn others(&self, accept: &dyn Fn(&Binding) -> bool) -> Vec<String> {
        let Report::Dynamic { main, libraries } = self else { return vec![self.summary()] };
        let mut others = Vec::new();
        for object in std::iter::once(main).chain(libraries) {
            for (function, binding) in &object.bindings {
                let through_malloc = ["libstdc++", "libc++"]
                    .iter()
                    .any(|library| binding.allocator.starts_with(library));
                let itself =
                    binding.path == object.path && allocators::by_file(&object.path).is_some();
                if !through_malloc && !itself && !accept(binding) {
                    let file = object.path.file_name().unwrap_or(object.path.as_os_str());
                    let (file, by) = (file.to_string_lossy(), &binding.allocator);
                    others.push(format!("{file}: {function} by {by}"));
                }
            }
        }
        others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(
        path: &str,
        soname: Option<&str>,
        needed: &[&str],
        defined: &[&'static str],
    ) -> Loaded {
        let info = ElfInfo {
            soname: soname.map(str::to_owned),
            needed: needed.iter().map(|name| (*name).to_owned()).collect(),
            defined: defined.iter().copied().collect(),
            ..ElfInfo::default()
        };
        Loaded { path: path.into(), bias: 0, info: Rc::new(info) }
    }

    #[test]
    fn order_is_main_preload_then_breadth_first() {
        let objects = vec![
            loaded("/lib/libc.so.6", Some("libc.so.6"), &[], &["malloc"]),
            loaded("/lib/liba.so", Some("liba.so"), &["libc.so.6"], &[]),
            loaded("/opt/dlopened.so", None, &[], &["malloc"]),
            loaded("/opt/pre.so", None, &["libpre-needs.so"], &["malloc"]),
            loaded("/lib/libpre-needs.so", None, &[], &[]),
            loaded("/bin/main", None, &["liba.so", "libc.so.6"], &[]),
        ];
        let ordered = search_order(objects, Path::new("/bin/main"), &[PathBuf::from("pre.so")]);
        let names: Vec<&str> = ordered
            .iter()
            .map(|object| object.path.file_name().unwrap().to_str().unwrap())
            .collect();
        let expected = ["main", "pre.so", "liba.so", "libc.so.6", "libpre-needs.so", "dlopened.so"];
        assert_eq!(names, expected);
        let binding = first_definer("malloc", &ordered).expect("defined");
        assert_eq!(binding.path, Path::new("/opt/pre.so"));
    }

    #[test]
    fn this_process_is_served_by_the_system() {
        let report = Inspector::default().inspect(std::process::id()).expect("ours");
        let Report::Dynamic { main, libraries } = report else {
            eprintln!("skipped: the tests are linked statically");
            return;
        };
        let malloc = &main.bindings["malloc"];
        assert!(["glibc", "musl"].contains(&malloc.allocator.as_str()), "{}", malloc.allocator);
        assert!(!libraries.is_empty());
    }

    #[test]
    fn missing_process() {
        assert!(matches!(Inspector::default().inspect(u32::MAX / 2), Err(Failure::Vanished)));
    }
}
