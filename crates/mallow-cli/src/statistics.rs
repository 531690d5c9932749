// SPDX-License-Identifier: MIT
//! Statistics of what the user names: a process, the file of a dump, or standard input.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::PathBuf;

use mallow_advice::explain;
use mallow_process::heap::{Heap, core_file};
use mallow_process::picture::{self, Gap, Picture};
use mallow_process::process::Keep;
use mallow_process::vitals::Vitals;
use mallow_stats::{Stats, live};

use crate::error::{Error, Result};
use crate::input;

/// The last dump counts, so of a larger file its end is read.
const LARGEST_FILE: u64 = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Process(u32),
    File(PathBuf),
    Input,
}

impl Target {
    pub fn parse(word: &OsStr) -> Target {
        match word.to_str().and_then(|word| word.parse().ok()) {
            _ if word == "-" => Target::Input,
            Some(pid) => Target::Process(pid),
            None => Target::File(word.into()),
        }
    }

    pub fn name(&self) -> String {
        match self {
            Target::Process(pid) => format!("process {pid}"),
            Target::File(path) => path.display().to_string(),
            Target::Input => "standard input".into(),
        }
    }

    /// The statistics of a dump; `None` of a process.
    pub fn dump(&self) -> Result<Option<Stats>> {
        let bytes = match self {
            Target::Process(_) => return Ok(None),
            Target::File(path) => {
                let file = input::open(path).map_err(|error| self.not_a_file(error))?;
                let head = head_of(&file);
                if core_file::is_core(&head) {
                    return self.core(file).map(Some);
                }
                self.is_not_compressed(&head)?;
                end_of(file).map_err(|error| self.not_a_file(error))?
            }
            Target::Input => {
                let input = input::open("-".as_ref()).and_then(bounded);
                let mut input = input.map_err(Error::io(self.unreadable()))?;
                let mut head = Vec::new();
                let read = input.by_ref().take(HEAD as u64).read_to_end(&mut head);
                read.map_err(Error::io(self.unreadable()))?;
                self.is_not_compressed(&head)?;
                last_of(head.chain(input), LARGEST_FILE as usize)
                    .map_err(Error::io(self.unreadable()))?
            }
        };
        match mallow_stats::read(&bytes) {
            Ok(stats) => Ok(Some(stats)),
            Err(error) => Err(Error::Damaged(format!(
                "{} cannot be read as statistics: {error}.",
                self.name()
            ))),
        }
    }

    fn is_not_compressed(&self, head: &[u8]) -> Result<()> {
        match compression(head) {
            None => Ok(()),
            Some(format) => Err(Error::Damaged(format!(
                "{} is compressed by {format}. Unpack it first; of a core file that systemd keeps, coredumpctl \
                 dump -o core PID does so.",
                self.name()
            ))),
        }
    }

    fn core(&self, file: File) -> Result<Stats> {
        let heap = core_file::read(file).map_err(Error::io(self.unreadable()))?;
        let heap = heap.map(Heap::Mallow);
        let stats = heap.as_ref().and_then(|heap| Some((heap, live::stats(heap, None)?)));
        let Some((heap, mut stats)) = stats else {
            return Err(Error::Unsupported(format!(
                "The core file {} has no heap of Mallow that can be read. The process needs to have run \
                 under Mallow, whose library has to be on this machine where it was loaded from, the \
                 same file.",
                self.name()
            )));
        };
        stats.missing.push("A core file does not say how much was in physical memory.".into());
        if heap.incomplete() > 0 {
            stats.missing.push(format!(
                "{} arenas were being changed when the process ended; their figures are a part only.",
                heap.incomplete()
            ));
        }
        Ok(stats)
    }

    fn not_a_file(&self, error: std::io::Error) -> Error {
        let remedy = "Give the number of a process, or a file with its allocator's statistics";
        match error.kind() {
            ErrorKind::NotFound => {
                Error::Usage(format!("There is no file {}. {remedy}.", self.name()))
            }
            ErrorKind::IsADirectory => {
                Error::Usage(format!("{} is a folder. {remedy}.", self.name()))
            }
            _ => Error::io(self.unreadable())(error),
        }
    }

    fn unreadable(&self) -> String {
        format!("{} cannot be read", self.name())
    }
}

/// What a file is compressed by, if its first bytes are those of a format in which core files and
/// logs are kept.
fn compression(bytes: &[u8]) -> Option<&'static str> {
    const FORMATS: [(&[u8], &str); 5] = [
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz"),
        (&[0x04, 0x22, 0x4d, 0x18], "lz4"),
        (&[0x1f, 0x8b], "gzip"),
        (b"BZh", "bzip2"),
    ];
    FORMATS.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|&(_, name)| name)
}

/// So many first bytes tell what a file is.
const HEAD: usize = 18;

/// The first bytes of a file; less of a shorter one.
fn head_of(file: &File) -> Vec<u8> {
    let mut head = vec![0; HEAD];
    let read = file.read_at(&mut head, 0).unwrap_or(0);
    head.truncate(read);
    head
}

