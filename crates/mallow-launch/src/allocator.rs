// SPDX-License-Identifier: MIT
//! The allocators that the command knows, and finding the installed ones.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::distribution::{Release, resolved};
use crate::embedded;
use crate::error::{Error, Result};
use crate::ldcache;
use crate::packages::{self, Owner};
use mallow_process::allocators::{
    Family, KNOWN, Known, Origin, family_of, is_system_name, name_from_file, stem,
};
use mallow_process::elf::{ElfInfo, Libc, own_machine};

/// An allocator that can be used here. Without a path it is the C library's own.
#[derive(Clone, Debug)]
pub struct Allocator {
    pub name: String,
    pub family: Family,
    pub version: Option<String>,
    pub variant: String,
    pub path: Option<PathBuf>,
    /// The C library that it needs; `None`: serves programs of either.
    pub libc: Option<Libc>,
    pub machine: u16,
}

/// A known allocator that is not installed.
#[derive(Clone, Debug)]
pub struct Missing {
    pub name: String,
    pub variant: String,
    pub remedy: String,
}

impl Allocator {
    /// The allocator inside the C library: no preload.
    pub fn system() -> Allocator {
        let musl = cfg!(target_env = "musl") || !has_glibc();
        Allocator {
            name: if musl { "musl" } else { "glibc" }.into(),
            family: Family::System,
            version: if musl { musl_version() } else { glibc_version() },
            variant: "no preload".into(),
            path: None,
            libc: Some(if musl { Libc::Musl } else { Libc::Glibc }),
            machine: 0,
        }
    }

    /// One of the embedded builds: `mallow`, `mallow-secure` or `mallow-debug`.
    pub fn embedded(name: &str) -> Result<Option<Allocator>> {
        let Some(library) = embedded::by_name(name) else { return Ok(None) };
        let path = embedded::materialise(library)?;
        let info = read_library(&path)?;
        Ok(Some(Allocator {
            name: name.into(),
            family: Family::Mallow,
            version: Some(env!("CARGO_PKG_VERSION").into()),
            variant: name.strip_prefix("mallow-").unwrap_or("fast").into(),
            libc: info.libc(),
            machine: info.machine,
            path: Some(path),
        }))
    }

    fn from_file(name: &str, family: Family, variant: &str, path: &Path) -> Result<Allocator> {
        let info = read_library(path)?;
        if !info.defined.contains("malloc") {
            return Err(Error::Library {
                path: path.to_owned(),
                reason: "it does not define malloc".into(),
                remedy: "Give the path of an allocator's shared library".into(),
            });
        }
        Ok(Allocator {
            name: name.into(),
            family,
            version: None,
            variant: variant.into(),
            path: Some(path.to_owned()),
            libc: info.libc(),
            machine: info.machine,
        })
    }
}

fn read_library(path: &Path) -> Result<ElfInfo> {
    let refuse = |reason: String, remedy: &str| Error::Library {
        path: path.to_owned(),
        reason,
        remedy: remedy.into(),
    };
    match ElfInfo::read(path) {
        Ok(Some(info)) => Ok(info),
        Ok(None) => Err(refuse("it is not an ELF library".into(), "Give the .so file itself")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(refuse("there is no such file".into(), "Check the path, or see: mallow list"))
        }
        Err(error) => Err(refuse(error.to_string(), "Check the file and its permissions")),
    }
}

fn has_glibc() -> bool {
    Path::new("/etc/ld.so.cache").exists() || glibc_version().is_some()
}

/// The allocators that come as libraries.
fn installable() -> impl Iterator<Item = &'static Known> {
    KNOWN.iter().filter(|known| known.origin == Origin::Library)
}

fn glibc_version() -> Option<String> {
    for (folder, _) in library_folders() {
        let Ok(bytes) = std::fs::read(folder.join("libc.so.6")) else { continue };
        let marker = b"stable release version ";
        let at = bytes.windows(marker.len()).position(|window| window == marker)?;
        let digits =
            bytes[at + marker.len()..].iter().take_while(|b| b.is_ascii_digit() || **b == b'.');
        let version: String = digits.map(|&byte| char::from(byte)).collect();
        return Some(version.trim_end_matches('.').to_owned());
    }
    None
}

