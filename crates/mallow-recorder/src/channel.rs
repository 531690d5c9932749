// SPDX-License-Identifier: MIT
//! The collector's side of the memory that it shares with the recorded programs.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Clock;
use crate::layout::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackMode {
    None,
    FramePointers,
    /// Copies of so many bytes at most, to be unwound by the collector.
    Copies(u32),
}

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub stacks: StackMode,
    /// Mean distance in bytes between allocations with a stack, 0 for all.
    pub stack_distance: u64,
    /// A thread whose ring is full loses calls instead of waiting.
    pub drops: bool,
    /// Of one thread's ring; a power of two of at least 64 KiB.
    pub ring_bytes: usize,
    pub clock: Clock,
}

/// A mapping of a part of the shared file.
struct Map {
    start: *mut u8,
    size: usize,
}

impl Map {
    fn new(file: &OwnedFd, offset: usize, size: usize) -> io::Result<Map> {
        // SAFETY: a new mapping at a place of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Map { start: start.cast(), size })
    }

    /// The start as a `T`, which must consist of atomics alone.
    fn at_start<T>(&self) -> &T {
        assert!(size_of::<T>() <= self.size);
        // SAFETY: page-aligned, large enough, lives as long as self; atomics may be changed by
        // others at any time, and all bit patterns are valid for them.
        unsafe { &*self.start.cast::<T>() }
    }

