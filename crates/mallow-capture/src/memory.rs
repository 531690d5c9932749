// SPDX-License-Identifier: MIT
//! The memory of the recorded processes over time, from /proc.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use mallow_trace::{Memory, Regions};

use super::regions;
use mallow_process::{lossy, page_size};

const EVERY: Duration = Duration::from_millis(10);
/// While a process is new: it may not live long.
const EVERY_AT_FIRST: Duration = Duration::from_millis(1);
/// Peak, swap and faults cost more to read; of a process that is new they are read each time.
const DETAILS_EVERY: Duration = Duration::from_millis(100);
const NEW_LOOKS: u32 = 20;
/// Files that stay open between two looks: a limit of 1,024 is usual.
const MOST_OPEN: usize = 200;

#[derive(Default)]
struct Watched {
    number: u32,
    statm: Option<File>,
    last: Memory,
    details: Option<Instant>,
    /// How often it was looked at while it was new.
    looks: u32,
    /// How often no memory was found, in a row.
    misses: u32,
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
    /// Whether it is time to look.
    pub fn are_due(&self) -> bool {
        let is_new = |watched: &Watched| watched.looks < NEW_LOOKS;
        let every = if self.processes.values().any(is_new) { EVERY_AT_FIRST } else { EVERY };
        self.last.is_none_or(|last| last.elapsed() >= every)
    }

    /// What has changed in the processes (kernel's number, trace's number), if it is time to look.
    /// `rings` tells how much of a process's memory is the recorder's.
    pub fn take(
        &mut self,
        processes: impl Iterator<Item = (u32, u32)>,
        rings: impl Fn(u32) -> u64,
    ) -> Vec<Found> {
        if !self.are_due() {
            return Vec::new();
        }
        let mut changed = Vec::new();
        let mut alive = BTreeMap::new();
        for (pid, number) in processes {
            let known = self.processes.remove(&pid).filter(|watched| watched.number == number);
            let mut watched = known.unwrap_or(Watched { number, ..Watched::default() });
            if let Some(memory) = watched.sample(pid, rings(number), alive.len() < MOST_OPEN) {
                changed.push((memory, watched.regions(pid, &memory)));
            }
            alive.insert(pid, watched);
        }
        self.processes = alive;
        // The first process is looked at as soon as it is there.
        self.last = (!self.processes.is_empty()).then(Instant::now);
        changed
    }
}

impl Samples {
    /// Processes (trace's numbers) that had memory at the last look.
    pub fn seen(&self) -> impl Iterator<Item = u32> {
        self.processes.values().filter(|watched| watched.misses == 0).map(|watched| watched.number)
    }

    /// Those that have none since a few looks: they are ending, or have ended.
    pub fn gone(&self) -> impl Iterator<Item = u32> {
        let is_gone = |watched: &&Watched| (1..=NEW_LOOKS).contains(&watched.misses);
        self.processes.values().filter(is_gone).map(|watched| watched.number)
    }

    /// What was found last in each process.
    pub fn last(&self) -> impl Iterator<Item = Memory> {
        self.processes.values().map(|watched| watched.last).filter(|last| last.process != 0)
    }

    /// What was found last in the process, or nothing, with this peak, unless a higher one is known.
    pub fn with_peak(&self, process: u32, peak_rss: u64) -> Option<Memory> {
        let watched = self.processes.values().find(|watched| watched.number == process);
        let last = watched.map_or(Memory { process, ..Memory::default() }, |watched| watched.last);
        let last = Memory { process, ..last };
        (peak_rss > last.peak_rss).then_some(Memory { peak_rss, ..last })
    }
}

/// The most memory that this process had until now, in bytes.
pub fn own_peak() -> u64 {
    let mut own = Memory::default();
    add_details(&mut own, std::process::id(), 0);
    own.peak_rss
}

