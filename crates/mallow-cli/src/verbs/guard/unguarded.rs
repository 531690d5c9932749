// SPDX-License-Identifier: MIT
//! Processes of the command that run without the library: `env -i`, sudo and others start programs in another
//! environment, and in a chroot the loader does not find it. Those that live for a second are seen. Static programs
//! are not looked for: they load nothing.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use mallow_process::stat::{self, Start, Stat};
use mallow_process::{descendants, is_own, maps};

/// Between two looks at most. In the first moments it is less, so that short commands are seen.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Of more the names are not kept.
const MOST: usize = 1000;
const TOLD: usize = 4;

pub struct Unguarded {
    /// The name of its file.
    library: String,
    began: Instant,
    last: Option<Instant>,
    /// Of the programs of the last look those whose answer is known.
    known: HashSet<(u32, Start)>,
    /// Those that ask for the library and were seen without it, perhaps since the loader was at work, and since when.
    doubted: HashMap<(u32, Start), Instant>,
    /// Number and name, in the order in which they were seen.
    found: Vec<(u32, String)>,
}

impl Unguarded {
    pub fn new(library: String) -> Unguarded {
        let (known, doubted, found) = (HashSet::new(), HashMap::new(), Vec::new());
        Unguarded { library, began: Instant::now(), last: None, known, doubted, found }
    }

    /// Looks at the process and all that descend from it, if it is time to.
    pub fn look(&mut self, root: u32) {
        let pause = LONGEST_PAUSE.min(self.began.elapsed() / 8);
        if self.last.is_some_and(|last| last.elapsed() < pause) || !is_own() {
            return;
        }
        self.last = Some(Instant::now());
        let mut processes = Vec::new();
        descendants(root, &mut processes);
        let (mut known, mut doubted) = (HashSet::new(), HashMap::new());
        for pid in processes {
            let Ok(stat) = Stat::read(pid) else { continue };
            let program = (pid, stat.start);
            if !self.known.contains(&program) {
                // Before what it has mapped: of one that has ended meanwhile that is nothing.
                let folder = stat::folder(pid);
                let asks = self.asks(&folder);
                let Some(has) = self.has_library(&folder) else { continue };
                let since = self.doubted.get(&program).copied().unwrap_or_else(Instant::now);
                if !has && asks && since.elapsed() < LONGEST_PAUSE {
                    doubted.insert(program, since);
                    continue;
                }
                if !has {
                    self.add(pid, stat.comm);
                }
            }
            known.insert(program);
        }
        (self.known, self.doubted) = (known, doubted);
    }

    /// A process counts once, whatever it runs later.
    fn add(&mut self, pid: u32, name: String) {
        if self.found.len() < MOST && self.found.iter().all(|(other, _)| *other != pid) {
            self.found.push((pid, name));
        }
    }

    /// Whether its environment has the library.
    fn asks(&self, folder: &Path) -> bool {
        let environment = std::fs::read(folder.join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&self.library)
    }

    /// `None`: not known, as while the loader is at work, or of another user's process. What is preloaded is mapped
    /// before the C library, but musl's loader is the C library itself.
    fn has_library(&self, folder: &Path) -> Option<bool> {
        let maps = maps::parse(&std::fs::read(folder.join("maps")).ok()?);
        let mut files = maps.iter().filter_map(|mapping| mapping.path.file_name()?.to_str());
        if files.clone().any(|file| file == self.library) {
            return Some(true);
        }
        files.any(is_libc).then_some(false)
    }

    /// What to tell of them.
    pub fn note(&self) -> Option<String> {
        let told = self.found.iter().take(TOLD);
        let told: Vec<String> = told.map(|(pid, name)| format!("{name} (process {pid})")).collect();
        let more = match self.found.len().checked_sub(TOLD) {
            None | Some(0) => String::new(),
            Some(more) => format!(" and {more} more"),
        };
        (!told.is_empty()).then(|| {
            format!(
                "Not guarded: {}{more}, which did not get the command's environment, as behind env -i or sudo, or \
                 did not load the library, as in a chroot. Put mallow guard behind that: env -i mallow guard -- \
                 COMMAND.",
                told.join(", ")
            )
        })
    }
}

fn is_libc(file: &str) -> bool {
    ["libc.so", "libc-2.", "ld-musl"].iter().any(|name| file.starts_with(name))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// What is told of a child that does nothing, once its loader has done its work, and doubts are over.
    fn told(library: &str, variables: &[(&str, &str)]) -> Option<String> {
        let mut command = Command::new("cat");
        command.env_clear().envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        while Stat::read(child.id()).unwrap().state != 'S' {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut unguarded = Unguarded::new(library.into());
        unguarded.look(child.id());
        while !unguarded.doubted.is_empty() {
            std::thread::sleep(Duration::from_millis(100));
            unguarded.look(child.id());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let note = unguarded.note();
        let process = format!(" (process {}), ", child.id());
        assert!(note.as_ref().is_none_or(|note| note.contains(&process)), "{note:?}");
        note
    }

    #[test]
    fn what_does_not_have_the_library_is_told() {
        // The second asks for a file that is not there, as another root folder may have none.
        for variables in [vec![], vec![("PRELOAD", "/a/libx.so")]] {
            let note = told("libx.so", &variables).unwrap();
            assert!(note.starts_with("Not guarded: cat (process "), "{note}");
        }
        // Any file that it has does as the library.
        let cat =
            ["/bin/cat", "/usr/bin/cat"].iter().find_map(|cat| std::fs::canonicalize(cat).ok());
        assert_eq!(told(cat.unwrap().file_name().unwrap().to_str().unwrap(), &[]), None);
    }

    #[test]
    fn of_many_the_first_are_named() {
        let mut unguarded = Unguarded::new("libx.so".into());
        assert_eq!(unguarded.note(), None);
        for pid in [1, 2, 3, 4, 5, 6, 6] {
            unguarded.add(pid, "a".into());
        }
        let note = unguarded.note().unwrap();
        assert!(note.contains("a (process 3), a (process 4) and 2 more, which"), "{note}");
    }
}
