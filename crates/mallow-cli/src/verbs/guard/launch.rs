// SPDX-License-Identifier: MIT
//! Runs the command, and collects what its allocator says of it.

use std::ffi::OsString;
use std::fs::{File, Permissions, set_permissions};
use std::io::{PipeReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mallow_faults::Fault;
use mallow_faults::glibc::{self, Message};
use mallow_launch::{Prepared, installed};
use mallow_measure::run;
use mallow_os::Ending;
use mallow_os::signals::ForCommand;
use mallow_os::threads::{self, why_not_started};
use mallow_process::elf::Libc;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::signal::Signal;

use super::args::{GuardArgs, Mode};
use super::unguarded::Unguarded;
use crate::error::{Error, Result};
use crate::output::{Format, Notes};
use crate::{passing, signals};

/// Where Mallow's builds look for the file of the report.
const REPORT_VARIABLE: &str = "MALLOW_FAULT_REPORT";
/// glibc's debugging library, since 2.34.
const DEBUG_LIBRARY: &str = "libc_malloc_debug.so.0";
/// Aborts at a fault, with a message.
const DEBUG_TUNABLE: &str = "glibc.malloc.check=3";
/// About one block in so many lies between guards, in the mode for production.
const RATE_OPTION: &str = "guard_sample";
const RATE: &str = "5000";
const PAUSE: Duration = Duration::from_millis(10);
/// Of the report: a fault takes some KiB, most of it the mappings. What finds no room would not be found at all.
const ROOM: i64 = 64 << 10;
/// As the kernel makes a pipe.
const PIPE_BYTES: usize = 64 << 10;
/// Of a line nothing behind it is kept: messages are shorter.
const LONGEST_LINE: usize = 4096;

/// What became of the command.
#[derive(Debug)]
pub struct Outcome {
    /// As a shell would say it.
    pub code: u8,
    pub signal: Option<i32>,
    pub faults: Vec<Fault>,
    /// Messages of the C library, with what they mean.
    pub messages: Vec<(String, Message)>,
    /// What to tell of processes that were not guarded.
    pub unguarded: Option<String>,
}

pub fn run(args: &GuardArgs, notes: Notes) -> Result<Outcome> {
    // In a folder that goes with it, so that nobody can make the file anew: children may outlive the command.
    let no_place = "There is no place for the report; set TMPDIR to a folder with room";
    let folder =
        tempfile::Builder::new().prefix("mallow-guard-").tempdir().map_err(Error::io(no_place))?;
    let report = folder.path().join("report");
    let file = File::create(&report).map_err(Error::io(no_place))?;
    let room = fallocate(&file, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, ROOM);
    // Not all file systems can keep it free.
    if let Err(error @ (Errno::ENOSPC | Errno::EDQUOT)) = room {
        return Err(Error::io(no_place)(error.into()));
    }
    let unwritten = folder.path().join("report.unwritten");
    std::fs::write(&unwritten, 0_u32.to_ne_bytes()).map_err(Error::io(no_place))?;
    // A process of the command may become another user before its fault: anybody who knows the name may add to it.
    for (path, mode) in [(folder.path(), 0o711), (&report, 0o622), (&unwritten, 0o666)] {
        set_permissions(path, Permissions::from_mode(mode)).map_err(Error::io(no_place))?;
    }
    let prepared = prepare(args, notes)?;
    let mut command = prepared.command();
    command.env(REPORT_VARIABLE, &report);
    let errors = match args.mode {
        Mode::Glibc => Some(debug_library(&mut command, &prepared)?),
        _ => None,
    };
    if args.output.to.file.is_none() && args.output.chosen_format() != Format::Table {
        // Standard output is for the result.
        command.stdout(std::io::stderr());
    }
    // Ctrl-\ ends the command if that does not answer it otherwise, as a JVM does with the stacks of its threads.
    let passed_on = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];
    let passed_on = ForCommand::catch(&passed_on).map_err(Error::io(signals::NO_HANDLER))?;
    let has_ended = AtomicBool::new(false);
    let mut unguarded = Unguarded::new(library(args.mode, &prepared));
    let (status, messages) = std::thread::scope(|scope| -> Result<_> {
        // Before the command, which does not begin where its messages cannot be read.
        let read = |pipe| threads::spawn_scoped(scope, "errors", || pass_on(pipe, &has_ended));
        let reader = errors.map(read).transpose()?;
        let status = start(command, &prepared.target.command)
            .and_then(|child| wait(child, &passed_on, &mut unguarded));
        has_ended.store(true, Ordering::Release);
        Ok((status?, reader.map_or_else(Vec::new, |reader| reader.join().unwrap_or_default())))
    })?;
    let mut faults = read(&report)?;
    let lost = lost(&unwritten, &faults)?;
    faults.extend(lost);
    Ok(Outcome {
        code: run::Outcome::from(Ending::from(status)).code(),
        signal: status.signal(),
        faults,
        messages,
        unguarded: unguarded.note(),
    })
}

/// The name of the file that watches over the command.
fn library(mode: Mode, prepared: &Prepared) -> String {
    let path = prepared.allocator.as_ref().and_then(|allocator| allocator.path.as_ref());
    match (mode, path.and_then(|path| path.file_name())) {
        (Mode::Glibc, _) | (_, None) => DEBUG_LIBRARY.into(),
        (_, Some(file)) => file.to_string_lossy().into_owned(),
    }
}

