// SPDX-License-Identifier: MIT
//! A system in a folder, for `mallow enable --root`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{Ran, json, mallow, ran, run};

pub const SCRIPT: &str = "etc/profile.d/mallow.sh";
pub const DROP_IN: &str = "etc/systemd/system/web.service.d/zz-mallow.conf";
pub const RECORD: &str = "var/lib/mallow/enabled.json";

/// A system in a folder: Mallow's library where its loader looks, a program, a service.
pub struct System {
    pub folder: TempDir,
}

impl System {
    pub fn new() -> System {
        let folder = tempfile::tempdir().unwrap();
        let system = System { folder };
        for name in ["etc/profile.d", "etc/systemd/system", "usr/lib", "usr/bin", "var/lib"] {
            fs::create_dir_all(system.path(name)).unwrap();
        }
        let builds = json(&run(&["list", "--json"]));
        for build in builds["allocators"].as_array().unwrap() {
            let path = Path::new(build["path"].as_str().unwrap_or("/"));
            if build["embedded"] == true {
                fs::copy(path, system.path("usr/lib").join(path.file_name().unwrap())).unwrap();
            }
        }
        let program = fs::canonicalize("/bin/sleep").unwrap();
        fs::copy(program, system.path("usr/bin/web")).unwrap();
        system.write("etc/systemd/system/web.service", "[Service]\nExecStart=/usr/bin/web 100\n");
        system
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    pub fn mallow(&self, words: &[&str]) -> Command {
        let root = self.folder.path().to_str().unwrap();
        let mut command = mallow(&[words, &["--root", root]].concat());
        command.env("HOME", "/home/somebody");
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
        command
    }

    pub fn run(&self, words: &[&str]) -> Ran {
        ran(self.mallow(words).output().unwrap())
    }

    #[track_caller]
    pub fn succeeds(&self, words: &[&str]) -> String {
        let ran = self.run(words);
        assert_eq!(ran.code, Some(0), "{words:?}: {}", ran.stderr);
        ran.stdout
    }

    #[track_caller]
    pub fn refuses(&self, words: &[&str], code: i32, parts: &[&str]) {
        let ran = self.run(words);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{words:?}: {}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        assert!(parts.iter().all(|part| ran.stderr.contains(part)), "{}", ran.stderr);
    }

    pub fn status(&self) -> serde_json::Value {
        json(&self.run(&["status", "--json"]))
    }

    /// Names what differs.
    #[track_caller]
    pub fn is(&self, expected: &BTreeMap<PathBuf, (u32, Vec<u8>)>) {
        let found = self.everything();
        let is_other = |path: &&PathBuf| found.get(*path) != expected.get(*path);
        let others: Vec<_> = found.keys().chain(expected.keys()).filter(is_other).collect();
        assert!(others.is_empty(), "{others:?}");
    }

    /// Everything below the folder: type, rights, content.
    pub fn everything(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut all = BTreeMap::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let metadata = fs::symlink_metadata(&path).unwrap();
                let content =
                    if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
                if metadata.is_dir() {
                    folders.push(path.clone());
                }
                all.insert(path, (metadata.mode(), content));
            }
        }
        all
    }

    /// As mallow-global and mallow-secure-global do.
    pub fn install_package(&self, package: &str, library: &str) {
        let script = fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../packaging/profile.d/global.sh.in"
        ));
        let script = script.unwrap().replace("@PACKAGE@", package).replace("@LIBRARY@", library);
        self.write(&format!("etc/profile.d/{package}.sh"), &script);
        self.write(&format!("usr/share/{package}/installed"), "");
    }
}
