//! Facts about a process that `explain` starts from, from `/proc/PID` or from a folder in which
//! they were saved.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::binding::Failure;
use crate::elf;

use crate::smaps::{self, Vma};

/// Files that are saved as they are.
pub const SAVED: [&str; 6] = ["status", "smaps", "cmdline", "limits", "stat", "cgroup"];

#[derive(Clone, Debug, Default)]
pub struct Process {
    pub pid: u32,
    pub command: String,
    pub exe: String,
    pub vmas: Vec<Vma>,
    pub status: BTreeMap<String, String>,
    pub threads: Vec<Thread>,
    /// Soft limit of the stack in bytes; `None`: unlimited or unknown.
    pub stack_limit: Option<u64>,
    /// CPUs by the control group's quota.
    pub cpu_quota: Option<f64>,
    pub cpus: u64,
    pub max_mappings: Option<u64>,
    /// `always`, `madvise` or `never`.
    pub huge_pages: String,
    /// Text of the saved files.
    pub files: BTreeMap<&'static str, String>,
}

#[derive(Clone, Debug)]
pub struct Thread {
    pub id: u32,
    pub name: String,
    /// Known of a thread that waits in the kernel.
    pub stack_pointer: Option<u64>,
}

impl Process {
    pub fn live(pid: u32) -> Result<Process, Failure> {
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let mut files = BTreeMap::new();
        for name in SAVED {
            let read = std::fs::read(proc.join(name));
            match read {
                Ok(bytes) => {
                    files.insert(name, String::from_utf8_lossy(&bytes).into_owned());
                }
                Err(error) if matches!(name, "status" | "smaps") => return Err(error.into()),
                Err(_) => {}
            }
        }
        let mut process = Process::from_files(pid, files)?;
        process.exe = std::fs::read_link(proc.join("exe"))
            .map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_default();
        process.threads = threads(&proc);
        process.measure_zeroed_data(&proc);
        // As glibc counts them for its arenas: of the machine, whatever the group may use.
        let online = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN);
        process.cpus = online.ok().flatten().and_then(|n| u64::try_from(n).ok()).unwrap_or(1);
        process.cpu_quota = cpu_quota(process.files.get("cgroup").map_or("", String::as_str));
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        process.max_mappings = read("/proc/sys/vm/max_map_count").trim().parse().ok();
        let mode = read("/sys/kernel/mm/transparent_hugepage/enabled");
        process.huge_pages = chosen_word(&mode).to_owned();
        Ok(process)
    }

    pub fn saved(folder: &Path) -> Result<Process, Failure> {
        let mut files = BTreeMap::new();
        for name in SAVED {
            if let Ok(bytes) = std::fs::read(folder.join(name)) {
                files.insert(name, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        if !files.contains_key("smaps") {
            return Err(Failure::Damaged("the file smaps is missing".into()));
        }
        Process::from_files(0, files)
    }

    fn from_files(pid: u32, files: BTreeMap<&'static str, String>) -> Result<Process, Failure> {
        let text = |name: &str| files.get(name).map_or("", String::as_str);
        let vmas = smaps::parse(text("smaps"))
            .ok_or_else(|| Failure::Damaged("its smaps cannot be read".into()))?;
        if vmas.is_empty() {
            // A zombie or a thread of the kernel.
            return Err(Failure::Vanished);
        }
        let status = smaps::parse_fields(text("status"));
        let command: Vec<&str> = text("cmdline").split('\0').filter(|w| !w.is_empty()).collect();
        let command = match command.join(" ") {
            empty if empty.is_empty() => status.get("Name").cloned().unwrap_or_default(),
            command => command,
        };
        let known = status.get("Pid").and_then(|pid| pid.parse().ok());
        let stack_limit = stack_limit(text("limits"));
        Ok(Process {
            pid: if pid == 0 { known.unwrap_or(0) } else { pid },
            command,
            vmas,
            status,
            stack_limit,
            files,
            ..Process::default()
        })
    }

    /// The kernel joins a file's zeroed data with anonymous memory that was mapped behind it; the
    /// file tells how much of it is its own. Small ones are not worth a look.
    fn measure_zeroed_data(&mut self, proc: &Path) {
        const WORTH_A_LOOK: u64 = 256 << 10;
        for index in 1..self.vmas.len() {
            let vma = &self.vmas[index];
            let Some(file) = self.file_before(index).filter(|_| vma.size() >= WORTH_A_LOOK) else {
                continue;
            };
            let is_first = |vma: &&Vma| vma.inode == file.inode && vma.offset == 0;
            let Some(first) = self.vmas[..index].iter().rev().find(is_first) else { continue };
            let range = format!("map_files/{:x}-{:x}", first.start, first.end);
            let inside = proc.join("root").join(file.name.trim_start_matches('/'));
            let size = [proc.join(range), inside].iter().find_map(|path| elf::loaded_size(path));
            let end = size.map(|size| first.start + size);
            self.vmas[index].zeroed_data =
                end.map(|end| end.saturating_sub(self.vmas[index].start));
        }
    }

    /// The mapping of a file's data that a nameless private one follows without a gap.
    pub fn file_before(&self, index: usize) -> Option<&Vma> {
        let vma = &self.vmas[index];
        let before = &self.vmas[index.checked_sub(1)?];
        let follows = vma.name.is_empty() && vma.inode == 0 && before.end == vma.start;
        let is_data = vma.is_private() && !vma.is_without_access();
        (follows && is_data && before.inode != 0 && before.is_writable()).then_some(before)
    }

    /// A size of status, in bytes.
    pub fn bytes(&self, field: &str) -> u64 {
        self.status.get(field).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    pub fn thread_count(&self) -> u64 {
        self.bytes("Threads").max(self.threads.len() as u64)
    }

    pub fn has_library(&self, part: &str) -> bool {
        self.vmas.iter().any(|vma| {
            vma.inode != 0 && vma.name.rsplit('/').next().is_some_and(|file| file.contains(part))
        })
    }
}

fn threads(proc: &Path) -> Vec<Thread> {
    let Ok(tasks) = std::fs::read_dir(proc.join("task")) else { return Vec::new() };
    let mut threads = Vec::new();
    for task in tasks.flatten() {
        let Ok(id) = task.file_name().to_string_lossy().parse() else { continue };
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        threads.push(Thread {
            id,
            name: read("comm").trim().to_owned(),
            stack_pointer: stack_pointer(&read("syscall")),
        });
    }
    threads.sort_by_key(|thread| thread.id);
    threads
}

/// `nr arguments... stack-pointer program-counter`, or `running`.
fn stack_pointer(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let word = words.len().checked_sub(2).and_then(|index| words.get(index))?;
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok().filter(|&sp| sp != 0)
}

fn stack_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find(|line| line.starts_with("Max stack size"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// The word in brackets of `always [madvise] never`.
fn chosen_word(text: &str) -> &str {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or("", |(word, _)| word)
}

/// Of the groups of either version, the smallest quota on the way up.
fn cpu_quota(cgroup: &str) -> Option<f64> {
    let mut quotas = Vec::new();
    for line in cgroup.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_cpu = controllers.split(',').any(|name| name == "cpu");
        let mut group = Some(Path::new(path));
        while let Some(path) = group {
            let inside = path.strip_prefix("/").unwrap_or(path);
            if controllers.is_empty() {
                let file = Path::new("/sys/fs/cgroup").join(inside).join("cpu.max");
                quotas.extend(std::fs::read_to_string(file).ok().and_then(|text| quota(&text)));
            } else if is_cpu {
                let folder = Path::new("/sys/fs/cgroup/cpu").join(inside);
                let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
                let both = read("cpu.cfs_quota_us").zip(read("cpu.cfs_period_us"));
                quotas.extend(both.and_then(|(quota_us, period)| {
                    quota(&format!("{} {}", quota_us.trim(), period.trim()))
                }));
            }
            group = path.parent();
        }
    }
    quotas.into_iter().reduce(f64::min)
}

/// `quota period` in microseconds; `max` or a negative quota is none.
fn quota(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next()?.parse().ok()?;
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files() {
        assert_eq!(stack_pointer("running\n"), None);
        assert_eq!(stack_pointer("35 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffc10 0x7f00\n"), Some(0x7ffc10));
        assert_eq!(stack_pointer("-1 0x7ffc20 0x7f00\n"), Some(0x7ffc20));
        assert_eq!(chosen_word("always [madvise] never\n"), "madvise");
        assert_eq!(quota("200000 100000\n"), Some(2.0));
        assert_eq!(quota("max 100000\n"), None);
        assert_eq!(quota("-1 100000"), None);
        let limits = "Max cpu time  unlimited unlimited seconds\n\
                      Max stack size            8388608              unlimited            bytes\n";
        assert_eq!(stack_limit(limits), Some(8 << 20));
    }

    #[test]
    fn this_process() {
        let process = Process::live(std::process::id()).unwrap();
        assert!(process.bytes("VmSize") > 1 << 20 && process.thread_count() >= 1);
        assert!(process.command.contains("mallow"), "{}", process.command);
        assert!(matches!(Process::live(4_194_304), Err(Failure::Vanished)));
    }
}