fn musl_version() -> Option<String> {
    let installed = packages::installed_versions();
    installed.get("musl").cloned()
}

/// The folders that loaders search, with the C library that they belong to.
fn library_folders() -> Vec<(PathBuf, Option<Libc>)> {
    let arch = std::env::consts::ARCH;
    let glibc = Some(Libc::Glibc);
    let mut folders: Vec<(PathBuf, Option<Libc>)> = vec![
        ("/usr/local/lib".into(), None),
        (format!("/usr/local/lib/{arch}-linux-gnu").into(), glibc),
        ("/usr/local/lib64".into(), glibc),
        (format!("/lib/{arch}-linux-gnu").into(), glibc),
        (format!("/usr/lib/{arch}-linux-gnu").into(), glibc),
        ("/lib64".into(), glibc),
        ("/usr/lib64".into(), glibc),
        ("/lib".into(), None),
        ("/usr/lib".into(), None),
        (format!("/usr/lib/{arch}-linux-musl").into(), Some(Libc::Musl)),
        (format!("/usr/local/lib/{arch}-linux-musl").into(), Some(Libc::Musl)),
    ];
    folders.extend(clang_folders(Path::new("/")).into_iter().map(|folder| (folder, None)));
    folders
}

/// Where the compilers of the system `root` keep their libraries, as it sees them itself: that of the newest
/// version first.
pub(crate) fn clang_folders(root: &Path) -> Vec<PathBuf> {
    let names = |folder: &Path| -> Vec<OsString> {
        let entries = std::fs::read_dir(resolved(root, folder)).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).collect()
    };
    let lib = Path::new("/usr/lib");
    let llvm = names(lib).into_iter().filter(|name| name.as_bytes().starts_with(b"llvm-"));
    let roots = llvm.map(|name| lib.join(name).join("lib/clang")).chain([lib.join("clang")]);
    // Fedora's has one for each kind of machine instead of `linux`.
    let machine = format!("{}-", std::env::consts::ARCH);
    let mut folders: Vec<(Vec<u64>, PathBuf)> = Vec::new();
    for clang in roots {
        for name in names(&clang) {
            let (version, lib) = (numbers(&name.to_string_lossy()), clang.join(name).join("lib"));
            let own =
                names(&lib).into_iter().filter(|n| n.as_bytes().starts_with(machine.as_bytes()));
            let all = own.chain(["linux".into()]);
            folders.extend(all.map(|folder| (version.clone(), lib.join(folder))));
        }
    }
    folders.sort_by(|left, right| right.cmp(left));
    folders.into_iter().map(|(_, folder)| folder).collect()
}

/// The numbers of a version, so that 9 comes before 19.
fn numbers(version: &str) -> Vec<u64> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

fn list_folder(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    // Newer versions of a library first.
    paths.sort_by(|a, b| b.cmp(a));
    paths.into_iter()
}

/// Every library file that may be an allocator, by the part of its name before `.so`.
fn candidates() -> BTreeMap<String, Vec<PathBuf>> {
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let mut add = |path: PathBuf| {
        let Some(stem) = stem(&path) else { return };
        if installable().any(|known| known.stems.contains(&stem)) {
            found.entry(stem.to_owned()).or_default().push(path);
        }
    };
    let cache = std::fs::read("/etc/ld.so.cache").unwrap_or_default();
    for entry in ldcache::parse(&cache) {
        add(PathBuf::from(entry.path));
    }
    for (folder, _) in library_folders() {
        list_folder(&folder).for_each(&mut add);
    }
    found
}

