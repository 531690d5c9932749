//! The running processes that have one of these libraries in them.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::PathBuf;

use mallow_process::binding::Inspector;
use mallow_process::stat::folder;
use serde::Serialize;

#[derive(Serialize)]
pub struct Process {
    pub pid: u32,
    pub program: PathBuf,
    /// What its malloc is bound to, where that can be told.
    pub served_by: Option<String>,
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
                let served_by = inspector.inspect(pid).ok().map(|report| report.summary());
                found.processes.push(Process { pid, program, served_by });
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => found.not_examined += 1,
            _ => {}
        }
    }
    found
}

fn has_one(maps: &str, files: &BTreeSet<PathBuf>) -> bool {
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    paths.into_iter().any(|path| files.contains(&PathBuf::from(path)))
}
