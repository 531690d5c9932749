// SPDX-License-Identifier: MIT
//! Facts about a process that `explain` starts from, from `/proc/PID` or from a folder in which
//! they were saved.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::binding::Failure;
use crate::elf;

use crate::lossy;
use crate::smaps::{self, Vma};
use crate::stat::folder;
use crate::vitals::Limit;

/// How often mappings that do not fit together are read.
const TRIES: u32 = 5;

/// Files that are saved as they are.
pub const SAVED: [&str; 6] = ["status", SMAPS, "cmdline", "limits", "stat", "cgroup"];
/// The only large one: a megabyte for each 1,500 mappings.
const SMAPS: &str = "smaps";

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
    /// On memory: that of the control groups which leaves the least room.
    pub memory_limit: Option<Limit>,
    pub cpus: u64,
    pub max_mappings: Option<u64>,
    pub commitment: Option<Commitment>,
    /// `always`, `madvise` or `never`.
    pub huge_pages: String,
    /// Text of the saved files; that of smaps only if it was to be kept.
    pub files: BTreeMap<&'static str, String>,
    /// The mappings changed all the time while they were read.
    pub is_torn: bool,
    /// Built by Go, and by which version of it.
    pub is_go: bool,
    pub go_version: Option<String>,
}

/// Memory that the kernel has promised to all processes, in bytes, where it promises no more than a limit
/// (`vm.overcommit_memory=2`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commitment {
    pub limit: u64,
    pub promised: u64,
    /// What the machine has of both, which decides the limit.
    pub memory: u64,
    pub swap: u64,
}

/// Whether the text of smaps is kept beside what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Figures,
    Files,
}

/// The mappings as they were at one moment, or nearly so.
struct Mappings {
    vmas: Vec<Vma>,
    text: Option<String>,
    is_torn: bool,
}

impl Mappings {
    /// Reads again what was torn: mappings that lie over each other, or whose sum the process did
    /// not have before, nor after.
    fn read(proc: &Path, keep: Keep) -> Result<Mappings, Failure> {
        let mut before = counted(proc);
        for attempt in 1.. {
            let mut found = Mappings::read_once(proc, keep)?;
            let after = counted(proc);
            let sum = found.vmas.iter().map(|vma| vma.rss).sum();
            let fits = || is_between(sum, before, after) || is_between(sum, after, rolled_up(proc));
            let is_whole = smaps::is_whole(&found.vmas) && fits();
            if is_whole || (attempt >= TRIES) {
                found.is_torn = !is_whole;
                smaps::drop_overlaps(&mut found.vmas);
                return Ok(found);
            }
            before = after;
        }
        Err(Failure::Vanished)
    }

    fn read_once(proc: &Path, keep: Keep) -> Result<Mappings, Failure> {
        let file = File::open(proc.join(SMAPS))?;
        let mut text = None;
        let vmas = match keep {
            Keep::Figures => smaps::read(BufReader::with_capacity(1 << 16, file))?,
            Keep::Files => {
                let mut bytes = Vec::new();
                BufReader::new(file).read_to_end(&mut bytes)?;
                let kept = lossy::text(bytes);
                let vmas = smaps::parse(&kept);
                text = Some(kept);
                vmas
            }
        };
        Ok(Mappings { vmas: vmas.ok_or_else(unreadable)?, text, is_torn: false })
    }
}

fn unreadable() -> Failure {
    Failure::Damaged("its smaps cannot be read".into())
}

/// Resident bytes as the kernel counts them by and by, which costs nothing.
fn counted(proc: &Path) -> Option<u64> {
    field(&lossy::read(proc.join("status"))?, "VmRSS")
}

/// Resident bytes as the kernel finds them when it looks at every page.
fn rolled_up(proc: &Path) -> Option<u64> {
    field(&lossy::read(proc.join("smaps_rollup"))?, "Rss")
}

fn field(text: &str, name: &str) -> Option<u64> {
    smaps::parse_fields(text).get(name)?.parse().ok()
}

/// Whether a sum may have been true at some moment between two others. What comes and goes within
/// that time is less than this part of it.
fn is_between(sum: u64, before: Option<u64>, after: Option<u64>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return before.is_none() };
    let slack = (before.max(after) / 100).max(256 << 10);
    sum + slack >= before.min(after) && sum <= before.max(after) + slack
}

#[derive(Clone, Debug)]
pub struct Thread {
    pub id: u32,
    pub name: String,
    /// Known of a thread that waits in the kernel.
    pub stack_pointer: Option<u64>,
}

