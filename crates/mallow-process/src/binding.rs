// SPDX-License-Identifier: MIT
//! Who serves the allocation functions in a running process.
//!
//! The answer that counts is the address that the loader has stored in each object for `malloc`,
//! `free` and the others, read from the process's memory. Where an object has none yet (lazy
//! binding) or memory may not be read, the loader's search order decides: the first object that
//! defines the name. The process is not stopped.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::Serialize;

use crate::allocators;
use crate::elf::identify;
use crate::elf::{ElfInfo, Slot};
pub use crate::failure::Failure;
use crate::image;
use crate::linkmap;
use crate::lossy;
use crate::maps::{self, Mapping};
use crate::page_size;
use crate::smaps;
use crate::stat::{Stat, folder};

mod order;
use order::{behind, preloads, search_order, sort_by_chain};

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
    #[serde(serialize_with = "lossy::path")]
    pub path: PathBuf,
    /// The library that is called first, if it only counts and passes the call on.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "lossy::some_path")]
    pub through: Option<PathBuf>,
    pub evidence: Evidence,
}

impl Binding {
    /// Whether such a library serves it, or is asked first and counts.
    pub fn is_of(&self, is_it: impl Fn(&Path) -> bool) -> bool {
        is_it(&self.path) || self.through.as_deref().is_some_and(is_it)
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct ObjectReport {
    #[serde(serialize_with = "lossy::path")]
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
        /// Loaded from files that are no longer there, where memory may not be read either: what they
        /// define is not known.
        #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "lossy::paths")]
        unread: Vec<PathBuf>,
    },
    /// No loader, so no preload; the allocator inside if it can be told.
    Static { allocator: Option<String> },
    /// Go without cgo.
    Go,
}

impl Failure {
    /// For the user, with the remedy.
    pub fn sentence(&self, pid: u32) -> String {
        match self {
            Failure::Vanished if !crate::can_be_read() => crate::NO_PROC.into(),
            Failure::Vanished => match parent_of_ended(pid) {
                Some(parent) => format!(
                    "Process {pid} has ended, and nothing of it is left to read: it waits for its \
                     parent, process {parent}, to ask how it ended."
                ),
                None if is_hidden(pid) => format!(
                    "Process {pid} is there, but /proc does not show it to you: it belongs to somebody \
                     else, and /proc is mounted with hidepid. Run mallow as its user or as root."
                ),
                None => match process_of_thread(pid) {
                    Some(process) => {
                        format!("{pid} is a thread of process {process}. Give that number.")
                    }
                    None => format!(
                        "There is no process {pid}, or it has ended, or it is a thread of the \
                         kernel. Check the number with: ps -p {pid}."
                    ),
                },
            },
            Failure::NoPermission if nix::unistd::geteuid().is_root() => format!(
                "The memory map of process {pid} may not be read, though mallow runs as root: it lacks \
                 the right to trace. Allow it (in a container: --cap-add SYS_PTRACE), or run mallow \
                 outside of the container."
            ),
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

/// Whether the kernel knows a process of somebody else that /proc, which is there, does not have.
fn is_hidden(pid: u32) -> bool {
    let Some(known) = i32::try_from(pid).ok().filter(|&pid| pid > 0) else { return false };
    let asked = nix::sys::signal::kill(nix::unistd::Pid::from_raw(known), None);
    asked == Err(nix::errno::Errno::EPERM)
        && std::path::Path::new("/proc/self").exists()
        && !folder(pid).exists()
}

fn process_of_thread(tid: u32) -> Option<u32> {
    let process = status(tid).get("Tgid")?.parse().ok()?;
    (process != tid).then_some(process)
}

fn status(pid: u32) -> BTreeMap<String, String> {
    let text = std::fs::read(folder(pid).join("status")).unwrap_or_default();
    smaps::parse_fields(&String::from_utf8_lossy(&text))
}

/// Whether it runs as the user who asks.
fn is_own(pid: u32) -> bool {
    let fields = status(pid);
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
    /// That this is where it was loaded.
    belief: Belief,
}

/// Looks at processes; remembers files, because processes share them.
#[derive(Default)]
pub struct Inspector {
    files: HashMap<FileKey, Option<Rc<ElfInfo>>>,
}

/// A file as it is now: one that was written again may keep its number and its name.
#[derive(PartialEq, Eq, Hash)]
struct FileKey {
    path: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl FileKey {
    fn of(path: &Path, file: &Metadata) -> FileKey {
        FileKey {
            path: path.to_owned(),
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
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
        let loader = Loader::of(&proc);
        let mut objects = self.objects(&proc, &maps, &loader);
        match &loader.chain {
            Some(chain) => sort_by_chain(&mut objects, chain, &exe_path),
            None => objects = search_order(objects, &exe_path, &preloads(&proc)),
        }
        let mut report = report_dynamic(&objects, &maps, loader.memory.as_ref(), &exe_path);
        if let Report::Dynamic { unread, .. } = &mut report {
            *unread = unread_files(&objects, &maps);
        }
        Ok(report)
    }

    /// The address of a variable that an object of the process defines, if `elf` looks for it.
    pub fn symbol(&mut self, pid: u32, name: &str) -> Option<u64> {
        let proc = folder(pid);
        let maps = maps::parse(&std::fs::read(proc.join("maps")).ok()?);
        let objects = self.objects(&proc, &maps, &Loader::of(&proc));
        objects.iter().find_map(|object| {
            let offset = object.info.data_symbols.get(name)?;
            Some(object.bias.wrapping_add(*offset))
        })
    }

    /// The ELF files that are loaded, by address.
    fn objects(&mut self, proc: &Path, maps: &[Mapping], loader: &Loader) -> Vec<Loaded> {
        let mut objects: Vec<Loaded> = Vec::new();
        let begins = maps.iter().enumerate();
        let begins = begins.filter(|(_, mapping)| mapping.inode != 0 && mapping.offset == 0);
        let (code, data): (Vec<_>, Vec<_>) = begins.partition(|&(index, _)| has_code(maps, index));
        let is_code = code.iter().map(|_| true).chain(data.iter().map(|_| false));
        for (is_code, mapping) in is_code.zip(code.iter().chain(&data).map(|(_, mapping)| mapping))
        {
            let memory = loader.memory.as_ref().filter(|_| is_code);
            let Some(info) = self.file(proc, mapping, memory) else { continue };
            let bias = mapping.start.wrapping_sub(info.first_vaddr & !(page_size() - 1));
            let belief = match () {
                () if loader.has_listed(bias) => Belief::Listed,
                () if is_code => Belief::HasCode,
                () => Belief::Data,
            };
            let object = Loaded { path: mapping.path.clone(), bias, info, belief };
            match objects.iter_mut().find(|other| other.path == object.path) {
                Some(other) if other.belief < object.belief => *other = object,
                Some(_) => {}
                None => objects.push(object),
            }
        }
        objects.sort_by_key(|object| object.bias);
        objects
    }

    fn program(&mut self, exe: &Path, path: &Path) -> std::io::Result<Option<Rc<ElfInfo>>> {
        let key = FileKey::of(path, &exe.metadata()?);
        if let Some(known) = self.files.get(&key) {
            return Ok(known.clone());
        }
        let info = ElfInfo::read(exe)?.map(Rc::new);
        self.files.insert(key, info.clone());
        Ok(info)
    }

    fn file(
        &mut self,
        proc: &Path,
        mapping: &Mapping,
        memory: Option<&File>,
    ) -> Option<Rc<ElfInfo>> {
        for (place, metadata) in places(proc, mapping) {
            let key = FileKey::of(&mapping.path, &metadata);
            let read = || ElfInfo::read(&place).ok().flatten().map(Rc::new);
            let info = self.files.entry(key).or_insert_with(read);
            if info.is_some() {
                return info.clone();
            }
        }
        // Its file was replaced, and only root may follow the kernel's link to the old one.
        image::read(memory?, mapping.start).map(Rc::new)
    }
}

/// Where the file is that a process has mapped: in the process's own root (a container), in ours (it has
/// changed its root since, or that may not be followed), or behind the kernel's link.
pub fn places(proc: &Path, mapping: &Mapping) -> impl Iterator<Item = (PathBuf, Metadata)> {
    let inside = proc.join("root").join(mapping.path.strip_prefix("/").unwrap_or(&mapping.path));
    let range = format!("map_files/{:x}-{:x}", mapping.start, mapping.end);
    let inode = mapping.inode;
    let places = [inside, mapping.path.clone(), proc.join(range)].into_iter();
    places.filter_map(move |place| {
        let metadata = place.metadata().ok().filter(|file| file.ino() == inode)?;
        Some((place, metadata))
    })
}

/// Whether code follows what is mapped of a file from its first byte on.
fn has_code(maps: &[Mapping], index: usize) -> bool {
    let same = |mapping: &&Mapping| mapping.path == maps[index].path;
    let mut rest = maps[index + 1..].iter().filter(same).take_while(|mapping| mapping.offset != 0);
    maps[index].is_executable || rest.any(|mapping| mapping.is_executable)
}

/// What a process's memory says of the objects that its loader brought.
struct Loader {
    memory: Option<File>,
    chain: Option<Vec<linkmap::Entry>>,
}

impl Loader {
    fn of(proc: &Path) -> Loader {
        let memory = File::open(proc.join("mem")).ok();
        let chain = memory.as_ref().and_then(|memory| linkmap::read(proc, memory));
        Loader { memory, chain }
    }

    fn has_listed(&self, bias: u64) -> bool {
        self.chain.iter().flatten().any(|entry| entry.bias == bias)
    }
}

/// That a file is loaded where it is mapped. It may also be mapped as data, by a debugger or by the
/// program itself, and be loaded more than once: the loader's own list is believed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Belief {
    Data,
    HasCode,
    Listed,
}

fn report_static(exe: &ElfInfo) -> Report {
    if exe.is_go {
        return Report::Go;
    }
    let inside = allocators::by_symbols(&exe.inner_markers);
    Report::Static { allocator: inside.map(|known| known.name.to_owned()) }
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
    Report::Dynamic { main, libraries, unread: Vec::new() }
}

fn unread_files(objects: &[Loaded], maps: &[Mapping]) -> Vec<PathBuf> {
    let is_known = |path: &Path| objects.iter().any(|object| object.path == path);
    let is_gone =
        |mapping: &Mapping| mapping.is_executable && mapping.deleted && mapping.inode != 0;
    let gone = maps.iter().filter(|mapping| is_gone(mapping) && !is_known(&mapping.path));
    let paths: BTreeSet<&PathBuf> = gone.map(|mapping| &mapping.path).collect();
    // Compilers of runtimes keep code in such files too.
    let is_library = |path: &&&PathBuf| path.to_string_lossy().contains(".so");
    paths.iter().filter(is_library).map(|&path| path.clone()).collect()
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
    Some(binding(function, provider, objects, Evidence::Bound))
}

fn first_definer(function: &str, objects: &[Loaded]) -> Option<Binding> {
    let provider = objects.iter().find(|object| object.info.defined.contains(function))?;
    Some(binding(function, provider, objects, Evidence::SearchOrder))
}

fn binding(function: &str, asked: &Loaded, objects: &[Loaded], evidence: Evidence) -> Binding {
    let serving = behind(function, asked, objects);
    Binding {
        allocator: identify(&serving.path, &serving.info),
        path: serving.path.clone(),
        through: (serving.path != asked.path).then(|| asked.path.clone()),
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

    /// What is not known of libraries, in a sentence.
    pub fn unread_note(&self) -> Option<String> {
        let Report::Dynamic { unread, .. } = self else { return None };
        let first = unread.first()?;
        let file = first.file_name().unwrap_or(first.as_os_str()).to_string_lossy();
        let more = match unread.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        Some(format!(
            "{file}{more} was replaced or removed after it was loaded, and cannot be read in the \
             memory that it lies in either, so whether it serves malloc is not known. Run mallow as root."
        ))
    }

    /// Every binding that does not satisfy `accept`, as "OBJECT: FUNCTION by ALLOCATOR". Operators
    /// that come from a C++ library end in malloc and are left out.
    pub fn others(&self, accept: &dyn Fn(&Binding) -> bool) -> Vec<String> {
        let Report::Dynamic { main, libraries, .. } = self else { return vec![self.summary()] };
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
        Loaded { path: path.into(), bias: 0, info: Rc::new(info), belief: Belief::Listed }
    }

    #[test]
    fn a_file_that_is_written_again_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let mut inspector = Inspector::default();
        std::fs::copy("/proc/self/exe", &program).unwrap();
        assert!(inspector.program(&program, &program).unwrap().is_some());
        std::fs::write(&program, "no program").unwrap(); // the file keeps its number and its name
        assert!(inspector.program(&program, &program).unwrap().is_none());
    }

    #[test]
    fn a_program_with_an_allocator_inside_is_named_after_it() {
        let name = |defined: &[&'static str]| {
            let info = ElfInfo {
                defined: defined.iter().copied().collect(),
                inner_markers: ["mw_version"].into(),
                ..ElfInfo::default()
            };
            identify(Path::new("/opt/server"), &info)
        };
        assert_eq!(name(&["malloc", "free"]), "mallow");
        assert_eq!(name(&[]), "server"); // it asks somebody else
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
    fn a_library_that_counts_serves_nobody() {
        let objects = [
            loaded("/bin/main", None, &[], &[]),
            loaded("/cache/libmallow-recorder.so", None, &[], &["malloc", "pvalloc"]),
            loaded("/lib/libmemusage.so", None, &[], &["malloc"]),
            loaded("/lib/libjemalloc.so.2", None, &[], &["malloc"]),
            loaded("/lib/libc.so.6", None, &[], &["malloc"]),
        ];
        let malloc = first_definer("malloc", &objects).expect("defined");
        assert_eq!(malloc.allocator, "jemalloc");
        assert_eq!(malloc.path, Path::new("/lib/libjemalloc.so.2"));
        assert_eq!(malloc.through.as_deref(), Some(Path::new("/cache/libmallow-recorder.so")));
        let is_of = |file: &str| malloc.is_of(|path| path == Path::new(file));
        assert!(is_of("/lib/libjemalloc.so.2") && is_of("/cache/libmallow-recorder.so"));
        assert!(!is_of("/lib/libmemusage.so") && !is_of("/lib/libc.so.6"));
        // The loader's order goes on from there: who comes before it is not behind it.
        let late = [
            loaded("/bin/main", None, &[], &[]),
            loaded("/lib/libjemalloc.so.2", None, &[], &["malloc"]),
            loaded("/lib/libmemusage.so", None, &[], &["malloc"]),
            loaded("/lib/libc.so.6", None, &[], &["malloc"]),
        ];
        let malloc = binding("malloc", &late[2], &late, Evidence::Bound);
        assert_eq!(malloc.path, Path::new("/lib/libc.so.6"));
        // Nobody is behind it.
        let alone = first_definer("pvalloc", &objects).expect("defined");
        assert_eq!((alone.allocator.as_str(), alone.through), ("libmallow-recorder.so", None));
        let plain = first_definer("malloc", &objects[3..]).expect("defined");
        assert_eq!((plain.allocator.as_str(), plain.through), ("jemalloc", None));
    }

    #[test]
    fn this_process_is_served_by_the_system() {
        let report = Inspector::default().inspect(std::process::id()).expect("ours");
        let Report::Dynamic { main, libraries, .. } = report else {
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
