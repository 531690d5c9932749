// SPDX-License-Identifier: MIT
//! The memory of the recorded processes over time, from /proc.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use mallow_trace::{Memory, Regions};

use super::regions;
use mallow_process::page_size;

const EVERY: Duration = Duration::from_millis(10);
/// Peak, swap and faults cost more to read; of a process that has just begun they are read each time, for
/// it may not live long.
const DETAILS_EVERY: Duration = Duration::from_millis(100);
const DETAILS_AT_FIRST: u32 = 10;

struct Watched {
    number: u32,
    statm: File,
    last: Memory,
    details: Option<Instant>,
    details_read: u32,
    regions: regions::Schedule,
}

/// What was found in a process, and now and then where it lay.
pub type Found = (Memory, Option<Regions>);

#[derive(Default)]
pub struct Samples {
    processes: BTreeMap<u32, Watched>,
    last: Option<Instant>,
}

impl Samples {
    /// What has changed in the processes (kernel's number, trace's number), if it is time to look.
    /// `rings` tells how much of a process's memory is the recorder's.
    pub fn take(
        &mut self,
        processes: impl Iterator<Item = (u32, u32)>,
        rings: impl Fn(u32) -> u64,
    ) -> Vec<Found> {
        if self.last.is_some_and(|last| last.elapsed() < EVERY) {
            return Vec::new();
        }
        self.last = Some(Instant::now());
        let mut changed = Vec::new();
        let mut alive = BTreeMap::new();
        for (pid, number) in processes {
            let watched = match self.processes.remove(&pid) {
                Some(watched) if watched.number == number => Some(watched),
                _ => File::open(format!("/proc/{pid}/statm")).ok().map(|statm| Watched {
                    number,
                    statm,
                    last: Memory::default(),
                    details: None,
                    details_read: 0,
                    regions: regions::Schedule::default(),
                }),
            };
            let Some(mut watched) = watched else { continue };
            if let Some(memory) = watched.sample(pid, rings(number)) {
                changed.push((memory, watched.regions(pid, &memory)));
            }
            alive.insert(pid, watched);
        }
        self.processes = alive;
        changed
    }
}

impl Samples {
    /// What was found last in each process.
    pub fn last(&self) -> impl Iterator<Item = Memory> {
        self.processes.values().map(|watched| watched.last)
    }
}

/// The most memory that this process had until now, in bytes.
pub fn own_peak() -> u64 {
    let mut own = Memory::default();
    add_details(&mut own, std::process::id(), 0);
    own.peak_rss
}

impl Watched {
    fn sample(&mut self, pid: u32, rings: u64) -> Option<Memory> {
        let mut text = [0u8; 128];
        let length = self.statm.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        let page = page_size();
        let mut fields = text.split(' ').skip(1).map_while(|field| field.parse::<u64>().ok());
        let (resident, shared) = (fields.next()? * page, fields.next()? * page);
        if resident == 0 {
            return None; // it is ending
        }
        let mut memory = Memory {
            process: self.number,
            rss: resident.saturating_sub(rings),
            anonymous: resident.saturating_sub(shared),
            ..self.last
        };
        let is_young = self.details_read < DETAILS_AT_FIRST;
        if is_young || self.details.is_none_or(|read| read.elapsed() >= DETAILS_EVERY) {
            self.details = Some(Instant::now());
            self.details_read += u32::from(is_young);
            add_details(&mut memory, pid, rings);
        }
        memory.peak_rss = memory.peak_rss.max(memory.rss);
        let is_new = memory != self.last;
        self.last = memory;
        is_new.then_some(memory)
    }
}

impl Watched {
    fn regions(&mut self, pid: u32, memory: &Memory) -> Option<Regions> {
        if !self.regions.is_due(memory.anonymous) {
            return None;
        }
        let begin = Instant::now();
        let regions = regions::read(pid);
        self.regions.took(begin.elapsed());
        Some(Regions {
            process: self.number,
            no_huge_pages: regions::huge_pages_are_off(pid),
            regions: regions?,
        })
    }
}

fn add_details(memory: &mut Memory, pid: u32, rings: u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    };
    memory.peak_rss = kib("VmHWM:").map_or(0, |peak| peak.saturating_sub(rings));
    memory.swap = kib("VmSwap:").unwrap_or(0);
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name, which may hold anything: state, ppid, …; minflt is the 8th, majflt the 10th.
    let fields: Vec<&str> = match stat.rsplit_once(')') {
        Some((_, rest)) => rest.split_whitespace().collect(),
        None => return,
    };
    let field = |at: usize| fields.get(at).and_then(|field| field.parse().ok()).unwrap_or(0);
    (memory.minor_faults, memory.major_faults) = (field(7), field(9));
}