fn prepare(args: &GuardArgs, notes: Notes) -> Result<Prepared> {
    let note = |sentence: &str| notes.note(sentence);
    let (name, mut options) = match args.mode {
        Mode::Debug => ("mallow-debug", args.options.clone()),
        Mode::Secure => ("mallow-secure", args.options.clone()),
        Mode::Sample => ("mallow", sampled(&args.options)),
        Mode::Glibc => ("glibc", args.options.clone()),
    };
    if args.leaks {
        options.push(("leak_check".into(), "true".into()));
    }
    Ok(mallow_launch::prepare(&args.command.words, Some(name), &options, &note)?.checked()?)
}

/// The options with those of guarded blocks; what the user says of them holds.
fn sampled(options: &[(String, String)]) -> Vec<(String, String)> {
    let mut options = options.to_vec();
    if options.iter().all(|(key, _)| key != RATE_OPTION) {
        options.push((RATE_OPTION.into(), RATE.into()));
    }
    options
}

/// Without the command itself, which holds the other end of its pipe.
fn start(mut command: Command, name: &str) -> Result<Child> {
    command.spawn().map_err(|error| Error::NotStarted {
        command: name.to_owned(),
        reason: why_not_started(&error),
    })
}

/// Puts glibc's own checks in front of the program. Its messages are to be read from the pipe.
fn debug_library(command: &mut Command, prepared: &Prepared) -> Result<PipeReader> {
    let libc = prepared.target.libc();
    if libc != Some(Libc::Glibc) {
        return Err(Error::Unsupported(format!(
            "{} does not use glibc, whose debugging library is for its programs only. Leave out \
             --mode glibc.",
            prepared.target.command
        )));
    }
    if installed::by_name(Path::new("/"), DEBUG_LIBRARY, libc).is_none() {
        return Err(Error::Unsupported(format!(
            "{DEBUG_LIBRARY} is not installed: it comes with glibc 2.34 and later. Leave out \
             --mode glibc."
        )));
    }
    let joined = |name: &str, own: &str, separator: &str| {
        let set = command.get_envs().find(|(key, _)| *key == name).map(|(_, value)| value);
        let before = set.map_or_else(|| std::env::var_os(name), |value| value.map(Into::into));
        let mut words = OsString::from(own);
        if let Some(before) = before.filter(|before| !before.is_empty()) {
            words.push(separator);
            words.push(before);
        }
        words
    };
    let libraries = joined("LD_PRELOAD", DEBUG_LIBRARY, ":");
    let tunables = joined("GLIBC_TUNABLES", DEBUG_TUNABLE, ":");
    command.env("LD_PRELOAD", libraries).env("GLIBC_TUNABLES", tunables);
    // Messages go to standard error, not to the terminal.
    let (errors, writer) = std::io::pipe().map_err(Error::io("A pipe for standard error"))?;
    command.env("LIBC_FATAL_STDERR_", "1").stderr(writer);
    Ok(errors)
}

/// Passes on what the command writes, and keeps the messages of its C library.
fn pass_on(pipe: PipeReader, has_ended: &AtomicBool) -> Vec<(String, Message)> {
    let (mut messages, mut line) = (Vec::new(), Vec::new());
    let mut note = |line: &mut Vec<u8>| {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end();
        messages.extend(glibc::read(text).map(|message| (text.to_owned(), message)));
        line.clear();
    };
    passing::read(pipe, has_ended, PIPE_BYTES, |piece| {
        // Nobody may be there to read it.
        let _ = std::io::stderr().write_all(piece);
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(&part[..part.len().min(LONGEST_LINE - line.len())]);
            if part.ends_with(b"\n") {
                note(&mut line);
            }
        }
    });
    note(&mut line);
    messages
}

/// Waits for the command. An interruption is the command's to answer.
fn wait(mut child: Child, passed_on: &ForCommand, unguarded: &mut Unguarded) -> Result<ExitStatus> {
    loop {
        if let Some(status) =
            child.try_wait().map_err(Error::io("The command cannot be waited for"))?
        {
            passed_on.end();
            return Ok(status);
        }
        passed_on.pass_on(child.id());
        unguarded.look(child.id());
        std::thread::sleep(PAUSE);
    }
}

fn read(path: &Path) -> Result<Vec<Fault>> {
    let text = std::fs::read(path).map_err(Error::io("The report cannot be read"))?;
    Ok(mallow_faults::read(&text))
}

/// What is said of faults whose processes could not write a report, such as those that can open no file any more.
fn lost(unwritten: &Path, reports: &[Fault]) -> Result<Option<Fault>> {
    let bytes = std::fs::read(unwritten).map_err(Error::io("The report cannot be read"))?;
    let count = <[u8; 4]>::try_from(bytes.as_slice()).map_or(0, u32::from_ne_bytes);
    let cut_off = reports.iter().filter(|fault| !fault.is_whole).count();
    let sentence = match (count as usize).saturating_sub(cut_off) {
        0 => return Ok(None),
        1 => {
            "a process could not report its fault: the sentence is on its standard error".to_owned()
        }
        count => format!(
            "processes could not report {count} faults: the sentences are on their standard error"
        ),
    };
    Ok(Some(Fault { sentence, is_whole: true, ..Fault::default() }))
}
