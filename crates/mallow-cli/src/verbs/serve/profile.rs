// SPDX-License-Identifier: MIT
//! The heap profile that a process wrote last. Samples are in the process alone, so without attaching
//! to it there is only what it writes itself: `prefix.PID.NUMBER.REASON.heap`, in jeprof's text or in pprof's.
//!
//! The process chooses the prefix, and may be hostile: a file counts only if it is a plain one, of the
//! user that the process runs as, and begins as a profile does.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mallow_report::HeapProfile;

const LARGEST: u64 = 64 << 20;
/// Files of a folder that are looked at.
const MOST_FILES: usize = 100_000;

/// A profile, open.
pub struct Dump {
    pub file: File,
    /// Which file it is, and in which state: device, number, length, time of the last change.
    pub identity: [u64; 5],
}

/// The newest ones, at most three, the newest first: that may be one that is being written.
pub fn newest(pid: u32, uid: u32) -> Result<Vec<Dump>, String> {
    let (folder, beginning) = place(pid)?;
    let entries = std::fs::read_dir(&folder).map_err(|_| none(pid))?.flatten().take(MOST_FILES);
    let is_one = |name: &str| name.starts_with(&beginning) && name.ends_with(".heap");
    let mut found: Vec<(SystemTime, PathBuf)> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_one))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    found.sort();
    let dumps: Vec<Dump> =
        found.iter().rev().take(3).filter_map(|(_, path)| open(path, uid)).collect();
    if dumps.is_empty() { Err(none(pid)) } else { Ok(dumps) }
}

impl Dump {
    pub fn text(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        (&self.file).take(LARGEST).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

fn none(pid: u32) -> String {
    format!(
        "Process {pid} has written no profile that can be read, and its samples cannot be had without \
         attaching to it: start it with MALLOW_CONF=prof:true,lg_prof_interval:30, which writes one for \
         each GiB that it allocates, or let it write one with prof.dump."
    )
}

/// The folder as it is seen from here, and what names of profiles begin with.
fn place(pid: u32) -> Result<(PathBuf, String), String> {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let environment = std::fs::read(proc.join("environ")).map_err(|_| {
        format!("Process {pid} may not be read. Run mallow serve as its user or as root.")
    })?;
    let environment = String::from_utf8_lossy(&environment);
    let prefix = setting(&environment, "prof_prefix").unwrap_or("jeprof");
    let mut numbers = own_number(&proc).unwrap_or(pid).to_string();
    if setting(&environment, "prof_pid_namespace") == Some("true") {
        numbers = format!("{}.{numbers}", namespace(&proc));
    }
    let base = if prefix.starts_with('/') { "root" } else { "cwd" };
    let path = proc.join(base).join(prefix.trim_start_matches('/'));
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folder = path.parent().unwrap_or(&proc).to_owned();
    Ok((folder, format!("{name}.{numbers}.")))
}

fn setting<'a>(environment: &'a str, name: &str) -> Option<&'a str> {
    let variables = environment.split('\0');
    let settings =
        variables.filter_map(|v| v.strip_prefix("MALLOW_CONF=").or(v.strip_prefix("MALLOC_CONF=")));
    settings.flat_map(|s| s.split(',')).find_map(|s| s.strip_prefix(name)?.strip_prefix(':'))
}

/// The number in `pid:[4026531836]`, or 0, as the process writes it.
fn namespace(proc: &Path) -> u64 {
    let link = std::fs::read_link(proc.join("ns/pid")).unwrap_or_default();
    let link = link.to_string_lossy();
    link.trim_start_matches("pid:[").trim_end_matches(']').parse().unwrap_or(0)
}

/// The number that the process has in its own container.
fn own_number(proc: &Path) -> Option<u32> {
    let status = mallow_process::lossy::read(proc.join("status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}

fn open(path: &Path, uid: u32) -> Option<Dump> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY;
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() || found.uid() != uid || found.len() > LARGEST {
        return None;
    }
    let mut start = [0; 32];
    let length = file.read_at(&mut start, 0).ok()?;
    let time = [found.mtime().cast_unsigned(), found.mtime_nsec().cast_unsigned()];
    let identity = [found.dev(), found.ino(), found.len(), time[0], time[1]];
    HeapProfile::is_one(&start[..length]).then_some(Dump { file, identity })
}

/// What of the process decides how the places of its profile are looked up.
pub struct Place {
    pub gid: u32,
    /// Its files are not those of this process.
    pub is_elsewhere: bool,
}

pub fn surroundings(pid: u32) -> Option<Place> {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let status = mallow_process::lossy::read(proc.join("status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Gid:"))?;
    let gid = line.split_whitespace().next()?.parse().ok()?;
    let link = |path: &Path| std::fs::read_link(path).ok();
    let is_elsewhere = link(&proc.join("ns/mnt"))? != link(Path::new("/proc/self/ns/mnt"))?
        || link(&proc.join("root"))? != link(Path::new("/proc/self/root"))?;
    Some(Place { gid, is_elsewhere })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_those_of_the_settings() {
        let environment = "A=b\0MALLOC_CONF=prof:true,prof_prefix:/tmp/x\0";
        assert_eq!(setting(environment, "prof_prefix"), Some("/tmp/x"));
        assert_eq!(setting(environment, "prof"), Some("true"));
        assert_eq!(setting("A=prof_prefix:/tmp/x\0", "prof_prefix"), None);
    }

    #[test]
    fn the_namespace_is_a_number() {
        use std::os::unix::fs::MetadataExt;
        let number = std::fs::metadata("/proc/self/ns/pid").unwrap().ino();
        assert_eq!(namespace(Path::new("/proc/self")), number);
        assert_eq!(namespace(Path::new("/nowhere")), 0);
    }

    #[test]
    fn no_other_file_is_given_out() {
        let folder = tempfile::tempdir().unwrap();
        let uid = nix::unistd::getuid().as_raw();
        let good = folder.path().join("good.heap");
        std::fs::write(&good, "heap_v2/524288\n").unwrap();
        assert!(open(&good, uid).is_some());
        let other = folder.path().join("other.heap");
        std::fs::write(&other, "heap profile: 0: 0 [0: 0] @ heap_v2/1\n").unwrap();
        assert!(open(&other, uid).is_some(), "in the other form");
        assert!(open(&good, uid + 1).is_none(), "of another user");
        let link = folder.path().join("link.heap");
        std::os::unix::fs::symlink(&good, &link).unwrap();
        assert!(open(&link, uid).is_none(), "a link");
        let secret = folder.path().join("secret.heap");
        std::fs::write(&secret, "root:x\n").unwrap();
        assert!(open(&secret, uid).is_none(), "not a profile");
    }
}
