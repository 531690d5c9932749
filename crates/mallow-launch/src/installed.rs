// SPDX-License-Identifier: MIT
//! An allocator as a system has it installed: the word by which the loader of that system finds it
//! later, when neither this command nor its user's environment is there. The system is the one
//! that runs, or a folder that is to become one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::allocator::{self, Allocator};
use crate::distribution::Release;
pub use crate::distribution::{resolved, within};
use crate::embedded::{self, Library};
use crate::error::{Error, Result};
use crate::ldcache;
use crate::packages::{self, Owner};
use crate::words::{self, has_separator};
use mallow_os::read_plain;
use mallow_process::allocators::{self, KNOWN, Known, Origin, stem};
use mallow_process::elf::{ElfInfo, Libc};

#[derive(Clone, Debug)]
pub struct Installed {
    pub name: String,
    /// What LD_PRELOAD has to hold.
    pub word: String,
    /// Where the library is, as the system itself sees it.
    pub path: PathBuf,
    /// The C library that it needs; `None`: serves programs of either.
    pub libc: Option<Libc>,
    pub machine: u16,
}

impl Installed {
    /// Whether `word` is a name that the loader looks up, the same on every machine.
    pub fn is_bare(&self) -> bool {
        !self.word.contains('/')
    }

    /// For checks of what it can serve.
    pub fn allocator(&self, root: &Path) -> Allocator {
        Allocator {
            name: self.name.clone(),
            family: allocators::family_of(&self.name),
            version: None,
            variant: String::new(),
            path: Some(resolved(root, &self.path)),
            libc: self.libc,
            machine: self.machine,
        }
    }
}

/// The allocator that `-a` names: a known name, `NAME=PATH`, or a path.
pub fn find(root: &Path, name: &str) -> Result<Installed> {
    if allocators::is_system_name(name) {
        return Err(Error::Usage(format!(
            "{name} is what programs have anyway: there is nothing to enable. To go back to it: \
             mallow disable --all."
        )));
    }
    if name.contains('/') {
        return given(root, name);
    }
    let Some(known) = allocators::by_name(name).filter(|known| known.origin != Origin::Linked)
    else {
        return Err(allocator::unknown(name));
    };
    let libc = libc_of(root);
    let mut other_libc = None;
    for path in candidates(root, known, libc) {
        let Some(info) = read(root, &path) else { continue };
        if libc.is_some() && info.libc().is_some() && info.libc() != libc {
            other_libc = other_libc.or(Some(path));
            continue;
        }
        let soname = info.soname.clone().unwrap_or_else(|| file_name(&path));
        let is_found = by_name(root, &soname, libc).is_some();
        let word = if is_found { soname } else { path.display().to_string() };
        let (libc, machine) = (info.libc(), info.machine);
        return checked(Installed { name: name.into(), word, libc, machine, path });
    }
    match other_libc {
        Some(path) => Err(Error::Unsupported(format!(
            "{name} is installed as {} for another C library than this system's. {}",
            path.display(),
            missing(root, known)
        ))),
        None => Err(Error::Usage(missing(root, known))),
    }
}

fn missing(root: &Path, known: &Known) -> String {
    let name = known.name;
    if let Some(library) = embedded::by_name(name) {
        return copy_it(root, library);
    }
    format!("{name} is not installed; {}.", Release::of(root).install_sentence(known))
}

/// The command may have come without its libraries beside it: from pip, npm or cargo.
fn copy_it(root: &Path, library: &Library) -> String {
    let file = library.file;
    let from = embedded::materialise(library).unwrap_or_else(|_| Path::new("/path/to").join(file));
    let from = words::quoted(from.as_os_str());
    let to = within(root, &Path::new("/usr/local/lib").join(file));
    let to = words::quoted(to.as_os_str());
    let has_cache = root == Path::new("/") && libc_of(root) != Some(Libc::Musl);
    let update = if has_cache { " && ldconfig" } else { "" };
    format!(
        "The loader does not find {file}: the copy inside this command is for what it starts itself. \
         Put it where it lasts, as root: install -D -m 644 {from} {to}{update}"
    )
}

