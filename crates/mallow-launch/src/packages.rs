// SPDX-License-Identifier: MIT
//! Versions of installed packages and whose files are whose, read from the package managers' own
//! databases.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::distribution::resolved;

/// Package name to version, from dpkg or apk; empty where there is neither.
pub fn installed_versions() -> BTreeMap<String, String> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let mut versions = parse_dpkg(&read("/var/lib/dpkg/status"));
    versions.extend(parse_apk(&read("/lib/apk/db/installed")));
    versions
}

pub fn parse_dpkg(status: &str) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for paragraph in status.split("\n\n") {
        let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name));
        if let (Some(package), Some(version)) = (field("Package: "), field("Version: "))
            && field("Status: ").is_some_and(|status| status.ends_with(" installed"))
        {
            versions.insert(package.to_owned(), version.to_owned());
        }
    }
    versions
}

pub fn parse_apk(database: &str) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for paragraph in database.split("\n\n") {
        let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name));
        if let (Some(package), Some(version)) = (field("P:"), field("V:")) {
            versions.insert(package.to_owned(), version.to_owned());
        }
    }
    versions
}

/// The package that brought a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Owner {
    Is(String),
    Nobody,
    /// The system keeps no lists of files that are known here.
    Unknown,
}

/// Asks dpkg's lists of the system `root`. The packages that usually have the file are asked first: there are
/// many others.
pub fn owner(root: &Path, file: &Path, usual: &[&str]) -> Owner {
    let folder = resolved(root, Path::new("/var/lib/dpkg/info"));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let lists =
        entries.map(|entry| entry.path()).filter_map(|path| Some((package_of(&path)?, path)));
    let (first, rest): (Vec<_>, Vec<_>) =
        lists.partition(|(package, _)| usual.contains(&package.as_str()));
    if first.is_empty() && rest.is_empty() {
        return Owner::Unknown;
    }
    // Packages may still name /lib, which leads to /usr/lib.
    let merged = file.strip_prefix("/usr").map(|file| Path::new("/").join(file));
    let names: Vec<PathBuf> = merged.into_iter().chain([file.to_owned()]).collect();
    let has = |list: &Path| {
        let text = std::fs::read_to_string(list).unwrap_or_default();
        text.lines().any(|line| names.iter().any(|name| Path::new(line) == name))
    };
    let mut owners = first.into_iter().chain(rest).filter(|(_, list)| has(list));
    owners.next().map_or(Owner::Nobody, |(package, _)| Owner::Is(package))
}

/// `libclang-rt-14-dev:amd64.list` is of libclang-rt-14-dev.
fn package_of(list: &Path) -> Option<String> {
    let name = list.file_name()?.to_str()?.strip_suffix(".list")?;
    Some(name.split(':').next().unwrap_or(name).to_owned())
}

/// The version without a package's epoch and revision: `1:2.0.9+ds-2` → `2.0.9`.
pub fn upstream(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    let version = version.split('-').next().unwrap_or(version);
    version.split('+').next().unwrap_or(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_of_the_package_that_lists_it() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let owner = |file: &str| owner(root.path(), Path::new(file), &["rt-14-dev"]);
        assert_eq!(owner("/usr/lib/x.so"), Owner::Unknown);
        let info = root.path().join("var/lib/dpkg/info");
        std::fs::create_dir_all(&info).expect("writable");
        std::fs::write(info.join("rt-14-dev:amd64.list"), "/.\n/usr/lib/llvm-14/rt.so\n")
            .expect("fits");
        std::fs::write(info.join("rt-19-dev:amd64.list"), "/.\n/usr/lib/llvm-19/rt.so\n")
            .expect("fits");
        std::fs::write(info.join("old.list"), "/.\n/lib/old.so.1\n").expect("fits");
        std::fs::write(info.join("old.md5sums"), "/usr/lib/x.so\n").expect("fits");
        assert_eq!(owner("/usr/lib/llvm-14/rt.so"), Owner::Is("rt-14-dev".into()));
        assert_eq!(owner("/usr/lib/llvm-19/rt.so"), Owner::Is("rt-19-dev".into()));
        assert_eq!(owner("/usr/lib/old.so.1"), Owner::Is("old".into()));
        assert_eq!(owner("/usr/lib/x.so"), Owner::Nobody);
    }

    #[test]
    fn both_databases_are_read() {
        let dpkg = "Package: a\nStatus: install ok installed\nVersion: 1:2.0.9+ds-2\n\n\
                    Package: b\nStatus: deinstall ok config-files\nVersion: 1\n";
        let versions = parse_dpkg(dpkg);
        assert_eq!(versions.len(), 1);
        assert_eq!(upstream(&versions["a"]), "2.0.9");
        let apk = "C:Q1x=\nP:jemalloc\nV:5.3.0-r6\nA:x86_64\n\nP:musl\nV:1.2.5-r0\n";
        assert_eq!(upstream(&parse_apk(apk)["jemalloc"]), "5.3.0");
    }
}
