// SPDX-License-Identifier: MIT
//! The running processes that have one of these libraries in them.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::PathBuf;

use mallow_process::binding::{Inspector, Report};
use mallow_process::stat::folder;
use serde::Serialize;

#[derive(Serialize)]
pub struct Process {
    pub pid: u32,
    #[serde(serialize_with = "mallow_process::lossy::path")]
    pub program: PathBuf,
    /// What its malloc is bound to, where that can be told.
    pub served_by: Option<String>,
    /// Whether that is one of the libraries; else they are merely mapped.
    pub has_it: Option<bool>,
}

#[derive(Default)]
pub struct Found {
    pub processes: Vec<Process>,
    pub not_examined: usize,
}

/// Reads what is mapped where; only who has a library is looked at closely.
pub fn find(libraries: &[PathBuf]) -> Found {
    let files: BTreeSet<PathBuf> =
        libraries.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let mut found = Found::default();
    let mut inspector = Inspector::default();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    for pid in pids {
        match std::fs::read(folder(pid).join("maps")) {
            Ok(maps) if has_one(&String::from_utf8_lossy(&maps), &files) => {
                let program = std::fs::read_link(folder(pid).join("exe")).unwrap_or_default();
                let report = inspector.inspect(pid).ok();
                found.processes.push(Process {
                    pid,
                    program,
                    served_by: report.as_ref().map(Report::summary),
                    has_it: report.as_ref().map(|report| is_served(report, &files)),
                });
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => found.not_examined += 1,
            _ => {}
        }
    }
    found
}

/// Whether the main program's malloc is that of one of these files.
fn is_served(report: &Report, files: &BTreeSet<PathBuf>) -> bool {
    let Report::Dynamic { main, .. } = report else { return false };
    main.bindings.get("malloc").is_some_and(|binding| binding.is_of(|path| files.contains(path)))
}

fn has_one(maps: &str, files: &BTreeSet<PathBuf>) -> bool {
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    paths.into_iter().any(|path| files.contains(&PathBuf::from(path)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mallow_process::binding::{Binding, Evidence, ObjectReport};

    use super::*;

    #[test]
    fn library_that_serves_nobody_is_merely_mapped() {
        let files = BTreeSet::from([PathBuf::from("/usr/lib/libjemalloc.so.2")]);
        let behind = |path: &str, through: Option<&str>| {
            let (allocator, path) = (String::new(), PathBuf::from(path));
            let through = through.map(PathBuf::from);
            let binding = Binding { allocator, path, through, evidence: Evidence::Bound };
            let bindings = BTreeMap::from([("malloc", binding)]);
            let main = ObjectReport { path: PathBuf::from("/usr/bin/redis-server"), bindings };
            Report::Dynamic { main, libraries: vec![], unread: vec![] }
        };
        let report = |path| behind(path, None);
        assert!(is_served(&report("/usr/lib/libjemalloc.so.2"), &files));
        // Somebody who enables a library that counts has it.
        assert!(is_served(&behind("/lib/libc.so.6", Some("/usr/lib/libjemalloc.so.2")), &files));
        assert!(!is_served(&report("/usr/lib/libmallow.so"), &files));
        assert!(!is_served(&Report::Go, &files));
    }
}
