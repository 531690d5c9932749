// SPDX-License-Identifier: MIT
//! What preloads an allocator without `mallow enable`: a package's script, or somebody's own line.

use std::path::{Path, PathBuf};

use mallow_os::read_plain;
use mallow_process::allocators::by_file;
use serde::Serialize;

use crate::{Place, SCRIPT, System};

const SCRIPTS: &str = "/etc/profile.d";
const LIST: &str = "/etc/ld.so.preload";
const ENVIRONMENT: &str = "/etc/environment";

/// A file that names an allocator's library to preload.
pub struct Elsewhere {
    pub place: Place,
    /// As it is seen from here.
    pub file: PathBuf,
    /// The allocator's name.
    pub allocator: &'static str,
    /// The library, as the file names it.
    pub word: String,
    /// Of Mallow's `-global` packages, the one that brought the script.
    pub package: Option<String>,
    /// Whether `mallow enable` wrote it, which has no record of it any more.
    is_of_mallow: bool,
    /// Whether shells read it after the script of `mallow enable`, which then has no last word.
    pub is_last: bool,
}

/// The same, as reports have it.
#[derive(Debug, Serialize)]
pub struct Other {
    pub place: String,
    pub allocator: String,
    #[serde(serialize_with = "mallow_process::lossy::path")]
    pub file: PathBuf,
    /// What undoes it, as in "remove the package mallow-global".
    pub remedy: String,
}

impl Elsewhere {
    pub fn report(&self) -> Other {
        Other {
            place: self.place.describe(),
            allocator: self.allocator.into(),
            file: self.file.clone(),
            remedy: self.remedy(),
        }
    }

    /// As in "remove the package mallow-global".
    pub fn remedy(&self) -> String {
        match (&self.package, &self.place) {
            (Some(package), _) => format!("remove the package {package}"),
            (None, Place::LdSoPreload) => {
                format!("take {} out of {}", self.word, self.file.display())
            }
            (None, _) if self.is_of_mallow => format!("remove {}", self.file.display()),
            (None, _) => format!("take LD_PRELOAD out of {}", self.file.display()),
        }
    }
}

/// Looks at the scripts of login shells, the loader's list and the environment of PAM; `known` are files of the record.
/// A script may have conditions of its own: that it names a library is all that is known. Only of a
/// package that is removed but not purged is it known that its script does nothing.
pub fn find(system: &System, known: &[PathBuf]) -> Vec<Elsewhere> {
    let folder = Path::new(SCRIPTS);
    let scripts = std::fs::read_dir(system.resolved(folder)).into_iter().flatten().flatten();
    let mut files: Vec<(Place, PathBuf)> = scripts
        .map(|entry| folder.join(entry.file_name()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "sh"))
        .map(|path| (Place::Global, path))
        .collect();
    files.sort_unstable_by(|left, right| left.1.cmp(&right.1));
    files.push((Place::LdSoPreload, LIST.into()));
    files.push((Place::Environment, ENVIRONMENT.into()));
    let mut found = Vec::new();
    for (place, path) in files {
        let file = system.at(&path);
        if known.contains(&file) {
            continue;
        }
        let text = read_plain(&system.resolved(&path)).unwrap_or_default();
        let mut text = String::from_utf8_lossy(&text).into_owned();
        if place == Place::Environment {
            // Other variables may name a library too.
            let lines: Vec<&str> =
                text.lines().filter(|line| line.contains("LD_PRELOAD=")).collect();
            text = lines.join("\n");
        }
        if place == Place::Global && !text.contains("LD_PRELOAD") {
            continue;
        }
        let (package, is_installed) = package(system, &file, &text);
        if let Some((allocator, word)) = named(&text).filter(|_| is_installed) {
            let is_last = place == Place::Global && is_read_last(&file);
            let is_of_mallow = crate::is_of_mallow(&text);
            found.push(Elsewhere { place, file, allocator, word, package, is_of_mallow, is_last });
        }
    }
    found
}

/// The package of a script that looks for the mark of its package, and whether the mark is there.
fn package(system: &System, file: &Path, text: &str) -> (Option<String>, bool) {
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mark = format!("/usr/share/{name}/installed");
    if !text.contains(&mark) {
        return (None, true);
    }
    let is_installed = system.resolved(Path::new(&mark)).exists();
    (Some(name), is_installed)
}

/// Shells sort the scripts by the rules of the language that holds: by bytes, or by letters alone.
fn is_read_last(file: &Path) -> bool {
    let own = Path::new(SCRIPT).file_name().unwrap_or_default().to_string_lossy();
    let other = file.file_name().unwrap_or_default().to_string_lossy();
    let letters = |name: &str| -> String {
        name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    other > own || letters(&other) > letters(&own)
}

/// The first library of an allocator in the lines that are no comments.
pub fn named(text: &str) -> Option<(&'static str, String)> {
    let is_between = |c: char| c.is_whitespace() || ":;=\"'*[]()|\\".contains(c);
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(|line| line.split(is_between)).find_map(|word| {
        let known = by_file(Path::new(word))?;
        Some((known.name, word.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_of_the_packages_are_read_first_in_every_language() {
        for name in ["mallow-global.sh", "mallow-secure-global.sh", "jemalloc-global.sh"] {
            assert!(!is_read_last(Path::new(name)), "{name}");
        }
        for name in ["mimalloc.sh", "zz.sh", "Zlib.sh"] {
            assert!(is_read_last(Path::new(name)), "{name}");
        }
    }
}
