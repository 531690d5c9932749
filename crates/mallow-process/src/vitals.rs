// SPDX-License-Identifier: MIT
//! What `/proc` says of a process at once, without a look at its mappings or pages: cheap enough to
//! ask of a thousand processes every few seconds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::binding::Failure;
use crate::smaps;
use crate::stat::{Start, Stat, folder};

/// The kernel keeps so many bytes of a thread's name.
const COMM_MOST: usize = 15;

/// Sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vitals {
    /// The name of its main thread, as it may have set it itself: any bytes, at most 15.
    pub comm: String,
    /// In ticks since the machine started. With the number of the process it names a process for ever.
    pub started: u64,
    /// Of the program that it runs now.
    pub start: Start,
    pub rss: u64,
    pub swap: u64,
    pub size: u64,
    pub threads: u64,
    pub uid: u32,
    /// The text of its `cgroup`.
    pub groups: String,
}

/// The limit on the memory of a control group, and what the group uses, its caches of files too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub bytes: u64,
    pub used: u64,
}

impl Vitals {
    /// Fails with `Vanished` for a zombie or a thread of the kernel too: they have no memory.
    pub fn read(pid: u32) -> Result<Vitals, Failure> {
        let proc = folder(pid);
        let text = |name: &str| -> Result<String, Failure> {
            Ok(String::from_utf8_lossy(&std::fs::read(proc.join(name))?).into_owned())
        };
        let Stat { comm, start, .. } = Stat::read(pid)?;
        // Of a thread of the kernel the list ends before its memory.
        let status = smaps::parse_fields(&text("status")?);
        let field = |name: &str| status.get(name).and_then(|value| value.parse::<u64>().ok());
        let rss = field("VmRSS").ok_or(Failure::Vanished)?;
        let uid = status.get("Uid").and_then(|ids| ids.split_whitespace().next()?.parse().ok());
        Ok(Vitals {
            comm,
            started: start.time,
            start,
            rss,
            swap: field("VmSwap").unwrap_or(0),
            size: field("VmSize").unwrap_or(0),
            threads: field("Threads").unwrap_or(0),
            uid: uid.unwrap_or(u32::MAX),
            groups: text("cgroup").unwrap_or_default(),
        })
    }

    /// How long it has been running; `None` if the machine does not tell.
    pub fn age(&self) -> Option<Duration> {
        let text = std::fs::read_to_string("/proc/uptime").ok()?;
        let now: f64 = text.split_whitespace().next()?.parse().ok()?;
        Duration::try_from_secs_f64(now - self.started as f64 / TICKS_PER_SECOND).ok()
    }

    /// Whether one of its control groups has this name, such as that of a systemd unit.
    pub fn is_in_group(&self, name: &str) -> bool {
        let paths = self.groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        paths.flat_map(|path| path.split('/')).any(|part| part == name)
    }

    /// The limit that leaves the least room, of its groups and those above them.
    pub fn limit(&self) -> Option<Limit> {
        Limit::of_groups(&self.groups)
    }
}

impl Limit {
    /// By the text of a process's `cgroup`.
    pub fn of_groups(groups: &str) -> Option<Limit> {
        let groups = groups.lines().filter_map(group_folder);
        let limits = groups.flat_map(|(root, path, names)| limits(&root, &path, names));
        limits.min_by_key(Limit::room)
    }

    pub fn room(&self) -> u64 {
        self.bytes.saturating_sub(self.used)
    }
}

