// SPDX-License-Identifier: MIT
//! Where the anonymous memory of a process lies: a look at /proc/PID/smaps now and then, so that
//! `replay` can tell the heap of the recorded program from its other memory.

use std::fs::File;
use std::io::BufReader;
use std::time::{Duration, Instant};

use mallow_process::{lossy, smaps};
use mallow_trace::Region;

/// A look walks all page tables of the process: it is taken when the memory has grown by this part
/// since the largest one looked at, or after this time.
const GROWTH: u64 = 16;
const SMALLEST_GROWTH: u64 = 256 << 10;
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The pause after a look, as a multiple of what it took: looks are 2 % of the time at the most.
const REST: u32 = 50;

/// Of one look, at most: those with the most memory, so that a record holds them.
const MOST_REGIONS: usize = 20_000;

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
    let file = File::open(format!("/proc/{pid}/smaps")).ok()?;
    let mut vmas = smaps::read(BufReader::with_capacity(1 << 16, file)).ok()??;
    smaps::drop_overlaps(&mut vmas);
    let has_memory = vmas.iter().filter(|vma| vma.anonymous > 0);
    let regions = has_memory
        .map(|vma| Region { start: vma.start, length: vma.size(), resident: vma.anonymous })
        .collect();
    let regions = largest(regions);
    (!regions.is_empty()).then_some(regions)
}

/// No more than a record holds, by address.
fn largest(mut regions: Vec<Region>) -> Vec<Region> {
    if regions.len() > MOST_REGIONS {
        regions.sort_unstable_by_key(|region| std::cmp::Reverse(region.resident));
        regions.truncate(MOST_REGIONS);
        regions.sort_unstable_by_key(|region| region.start);
    }
    regions
}

/// Whether the process has switched transparent huge pages off for itself.
pub fn huge_pages_are_off(pid: u32) -> bool {
    let status = lossy::read(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line == "THP_enabled:\t0")
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

    /// Far apart, of any size: they take the most bytes.
    #[test]
    fn a_record_holds_the_largest() {
        let region = |index: u64| Region {
            start: index << 31,
            length: 1 << 47,
            resident: (1 << 46) | ((index.wrapping_mul(0x9e37_79b9) % 65_536) << 12),
        };
        let all: Vec<Region> = (0..65_000).map(region).collect();
        let kept = largest(all.clone());
        assert_eq!(kept.len(), MOST_REGIONS);
        assert!(kept.is_sorted_by_key(|region| region.start));
        let least = kept.iter().map(|region| region.resident).min().unwrap();
        let larger = all.iter().filter(|region| region.resident > least);
        assert!(larger.count() < MOST_REGIONS);
        let regions = mallow_trace::Regions { process: 1, no_huge_pages: false, regions: kept };
        let event = mallow_trace::Event::Regions(regions);
        let record = mallow_trace::Record { time: 1, thread: mallow_trace::COLLECTOR, event };
        let mut writer = mallow_trace::Writer::new(Vec::new(), &Default::default()).unwrap();
        writer.write(&record).unwrap();
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
