// SPDX-License-Identifier: MIT
//! Definitions of probes in the kernel's list (tracefs). The list is needed, not the shorter way of
//! an event that carries its own definition: new threads cannot inherit such an event, and the
//! kernel then refuses to start them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// A place in a file's code.
#[derive(Clone, Debug)]
pub struct Point {
    pub file: Arc<File>,
    /// In the file.
    pub offset: u64,
    /// Hit when the function that is being entered there returns.
    pub at_return: bool,
    /// Some hits come with a copy of the stack.
    pub has_stack: bool,
}

/// Removes its probes when dropped; by then nobody may use them any more.
pub struct Definitions {
    list: PathBuf,
    /// `mallow_PID`, of this process.
    group: String,
    names: Vec<String>,
    pub ids: Vec<u64>,
}

impl Definitions {
    /// Whether this kernel lets probes be defined; not whether we may.
    pub fn are_possible() -> bool {
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        known.lines().any(|line| line.ends_with("tracefs"))
            && Path::new("/sys/bus/event_source/devices/uprobe").exists()
    }

    pub fn new(points: &[Point]) -> io::Result<Definitions> {
        let place = match mounted() {
            Some(place) => place,
            None => {
                mount()?;
                mounted().ok_or(io::ErrorKind::NotFound)?
            }
        };
        let list = place.join("uprobe_events");
        remove_left_over(&list)?;
        let group = format!("mallow_{}", std::process::id());
        let mut definitions = Definitions { list, group, names: Vec::new(), ids: Vec::new() };
        for (number, point) in points.iter().enumerate() {
            let kind = if point.at_return { 'r' } else { 'p' };
            let name = format!("{}/{kind}{number}", definitions.group);
            append(&definitions.list, &format!("{kind}:{name} {}\n", probed(point)))?;
            let id = fs::read_to_string(place.join("events").join(&name).join("id"))?;
            definitions.names.push(name);
            definitions.ids.push(id.trim().parse().map_err(io::Error::other)?);
        }
        Ok(definitions)
    }
}

impl Drop for Definitions {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = append(&self.list, &format!("-:{name}\n"));
        }
    }
}

/// As definitions have it. The kernel takes a line apart at blanks, and cuts it at `#`: names of files may hold them, and
/// line feeds, but no descriptor does. It looks once where that leads.
fn probed(point: &Point) -> String {
    format!("/proc/self/fd/{}:{:#x}", point.file.as_raw_fd(), point.offset)
}

fn mounted() -> Option<&'static Path> {
    PLACES.iter().map(Path::new).find(|place| place.join("uprobe_events").exists())
}

/// Puts the kernel's list where it belongs, as perf does too.
fn mount() -> io::Result<()> {
    let (kind, place) = (c"tracefs", c"/sys/kernel/tracing");
    // SAFETY: the texts end with a zero, and there are no options.
    let failed = unsafe {
        libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn append(list: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(list)?.write_all(line.as_bytes())
}

/// Those of a recording that was killed.
fn remove_left_over(list: &Path) -> io::Result<()> {
    for line in fs::read_to_string(list)?.lines() {
        let name = line.split([':', ' ']).nth(1).unwrap_or_default();
        let owner = name.strip_prefix("mallow_").and_then(|rest| rest.split('/').next());
        let Some(owner) = owner.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        if !Path::new(&format!("/proc/{owner}")).exists() {
            let _ = append(list, &format!("-:{name}\n"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_file_is_no_word_of_a_definition() {
        let path = std::env::temp_dir().join(format!("my app #{}\n-:x", std::process::id()));
        let file = Arc::new(File::create(&path).expect("a temporary file"));
        let point = Point { file, offset: 0x1f0, at_return: false, has_stack: false };
        let probed = probed(&point);
        let (name, offset) = probed.rsplit_once(':').expect("two parts");
        assert!(!name.contains([' ', '#', '\n', '\t', ':']), "{name}");
        assert_eq!(fs::canonicalize(name).ok(), fs::canonicalize(&path).ok());
        assert_eq!(offset, "0x1f0");
        fs::remove_file(path).expect("ours");
    }
}
