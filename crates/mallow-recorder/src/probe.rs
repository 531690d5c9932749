// SPDX-License-Identifier: MIT
//! Probes of the kernel (uprobes) on functions of a running process, and the rings that their hits
//! come in, one for each processor.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::definitions::{Definitions, Point};
use perf_event_open_sys::{bindings as sys, ioctls, perf_event_open};

/// Of a ring's data.
const RING_BYTES: usize = 4 << 20;

/// The registers of a result, the first three arguments, the frame pointer, where a call returns to
/// and the stack, as bits: ax, dx, si, di, bp, sp. Their values come in this order.
#[cfg(target_arch = "x86_64")]
const REGISTERS: u64 = 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7;
/// x0 to x2, x29, x30, sp.
#[cfg(not(target_arch = "x86_64"))]
const REGISTERS: u64 = 0b111 | 1 << 29 | 1 << 30 | 1 << 31;
const REGISTER_COUNT: usize = 6;
/// Of the stack, at most.
const COPY_BYTES: u32 = 16 << 10;

/// Times are of CLOCK_MONOTONIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hit {
    Call {
        point: usize,
        pid: u32,
        tid: u32,
        time: u64,
        result: u64,
        arguments: [u64; 3],
    },
    /// The stack of a call that is under way, or about to be.
    Stack {
        point: usize,
        pid: u32,
        tid: u32,
        time: u64,
        arguments: [u64; 3],
        copy: StackCopy,
    },
    /// A thread of a process that another thread, perhaps of another process, has started.
    ThreadStart {
        pid: u32,
        tid: u32,
        parent: u32,
        time: u64,
    },
    ThreadEnd {
        pid: u32,
        tid: u32,
        time: u64,
    },
    /// The process runs another program now.
    Exec {
        pid: u32,
        time: u64,
    },
    /// So many hits found no room.
    Lost(u64),
}

/// A thread as it will be when the function returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackCopy {
    pub ip: u64,
    pub sp: u64,
    pub fp: u64,
    pub words: Vec<u64>,
}

pub struct Probes {
    rings: Vec<Ring>,
    /// The hits of a probe carry its id: its number, and whether they come with a stack.
    ids: Vec<(u64, usize, bool)>,
    // In this order: the kernel keeps definitions that are in use.
    events: Vec<OwnedFd>,
    definitions: Definitions,
}

impl Probes {
    /// Whether this kernel has them.
    pub fn are_possible() -> bool {
        Definitions::are_possible()
    }

    /// Sets the probes for these threads and all that they start, not yet enabled. Each of so many
    /// hits at a point with stacks has one.
    pub fn open(
        tids: &[u32],
        cpus: &[u32],
        points: &[Point],
        stack_period: Option<u64>,
    ) -> io::Result<Probes> {
        let definitions = Definitions::new(points)?;
        let mut probes =
            Probes { rings: Vec::new(), ids: Vec::new(), events: Vec::new(), definitions };
        for &cpu in cpus {
            let mut first: Option<usize> = None;
            for &tid in tids {
                let leader = match open_event(&task_attributes(), tid, cpu) {
                    Ok(leader) => leader,
                    // The thread has ended meanwhile.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
                    Err(error) => return Err(error),
                };
                probes.add(leader, &mut first)?;
                for (number, point) in points.iter().enumerate() {
                    let period = stack_period.filter(|_| point.has_stack);
                    probes.add_point(number, period, (tid, cpu), &mut first)?;
                }
            }
        }
        probes.ids.sort_unstable();
        Ok(probes)
    }

    fn add_point(
        &mut self,
        number: usize,
        stack_period: Option<u64>,
        (tid, cpu): (u32, u32),
        first: &mut Option<usize>,
    ) -> io::Result<()> {
        let definition = self.definitions.ids[number];
        let with_stack = stack_period.map(|period| stack_attributes(definition, period));
        for attributes in [Some(probe_attributes(definition)), with_stack].into_iter().flatten() {
            let has_stack = attributes.sample_stack_user > 0;
            let event = match open_event(&attributes, tid, cpu) {
                Ok(event) => event,
                // The thread has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
                Err(error) => return Err(error),
            };
            self.ids.push((event_id(&event)?, number, has_stack));
            self.add(event, first)?;
        }
        Ok(())
    }

