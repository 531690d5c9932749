// SPDX-License-Identifier: MIT
//! Where the anonymous memory of a process lies: a look at /proc/PID/smaps now and then, so that
//! `replay` can tell the heap of the recorded program from its other memory.

use std::time::{Duration, Instant};

use mallow_trace::Region;

/// A look walks all page tables of the process: it is taken when the memory has grown by this part
/// since the largest one looked at, or after this time.
const GROWTH: u64 = 16;
const SMALLEST_GROWTH: u64 = 256 << 10;
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The pause after a look, as a multiple of what it took: looks are 2 % of the time at the most.
const REST: u32 = 50;

/// Says when to look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Schedule {
    largest: u64,
    last: Option<Instant>,
    took: Duration,
}

impl Schedule {
    pub fn is_due(&mut self, anonymous: u64) -> bool {
        let pause = self.last.map_or(Duration::MAX, |last| last.elapsed());
        let grown = anonymous > self.largest + (self.largest / GROWTH).max(SMALLEST_GROWTH);
        let due = pause >= self.took * REST && (grown || pause >= LONGEST_PAUSE);
        if due {
            self.largest = self.largest.max(anonymous);
            self.last = Some(Instant::now());
        }
        due
    }

    /// The look that was due took so long.
    pub fn took(&mut self, time: Duration) {
        self.took = time;
    }
}

/// The mappings with anonymous resident memory, by address; none where the process has gone or may
/// not be looked at.
pub fn read(pid: u32) -> Option<Vec<Region>> {
    parse(&String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/smaps")).ok()?))
}

/// Whether the process has switched transparent huge pages off for itself.
pub fn huge_pages_are_off(pid: u32) -> bool {
    let status = std::fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    status.lines().any(|line| line == "THP_enabled:\t0")
}

fn parse(smaps: &str) -> Option<Vec<Region>> {
    let mut regions = Vec::new();
    let mut range = None;
    for line in smaps.lines() {
        if let Some(size) = line.strip_prefix("Anonymous:") {
            let kib: u64 = size.trim().strip_suffix(" kB")?.parse().ok()?;
            let (start, end) = range?;
            if kib > 0 {
                regions.push(Region { start, length: end - start, resident: kib << 10 });
            }
        } else if !line.starts_with(|first: char| first.is_ascii_uppercase()) {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            let address = |text: &str| u64::from_str_radix(text, 16).ok();
            range = Some((address(start)?, address(end)?));
        }
    }
    (!regions.is_empty()).then_some(regions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_is_found() {
        let block = vec![1u8; 8 << 20];
        let address = block.as_ptr() as u64;
        let regions = read(std::process::id()).unwrap();
        assert!(regions.is_sorted_by_key(|region| region.start));
        let inside = |region: &&Region| address.wrapping_sub(region.start) < region.length;
        let region = regions.iter().find(inside).unwrap();
        assert!(region.resident >= 8 << 20 && region.resident <= region.length, "{region:?}");
        assert_eq!(read(u32::MAX), None);
    }

    #[test]
    fn growth_makes_a_look_due() {
        let mut schedule = Schedule::default();
        assert!(schedule.is_due(1 << 20));
        assert!(schedule.is_due(2 << 20));
        assert!(schedule.last.is_some() && schedule.largest == 2 << 20);
    }

    #[test]
    fn a_look_that_took_long_is_followed_by_a_pause() {
        let mut schedule = Schedule::default();
        assert!(schedule.is_due(1 << 20));
        schedule.took(Duration::from_secs(100));
        assert!(!schedule.is_due(2 << 20));
        schedule.took(Duration::ZERO);
        assert!(schedule.is_due(2 << 20));
    }
}
