// SPDX-License-Identifier: MIT
//! Takes what the recorder's threads write and turns it into a trace.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use mallow_process::maps;
use mallow_process::stat::Stat;
use mallow_recorder::{CHANNEL_NAME, CHANNEL_VARIABLE, Channel, Timeline};
use mallow_trace::{COLLECTOR, Call, Ending, Event, ProcessEnd, Record, Result, Thread, Writer};

mod look;

use self::look::{Look, is_gone, thread_name};
use super::Recorded;
use super::images::{Images, Introduction};
use super::memory::{Found, Samples};
use super::outsiders::Outsiders;
use super::pace::Pace;
use super::parse::{self, Message, RawCall};
use super::script::Part;
use super::stacks::{ScriptFrames, Stacks};
use super::unwind::Copy;

/// A record whose thread was interrupted for longer than this while writing it gets a later time.
const LATENESS_NS: u64 = 100_000_000;
/// How often silent threads are looked for in /proc.
const LIVENESS_EVERY: Duration = Duration::from_millis(50);

/// A thread that has a slot.
struct Lane {
    /// As numbered by the trace.
    thread: u32,
    pid: u32,
    tid: u32,
    image: usize,
    name: String,
    dropped: u64,
    is_silent: bool,
    last_time: u64,
    /// Of the call that comes next.
    stack: u32,
    /// An interpreter's frames of the stack that comes next.
    script: Vec<u64>,
    evaluation: u64,
    /// The return addresses of the stack before, outermost first.
    addresses: Vec<u64>,
}

/// A trace that is whole.
pub struct Finished<W> {
    pub recorded: Recorded,
    /// Whether any program has loaded the recorder.
    pub was_found: bool,
    pub output: W,
}

pub struct Collector<W: Write> {
    pub channel: Channel,
    timeline: Timeline,
    writer: Writer<W>,
    /// The command, of which whoever started it learns how it ended.
    root_pid: u32,
    /// In the kernel's ticks. What descends from the command began later.
    root_start: u64,
    lanes: Vec<Option<Lane>>,
    images: Images,
    stacks: Stacks,
    pace: Pace,
    samples: Samples,
    /// When the memory was looked at.
    last_sample: u64,
    outsiders: Outsiders,
    thread_count: u32,
    words: Vec<u64>,
    scratch: Vec<u64>,
    last_liveness: Instant,
    /// Rings whose content was none of the recorder's.
    damaged_rings: u32,
    /// Of each slot, when the channel was closed. What finds no room from then on is no loss: the recording
    /// ends there.
    dropped_at_close: Option<Vec<u64>>,
}

impl<W: Write> Collector<W> {
    /// `unwound`: the mean distance in bytes between the stacks that come as copies, if they do.
    pub fn new(
        channel: Channel,
        timeline: Timeline,
        writer: Writer<W>,
        root_pid: u32,
        unwound: Option<u64>,
    ) -> Self {
        Collector {
            channel,
            timeline,
            writer,
            root_pid,
            root_start: start_of(root_pid).unwrap_or(0),
            lanes: Vec::new(),
            images: Images::new(unwound.is_some()),
            pace: Pace::new(unwound.unwrap_or(0)),
            stacks: Stacks::default(),
            samples: Samples::default(),
            last_sample: 0,
            outsiders: Outsiders::default(),
            thread_count: 0,
            words: Vec::new(),
            scratch: Vec::new(),
            last_liveness: Instant::now(),
            damaged_rings: 0,
            dropped_at_close: None,
        }
    }