    fn words(&self, offset: usize) -> &[AtomicU64] {
        assert!(offset.is_multiple_of(8) && offset <= self.size);
        // SAFETY: as above; the slice ends with the mapping.
        unsafe {
            let first = self.start.add(offset).cast::<AtomicU64>();
            std::slice::from_raw_parts(first, (self.size - offset) / 8)
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours, and no reference to it outlives self.
        unsafe {
            libc::munmap(self.start.cast(), self.size);
        }
    }
}

// SAFETY: the memory is shared with other processes anyway and accessed by atomics only.
unsafe impl Send for Map {}

/// What the mappings of a program that is recorded say, and what the recorder knows the file by.
pub const NAME: &CStr = c"mallow-record";
/// By this variable of the environment a program learns where the channel is.
pub const VARIABLE: &str = "MALLOW_RECORD";

pub struct Channel {
    file: OwnedFd,
    control: Map,
    slots: Vec<Option<Map>>,
    slot_size: usize,
    first_slot: usize,
    ring_words: u64,
}

impl Channel {
    pub fn new(settings: &Settings) -> io::Result<Channel> {
        let ring_words = settings.ring_bytes / 8;
        let slot_size = RING_HEADER + settings.ring_bytes;
        let first_slot = size_of::<Control>().next_multiple_of(64 << 10);
        let slot_size = slot_size.next_multiple_of(64 << 10);
        // SAFETY: the name ends with a zero; the descriptor is new and nobody else's.
        let file = unsafe {
            let fd = libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let size = first_slot + SLOT_COUNT * slot_size;
        // SAFETY: takes integers. The pages come when they are used. Programs of other users may
        // be recorded too, when they were started as ours.
        let prepared = unsafe {
            libc::ftruncate(file.as_raw_fd(), size as libc::off_t) == 0
                && libc::fchmod(file.as_raw_fd(), 0o666) == 0
        };
        if !prepared {
            return Err(io::Error::last_os_error());
        }
        let control = Map::new(&file, 0, size_of::<Control>())?;
        let shared: &Control = control.at_start();
        let (stacks, copy_bytes) = match settings.stacks {
            StackMode::None => (0, 0),
            StackMode::FramePointers => (1, 0),
            StackMode::Copies(bytes) => (2, bytes),
        };
        let set = Ordering::Relaxed;
        shared.ring_words.store(ring_words as u32, set);
        shared.stacks.store(stacks, set);
        shared.copy_bytes.store(copy_bytes, set);
        shared.when_full.store(u32::from(settings.drops), set);
        shared.clock.store(u32::from(settings.clock == Clock::System), set);
        shared.stack_distance.store(settings.stack_distance, set);
        shared.first_slot.store(first_slot as u64, set);
        shared.slot_size.store(slot_size as u64, set);
        shared.shared.0.beat.store(1, set);
        shared.magic.store(MAGIC, Ordering::SeqCst);
        let slots = (0..SLOT_COUNT).map(|_| None).collect();
        Ok(Channel { file, control, slots, slot_size, first_slot, ring_words: ring_words as u64 })
    }

    /// Where a program of the same user opens the memory, for [`VARIABLE`]. It is as long whatever the
    /// number of this process: a shell copies its variables, and `mallow check` counts bytes.
    pub fn path(&self) -> String {
        format!("/proc/{:/>7}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    fn control(&self) -> &Control {
        self.control.at_start()
    }

    /// Slots from here on have never been used.
    pub fn slots_used(&self) -> usize {
        (self.control().shared.0.slots_used.load(Ordering::Acquire) as usize).min(SLOT_COUNT)
    }

    /// What the maps of processes that have it say of its file.
    pub fn inode(&self) -> Option<u64> {
        let file = std::fs::File::from(self.file.try_clone().ok()?);
        Some(std::os::unix::fs::MetadataExt::ino(&file.metadata().ok()?))
    }

    /// Whether any program has loaded the recorder.
    pub fn was_found(&self) -> bool {
        self.control().shared.0.programs.load(Ordering::Relaxed) > 0
    }

    /// Threads that could not be recorded since all slots were taken.
    pub fn lost_threads(&self) -> u32 {
        self.control().shared.0.lost_threads.load(Ordering::Relaxed)
    }

    fn is_ready(&self, slot: usize) -> bool {
        // Pairs with the thread's release, when it has set its ring up.
        self.control().states.0[slot].load(Ordering::Acquire) == SLOT_READY
    }

    fn map(&mut self, slot: usize) -> io::Result<&Map> {
        Ok(match &mut self.slots[slot] {
            Some(map) => map,
            none => {
                let offset = self.first_slot + slot * self.slot_size;
                let size = RING_HEADER + self.ring_words as usize * 8;
                none.insert(Map::new(&self.file, offset, size)?)
            }
        })
    }

    /// What a thread that has just taken the slot wrote first, if it has.
    pub fn first_word(&mut self, slot: usize) -> Option<u64> {
        if !self.is_ready(slot) {
            return None;
        }
        let map = self.map(slot).ok()?;
        let header: &RingHeader = map.at_start();
        // Pairs with the release of the thread's publishing.
        let is_empty = header.head.load(Ordering::Acquire) == 0;
        (!is_empty).then(|| map.words(RING_HEADER)[0].load(Ordering::Relaxed))
    }

    /// Appends what the slot's thread has written since the last time.
    pub fn read(&mut self, slot: usize, words: &mut Vec<u64>) -> io::Result<()> {
        let ring_words = self.ring_words;
        let map = self.map(slot)?;
        let header: &RingHeader = map.at_start();
        // Pairs with the release of the thread's publishing.
        let head = header.head.load(Ordering::Acquire);
        let tail = header.tail.0.load(Ordering::Relaxed);
        let count = head.wrapping_sub(tail);
        // A program that writes into memory that is not its own must not harm the collector.
        if count > ring_words {
            header.tail.0.store(head, Ordering::Release);
            return Err(io::Error::other("a ring was overwritten by its program"));
        }
        let ring = map.words(RING_HEADER);
        let first = (tail % ring_words) as usize;
        let until_end = (ring.len() - first).min(count as usize);
        let parts = [&ring[first..first + until_end], &ring[..count as usize - until_end]];
        for part in parts {
            words.extend(part.iter().map(|word| word.load(Ordering::Relaxed)));
        }
        // Pairs with the thread's look for room: the words have been read.
        header.tail.0.store(head, Ordering::Release);
        Ok(())
    }

    /// Calls of the slot's thread that found no room, since it took the slot.
    pub fn dropped(&self, slot: usize) -> u64 {
        let header: Option<&RingHeader> = self.slots[slot].as_ref().map(Map::at_start);
        header.map_or(0, |header| header.dropped.load(Ordering::Relaxed))
    }

    /// How much of the slot's memory has been touched, which counts as the program's.
    pub fn resident(&self, slot: usize) -> u64 {
        let header: Option<&RingHeader> = self.slots[slot].as_ref().map(Map::at_start);
        header.map_or(0, |header| {
            let written = header.head.load(Ordering::Relaxed).min(self.ring_words) * 8;
            RING_HEADER as u64 + written.next_multiple_of(page_size() as u64)
        })
    }

    /// The slot's thread is gone and everything is read: another may have the slot.
    pub fn release(&self, slot: usize) {
        self.control().states.0[slot].store(SLOT_FREE, Ordering::Release);
    }

    /// From the next stack of each thread on, the mean distance in bytes between two.
    pub fn set_stack_distance(&self, distance: u64) {
        self.control().stack_distance.store(distance, Ordering::Relaxed);
    }

    /// Says that the collector lives.
    pub fn beat(&self) {
        self.control().shared.0.beat.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until a ring fills, at most this long.
    pub fn wait(&self, timeout: Duration) {
        let shared = &self.control().shared.0;
        let rung = shared.bell.load(Ordering::SeqCst);
        shared.is_waiting.store(1, Ordering::SeqCst);
        let time = libc::timespec {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: the futex word and the timeout live during the call.
        unsafe {
            libc::syscall(libc::SYS_futex, shared.bell.as_ptr(), libc::FUTEX_WAIT, rung, &time);
        }
        shared.is_waiting.store(0, Ordering::Relaxed);
    }

    /// From now on programs record nothing any more.
    pub fn close(&self) {
        self.control().shared.0.is_closed.store(1, Ordering::SeqCst);
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.close();
    }
}