/// All installed allocators: the embedded ones, the system's, then the others. And the missing.
pub fn discover() -> Result<(Vec<Allocator>, Vec<Missing>)> {
    let mut usable = Vec::new();
    for library in embedded::LIBRARIES {
        usable.extend(Allocator::embedded(library.name)?);
    }
    usable.push(Allocator::system());
    let candidates = candidates();
    let versions = packages::installed_versions();
    let release = release();
    let mut missing = Vec::new();
    for known in installable() {
        let found = installed(known, &candidates, &versions);
        if found.is_empty() {
            missing.push(Missing {
                name: known.name.into(),
                variant: known.variant.into(),
                remedy: release.remedy(known),
            });
        }
        usable.extend(found);
    }
    Ok((usable, missing))
}

/// At most one library for each C library, of this machine's architecture.
fn installed(
    known: &Known,
    candidates: &BTreeMap<String, Vec<PathBuf>>,
    versions: &BTreeMap<String, String>,
) -> Vec<Allocator> {
    let mut found: Vec<Allocator> = Vec::new();
    let paths = known.stems.iter().filter_map(|stem| candidates.get(*stem)).flatten();
    for path in paths {
        let Ok(mut allocator) = Allocator::from_file(known.name, known.family, known.variant, path)
        else {
            continue;
        };
        let seen = found.iter().any(|other| other.libc == allocator.libc);
        if seen || allocator.machine != own_machine() {
            continue;
        }
        allocator.version = version(known, path, versions);
        found.push(allocator);
    }
    found
}

pub(crate) fn usual_packages(known: &Known) -> Vec<&'static str> {
    known.packages.iter().map(|brought| brought.package).collect()
}

/// Of the running system.
fn release() -> Release {
    Release::of(Path::new("/"))
}

/// From the package that the file is of, else from the file's own name.
fn version(known: &Known, path: &Path, versions: &BTreeMap<String, String>) -> Option<String> {
    let real = std::fs::canonicalize(path).ok()?;
    if !real.starts_with("/usr/local") {
        let usual = usual_packages(known);
        let owner = match packages::owner(Path::new("/"), &real, &usual) {
            Owner::Is(name) => Some(name),
            // There are no lists of files: then it is the package that brings it.
            Owner::Unknown => {
                usual.iter().find(|name| versions.contains_key(**name)).map(|n| (*n).into())
            }
            Owner::Nobody => None,
        };
        if let Some(version) = owner.and_then(|name| versions.get(&name)) {
            return Some(packages::upstream(version).to_owned());
        }
    }
    let name = real.file_name()?.to_str()?;
    let (_, suffix) = name.split_once(".so.")?;
    Some(suffix.to_owned())
}

/// The allocator that `-a` names: a known name, `NAME=PATH`, or a path. Where there is one library
/// for each C library, `libc` (the target's) decides.
pub fn find(name: &str, libc: Option<Libc>) -> Result<Allocator> {
    if let Some((name, path)) = name.split_once('=') {
        return from_user(name, Path::new(path));
    }
    if name.contains('/') {
        let path = Path::new(name);
        let short = name_from_file(path)
            .or_else(|| stem(path).map(|stem| stem.trim_start_matches("lib").to_owned()));
        return from_user(short.as_deref().unwrap_or(name), path);
    }
    if is_system_name(name) {
        let system = Allocator::system();
        if let Some(libc) = libc
            && matches!(name, "glibc" | "musl")
            && name != libc.name()
        {
            return Err(of_another_libc(name, libc));
        }
        return Ok(match libc {
            Some(libc) if system.libc != Some(libc) => {
                Allocator { name: libc.name().into(), version: None, libc: Some(libc), ..system }
            }
            _ => system,
        });
    }
    if let Some(allocator) = Allocator::embedded(name)? {
        return Ok(allocator);
    }
    let Some(known) = installable().find(|known| known.name == name) else {
        return Err(unknown(name));
    };
    let found = installed(known, &candidates(), &packages::installed_versions());
    let fits = found.iter().position(|a| a.libc.is_none() || libc.is_none() || a.libc == libc);
    match fits {
        Some(index) => Ok(found[index].clone()),
        None => found.into_iter().next().ok_or_else(|| Error::UnknownAllocator {
            name: name.into(),
            remedy: format!("It is not installed; {}.", release().install_sentence(known)),
        }),
    }
}

