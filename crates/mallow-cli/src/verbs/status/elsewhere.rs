//! What preloads an allocator without `mallow enable`: a package's script, or somebody's own line.

use std::path::{Path, PathBuf};

use mallow_process::allocators::by_file;

use crate::enabling::{Place, System};

const SCRIPTS: &str = "/etc/profile.d";
const LIST: &str = "/etc/ld.so.preload";

/// A file that names an allocator's library to preload.
pub struct Elsewhere {
    pub place: Place,
    pub file: PathBuf,
    /// The allocator's name.
    pub allocator: &'static str,
    /// The library, as the file names it.
    pub word: String,
}

/// Looks at the scripts of login shells and at the loader's list; `known` are files of the record.
/// A script may have conditions of its own: that it names a library is all that is known.
pub fn find(system: &System, known: &[PathBuf]) -> Vec<Elsewhere> {
    let scripts = std::fs::read_dir(system.at(Path::new(SCRIPTS))).into_iter().flatten().flatten();
    let mut files: Vec<(Place, PathBuf)> = scripts
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sh"))
        .map(|path| (Place::Global, path))
        .collect();
    files.sort_unstable_by(|left, right| left.1.cmp(&right.1));
    files.push((Place::LdSoPreload, system.at(Path::new(LIST))));
    let mut found = Vec::new();
    for (place, file) in files.into_iter().filter(|(_, file)| !known.contains(file)) {
        let text = std::fs::read(&file).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        if place == Place::Global && !text.contains("LD_PRELOAD") {
            continue;
        }
        if let Some((allocator, word)) = named(&text) {
            found.push(Elsewhere { place, file, allocator, word });
        }
    }
    found
}

/// The first library of an allocator in the lines that are no comments.
fn named(text: &str) -> Option<(&'static str, String)> {
    let is_between = |c: char| c.is_whitespace() || ":;=\"'*[]()|\\".contains(c);
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(|line| line.split(is_between)).find_map(|word| {
        let known = by_file(Path::new(word))?;
        Some((known.name, word.to_owned()))
    })
}