fn end_of(mut file: File) -> std::io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    if length > LARGEST_FILE {
        file.seek(SeekFrom::Start(length - LARGEST_FILE))?;
    }
    bounded(file).and_then(|file| last_of(file, LARGEST_FILE as usize)).map_err(input::nothing_now)
}

/// A pipe ends with who writes to it; a device may have no end.
fn bounded(file: File) -> std::io::Result<impl Read> {
    let kind = file.metadata()?.file_type();
    let is_device = kind.is_char_device() || kind.is_block_device();
    Ok(file.take(if is_device { LARGEST_FILE } else { u64::MAX }))
}

/// The last `most` bytes: of several dumps the last one counts, and a pipe can be read from its start alone.
fn last_of(mut from: impl Read, most: usize) -> std::io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    // Whatever is kept moves when something is dropped: so not for each part that is read.
    let part = most / 4;
    loop {
        let read = from.by_ref().take(part as u64).read_to_end(&mut kept)?;
        if kept.len() > most + part {
            kept.drain(..kept.len() - most);
        }
        if read < part {
            break;
        }
    }
    kept.drain(..kept.len().saturating_sub(most));
    Ok(kept)
}

/// A process as it is now, and the counters of its allocator, where they can be read from outside.
pub fn of_process(pid: u32) -> Result<(Picture, Option<Stats>)> {
    let picture =
        picture::take(pid, Keep::Figures).map_err(|failure| Error::Process { pid, failure })?;
    if picture.gaps.contains(&Gap::NoMemory) {
        return Err(Error::Permission(format!(
            "The memory of process {pid} may not be read. Run mallow as root, or allow ptrace (in a \
             container: --cap-add SYS_PTRACE)."
        )));
    }
    if picture.gaps.contains(&Gap::Replaced) {
        return Err(Error::Inconclusive(explain::REPLACED.into()));
    }
    let mut stats = live::stats(&picture.heap, Some(picture.heap_rss()));
    if let Some(stats) = &mut stats {
        stats.totals.huge = Some(picture.heap_huge());
        let age = Vitals::read(pid).ok().and_then(|vitals| vitals.age());
        stats.uptime_ns = age.and_then(|age| u64::try_from(age.as_nanos()).ok());
    }
    if let Some(stats) = &mut stats
        && picture.gaps.contains(&Gap::Unused)
    {
        stats.missing.push("The program has not allocated anything by malloc yet.".into());
    }
    if let Some(stats) = &mut stats
        && picture.heap.incomplete() > 0
    {
        stats.missing.push(format!(
            "{} arenas changed all the time while they were read; their figures are a part only.",
            picture.heap.incomplete()
        ));
    }
    Ok((picture, stats))
}

/// What a walk over the heap of an allocator says whose own counters cannot be found: what lies where, and
/// nothing of what happened before.
pub fn walked(picture: &Picture) -> Option<Stats> {
    let Heap::Spans(heap) = &picture.heap else { return None };
    let mut stats = live::of_spans(heap, picture.heap_rss());
    let name = &heap.allocator;
    stats.missing.push(match name.as_str() {
        "musl" => "These figures are of a walk over the heap; musl itself counts nothing.".into(),
        _ => format!(
            "These figures are of a walk over the heap; calls, fills and locks are in what {name} \
             counts itself. {}.",
            remedy(name, picture.process.pid)
        ),
    });
    if heap.is_incomplete() {
        stats.missing.push("It changed all the time while it was read; a part is missing.".into());
    }
    Some(stats)
}

/// Why the counters of a living process cannot be had, and how they can.
pub fn unreadable(picture: &Picture) -> Error {
    let name = match &picture.heap {
        Heap::Other(other) => other.name.as_str(),
        _ => picture.allocator.as_str(),
    };
    let remedy = remedy(name, picture.process.pid);
    Error::Unsupported(format!(
        "The counters of {name} cannot be read from outside the process. {remedy}."
    ))
}

/// How an allocator is asked for what it counts.
fn remedy(name: &str, pid: u32) -> String {
    match name.split([' ', '-']).next().unwrap_or(name) {
        "jemalloc" => format!(
            "Let it write them to its standard error, and give mallow the file: start it with \
             MALLOC_CONF=stats_print:true,stats_print_opts:J, or ask it now: gdb -p {pid} -batch \
             -ex 'call (void)malloc_stats_print(0,0,\"J\")'"
        ),
        "mimalloc" => format!(
            "Ask it, and give mallow the text: gdb -p {pid} -batch -ex 'set print elements 0' -ex \
             'printf \"%s\", (char*)mi_stats_get_json(0,0)'"
        ),
        "musl" => "musl's allocator counts nothing; mallow explain shows its mappings".into(),
        _ => "mallow explain shows what it has mapped".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_stream_the_end_is_kept() {
        let all: Vec<u8> = (0..10_000u32).map(|number| number as u8).collect();
        for (most, length) in [(100, 0), (100, 99), (100, 100), (100, 10_000), (4_000, 9_999)] {
            let read = &all[..length];
            let kept = last_of(read, most).expect("it is in memory");
            assert_eq!(kept, read[length.saturating_sub(most)..], "{most} of {length}");
        }
    }
}
