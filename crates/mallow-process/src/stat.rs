// SPDX-License-Identifier: MIT
//! `/proc/PID/stat`: one short line that anybody may read, so cheap that it can be asked of every
//! process every second.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::page_size;

/// The kernel's flag of its own threads.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// The line has 52 numbers and a name; the kernel gives it out at once.
const LONGEST: usize = 2048;

/// Sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The name of its main thread, as it may have set it itself: any bytes, at most 15.
    pub comm: String,
    pub state: char,
    pub parent: u32,
    pub is_kernel: bool,
    /// CPU time that it has used, in ticks.
    pub ticks: u64,
    pub threads: u64,
    /// Page faults for which nothing was read from a disk.
    pub faults: u64,
    pub size: u64,
    pub rss: u64,
    pub start: Start,
}

/// Names the program that a process runs: with the number of the process it is the same only until
/// the process ends, or starts another program (or the same one anew).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Start {
    /// In ticks since the machine started.
    pub time: u64,
    /// Where code, stack and arguments begin, which every exec chooses anew; zeros of a process that
    /// belongs to somebody else.
    pub places: [u64; 3],
}

impl Stat {
    pub fn read(pid: u32) -> Result<Stat, Failure> {
        let stat = Stat::read_in(&whole(pid))?;
        if stat.lost_its_main_thread() {
            return Stat::read_in(&folder(pid));
        }
        Ok(stat)
    }

    fn read_in(folder: &Path) -> Result<Stat, Failure> {
        let mut bytes = [0; LONGEST];
        let length = File::open(folder.join("stat"))?.read(&mut bytes)?;
        Stat::parse(&String::from_utf8_lossy(&bytes[..length])).ok_or(Failure::Vanished)
    }

    fn lost_its_main_thread(&self) -> bool {
        self.is_zombie() && self.threads > 1
    }

    /// The name stands in brackets, and may hold brackets and spaces.
    pub fn parse(text: &str) -> Option<Stat> {
        let (head, tail) = text.rsplit_once(')')?;
        let (_, comm) = head.split_once('(')?;
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        // The third field of the line is the first here.
        let text = |number: usize| fields.get(number - 3).copied();
        let field = |number: usize| text(number)?.parse::<u64>().ok();
        let place = |number: usize| field(number).unwrap_or(0);
        Some(Stat {
            comm: comm.to_owned(),
            state: text(3)?.chars().next()?,
            parent: text(4)?.parse().ok()?,
            is_kernel: field(9)? & KERNEL_THREAD != 0,
            ticks: field(14)?.saturating_add(field(15)?),
            threads: field(20)?,
            faults: place(10),
            size: place(23),
            rss: place(24).saturating_mul(page_size()),
            start: Start { time: field(22)?, places: [place(26), place(28), place(48)] },
        })
    }

    /// Has ended, and its parent has not asked how.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

fn whole(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// Where the kernel tells of a process: `/proc/PID`. If its main thread has ended while others go on, that
/// knows of no memory any more, and one of the others' is taken, which has the same files.
pub fn folder(pid: u32) -> PathBuf {
    let whole = whole(pid);
    if !Stat::read_in(&whole).is_ok_and(|stat| stat.lost_its_main_thread()) {
        return whole;
    }
    let threads = std::fs::read_dir(whole.join("task")).into_iter().flatten().flatten();
    let lives = |path: &PathBuf| Stat::read_in(path).is_ok_and(|stat| !stat.is_zombie());
    threads.map(|thread| thread.path()).find(lives).unwrap_or(whole)
}

/// The processes that `/proc` lists.
pub fn pids() -> std::io::Result<Vec<u32>> {
    let entries = std::fs::read_dir("/proc")?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn names_may_hold_anything() {
        let tail = "S 2 3 4 5 6 2097152 8 9 10 11 12 13 14 15 16 17 18 19 4711 40960 2 1 1 2 3";
        let stat = Stat::parse(&format!("12 (a) b (c)) {tail}")).unwrap();
        assert_eq!((stat.comm.as_str(), stat.parent, stat.state), ("a) b (c)", 2, 'S'));
        assert_eq!((stat.ticks, stat.threads, stat.is_kernel), (25, 18, true));
        assert_eq!(stat.faults, 8);
        assert_eq!((stat.size, stat.rss), (40960, 2 * page_size()));
        assert_eq!(stat.start, Start { time: 4711, places: [1, 3, 0] });
        assert_eq!(Stat::parse("12 (a) S 1"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn another_program_is_another_start() {
        let mut child = Command::new("sh")
            .args(["-c", "read line; exec sh -c 'read line'"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        let at_rest = |before: Option<Start>| loop {
            let stat = Stat::read(pid).unwrap();
            if stat.comm == "sh" && stat.state == 'S' && Some(stat.start) != before {
                return stat.start;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        let first = at_rest(None);
        assert_eq!(Stat::read(pid).unwrap().start, first);
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\n").unwrap();
        let second = at_rest(Some(first));
        assert_eq!(first.time, second.time);
        child.kill().unwrap();
        assert!(pids().unwrap().contains(&pid));
        child.wait().unwrap();
        assert!(matches!(Stat::read(pid), Err(Failure::Vanished)));
    }
}
