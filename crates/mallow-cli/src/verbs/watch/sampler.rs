// SPDX-License-Identifier: MIT
//! Takes samples of a process and its children. The heap is read by a thread of its own, for a
//! large one takes longer than the time between two samples.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use mallow_measure::watched::Sample;
use mallow_os::threads;
use mallow_process::binding::Inspector;
use mallow_process::descendants;
use mallow_process::heap::Place;
use mallow_process::stat::folder;
use mallow_process::{lossy, picture, smaps};

use crate::error::Result;

/// The heap is read so seldom that it takes at most this part of a CPU.
const HEAP_SHARE: u32 = 10;
/// A program that has just started may have no heap yet.
const HEAP_WITHIN: Duration = Duration::from_secs(5);

/// A heap at a moment.
struct Reading {
    begun: Instant,
    allocator: String,
    used_and_free: Option<(u64, u64)>,
}

pub struct Sampler {
    root: u32,
    start: Instant,
    heap: Receiver<Reading>,
    /// Asks for a reading at once.
    hurry: SyncSender<()>,
    /// By what malloc is bound to: known before the heap is read.
    named: Arc<OnceLock<String>>,
    pub allocator: String,
}

impl Sampler {
    pub fn new(root: u32, interval: Duration) -> Result<Sampler> {
        // One waits at the most: a reading is as old as the sample that takes it, or little older.
        let (sender, heap) = sync_channel(0);
        let (hurry, asked) = sync_channel(1);
        let named = Arc::new(OnceLock::new());
        let name = named.clone();
        threads::spawn("heap", move || read_heap(root, interval, &sender, &asked, &name))?;
        let (start, allocator) = (Instant::now(), String::new());
        Ok(Sampler { root, start, heap, hurry, named, allocator })
    }

    /// The same, with a heap that is read after this call began, if that is done within this time.
    pub fn take_last(&mut self, within: Duration) -> Option<Sample> {
        let begin = Instant::now();
        let _ = self.hurry.try_send(());
        let mut reading = self.heap.try_recv().ok();
        while reading.as_ref().is_none_or(|reading| reading.begun < begin)
            && let Ok(later) = self.heap.recv_timeout(within.saturating_sub(begin.elapsed()))
        {
            reading = Some(later);
        }
        self.sample(reading.filter(|reading| reading.begun >= begin))
    }

    /// `None` when the process has ended.
    pub fn take(&mut self) -> Option<Sample> {
        let reading = self.heap.try_recv().ok();
        self.sample(reading)
    }

    fn sample(&mut self, reading: Option<Reading>) -> Option<Sample> {
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
        if let Some(reading) = reading {
            self.allocator = reading.allocator;
            (sample.heap_used, sample.heap_free) = reading.used_and_free.unzip();
        }
        if self.allocator.is_empty()
            && let Some(name) = self.named.get()
        {
            self.allocator.clone_from(name);
        }
        Some(sample)
    }
}

/// Until the process or the watch ends, or it is clear that there is nothing to read.
fn read_heap(
    pid: u32,
    interval: Duration,
    sender: &SyncSender<Reading>,
    asked: &Receiver<()>,
    named: &OnceLock<String>,
) {
    let start = Instant::now();
    let mut inspector = Inspector::default();
    for round in 0u64.. {
        let (begun, begin) = (Instant::now(), busy());
        // Before the libraries are mapped nobody serves malloc.
        if named.get().is_none()
            && let Ok(Place { allocator, .. }) = Place::find(pid, &mut inspector)
            && allocator != "none"
        {
            let _ = named.set(allocator);
        }
        let Some((allocator, heap)) = picture::heap_of(pid, &mut inspector) else { return };
        let figures = heap.used_and_free();
        let is_late = start.elapsed() > HEAP_WITHIN;
        // What changed all the time while it was read would look like a hole.
        let used_and_free = figures.filter(|_| heap.incomplete() == 0);
        let took = busy().saturating_sub(begin);
        if sender.send(Reading { begun, allocator, used_and_free }).is_err() {
            return;
        }
        if figures.is_none() && is_late {
            return;
        }
        // The first one looked at the process's files too, which the inspector remembers.
        let rest = if round == 0 { Duration::ZERO } else { took * (HEAP_SHARE - 1) };
        if asked.recv_timeout(rest.max(interval / 2)) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// CPU time of this thread.
fn busy() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn add_process(pid: u32, sample: &mut Sample) -> Option<()> {
    let proc = folder(pid);
    let read = |name: &str| lossy::read(proc.join(name));
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
    use std::process::{Command, Stdio};

    /// A process at rest: the heap of one that allocates all the time is not always read.
    #[test]
    fn process_is_sampled() {
        let mut child = Command::new("sh")
            .args(["-c", "read line"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let mut sampler = Sampler::new(child.id(), Duration::from_millis(10)).unwrap();
        let deadline = Instant::now() + Duration::from_secs(120);
        let sample = loop {
            let sample = sampler.take().unwrap();
            // The shell may have only begun.
            if sample.heap_used.is_some_and(|used| used > 1000) {
                break sample;
            }
            assert!(Instant::now() < deadline, "the heap is not read");
            std::thread::sleep(Duration::from_millis(10));
        };
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(sample.rss > 1 << 19 && sample.minor_faults > 20 && sample.processes == 1);
        assert!(sample.pss.unwrap() <= sample.rss);
        assert_eq!(sampler.allocator, "glibc");
        assert!(Sampler::new(4_194_304, Duration::from_secs(1)).unwrap().take().is_none());
    }

    /// The heap may be so large that the watch is over before it is read.
    #[test]
    fn the_allocator_is_named_without_its_heap() {
        let mut sampler = Sampler::new(std::process::id(), Duration::from_secs(1)).unwrap();
        let waits = std::mem::replace(&mut sampler.heap, sync_channel(0).1);
        let deadline = Instant::now() + Duration::from_secs(120);
        while sampler.take().expect("it runs").heap_used.is_none() && sampler.allocator.is_empty() {
            assert!(Instant::now() < deadline, "nobody is named");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(sampler.allocator, "glibc");
        drop(waits);
    }

    /// The reading that waits is older; another comes when it is asked for.
    #[test]
    fn the_last_sample_has_a_heap_that_was_read_for_it() {
        let (sender, heap) = sync_channel(0);
        let (hurry, asked) = sync_channel(1);
        let (root, start) = (std::process::id(), Instant::now());
        let reader = std::thread::spawn(move || {
            for (used, begun) in [(1, start), (2, start + Duration::from_secs(1000))] {
                let used_and_free = Some((used, 0));
                let _ = sender.send(Reading { begun, allocator: "test".into(), used_and_free });
                let _ = asked.recv_timeout(Duration::from_secs(100));
            }
        });
        let (named, allocator) = (Arc::default(), String::new());
        let mut sampler = Sampler { root, start, heap, hurry, named, allocator };
        let sample = sampler.take_last(Duration::from_secs(100)).expect("it runs");
        drop(sampler);
        reader.join().expect("it ends");
        assert_eq!(sample.heap_used, Some(2));
    }
}