/// The soft limit on the address space, of a process that has one.
pub fn address_space_limit(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(folder(pid).join("limits")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The words of its command line; empty of a zombie, or of one that took them away.
pub fn command_line(pid: u32) -> String {
    let bytes = std::fs::read(folder(pid).join("cmdline")).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(|word| String::from_utf8_lossy(word)).collect();
    words.join(" ")
}

/// The name that a process was started by, where that is not the name of its file but a link's to it: the
/// first word of its command line, if its main thread is called the same. A script's is that of its
/// interpreter.
pub fn started_as(pid: u32, comm: &str) -> Option<String> {
    let words = command_line(pid);
    let name = words.split_whitespace().next()?.rsplit('/').next()?;
    let is_comm = !name.is_empty() && name.as_bytes().starts_with(comm.as_bytes());
    let is_cut = comm.len() == COMM_MOST || name.len() == comm.len();
    (is_comm && is_cut).then(|| name.to_owned())
}

/// Whether memory of a process may be read, which no mapping is needed for to tell.
pub fn may_read(pid: u32) -> bool {
    std::fs::File::open(folder(pid).join("mem")).is_ok()
}

/// Where the files of a group lie, the group, and the names of limit and use: by version.
fn group_folder(line: &str) -> Option<(PathBuf, PathBuf, [&'static str; 2])> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let path = Path::new(path).strip_prefix("/").ok()?.to_owned();
    // A group outside of what is seen here, of a process in another namespace.
    if path.components().any(|part| part.as_os_str() == "..") {
        return None;
    }
    if controllers.is_empty() {
        return Some(("/sys/fs/cgroup".into(), path, ["memory.max", "memory.current"]));
    }
    let names = ["memory.limit_in_bytes", "memory.usage_in_bytes"];
    let is_memory = controllers.split(',').any(|name| name == "memory");
    is_memory.then(|| ("/sys/fs/cgroup/memory".into(), path, names))
}

fn limits(root: &Path, path: &Path, names: [&str; 2]) -> Vec<Limit> {
    // A limit as large as this is how version 1 says that there is none.
    const NONE: u64 = i64::MAX as u64 - (1 << 20);
    let number = |folder: &Path, name: &str| -> Option<u64> {
        std::fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()
    };
    let limit = |group: &Path| {
        let folder = root.join(group);
        let bytes = number(&folder, names[0]).filter(|bytes| *bytes < NONE)?;
        Some(Limit { bytes, used: number(&folder, names[1])? })
    };
    path.ancestors().filter_map(limit).collect()
}

/// That the kernel shows, on every machine.
pub const TICKS_PER_SECOND: f64 = 100.0;

/// When the machine started, in seconds since 1970; ticks of `Vitals::started` count from there.
pub fn boot_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "));
    line.and_then(|time| time.trim().parse().ok()).unwrap_or(0)
}

/// Private memory without a file, for a reader of the process's memory, and nothing counted.
pub fn mappings(pid: u32) -> Result<Vec<smaps::Vma>, Failure> {
    in_order(&std::fs::read(folder(pid).join("maps"))?)
}

/// They may begin anywhere: an emulator with larger pages shows those of the kernel.
fn in_order(maps: &[u8]) -> Result<Vec<smaps::Vma>, Failure> {
    let mut vmas = smaps::parse(&String::from_utf8_lossy(maps))
        .ok_or_else(|| Failure::Damaged("its maps cannot be read".into()))?;
    smaps::drop_overlaps(&mut vmas);
    Ok(vmas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_nobody() {
        let vitals = Vitals::read(std::process::id()).unwrap();
        assert!(vitals.rss > 1 << 16 && vitals.size >= vitals.rss && vitals.threads >= 1);
        assert!(vitals.started > 0 && boot_time() > 0);
        assert!(vitals.age().is_some_and(|age| age < Duration::from_secs(86_400)));
        assert!(matches!(Vitals::read(4_194_304), Err(Failure::Vanished)));
        assert!(!mappings(std::process::id()).unwrap().is_empty());
        assert!(may_read(std::process::id()) && !may_read(4_194_304));
        assert!(command_line(std::process::id()).contains("mallow_process"));
    }

    #[test]
    fn mappings_may_begin_within_a_page() {
        let maps = b"10800-11800 rw-p 0 00:00 0 \n11800-13800 r--p 0 00:00 0 \n";
        let starts: Vec<u64> = in_order(maps).unwrap().iter().map(|vma| vma.start).collect();
        assert_eq!(starts, [0x10800, 0x11800]);
        assert!(matches!(in_order(b"text\n"), Err(Failure::Damaged(_))));
    }

    #[test]
    fn units_are_parts_of_groups() {
        let groups = "0::/system.slice/redis-server.service\n".to_owned();
        let vitals = Vitals { groups, ..Vitals::default() };
        assert!(vitals.is_in_group("redis-server.service") && !vitals.is_in_group("redis"));
    }

    #[test]
    fn the_limit_with_the_least_room_counts() {
        let root = std::env::temp_dir().join(format!("mallow-vitals-{}", std::process::id()));
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
        write("a/memory.max", "1000\n");
        write("a/memory.current", "900\n");
        write("a/b/memory.max", "max\n");
        write("a/b/memory.current", "10\n");
        let names = ["memory.max", "memory.current"];
        let found = limits(&root, Path::new("a/b"), names);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, [Limit { bytes: 1000, used: 900 }]);
        assert_eq!(group_folder("0::/../x"), None);
        assert_eq!(group_folder("3:cpu,cpuacct:/x"), None);
    }
}