impl Process {
    /// `Keep::Files` only where somebody wants to save them.
    pub fn live(pid: u32, keep: Keep) -> Result<Process, Failure> {
        let proc = folder(pid);
        let Mappings { vmas, text, is_torn } = Mappings::read(&proc, keep)?;
        let mut files: BTreeMap<_, _> = text.into_iter().map(|text| (SMAPS, text)).collect();
        // Behind the mappings, so that the peak is not older than they are.
        for name in SAVED.into_iter().filter(|name| *name != SMAPS) {
            match std::fs::read(proc.join(name)) {
                Ok(bytes) => {
                    files.insert(name, lossy::text(bytes));
                }
                Err(error) if name == "status" => return Err(error.into()),
                Err(_) => {}
            }
        }
        let mut process = Process::from_files(pid, vmas, files)?;
        process.is_torn = is_torn;
        process.is_go = elf::is_go(&proc.join("exe"));
        process.go_version = elf::go_version(&proc.join("exe")).filter(|_| process.is_go);
        process.exe = std::fs::read_link(proc.join("exe"))
            .map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_default();
        process.threads = threads(&PathBuf::from(format!("/proc/{pid}")));
        process.measure_zeroed_data(&proc);
        // As glibc counts them for its arenas: of the machine, whatever the group may use.
        let online = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN);
        process.cpus = online.ok().flatten().and_then(|n| u64::try_from(n).ok()).unwrap_or(1);
        let groups = process.files.get("cgroup").map_or("", String::as_str);
        (process.cpu_quota, process.memory_limit) = (cpu_quota(groups), Limit::of_groups(groups));
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        process.max_mappings = read("/proc/sys/vm/max_map_count").trim().parse().ok();
        process.commitment =
            commitment(&read("/proc/sys/vm/overcommit_memory"), &read("/proc/meminfo"));
        let mode = read("/sys/kernel/mm/transparent_hugepage/enabled");
        process.huge_pages = chosen_word(&mode).to_owned();
        Ok(process)
    }

    pub fn saved(folder: &Path) -> Result<Process, Failure> {
        let mut files = BTreeMap::new();
        for name in SAVED {
            if let Ok(bytes) = std::fs::read(folder.join(name)) {
                files.insert(name, lossy::text(bytes));
            }
        }
        let Some(smaps) = files.get(SMAPS) else {
            return Err(Failure::Damaged("the file smaps is missing".into()));
        };
        let mut vmas = smaps::parse(smaps).ok_or_else(unreadable)?;
        smaps::drop_overlaps(&mut vmas);
        Process::from_files(0, vmas, files)
    }

    fn from_files(
        pid: u32,
        vmas: Vec<Vma>,
        files: BTreeMap<&'static str, String>,
    ) -> Result<Process, Failure> {
        let text = |name: &str| files.get(name).map_or("", String::as_str);
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
            let end = size.map(|size| first.start.saturating_add(size));
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

    pub fn rss(&self) -> u64 {
        self.vmas.iter().map(|vma| vma.rss).sum()
    }

    /// Of RSS so far. The kernel notes it now and then only, so it may lag behind what is resident.
    pub fn peak_rss(&self) -> u64 {
        self.bytes("VmHWM").max(self.rss())
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
        let read = |name: &str| lossy::read(task.path().join(name)).unwrap_or_default();
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

fn commitment(mode: &str, meminfo: &str) -> Option<Commitment> {
    if mode.trim() != "2" {
        return None;
    }
    let fields = smaps::parse_fields(meminfo);
    let field = |name: &str| fields.get(name).and_then(|text| text.parse::<u64>().ok());
    // What hugetlbfs has is none of what the ratio is of.
    let huge = field("Hugetlb").unwrap_or(0);
    Some(Commitment {
        limit: field("CommitLimit")?,
        promised: field("Committed_AS")?,
        memory: field("MemTotal")?.saturating_sub(huge),
        swap: field("SwapTotal")?,
    })
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
        let meminfo = "MemTotal: 8 kB\nSwapTotal: 0 kB\nCommitLimit: 4 kB\nCommitted_AS: 3 kB\n";
        let strict = Commitment { limit: 4096, promised: 3072, memory: 8192, swap: 0 };
        assert_eq!(commitment("2\n", meminfo), Some(strict));
        let huge = commitment("2", &format!("{meminfo}Hugetlb: 6 kB\n")).expect("they are limited");
        assert_eq!(huge.memory, 2048, "the ratio is of the rest");
        assert_eq!(commitment("0\n", meminfo), None, "nothing is limited");
        assert_eq!(commitment("2\n", ""), None);
    }

    #[test]
    fn sums_between_two_moments_are_believed() {
        let mib = 1 << 20;
        assert!(is_between(105 * mib, Some(100 * mib), Some(110 * mib)));
        assert!(is_between(105 * mib, Some(110 * mib), Some(100 * mib)));
        assert!(is_between(101 * mib, Some(100 * mib), Some(100 * mib)), "within the slack");
        assert!(!is_between(130 * mib, Some(100 * mib), Some(110 * mib)));
        assert!(!is_between(90 * mib, Some(100 * mib), Some(110 * mib)));
        assert!(is_between(7, None, Some(1)), "without a source there is no doubt");
        assert!(!is_between(7, Some(1 << 30), None), "a second source that is missing clears none");
    }

    #[test]
    fn this_process() {
        let process = Process::live(std::process::id(), Keep::Files).unwrap();
        assert!(process.bytes("VmSize") > 1 << 20 && process.thread_count() >= 1);
        assert!(process.command.contains("mallow"), "{}", process.command);
        assert!(process.files.contains_key("smaps") && !process.is_torn);
        assert!(process.peak_rss() >= process.rss());
        assert!(matches!(Process::live(4_194_304, Keep::Figures), Err(Failure::Vanished)));
    }
}
