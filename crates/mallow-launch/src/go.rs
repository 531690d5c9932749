// SPDX-License-Identifier: MIT
//! What `go test` needs to be recorded. It does not run a test again whose result it has kept, leaves out the
//! names of its functions, and removes the program before anybody could ask it for them. All of that can be
//! asked for by variables.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// As the Go tool names the programs of tests.
pub const PROGRAMS: &str = "*.test";

/// Whether the command is `go test …`.
pub fn is_test(command: &[OsString]) -> bool {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let Some((program, rest)) = words.split_first() else { return false };
    let is_go = program.rsplit('/').next() == Some("go");
    is_go && matches!(rest, ["test", ..] | ["-C", _, "test", ..])
}

/// Variables for one run. Programs and all else that is built go to `folder`, and stay there.
pub fn variables(program: &OsStr, folder: &Path) -> Vec<(String, String)> {
    // Also what `go env -w` has set, which a variable replaces.
    let output = Command::new(program).args(["env", "GOFLAGS"]).stdin(Stdio::null()).output();
    let given = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    vec![
        ("GOFLAGS".into(), flags(&given.unwrap_or_default())),
        ("GOTMPDIR".into(), folder.display().to_string()),
    ]
}

/// As the Go tool names its own folders in GOTMPDIR.
const BUILDS: &str = "go-build";

/// Programs of tests that stay in a folder after their run.
pub struct Kept {
    pub folder: PathBuf,
    pub variables: Vec<(String, String)>,
}

impl Kept {
    /// Those of an earlier run are removed.
    pub fn beside(program: &OsStr, trace: &Path) -> io::Result<Kept> {
        let mut folder = std::path::absolute(trace)?.into_os_string();
        folder.push(".programs");
        let folder = PathBuf::from(folder);
        fs::create_dir_all(&folder)?;
        let kept = Kept { variables: variables(program, &folder), folder };
        kept.builds()?.iter().try_for_each(fs::remove_dir_all)?;
        Ok(kept)
    }

    /// All else that was built is removed; all of it, and the folder, if there is no use for it.
    pub fn tidy(&self, is_of_use: bool) -> io::Result<()> {
        for build in self.builds()? {
            if is_of_use {
                keep_programs(&build)?;
            } else {
                fs::remove_dir_all(build)?;
            }
        }
        match fs::remove_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => removed,
        }
    }

    fn builds(&self) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(&self.folder)?.collect::<io::Result<Vec<_>>>()?;
        let is_build = |entry: &fs::DirEntry| {
            entry.file_name().as_encoded_bytes().starts_with(BUILDS.as_bytes())
        };
        Ok(entries.into_iter().filter(is_build).map(|entry| entry.path()).collect())
    }
}

/// Of what one call of the Go tool has built: a folder for each step, and in some a program.
fn keep_programs(build: &Path) -> io::Result<()> {
    for step in fs::read_dir(build)? {
        let step = step?.path();
        if !step.is_dir() {
            fs::remove_file(step)?;
            continue;
        }
        for entry in fs::read_dir(&step)? {
            let path = entry?.path();
            if path.is_dir() {
                fs::remove_dir_all(path)?;
            } else if path.extension() != Some("test".as_ref()) {
                fs::remove_file(path)?;
            }
        }
        // Those without a program are empty now.
        let _ = fs::remove_dir(&step);
    }
    Ok(())
}

/// What was given comes after, so that it holds.
fn flags(given: &str) -> String {
    format!("-work -count=1 '-ldflags=-s=0 -w=0' {given}").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_test_is_known_from_its_words() {
        let is = |line: &str| is_test(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(is("go test ./...") && is("/usr/local/go/bin/go test") && is("go -C ../x test ."));
        assert!(!is("go build ./...") && !is("go") && !is("./go.test test") && !is("go vet test"));
    }

    #[test]
    fn programs_of_tests_stay_and_nothing_else() {
        let root = std::env::temp_dir().join(format!("mallow-go-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let keep = || Kept::beside("go".as_ref(), &root.join("trace")).unwrap();
        let folder = root.join("trace.programs");
        let build = || {
            for file in
                ["b001/unit.test", "b001/_pkg_.a", "b001/gocache/x.test", "b002/x.o", "list"]
            {
                let file = folder.join("go-build1").join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, "").unwrap();
            }
            fs::write(folder.join("mine"), "").unwrap();
        };
        let kept = keep();
        build();
        kept.tidy(true).unwrap();
        let files = |name: &str| fs::read_dir(folder.join(name)).map_or(0, Iterator::count);
        assert!(folder.join("go-build1/b001/unit.test").exists());
        assert_eq!((files("go-build1"), files("go-build1/b001")), (1, 1));
        assert!(keep().folder.exists() && !folder.join("go-build1").exists());
        assert!(folder.join("mine").exists());
        fs::remove_file(folder.join("mine")).unwrap();
        kept.tidy(false).unwrap();
        assert!(!folder.exists());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn flags_that_were_given_hold() {
        assert!(flags("-tags=big -count=3").ends_with("-w=0' -tags=big -count=3"));
        assert!(flags("").ends_with("-w=0'"));
    }
}