impl Watched {
    fn sample(&mut self, pid: u32, rings: u64, stays_open: bool) -> Option<Memory> {
        let is_new = self.looks < NEW_LOOKS;
        self.looks += u32::from(is_new);
        self.misses = self.misses.saturating_add(1);
        let known = self.statm.take();
        let statm = known.or_else(|| File::open(format!("/proc/{pid}/statm")).ok())?;
        let mut text = [0u8; 128];
        let length = statm.read_at(&mut text, 0).ok()?;
        self.statm = stays_open.then_some(statm);
        let text = std::str::from_utf8(&text[..length]).ok()?;
        let page = page_size();
        let mut fields = text.split(' ').skip(1).map_while(|field| field.parse::<u64>().ok());
        let (resident, shared) = (fields.next()? * page, fields.next()? * page);
        if resident == 0 {
            return None; // it is ending
        }
        self.misses = 0;
        let mut memory = Memory {
            process: self.number,
            rss: resident.saturating_sub(rings),
            anonymous: resident.saturating_sub(shared),
            ..self.last
        };
        if is_new || self.details.is_none_or(|read| read.elapsed() >= DETAILS_EVERY) {
            self.details = Some(Instant::now());
            add_details(&mut memory, pid, rings);
        }
        memory.peak_rss = memory.peak_rss.max(memory.rss);
        let has_changed = memory != self.last;
        self.last = memory;
        has_changed.then_some(memory)
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
    let status = lossy::read(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    };
    memory.peak_rss = kib("VmHWM:").map_or(0, |peak| peak.saturating_sub(rings));
    memory.swap = kib("VmSwap:").unwrap_or(0);
    let stat = lossy::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name, which may hold anything: state, ppid, …; minflt is the 8th, majflt the 10th.
    let fields: Vec<&str> = match stat.rsplit_once(')') {
        Some((_, rest)) => rest.split_whitespace().collect(),
        None => return,
    };
    let field = |at: usize| fields.get(at).and_then(|field| field.parse().ok()).unwrap_or(0);
    (memory.minor_faults, memory.major_faults) = (field(7), field(9));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_looked_at_when_it_is_there() {
        let mut samples = Samples::default();
        let own = (std::process::id(), 7);
        assert!(samples.take(std::iter::empty(), |_| 0).is_empty());
        let found = samples.take(std::iter::once(own), |_| 0);
        let memory = found.first().map(|(memory, _)| *memory).unwrap_or_default();
        assert!(memory.process == 7 && memory.rss > 0 && memory.peak_rss >= memory.rss);
        assert!(samples.take(std::iter::once(own), |_| 0).is_empty(), "not at once again");
    }

    #[test]
    fn a_process_that_has_ended_is_told_of_for_a_while() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (pid, mut samples) = (child.id(), Samples::default());
        let look = |samples: &mut Samples| {
            samples.last = None;
            samples.take(std::iter::once((pid, 7)), |_| 0);
            (samples.seen().collect::<Vec<_>>(), samples.gone().collect::<Vec<_>>())
        };
        assert_eq!(look(&mut samples), (vec![7], vec![]));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(look(&mut samples), (vec![], vec![7]));
        for _ in 0..NEW_LOOKS {
            look(&mut samples);
        }
        assert_eq!(look(&mut samples), (vec![], vec![]));
    }

    #[test]
    fn the_kernels_peak_stands_where_no_look_met_the_process() {
        let mut samples = Samples::default();
        let of_none = samples.with_peak(3, 5 << 20);
        assert_eq!(of_none.map(|memory| (memory.process, memory.peak_rss)), Some((3, 5 << 20)));
        samples.take(std::iter::once((std::process::id(), 3)), |_| 0);
        let peak = samples.with_peak(3, u64::MAX).map(|memory| (memory.rss > 0, memory.peak_rss));
        assert_eq!(peak, Some((true, u64::MAX)));
        assert_eq!(samples.with_peak(3, 4096), None, "a higher one is known");
    }
}