/// A library that the user names, by the path that it has in the system.
fn given(root: &Path, text: &str) -> Result<Installed> {
    let (name, path) = match text.split_once('=') {
        Some((name, path)) => (Some(name.to_owned()), Path::new(path)),
        None => (None, Path::new(text)),
    };
    let path = std::path::absolute(path).map_err(Error::io("The path cannot be made absolute"))?;
    // All refusals of files that are no allocator.
    let seen = resolved(root, &path);
    let word = format!("{}={}", name.as_deref().unwrap_or("library"), seen.display());
    let found = allocator::find(&word, None)?;
    let is_plain =
        |name: &String| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.+".contains(&b));
    if name.as_ref().is_some_and(|name| name.is_empty() || !is_plain(name)) {
        return Err(Error::Usage(format!(
            "The name in {text} is not one that a file can have. Use letters, digits and dashes."
        )));
    }
    let name = name.or_else(|| allocators::name_from_file(&path)).unwrap_or_else(|| {
        stem(&path).map_or("library", |stem| stem.trim_start_matches("lib")).to_owned()
    });
    let word = path.display().to_string();
    checked(Installed { name, word, libc: found.libc, machine: found.machine, path })
}

fn checked(found: Installed) -> Result<Installed> {
    if has_separator(found.word.as_ref()) {
        return Err(Error::Library {
            path: found.path,
            reason: "LD_PRELOAD cannot name a path with a space or a colon".into(),
            remedy: "Make a link to it under a path without them".into(),
        });
    }
    Ok(found)
}