/// An allocator that is a part of one C library is not to be had in programs of another.
fn of_another_libc(name: &str, libc: Libc) -> Error {
    let own = libc.name();
    Error::Unsupported(format!(
        "The allocator {name} is a part of the C library {name}, and this is a {own} program. Use -a \
         {own} for its own allocator, or build the program for {name}."
    ))
}

pub(crate) fn unknown(name: &str) -> Error {
    let mut names: Vec<&str> = embedded::LIBRARIES.iter().map(|library| library.name).collect();
    names.push("glibc");
    names.extend(installable().map(|known| known.name));
    let remedy = match crate::options::nearest(name, &names) {
        Some(near) => format!("Did you mean {near}?"),
        None => format!("Known are {}; or give NAME=/path/to/lib.so.", names.join(", ")),
    };
    Error::UnknownAllocator { name: name.into(), remedy }
}

fn from_user(name: &str, path: &Path) -> Result<Allocator> {
    let path = std::path::absolute(path).map_err(Error::io("The path cannot be made absolute"))?;
    let family = name_from_file(&path).map_or(Family::Other, |name| family_of(&name));
    let allocator = Allocator::from_file(name, family, "given path", &path)?;
    if allocator.machine != own_machine() {
        return Err(Error::Library {
            path,
            reason: "it is built for another machine".into(),
            remedy: format!("Give one for {}", std::env::consts::ARCH),
        });
    }
    Ok(allocator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_missing_are_explained() {
        assert!(
            find("jemaloc", None)
                .expect_err("a typo")
                .to_string()
                .contains("Did you mean jemalloc?")
        );
        let error = find("x=/nonexistent/lib.so", None).expect_err("no file");
        assert!(error.to_string().contains("no such file"));
        assert!(matches!(error, Error::Library { .. }));
    }

    #[test]
    fn allocators_of_another_c_library_are_refused() {
        let refused = |name, libc| matches!(find(name, Some(libc)), Err(Error::Unsupported(_)));
        assert!(refused("musl", Libc::Glibc) && refused("glibc", Libc::Musl));
        let found = |name, libc| find(name, Some(libc)).expect("its own").name;
        assert_eq!((found("musl", Libc::Musl), found("libc", Libc::Musl)).0, "musl");
        assert_eq!((found("glibc", Libc::Glibc), found("system", Libc::Musl)).1, "musl");
    }

    #[test]
    fn newest_compiler_comes_first() {
        let root = tempfile::tempdir().expect("a temporary folder");
        for folder in ["llvm-9/lib/clang/9.0.1", "llvm-19/lib/clang/19", "clang/14.0.6", "llvm-x"] {
            std::fs::create_dir_all(root.path().join("usr/lib").join(folder)).expect("writable");
        }
        let found = clang_folders(root.path());
        let folder = |path: &str| PathBuf::from(format!("/usr/lib/{path}/lib/linux"));
        let wanted = ["llvm-19/lib/clang/19", "clang/14.0.6", "llvm-9/lib/clang/9.0.1"];
        assert_eq!(found, wanted.map(folder));
        // Of the folders for kinds of machines only those of this one.
        let arch = std::env::consts::ARCH;
        for machine in [arch, "sparc"] {
            let folder = format!("usr/lib/clang/14.0.6/lib/{machine}-redhat-linux-gnu");
            std::fs::create_dir_all(root.path().join(folder)).expect("writable");
        }
        let own = format!("/usr/lib/clang/14.0.6/lib/{arch}-redhat-linux-gnu");
        let found = clang_folders(root.path());
        assert_eq!(found.len(), 4);
        assert!(found[1..3].contains(&own.into()), "{found:?}");
    }

    #[test]
    fn discovery_finds_mallow_and_the_system() {
        let (usable, missing) = discover().expect("the cache folder is writable");
        assert_eq!(usable[0].name, "mallow");
        assert!(usable.iter().any(|allocator| allocator.path.is_none()));
        assert!(missing.iter().all(|missing| !missing.remedy.is_empty()));
    }
}