    /// Processes of the command that still run, but for the command itself: also those that have not allocated
    /// yet, as a daemon whose parent has just left it. These have the channel mapped, or, while the loader is at
    /// work and where there is none, are told of it in their environment.
    fn living_others(&self) -> usize {
        let known: BTreeSet<u32> = self.images.alive().map(|(pid, _)| pid).collect();
        let known_live = known.iter().filter(|&&pid| pid != self.root_pid && !is_gone(pid));
        let inode = self.channel.inode();
        let has_channel = |pid: u32| {
            let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
            let name = [b"/memfd:", CHANNEL_NAME.to_bytes()].concat();
            maps::parse(&maps).iter().any(|mapping| {
                Some(mapping.inode) == inode && mapping.path.as_os_str().as_bytes() == name
            })
        };
        let variable = format!("{CHANNEL_VARIABLE}={}", self.channel.path());
        let is_told_of_it = |pid: u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|entry| entry == variable.as_bytes())
        };
        let others = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let others = others
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|&pid| pid != self.root_pid && pid != std::process::id())
            .filter(|pid| !known.contains(pid))
            // To read the maps of all others takes longer than to record a short command.
            .filter(|&pid| start_of(pid).is_some_and(|start| start >= self.root_start))
            .filter(|&pid| has_channel(pid) || is_told_of_it(pid));
        known_live.count() + others.count()
    }

    /// Writes the beginning of the trace, so that a disk that is full is known before anything is recorded.
    pub fn begin(&mut self) -> Result<()> {
        self.writer.flush()
    }

    /// Looks at all rings once; returns how many words there were.
    pub fn round(&mut self) -> Result<usize> {
        self.timeline.correct();
        self.channel.beat();
        self.keep_pace();
        let start = self.timeline.now();
        let mut count = 0;
        for slot in self.fresh_slots() {
            count += self.read_slot(slot)?;
        }
        for slot in 0..self.lanes.len() {
            if self.lanes[slot].is_some() {
                count += self.read_slot(slot)?;
            }
        }
        if self.last_liveness.elapsed() >= LIVENESS_EVERY {
            self.last_liveness = Instant::now();
            self.look_after_threads(&|_| true)?;
            self.look_after_processes(&|_| true)?;
            self.outsiders.look(self.root_pid);
        }
        self.sample_memory()?;
        self.write_definitions()?;
        self.writer.promise(start.saturating_sub(LATENESS_NS))?;
        Ok(count)
    }

    /// Slots of threads that have begun since the last time, in this order: a process before those
    /// that it forks, and before what it becomes by an exec.
    fn fresh_slots(&mut self) -> Vec<usize> {
        let mut fresh: Vec<(u64, usize)> = Vec::new();
        loop {
            let before = fresh.len();
            for slot in 0..self.channel.slots_used() {
                let is_known = matches!(self.lanes.get(slot), Some(Some(_)))
                    || fresh.iter().any(|&(_, known)| known == slot);
                if !is_known && let Some(word) = self.channel.first_word(slot) {
                    fresh.push((parse::stamp(word), slot));
                }
            }
            // Whatever came before one of these was there when the last look began.
            if fresh.len() == before {
                break;
            }
        }
        fresh.sort_unstable();
        fresh.into_iter().map(|(_, slot)| slot).collect()
    }

    fn read_slot(&mut self, slot: usize) -> Result<usize> {
        self.channel.beat();
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        if self.channel.read(slot, &mut words).is_err() {
            self.damaged_rings += 1;
        }
        let mut rest = words.as_slice();
        while !rest.is_empty() {
            rest = self.take_plain_calls(slot, rest)?;
            if let Some((call, used)) = parse::call(rest) {
                rest = &rest[used..];
                self.take_call(slot, &call)?;
            } else if let Some((message, used)) = parse::message(rest) {
                rest = &rest[used..];
                self.take(slot, message)?;
            } else if !rest.is_empty() {
                self.damaged_rings += 1;
                break;
            }
        }
        let count = words.len();
        self.words = words;
        let dropped = self.channel.dropped(slot);
        let counts = self.dropped_at_close.as_ref().map(|all| all.get(slot).copied().unwrap_or(0));
        let dropped = dropped.min(counts.unwrap_or(u64::MAX));
        let Some(Some(lane)) = self.lanes.get_mut(slot) else { return Ok(count) };
        lane.is_silent = count == 0;
        let fresh = dropped.saturating_sub(lane.dropped);
        lane.dropped = dropped;
        if fresh > 0 {
            let (time, thread) = (lane.last_time, lane.thread);
            self.writer.write(&Record { time, thread, event: Event::Dropped(fresh) })?;
        }
        Ok(count)
    }

    /// Takes the calls that come first as long as they are of the plain kind, and returns what follows.
    fn take_plain_calls<'a>(&mut self, slot: usize, words: &'a [u64]) -> Result<&'a [u64]> {
        let Some(Some(lane)) = self.lanes.get_mut(slot) else { return Ok(words) };
        if lane.stack != 0 {
            return Ok(words);
        }
        let (timeline, mut rest, mut time) = (self.timeline, words, lane.last_time);
        let calls = std::iter::from_fn(|| {
            let (stamp, call) = parse::plain_call(&mut rest)?;
            time = time.max(timeline.time(stamp));
            Some((time, call))
        });
        self.writer.write_calls(lane.thread, calls)?;
        lane.last_time = time;
        Ok(rest)
    }

    fn take_call(&mut self, slot: usize, raw: &RawCall) -> Result<()> {
        let Some(Some(lane)) = self.lanes.get_mut(slot) else { return Ok(()) };
        let time = self.timeline.time(raw.stamp).max(lane.last_time);
        lane.last_time = time;
        let call = Call {
            op: raw.op,
            failed: parse::is_failed(raw),
            size: raw.size,
            alignment: raw.alignment,
            address: raw.address,
            old: raw.old,
            took: self.timeline.duration(raw.ticks),
            stack: std::mem::take(&mut lane.stack),
        };
        self.writer.write_call(time, lane.thread, &call)
    }

    fn take(&mut self, slot: usize, message: Message) -> Result<()> {
        match message {
            Message::Process { stamp, image, parent_image, pid, parent_pid, text } => {
                let introduction =
                    Introduction { id: image, parent_id: parent_image, pid, parent_pid, text };
                self.define_image(stamp, &introduction, slot)?;
            }
            Message::Thread { stamp, pid, tid, image, name } => {
                self.open_lane(slot, stamp, (pid, tid), image, name)?;
            }
            Message::Map { text } => {
                if let Some(image) = self.image_of(slot) {
                    self.images.add_line(image, &text);
                }
            }
            Message::Stack { fresh, common } => self.take_stack(slot, fresh, common)?,
            Message::StackCopy { ip, sp, fp, distance, stack } => {
                self.take_copy(slot, &Copy { ip, sp, fp, distance, stack })?;
            }
            Message::ScriptCode { key, part, width, first_line, bytes } => {
                if let Some(image) = self.image_of(slot) {
                    let part = Part { key, part, width, first_line, bytes: &bytes };
                    self.images.get_mut(image).script.learn(&part);
                }
            }
            Message::Script { evaluation, frames } => {
                if let Some(Some(lane)) = self.lanes.get_mut(slot) {
                    lane.evaluation = evaluation;
                    lane.script.clear();
                    lane.script.extend(frames);
                }
            }
            Message::Marker { stamp, text } => {
                if let Some(Some(lane)) = self.lanes.get_mut(slot) {
                    lane.last_time = self.timeline.time(stamp).max(lane.last_time);
                    let (time, thread) = (lane.last_time, lane.thread);
                    let text = String::from_utf8_lossy(&text).into_owned();
                    self.writer.write(&Record { time, thread, event: Event::Marker(text) })?;
                }
            }
            Message::MapsChanged => {
                if let Some(image) = self.image_of(slot) {
                    self.images.forget_maps(image);
                }
            }
        }
        Ok(())
    }

    fn take_copy(&mut self, slot: usize, copy: &Copy) -> Result<()> {
        let begin = Instant::now();
        let reading = self.images.reading;
        if let Some(Some(lane)) = self.lanes.get_mut(slot) {
            let frames = &lane.script;
            let script = ScriptFrames { evaluation: lane.evaluation, frames };
            lane.stack = self.stacks.unwind(&mut self.images, lane.image, copy, script);
            lane.script.clear();
            self.write_definitions()?;
        }
        // Files are read once.
        let reading = self.images.reading - reading;
        self.pace.took(begin.elapsed().saturating_sub(reading));
        self.keep_pace();
        Ok(())
    }

    fn keep_pace(&mut self) {
        if let Some(distance) = self.pace.look() {
            self.channel.set_stack_distance(distance);
        }
    }

    fn image_of(&self, slot: usize) -> Option<usize> {
        Some(self.lanes.get(slot)?.as_ref()?.image)
    }

    fn take_stack(&mut self, slot: usize, fresh: &[u64], common: usize) -> Result<()> {
        let Some(Some(lane)) = self.lanes.get_mut(slot) else { return Ok(()) };
        lane.addresses.truncate(common);
        lane.addresses.extend(fresh.iter().rev());
        let mut addresses = std::mem::take(&mut self.scratch);
        addresses.clear();
        addresses.extend(lane.addresses.iter().rev());
        let script = ScriptFrames { evaluation: lane.evaluation, frames: &lane.script };
        lane.stack = self.stacks.number(&mut self.images, lane.image, &addresses, script);
        lane.script.clear();
        self.scratch = addresses;
        self.write_definitions()
    }

    fn write_definitions(&mut self) -> Result<()> {
        for event in self.images.definitions.drain(..) {
            self.writer.write(&Record { time: 0, thread: COLLECTOR, event })?;
        }
        Ok(())
    }

    fn define_image(&mut self, stamp: u64, introduction: &Introduction, slot: usize) -> Result<()> {
        if self.images.find(introduction.id).is_some() {
            return Ok(());
        }
        let time = self.timeline.time(stamp);
        let (_, before) = self.images.define(introduction);
        if let Some(before) = before {
            self.end_image_lanes(before, slot)?;
            self.end_image(before, Ending::Exec, time)?;
        }
        for event in self.images.definitions.drain(..) {
            self.writer.write(&Record { time, thread: COLLECTOR, event })?;
        }
        Ok(())
    }

    /// The threads of a program that has become another are gone.
    fn end_image_lanes(&mut self, image: usize, except: usize) -> Result<()> {
        for slot in 0..self.lanes.len() {
            if slot != except && self.image_of(slot) == Some(image) {
                self.end_lane(slot)?;
            }
        }
        Ok(())
    }

    fn open_lane(
        &mut self,
        slot: usize,
        stamp: u64,
        (pid, tid): (u32, u32),
        image: u64,
        name: String,
    ) -> Result<()> {
        let image = match self.images.find(image) {
            Some(index) => index,
            // Another thread was quicker than the one that introduces the process.
            None => self.images.define(&introduction_from_proc(image, pid)).0,
        };
        let time = self.timeline.time(stamp);
        self.images.note_alive(image, time);
        self.thread_count += 1;
        let thread = self.thread_count;
        let process = self.images.get_mut(image).number;
        self.write_definitions()?;
        let event = Event::Thread(Thread { process, tid, name: name.clone() });
        self.writer.write(&Record { time, thread, event })?;
        if self.lanes.len() <= slot {
            self.lanes.resize_with(slot + 1, || None);
        }
        self.lanes[slot] = Some(Lane {
            thread,
            pid,
            tid,
            image,
            name,
            dropped: 0,
            is_silent: false,
            last_time: time,
            stack: 0,
            script: Vec::new(),
            evaluation: 0,
            addresses: Vec::new(),
        });
        Ok(())
    }

    /// The thread is gone: takes its last words and gives its slot away.
    fn end_lane(&mut self, slot: usize) -> Result<()> {
        self.read_slot(slot)?;
        if let Some(lane) = self.lanes[slot].take() {
            self.images.note_ring(lane.image, slot, self.channel.resident(slot));
            // Of records of one time those of the collector come first.
            self.images.note_alive(lane.image, lane.last_time + 1);
            let (time, thread) = (lane.last_time, lane.thread);
            self.writer.write(&Record { time, thread, event: Event::ThreadEnd })?;
        }
        self.channel.release(slot);
        Ok(())
    }

    /// Those of some images.
    fn look_after_threads(&mut self, is_meant: &dyn Fn(usize) -> bool) -> Result<()> {
        for slot in 0..self.lanes.len() {
            let Some(lane) = &mut self.lanes[slot] else { continue };
            if !is_meant(lane.image) {
                continue;
            }
            match thread_name(lane.pid, lane.tid) {
                Look::Named(name) if name != lane.name => {
                    lane.name.clone_from(&name);
                    let (time, thread) = (lane.last_time, lane.thread);
                    self.writer.write(&Record { time, thread, event: Event::ThreadName(name) })?;
                }
                Look::Gone if lane.is_silent => self.end_lane(slot)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The end of one is noticed later than it came, and perhaps than the begin of what waited for it.
    fn look_after_processes(&mut self, is_meant: &dyn Fn(usize) -> bool) -> Result<()> {
        let busy: Vec<usize> = self.lanes.iter().flatten().map(|lane| lane.image).collect();
        for (pid, number) in self.images.alive().collect::<Vec<_>>() {
            let index = number as usize - 1;
            let may_end = pid != self.root_pid && is_meant(index) && !busy.contains(&index);
            if may_end && is_gone(pid) {
                self.end_image(index, Ending::Unknown, self.images.last_alive(index))?;
            }
        }
        Ok(())
    }

    fn end_image(&mut self, index: usize, ending: Ending, time: u64) -> Result<()> {
        let process = self.images.get_mut(index).number;
        self.images.end(index);
        let event = Event::ProcessEnd(ProcessEnd { process, ending });
        self.writer.write(&Record { time, thread: COLLECTOR, event })
    }

    fn note_rings(&mut self) {
        for (slot, lane) in self.lanes.iter().enumerate() {
            if let Some(lane) = lane {
                self.images.note_ring(lane.image, slot, self.channel.resident(slot));
            }
        }
    }

    fn sample_memory(&mut self) -> Result<()> {
        if !self.samples.are_due() {
            return Ok(());
        }
        let time = self.timeline.now();
        self.note_rings();
        let rings = |number: u32| self.images.rings(number as usize - 1);
        let samples = self.samples.take(self.images.alive(), rings);
        for number in self.samples.seen() {
            self.images.note_alive(number as usize - 1, time);
        }
        let gone: Vec<usize> = self.samples.gone().map(|number| number as usize - 1).collect();
        if !gone.is_empty() {
            self.end_gone(&gone)?;
        }
        self.write_memory(time, samples)
    }

    /// The ends of processes whose memory is gone: before that of those which follow them is written.
    fn end_gone(&mut self, gone: &[usize]) -> Result<()> {
        for slot in self.fresh_slots() {
            self.read_slot(slot)?;
        }
        for slot in 0..self.lanes.len() {
            if self.image_of(slot).is_some_and(|image| gone.contains(&image)) {
                self.read_slot(slot)?;
                // Of one that has ended nothing more comes.
                self.read_slot(slot)?;
            }
        }
        let is_gone = |image: usize| gone.contains(&image);
        self.look_after_threads(&is_gone)?;
        self.look_after_processes(&is_gone)
    }

    fn write_memory(&mut self, time: u64, samples: Vec<Found>) -> Result<()> {
        if !samples.is_empty() {
            self.last_sample = time;
        }
        for (memory, regions) in samples {
            let regions = regions.map(Event::Regions);
            for event in [Event::Memory(Box::new(memory))].into_iter().chain(regions) {
                self.writer.write(&Record { time, thread: COLLECTOR, event })?;
            }
        }
        Ok(())
    }

    /// What the kernel says of the command when it has ended: the most memory that it had, or that any
    /// process had that it waited for. So it is known of a command that is one process, and may be more than
    /// any look at it has met.
    pub fn note_peak(&mut self, peak_rss: u64) -> Result<()> {
        self.note_rings();
        let mut alive = self.images.alive();
        let (Some((_, process)), None, 1) = (alive.next(), alive.next(), self.images.len()) else {
            return Ok(());
        };
        let peak_rss = peak_rss.saturating_sub(self.images.rings(process as usize - 1));
        let Some(memory) = self.samples.with_peak(process, peak_rss) else { return Ok(()) };
        let (time, event) = (self.last_sample, Event::Memory(Box::new(memory)));
        self.writer.write(&Record { time, thread: COLLECTOR, event })
    }

    /// Takes everything that is left. `ending`: of the command, unless it goes on.
    pub fn finish(mut self, ending: Option<Ending>) -> Result<Finished<W>> {
        let still_running = self.living_others();
        // The look maps the slots of threads that nobody has read yet.
        self.fresh_slots();
        let slots = 0..self.channel.slots_used();
        self.dropped_at_close = Some(slots.map(|slot| self.channel.dropped(slot)).collect());
        self.channel.close();
        self.round()?;
        for slot in 0..self.lanes.len() {
            if self.lanes[slot].is_some() {
                self.end_lane(slot)?;
            }
        }
        let mut ends = Vec::new();
        for (pid, number) in self.images.alive() {
            let index = number as usize - 1;
            match ending {
                Some(ending) if pid == self.root_pid => {
                    ends.push((self.timeline.now(), index, ending));
                }
                _ if is_gone(pid) => {
                    ends.push((self.images.last_alive(index), index, Ending::Unknown));
                }
                _ => {}
            }
        }
        ends.sort_by_key(|&(time, index, _)| (time, index));
        for (time, index, ending) in ends {
            self.end_image(index, ending, time)?;
        }
        self.images.finish();
        self.write_definitions()?;
        let totals = *self.writer.totals();
        let recorded = Recorded {
            calls: totals.calls,
            dropped: totals.dropped,
            threads: self.thread_count,
            processes: self.images.len(),
            lost_threads: self.channel.lost_threads(),
            damaged_rings: self.damaged_rings,
            still_running,
            outsiders: self.outsiders.into_names(),
            started_before: 0,
        };
        let was_found = self.channel.was_found();
        Ok(Finished { recorded, was_found, output: self.writer.finish()? })
    }
}

fn start_of(pid: u32) -> Option<u64> {
    Some(Stat::read(pid).ok()?.start.time)
}

fn introduction_from_proc(id: u64, pid: u32) -> Introduction {
    let mut text = vec![0];
    if let Ok(executable) = std::fs::read_link(format!("/proc/{pid}/exe")) {
        text.extend(executable.to_string_lossy().bytes());
    }
    text.push(0);
    text.extend(std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default());
    Introduction { id, parent_id: 0, pid, parent_pid: 0, text }
}

#[cfg(test)]
mod tests;