/// Its malloc can be preloaded.
fn read(root: &Path, path: &Path) -> Option<ElfInfo> {
    let info = ElfInfo::read(&resolved(root, path)).ok().flatten()?;
    (info.is_64 && info.defined.contains("malloc")).then_some(info)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Where the loader of the system finds a library by its name alone.
pub fn by_name(root: &Path, name: &str, libc: Option<Libc>) -> Option<PathBuf> {
    let folders = trusted_folders(root, libc).into_iter().map(|folder| folder.join(name));
    let cached = cache(root, libc).into_iter().filter(|entry| entry.soname == name);
    let mut places = cached.map(|entry| PathBuf::from(entry.path)).chain(folders);
    places.find(|path| read(root, path).is_some())
}

fn cache(root: &Path, libc: Option<Libc>) -> Vec<ldcache::Entry> {
    if libc == Some(Libc::Musl) {
        return Vec::new();
    }
    let file = resolved(root, Path::new("/etc/ld.so.cache"));
    ldcache::parse(&read_plain(&file).unwrap_or_default())
}

/// The C library of most programs of a system; `None` where neither has a loader in it.
pub fn libc_of(root: &Path) -> Option<Libc> {
    let has = |path: &str| resolved(root, Path::new(path)).exists();
    let glibc = ["/etc/ld.so.cache", "/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
    if glibc.into_iter().any(has) {
        return Some(Libc::Glibc);
    }
    let musl = ["/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-aarch64.so.1"];
    musl.into_iter().any(has).then_some(Libc::Musl)
}

/// The folders that the loader searches though no cache names them.
fn trusted_folders(root: &Path, libc: Option<Libc>) -> Vec<PathBuf> {
    let arch = std::env::consts::ARCH;
    if libc == Some(Libc::Musl) {
        let file = resolved(root, Path::new(&format!("/etc/ld-musl-{arch}.path")));
        let text = read_plain(&file).ok().and_then(|text| String::from_utf8(text).ok());
        let text = text.unwrap_or("/lib:/usr/local/lib:/usr/lib".into());
        let folders = text.split([':', '\n']).filter(|folder| !folder.is_empty());
        return folders.map(PathBuf::from).collect();
    }
    let multiarch = [format!("/lib/{arch}-linux-gnu"), format!("/usr/lib/{arch}-linux-gnu")];
    let plain = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(str::to_owned);
    multiarch.into_iter().chain(plain).map(PathBuf::from).collect()
}

/// The files that may be this allocator: those that the loader finds by name first.
fn candidates(root: &Path, known: &Known, libc: Option<Libc>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = cache(root, libc).into_iter().map(|e| e.path.into()).collect();
    let mut folders = trusted_folders(root, libc);
    folders.extend(["/usr/local/lib", "/usr/local/lib64"].map(PathBuf::from));
    folders.push(format!("/usr/local/lib/{}-linux-gnu", std::env::consts::ARCH).into());
    folders.extend(allocator::clang_folders(root));
    for folder in folders {
        let entries = std::fs::read_dir(resolved(root, &folder)).into_iter().flatten().flatten();
        let names: BTreeSet<_> = entries.map(|entry| entry.file_name()).collect();
        found.extend(names.into_iter().map(|name| folder.join(name)));
    }
    let place = |path: &PathBuf| known.stems.iter().position(|stem_| stem(path) == Some(*stem_));
    found.retain(|path| place(path).is_some());
    found.sort_by_key(place);
    found
}

/// The package of Debian that the library is of, if it is of one.
pub fn debian_package(root: &Path, found: &Installed) -> Option<String> {
    let real = resolved(root, &found.path).canonicalize().ok()?;
    let file = Path::new("/").join(real.strip_prefix(root).ok()?);
    let usual = allocators::by_name(&found.name).map(allocator::usual_packages);
    match packages::owner(root, &file, &usual.unwrap_or_default()) {
        Owner::Is(package) => Some(package),
        Owner::Nobody | Owner::Unknown => None,
    }
}

/// The file names of all allocators, as a shell's patterns.
pub fn patterns() -> Vec<String> {
    KNOWN.iter().flat_map(|known| known.stems).map(|stem| format!("{stem}.so*")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system in a folder, with Mallow's library in one place.
    fn system(folder: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir_all(root.path().join(folder)).expect("writable");
        let library = crate::embedded::by_name("mallow").expect("it is inside");
        std::fs::write(root.path().join(folder).join(library.file), library.bytes).expect("fits");
        root
    }

    #[test]
    fn library_is_named_as_the_loader_will_find_it() {
        let root = system("usr/lib");
        let found = find(root.path(), "mallow").expect("it is installed");
        assert_eq!(
            (found.word.as_str(), found.path.as_path()),
            ("libmallow.so", Path::new("/usr/lib/libmallow.so"))
        );
        assert!(found.is_bare() && found.libc.is_none());
        // glibc's loader looks there only if its cache says so.
        for folder in ["usr/local/lib64", "usr/local/lib"] {
            let root = system(folder);
            let found = find(root.path(), "mallow").expect("it is there");
            assert_eq!(found.word, format!("/{folder}/libmallow.so"));
        }
        let root = system("usr/local/lib");
        let found = find(root.path(), "m=/usr/local/lib/libmallow.so").expect("it is there");
        assert_eq!((found.name.as_str(), found.is_bare()), ("m", false));
    }

    #[test]
    fn scudo_is_found_where_compilers_have_it() {
        let folder = |version| format!("usr/lib/llvm-{version}/lib/clang/{version}/lib/linux");
        let file = format!("libclang_rt.scudo_standalone-{}.so", std::env::consts::ARCH);
        let root = tempfile::tempdir().expect("a temporary folder");
        let library = crate::embedded::by_name("mallow").expect("it is inside");
        for version in [9, 19] {
            let folder = root.path().join(folder(version));
            std::fs::create_dir_all(&folder).expect("writable");
            std::fs::write(folder.join(&file), library.bytes).expect("fits");
        }
        let found = find(root.path(), "scudo").expect("it is there");
        let newest = Path::new("/").join(folder(19)).join(&file);
        assert_eq!((found.path.as_path(), found.is_bare()), (newest.as_path(), false));
    }

    #[test]
    fn scudo_is_found_where_fedora_has_it() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let folder = format!("usr/lib/clang/19/lib/{}-redhat-linux-gnu", std::env::consts::ARCH);
        let file = Path::new(&folder).join("libclang_rt.scudo_standalone.so");
        std::fs::create_dir_all(root.path().join(folder)).expect("writable");
        let library = crate::embedded::by_name("mallow").expect("it is inside");
        std::fs::write(root.path().join(&file), library.bytes).expect("fits");
        let found = find(root.path(), "scudo").expect("it is there");
        assert_eq!(found.path, Path::new("/").join(file));
    }

    #[test]
    fn what_is_not_there_is_named_with_its_package() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let sentence = |name| find(root.path(), name).expect_err(name).to_string();
        assert!(sentence("jemalloc").contains("apt install libjemalloc2"));
        assert!(sentence("mallow").contains("as root: install -D"));
        assert!(sentence("jemaloc").contains("Did you mean jemalloc?"));
        assert!(sentence("glibc").contains("mallow disable"));
        assert!(sentence("asan").contains("no allocator called asan"));
        std::fs::create_dir(root.path().join("etc")).expect("writable");
        std::fs::write(root.path().join("etc/alpine-release"), "3.20").expect("writable");
        assert!(sentence("jemalloc").contains("apk add jemalloc"));
    }
}
