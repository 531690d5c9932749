//! What `/proc` says of a process at once, without a look at its mappings or pages: cheap enough to
//! ask of a thousand processes every few seconds.

use std::path::{Path, PathBuf};

use crate::binding::Failure;
use crate::page_size;
use crate::smaps;

/// Sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vitals {
    /// The name of its main thread, as it may have set it itself: any bytes, at most 15.
    pub comm: String,
    /// In ticks since the machine started. With the number of the process it names a process for ever.
    pub started: u64,
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
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let text = |name: &str| -> Result<String, Failure> {
            Ok(String::from_utf8_lossy(&std::fs::read(proc.join(name))?).into_owned())
        };
        let stat = text("stat")?;
        let (comm, started) = parse_stat(&stat).ok_or(Failure::Vanished)?;
        // Of a thread of the kernel the list ends before its memory.
        let status = smaps::parse_fields(&text("status")?);
        let field = |name: &str| status.get(name).and_then(|value| value.parse::<u64>().ok());
        let rss = field("VmRSS").ok_or(Failure::Vanished)?;
        let uid = status.get("Uid").and_then(|ids| ids.split_whitespace().next()?.parse().ok());
        Ok(Vitals {
            comm: comm.to_owned(),
            started,
            rss,
            swap: field("VmSwap").unwrap_or(0),
            size: field("VmSize").unwrap_or(0),
            threads: field("Threads").unwrap_or(0),
            uid: uid.unwrap_or(u32::MAX),
            groups: text("cgroup").unwrap_or_default(),
        })
    }

    /// Whether one of its control groups has this name, such as that of a systemd unit.
    pub fn is_in_group(&self, name: &str) -> bool {
        let paths = self.groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        paths.flat_map(|path| path.split('/')).any(|part| part == name)
    }

    /// The limit that leaves the least room, of its groups and those above them.
    pub fn limit(&self) -> Option<Limit> {
        let groups = self.groups.lines().filter_map(group_folder);
        let limits = groups.flat_map(|(root, path, names)| limits(&root, &path, names));
        limits.min_by_key(|limit| limit.bytes.saturating_sub(limit.used))
    }
}

/// Name, and time of the start: the name stands in brackets, and may hold brackets and spaces.
fn parse_stat(stat: &str) -> Option<(&str, u64)> {
    let (head, tail) = stat.rsplit_once(')')?;
    let (_, comm) = head.split_once('(')?;
    Some((comm, tail.split_whitespace().nth(19)?.parse().ok()?))
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

/// When the machine started, in seconds since 1970; ticks of `Vitals::started` count from there.
pub fn boot_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "));
    line.and_then(|time| time.trim().parse().ok()).unwrap_or(0)
}

/// Private memory without a file, for a reader of the process's memory, and nothing counted.
pub fn mappings(pid: u32) -> Result<Vec<smaps::Vma>, Failure> {
    let text = std::fs::read(format!("/proc/{pid}/maps"))?;
    let mut vmas = smaps::parse(&String::from_utf8_lossy(&text))
        .ok_or_else(|| Failure::Damaged("its maps cannot be read".into()))?;
    smaps::drop_overlaps(&mut vmas);
    debug_assert!(vmas.iter().all(|vma| vma.start % page_size() == 0));
    Ok(vmas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_brackets() {
        let tail = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(parse_stat(&format!("12 (a) b (c)) {tail}")), Some(("a) b (c)", 4711)));
        assert_eq!(parse_stat("12 (a) S 1"), None);
    }

    #[test]
    fn this_process_and_nobody() {
        let vitals = Vitals::read(std::process::id()).unwrap();
        assert!(vitals.rss > 1 << 16 && vitals.size >= vitals.rss && vitals.threads >= 1);
        assert!(vitals.started > 0 && boot_time() > 0);
        assert!(matches!(Vitals::read(4_194_304), Err(Failure::Vanished)));
        assert!(!mappings(std::process::id()).unwrap().is_empty());
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
