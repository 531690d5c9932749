// SPDX-License-Identifier: MIT
//! The places of the allocator's functions in a running process, and the probes on them.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use mallow_os::open_plain;
use mallow_recorder::{Point, Probes};
use mallow_trace::Op;

use super::super::{Error, Result, site};
use super::place_of;

/// Those that the allocator's own library defines are probed; a C++ library's operator new calls
/// malloc. In the order of preference where two names are one function.
const FUNCTIONS: [(&str, Op); 13] = [
    ("malloc", Op::Malloc),
    ("calloc", Op::Calloc),
    ("realloc", Op::Realloc),
    ("free", Op::Free),
    ("posix_memalign", Op::PosixMemalign),
    ("aligned_alloc", Op::AlignedAlloc),
    ("memalign", Op::Memalign),
    ("_Znwm", Op::New),
    ("_Znam", Op::NewArray),
    ("_ZdlPv", Op::Delete),
    ("_ZdaPv", Op::DeleteArray),
    ("_ZdlPvm", Op::DeleteSized),
    ("_ZdaPvm", Op::DeleteArraySized),
];

/// How often the probes are set anew where threads begin meanwhile.
const TRIES: u32 = 5;

/// What the hits of a point mean.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    pub op: Op,
    pub at_return: bool,
}

pub fn points(pid: u32, library: &Path) -> Result<(Vec<Point>, Vec<Meaning>)> {
    let unreadable = |error: std::io::Error| {
        Error::Unsupported(format!("The allocator {} cannot be read: {error}.", library.display()))
    };
    // Whatever comes to have its name, the probes go where the functions were found.
    let file = open_plain(&place_of(pid, library)).map_err(unreadable)?;
    let names = FUNCTIONS.map(|(name, _)| name);
    let sites = site::find(&file, &names).map_err(unreadable)?;
    let file = Arc::new(file);
    if !sites.iter().any(|(name, _)| *name == "malloc") {
        return Err(Error::Unsupported(format!(
            "{} has no symbol for its malloc, so there is no place for a probe. Use a build that is \
             not stripped.",
            library.display()
        )));
    }
    let (mut points, mut meanings) = (Vec::new(), Vec::new());
    for (name, site) in sites {
        let Some(&(_, op)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else { continue };
        let returns: &[bool] = if op.is_free() { &[false] } else { &[false, true] };
        for &at_return in returns {
            let has_stack = !at_return && !op.is_free();
            points.push(Point {
                file: Arc::clone(&file),
                offset: site.offset,
                at_return,
                has_stack,
            });
            meanings.push(Meaning { op, at_return });
        }
    }
    Ok((points, meanings))
}

pub fn open(pid: u32, points: &[Point], period: Option<u64>) -> Result<Probes> {
    if !Probes::are_possible() {
        return Err(Error::Unsupported(
            "This kernel has no uprobes or no tracefs, so a running process cannot be recorded. Start \
             the command with: mallow record -- COMMAND."
                .into(),
        ));
    }
    let cpus = online_cpus();
    // A thread that begins meanwhile is probed on some processors only.
    for _ in 1..TRIES {
        let before = threads(pid);
        let probes = Probes::open(&before, &cpus, points, period).map_err(refusal)?;
        if threads(pid).iter().all(|thread| before.contains(thread)) {
            return Ok(probes);
        }
    }
    Probes::open(&threads(pid), &cpus, points, period).map_err(refusal)
}

/// None where the process is gone.
pub fn threads(pid: u32) -> Vec<u32> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/task"));
    let entries = folder.into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

pub fn refusal(error: std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::PermissionDenied => no_permission(),
        _ if error.raw_os_error() == Some(nix::errno::Errno::EMFILE as i32) => Error::Unsupported(
            "The process has too many threads for the limit of open files. Raise it: ulimit -n."
                .into(),
        ),
        _ => Error::Unsupported(format!("The kernel refuses the probes: {error}.")),
    }
}

/// `0-3,8` in /sys.
fn online_cpus() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            cpus.extend(first..=last);
        }
    }
    if cpus.is_empty() { vec![0] } else { cpus }
}

pub fn no_permission() -> Error {
    Error::Permission(
        "Recording a running process takes root or CAP_PERFMON: use sudo mallow record -p PID, or \
         start the command with mallow record -- COMMAND, which takes no rights."
            .into(),
    )
}