    /// The first event of a processor has the ring, the others write into it.
    fn add(&mut self, event: OwnedFd, first: &mut Option<usize>) -> io::Result<()> {
        match *first {
            None => {
                self.rings.push(Ring::new(&event)?);
                *first = Some(self.events.len());
            }
            Some(first) => {
                let (fd, target) = (event.as_raw_fd(), self.events[first].as_raw_fd());
                // SAFETY: both descriptors are open.
                if unsafe { ioctls::SET_OUTPUT(fd, target) } < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
        }
        self.events.push(event);
        Ok(())
    }

    pub fn enable(&self) -> io::Result<()> {
        for event in &self.events {
            // SAFETY: the descriptor is open; the argument is not used.
            if unsafe { ioctls::ENABLE(event.as_raw_fd(), 0) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Appends what has happened since the last time, of each processor in order.
    pub fn read(&mut self, hits: &mut Vec<Hit>) {
        let ids = &self.ids;
        let point = |id: u64| {
            let at = ids.binary_search_by_key(&id, |&(known, _, _)| known).ok()?;
            Some((ids[at].1, ids[at].2))
        };
        for ring in &self.rings {
            let bytes = ring.take();
            let mut rest = bytes.as_slice();
            while let Some((kind, misc, body, tail)) = split_record(rest) {
                hits.extend(parse(kind, misc, body, &point));
                rest = tail;
            }
        }
    }
}

fn new_attributes() -> sys::perf_event_attr {
    let mut attributes = sys::perf_event_attr {
        size: size_of::<sys::perf_event_attr>() as u32,
        sample_type: u64::from(
            sys::PERF_SAMPLE_IDENTIFIER | sys::PERF_SAMPLE_TID | sys::PERF_SAMPLE_TIME,
        ),
        clockid: libc::CLOCK_MONOTONIC,
        ..sys::perf_event_attr::default()
    };
    attributes.set_disabled(1);
    attributes.set_inherit(1);
    attributes.set_sample_id_all(1);
    attributes.set_use_clockid(1);
    attributes
}

/// Counts nothing, and says when threads begin and end, and when a process runs another program.
fn task_attributes() -> sys::perf_event_attr {
    let mut attributes = new_attributes();
    attributes.type_ = sys::PERF_TYPE_SOFTWARE;
    attributes.config = sys::PERF_COUNT_SW_DUMMY.into();
    attributes.set_task(1);
    attributes.set_comm(1);
    attributes.set_comm_exec(1);
    attributes
}

fn probe_attributes(definition: u64) -> sys::perf_event_attr {
    let mut attributes = new_attributes();
    attributes.type_ = sys::PERF_TYPE_TRACEPOINT;
    attributes.config = definition;
    attributes.__bindgen_anon_1.sample_period = 1;
    attributes.sample_type |= u64::from(sys::PERF_SAMPLE_REGS_USER);
    attributes.sample_regs_user = REGISTERS;
    attributes
}

fn stack_attributes(definition: u64, period: u64) -> sys::perf_event_attr {
    let mut attributes = probe_attributes(definition);
    attributes.__bindgen_anon_1.sample_period = period;
    attributes.sample_type |= u64::from(sys::PERF_SAMPLE_STACK_USER);
    attributes.sample_stack_user = COPY_BYTES;
    attributes
}

fn open_event(attributes: &sys::perf_event_attr, tid: u32, cpu: u32) -> io::Result<OwnedFd> {
    let mut attributes = *attributes;
    let flags = u64::from(sys::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: the attributes live during the call; the new descriptor is nobody else's.
    unsafe {
        let (tid, cpu) = (tid as libc::pid_t, cpu as libc::c_int);
        let fd = perf_event_open(&mut attributes, tid, cpu, -1, flags);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

fn event_id(event: &OwnedFd) -> io::Result<u64> {
    let mut id = 0;
    // SAFETY: the descriptor is open, and the result goes to a live variable.
    if unsafe { ioctls::ID(event.as_raw_fd(), &mut id) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(id)
}

/// Memory that the kernel writes hits into.
struct Ring {
    start: *mut u8,
    /// The header's, in front of the records.
    page: usize,
}

impl Ring {
    fn new(event: &OwnedFd) -> io::Result<Ring> {
        let page = crate::layout::page_size();
        // SAFETY: a new mapping at a place of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page + RING_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring { start: start.cast(), page })
    }

    fn take(&self) -> Vec<u8> {
        let page = self.start.cast::<sys::perf_event_mmap_page>();
        // SAFETY: the mapping begins with this struct; head and tail are changed by both sides and
        // accessed as atomics. Between tail and head the kernel does not write.
        unsafe {
            let head_at = AtomicU64::from_ptr(&raw mut (*page).data_head);
            let tail_at = AtomicU64::from_ptr(&raw mut (*page).data_tail);
            let (head, tail) = (head_at.load(Ordering::Acquire), tail_at.load(Ordering::Relaxed));
            let count = (head - tail) as usize;
            let first = tail as usize % RING_BYTES;
            let until_end = count.min(RING_BYTES - first);
            let data = self.start.add(self.page);
            let mut bytes = Vec::with_capacity(count);
            bytes.extend_from_slice(std::slice::from_raw_parts(data.add(first), until_end));
            bytes.extend_from_slice(std::slice::from_raw_parts(data, count - until_end));
            fence(Ordering::SeqCst);
            tail_at.store(head, Ordering::Release);
            bytes
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours, and no reference to it outlives self.
        unsafe {
            libc::munmap(self.start.cast(), self.page + RING_BYTES);
        }
    }
}

/// Kind, flags, body and what follows of the first record.
fn split_record(bytes: &[u8]) -> Option<(u32, u16, &[u8], &[u8])> {
    let (header, _) = bytes.split_at_checked(8)?;
    let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let misc = u16::from_le_bytes([header[4], header[5]]);
    let size = usize::from(u16::from_le_bytes([header[6], header[7]]));
    let (record, rest) = bytes.split_at_checked(size.max(8))?;
    Some((kind, misc, &record[8..], rest))
}

fn word(body: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?))
}

/// `point` finds the number of a probe and whether there are stacks, by the id of its event.
fn parse(
    kind: u32,
    misc: u16,
    body: &[u8],
    point: &dyn Fn(u64) -> Option<(usize, bool)>,
) -> Option<Hit> {
    let both = |at: usize| word(body, at).map(|word| (word as u32, (word >> 32) as u32));
    match kind {
        sys::PERF_RECORD_SAMPLE => {
            let (point, has_stack) = point(word(body, 0)?)?;
            sample(body, point, has_stack)
        }
        sys::PERF_RECORD_FORK => {
            let ((pid, parent), (tid, _)) = (both(0)?, both(8)?);
            Some(Hit::ThreadStart { pid, tid, parent, time: word(body, 16)? })
        }
        sys::PERF_RECORD_EXIT => {
            let ((pid, _), (tid, _)) = (both(0)?, both(8)?);
            Some(Hit::ThreadEnd { pid, tid, time: word(body, 16)? })
        }
        sys::PERF_RECORD_COMM if u32::from(misc) & sys::PERF_RECORD_MISC_COMM_EXEC != 0 => {
            // Behind the name come thread, time and id.
            let time = word(body, body.len().checked_sub(16)?)?;
            Some(Hit::Exec { pid: both(0)?.0, time })
        }
        sys::PERF_RECORD_LOST => Some(Hit::Lost(word(body, 8)?)),
        _ => None,
    }
}

fn sample(body: &[u8], point: usize, has_stack: bool) -> Option<Hit> {
    let ids = word(body, 8)?;
    let (pid, tid, time) = (ids as u32, (ids >> 32) as u32, word(body, 16)?);
    if word(body, 24)? == 0 {
        return None; // no registers: a thread of the kernel
    }
    let mut registers = [0; REGISTER_COUNT];
    for (at, register) in registers.iter_mut().enumerate() {
        *register = word(body, 32 + 8 * at)?;
    }
    let [a, b, c, d, e, sp] = registers;
    let is_x86 = cfg!(target_arch = "x86_64");
    let (result, arguments) = if is_x86 { (a, [d, c, b]) } else { (a, [a, b, c]) };
    if !has_stack {
        return Some(Hit::Call { point, pid, tid, time, result, arguments });
    }
    let begin = 32 + 8 * REGISTER_COUNT;
    let size = usize::try_from(word(body, begin)?).ok()?;
    let bytes = body.get(begin + 8..begin + 8 + size)?;
    let used = usize::try_from(word(body, begin + 8 + size)?).ok()?.min(size);
    let words = bytes[..used].as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let mut words: Vec<u64> = words.collect();
    let copy = if is_x86 {
        // The place of return lies on top of the stack.
        let ip = *words.first()?;
        words.remove(0);
        StackCopy { ip, sp: sp + 8, fp: e, words }
    } else {
        StackCopy { ip: e, sp, fp: d, words }
    };
    Some(Hit::Stack { point, pid, tid, time, arguments, copy })
}
