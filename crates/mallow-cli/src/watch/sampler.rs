//! Takes samples of a process and its children.

use std::time::{Duration, Instant};

use crate::binding::Inspector;
use crate::explain::{gather, smaps};
use crate::measure::descendants;

use super::run::Sample;

/// The heap is read so seldom that it takes at most this part of the time.
const HEAP_SHARE: u32 = 10;
/// A program that has just started may have no heap yet.
const HEAP_WITHIN: Duration = Duration::from_secs(5);

pub struct Sampler {
    root: u32,
    start: Instant,
    inspector: Inspector,
    heap_next: Instant,
    /// The heap cannot be read at all.
    without_heap: bool,
    pub allocator: String,
}

impl Sampler {
    pub fn new(root: u32) -> Sampler {
        let now = Instant::now();
        Sampler {
            root,
            start: now,
            inspector: Inspector::default(),
            heap_next: now,
            without_heap: false,
            allocator: String::new(),
        }
    }

    /// `None` when the process has ended.
    pub fn take(&mut self) -> Option<Sample> {
        let mut sample = Sample { time_s: self.start.elapsed().as_secs_f64(), ..Sample::default() };
        let mut processes = Vec::new();
        descendants(self.root, &mut processes);
        for (index, &pid) in processes.iter().enumerate() {
            let counted = add_process(pid, &mut sample);
            if index == 0 && counted.is_none() {
                return None;
            }
        }
        // A process that is just ending has no memory any more.
        if sample.rss == 0 {
            return None;
        }
        self.add_heap(&mut sample);
        Some(sample)
    }

    fn add_heap(&mut self, sample: &mut Sample) {
        let begin = Instant::now();
        if self.without_heap || begin < self.heap_next {
            return;
        }
        let Some((allocator, heap)) = gather::heap_of(self.root, &mut self.inspector) else {
            return;
        };
        self.allocator = allocator;
        match heap.used_and_free() {
            // What changed all the time while it was read would look like a hole.
            Some(_) if heap.incomplete() > 0 => {}
            Some((used, free)) => (sample.heap_used, sample.heap_free) = (Some(used), Some(free)),
            None => self.without_heap = self.start.elapsed() > HEAP_WITHIN,
        }
        self.heap_next = begin + begin.elapsed() * HEAP_SHARE;
    }
}

fn add_process(pid: u32, sample: &mut Sample) -> Option<()> {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
    let stat = read("stat")?;
    // Behind the name, which may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let field = |index: usize| fields.get(index).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    if matches!(fields.first(), Some(&"Z" | &"X")) {
        return None;
    }
    sample.processes += 1;
    // With those of children that have ended.
    sample.minor_faults += field(7) + field(8);
    sample.major_faults += field(9) + field(10);
    sample.threads += field(17);
    let rollup = read("smaps_rollup").filter(|text| !text.is_empty());
    match rollup {
        Some(text) => {
            let fields = smaps::parse_fields(&text);
            let bytes =
                |name: &str| fields.get(name).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
            sample.rss += bytes("Rss");
            sample.swap += bytes("Swap");
            sample.pss = Some(sample.pss.unwrap_or(0) + bytes("Pss"));
        }
        None => {
            let fields = smaps::parse_fields(&read("status")?);
            let bytes =
                |name: &str| fields.get(name).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
            sample.rss += bytes("VmRSS");
            sample.swap += bytes("VmSwap");
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_sampled() {
        let mut sampler = Sampler::new(std::process::id());
        let sample = sampler.take().unwrap();
        assert!(sample.rss > 1 << 20 && sample.minor_faults > 100 && sample.processes >= 1);
        assert!(sample.pss.unwrap() <= sample.rss);
        assert_eq!(sampler.allocator, "glibc");
        assert!(sample.heap_used.unwrap() > 1000);
        assert!(Sampler::new(4_194_304).take().is_none());
    }
}
