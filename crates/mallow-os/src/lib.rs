// SPDX-License-Identifier: MIT
//! System calls that the `mallow` command needs and that have no safe form elsewhere: starting a
//! child that is traced, pinned or dies with its parent, and waiting for it with its resource
//! usage. All unsafe code of the tool is here.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::ptrace;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};
use nix::unistd::{Pid, getpgrp, tcgetpgrp};

pub mod signals;
pub mod threads;

/// The system's malloc. Where that has no more, Rust ends the process by SIGABRT; here a sentence and the exit code
/// of no space do.
pub struct Malloc;

// SAFETY: all blocks are those of `System`, asked for and given back as it says.
unsafe impl GlobalAlloc for Malloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is that of `System`.
        given(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { System.realloc(block, layout, size) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

fn given(block: *mut u8) -> *mut u8 {
    if block.is_null() {
        end_without_memory();
    }
    block
}

#[cold]
fn end_without_memory() -> ! {
    const SENTENCE: &[u8] =
        b"mallow: There is no memory left for this command itself. Allow it more: ulimit -v, \
                              or the limit of its control group.\n";
    // SAFETY: the text lives; nothing of this process is used any more.
    unsafe {
        libc::write(2, SENTENCE.as_ptr().cast(), SENTENCE.len());
        libc::_exit(5)
    }
}

/// From here on a panic for want of memory, of a library or of a thread that starts, is told as [`Malloc`] tells it.
pub fn tell_panics_without_memory() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if is_without_memory() {
            end_without_memory();
        }
        hook(info);
    }));
}

/// The system does not give even a mebibyte. A thread's heap may hold more than that in reserve.
fn is_without_memory() -> bool {
    const SIZE: usize = 1 << 20;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the pages are new, nobody's, and given back untouched.
    unsafe {
        let pages = libc::mmap(
            std::ptr::null_mut(),
            SIZE,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        );
        if pages != libc::MAP_FAILED {
            libc::munmap(pages, SIZE);
        }
        pages == libc::MAP_FAILED
    }
}

/// How a child differs from its parent before it runs the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChildSetup {
    /// Stop at the program's first instruction, for [`nix::sys::ptrace`].
    pub traced: bool,
    /// Kill the child when the thread that started it ends, however that happens.
    pub dies_with_parent: bool,
    /// Run on this many of the CPUs that the parent may use, the first ones.
    pub cpu_count: Option<usize>,
    /// The most memory of its own, in bytes, and time on a CPU, in seconds, that it may have. It
    /// leaves no core file then.
    pub most: Option<(u64, u64)>,
}

/// Makes `command` start its child as `setup` says, in a process group of its own.
pub fn configure(command: &mut Command, setup: ChildSetup) -> io::Result<()> {
    let cpus = match setup.cpu_count {
        Some(count) => Some(first_cpus(count)?),
        None => None,
    };
    command.process_group(0);
    // SAFETY: the closure runs between fork and exec. It makes system calls only: no allocation,
    // no lock, nothing that another thread of the parent may have left half done.
    unsafe {
        command.pre_exec(move || {
            pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
            if setup.dies_with_parent {
                nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            }
            if let Some(cpus) = &cpus {
                sched_setaffinity(Pid::from_raw(0), cpus)?;
            }
            if let Some((bytes, seconds)) = setup.most {
                setrlimit(Resource::RLIMIT_DATA, bytes, bytes)?;
                setrlimit(Resource::RLIMIT_CPU, seconds, seconds)?;
                setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
            }
            if setup.traced {
                ptrace::traceme()?;
            }
            Ok(())
        });
    }
    Ok(())
}

/// The memory that a child had, as a copy of this process, before it became its program. The kernel counts the two
/// together, so a program that never has more is said to have had as much.
pub struct StartPeak {
    /// Shared with the child; 0 until it is about to become its program.
    bytes: NonNull<AtomicU64>,
}

// SAFETY: the page is an atomic number that lives as long as this.
unsafe impl Send for StartPeak {}
// SAFETY: as above.
unsafe impl Sync for StartPeak {}

impl StartPeak {
    /// Of the child that `command` starts next.
    pub fn of(command: &mut Command) -> io::Result<Arc<StartPeak>> {
        // SAFETY: a new mapping, wherever the kernel likes.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<AtomicU64>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let page = (page != libc::MAP_FAILED).then(|| NonNull::new(page.cast())).flatten();
        let peak = Arc::new(StartPeak { bytes: page.ok_or_else(io::Error::last_os_error)? });
        let childs = Arc::clone(&peak);
        // SAFETY: between fork and exec, one system call and a write into the page, which the closure keeps.
        unsafe {
            command.pre_exec(move || {
                let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
                if libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) == 0 {
                    let peak = Usage::from(usage.assume_init()).peak_rss_bytes;
                    childs.number().store(peak, Ordering::Relaxed);
                }
                Ok(())
            });
        }
        Ok(peak)
    }

    fn number(&self) -> &AtomicU64 {
        // SAFETY: the mapping is that large, begins as zeros, and ends with this.
        unsafe { self.bytes.as_ref() }
    }

    pub fn bytes(&self) -> u64 {
        self.number().load(Ordering::Relaxed)
    }
}

impl Drop for StartPeak {
    fn drop(&mut self) {
        // SAFETY: the mapping was made for this, and nothing else points to it.
        unsafe { libc::munmap(self.bytes.as_ptr().cast(), size_of::<AtomicU64>()) };
    }
}

/// Whether whoever started this process has it ignore a signal.
pub fn is_ignored(signal: i32) -> bool {
    is_in_mask("SigIgn:", signal)
}

/// Whether this process has a handler of a signal.
pub fn is_caught(signal: i32) -> bool {
    is_in_mask("SigCgt:", signal)
}

fn is_in_mask(name: &str, signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(name));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// Whether a terminal sends what is typed there, such as Ctrl-C, to this process and to those that it started.
pub fn is_in_foreground() -> bool {
    let terminal = File::open("/dev/tty").ok();
    terminal.and_then(|terminal| tcgetpgrp(terminal).ok()) == Some(getpgrp())
}

/// The number of CPUs that this process may run on.
pub fn usable_cpu_count() -> usize {
    match sched_getaffinity(Pid::from_raw(0)) {
        Ok(set) => (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).count(),
        Err(_) => 1,
    }
}

fn first_cpus(count: usize) -> io::Result<CpuSet> {
    let usable = sched_getaffinity(Pid::from_raw(0))?;
    let mut chosen = CpuSet::new();
    let cpus = (0..CpuSet::count()).filter(|&cpu| usable.is_set(cpu).unwrap_or(false));
    for cpu in cpus.take(count) {
        chosen.set(cpu)?;
    }
    Ok(chosen)
}

/// A file descriptor that polls as readable when the process has ended.
pub fn pidfd_open(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Sends SIGSTOP to the main thread of a traced process, and to no other: sent to the process, it
/// could reach a thread that is not traced, and stop all of them until somebody sends SIGCONT.
pub fn stop_main_thread(pid: u32) -> io::Result<()> {
    let pid = pid as libc::pid_t;
    // SAFETY: tgkill takes three integers.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, pid, pid, libc::SIGSTOP) };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives this process's free memory back. A child begins as a copy of its parent, and the kernel
/// counts that copy in the child's peak memory: it has to be small.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Whether the file carries capabilities, which make the loader ignore LD_PRELOAD.
pub fn has_file_capabilities(path: &std::path::Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both strings end with a zero; a null buffer of size 0 only asks for the size.
    let size = unsafe {
        libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0)
    };
    size > 0
}

/// How many bytes from `start` to `end`, both at page boundaries, are present in memory, by the
/// open `/proc/PID/pagemap`. The kernel passes over what was never touched, however large it is. An
/// error where it cannot do that (before Linux 6.7) or the process has gone.
pub fn present_bytes(pagemap: &std::fs::File, start: u64, end: u64) -> io::Result<u64> {
    /// `struct page_region` and `struct pm_scan_arg` of linux/fs.h.
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Region {
        start: u64,
        end: u64,
        categories: u64,
    }
    #[repr(C)]
    #[derive(Default)]
    struct Scan {
        size: u64,
        flags: u64,
        start: u64,
        end: u64,
        walk_end: u64,
        regions: u64,
        region_count: u64,
        max_pages: u64,
        category_inverted: u64,
        category_mask: u64,
        category_anyof_mask: u64,
        return_mask: u64,
    }
    const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
    const PAGE_IS_PRESENT: u64 = 1 << 3;
    let mut regions = [Region::default(); 256];
    let (mut at, mut present) = (start, 0);
    while at < end {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start: at,
            end,
            regions: regions.as_mut_ptr() as u64,
            region_count: regions.len() as u64,
            category_mask: PAGE_IS_PRESENT,
            return_mask: PAGE_IS_PRESENT,
            ..Scan::default()
        };
        // SAFETY: the kernel writes to `scan` and to as many regions as it says, both of which
        // live.
        let found = unsafe {
            libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, std::ptr::from_mut(&mut scan))
        };
        let found = usize::try_from(found).map_err(|_| io::Error::last_os_error())?;
        let pieces = regions.iter().take(found);
        present += pieces.map(|region| region.end.saturating_sub(region.start)).sum::<u64>();
        if scan.walk_end <= at {
            break;
        }
        at = scan.walk_end;
    }
    Ok(present)
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Code(i32),
    Signal(i32),
}

impl From<ExitStatus> for Ending {
    fn from(status: ExitStatus) -> Ending {
        match (status.code(), status.signal()) {
            (Some(code), _) => Ending::Code(code),
            (None, signal) => Ending::Signal(signal.unwrap_or(libc::SIGKILL)),
        }
    }
}

/// What a process and its waited-for children used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub user: Duration,
    pub system: Duration,
    /// Of the largest single process.
    pub peak_rss_bytes: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
}

/// Waits until the child `pid` has ended, and reaps it.
pub fn wait4(pid: u32) -> io::Result<(Ending, Usage)> {
    loop {
        let mut status = 0;
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: both pointers are to live variables of the right types.
        let waited = unsafe { libc::wait4(pid as libc::pid_t, &mut status, 0, usage.as_mut_ptr()) };
        if waited < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        // SAFETY: all bytes zero is a valid rusage, and wait4 has filled it.
        let usage = unsafe { usage.assume_init() };
        if libc::WIFEXITED(status) {
            return Ok((Ending::Code(libc::WEXITSTATUS(status)), Usage::from(usage)));
        }
        if libc::WIFSIGNALED(status) {
            return Ok((Ending::Signal(libc::WTERMSIG(status)), Usage::from(usage)));
        }
    }
}

impl From<libc::rusage> for Usage {
    fn from(usage: libc::rusage) -> Usage {
        Usage {
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
            peak_rss_bytes: usage.ru_maxrss as u64 * 1024,
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)
}

/// Whether the descriptor became readable in time; a signal ends the wait early.
pub fn wait_readable(fd: &impl AsFd, wait: Duration) -> std::io::Result<bool> {
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
    match poll(&mut fds, timeout) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether no more files may be open, in this process or on this machine.
pub fn is_out_of_files(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw);
    matches!(number, Some(Errno::EMFILE | Errno::ENFILE))
}

/// What the system said, behind a colon.
pub fn reason(error: &io::Error) -> String {
    match is_out_of_files(error) {
        true => "there may be no more open files; allow more (ulimit -n)".to_owned(),
        false => error.to_string(),
    }
}

/// Opens a file that has an end. A pipe would wait for a writer, a device may go on for ever; that they are opened is
/// something that they notice, so they are not.
pub fn open_plain(path: &Path) -> io::Result<File> {
    check_plain(&std::fs::metadata(path)?)?;
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    check_plain(&file.metadata()?)?; // it may be another one by now
    Ok(file)
}

fn check_plain(of: &Metadata) -> io::Result<()> {
    // A folder says so itself when it is read.
    match of.is_file() || of.is_dir() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no plain file")),
    }
}

/// All of a file that has an end.
pub fn read_plain(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_plain(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// `SIGSEGV`, or `signal 40`.
pub fn signal_name(signal: i32) -> String {
    match Signal::try_from(signal) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("signal {signal}"),
    }
}

#[cfg(test)]
// wait4() reaps the children.
#[allow(clippy::zombie_processes)]
mod tests {
    use super::*;

    fn run(script: &str, setup: ChildSetup) -> (Ending, Usage) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        configure(&mut command, setup).expect("affinity can be read");
        let child = command.spawn().expect("sh starts");
        wait4(child.id()).expect("the child is ours")
    }

    #[test]
    fn endings_are_told_apart() {
        assert_eq!(run("exit 7", ChildSetup::default()).0, Ending::Code(7));
        assert_eq!(run("kill -SEGV $$", ChildSetup::default()).0, Ending::Signal(libc::SIGSEGV));
    }

    #[test]
    fn usage_is_the_childs() {
        let (ending, usage) =
            run("i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done", ChildSetup::default());
        assert_eq!(ending, Ending::Code(0));
        assert!(usage.user > Duration::ZERO);
        assert!(usage.peak_rss_bytes > 100 * 1024);
        assert!(usage.minor_faults > 10);
    }

    /// Run by the test below, in a process of its own.
    #[test]
    #[ignore = "ends its process"]
    fn panics_as_it_is_told() {
        tell_panics_without_memory();
        if std::env::var_os("WITHOUT_MEMORY").is_some() {
            setrlimit(Resource::RLIMIT_AS, 1, 1).expect("a limit may be lowered");
        }
        panic!("a library has no context");
    }

    #[test]
    fn panics_without_memory_are_told_as_that() {
        let panicked = |without_memory| {
            let mut command = Command::new(std::env::current_exe().expect("this test is a file"));
            command.args(["--ignored", "--exact", "--nocapture", "tests::panics_as_it_is_told"]);
            if without_memory {
                command.env("WITHOUT_MEMORY", "");
            }
            let output = command.output().expect("it starts");
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let (code, said) = panicked(true);
        assert_eq!(code, Some(5), "{said}");
        assert!(said.starts_with("mallow: There is no memory left"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        let (code, said) = panicked(false);
        assert_eq!(code, Some(101), "{said}");
        assert!(said.contains("a library has no context"), "{said}");
    }

    /// A writer that waits for a reader goes on waiting.
    #[test]
    fn pipes_are_not_opened() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe can be made");
        let mut writer = Command::new("/bin/sh")
            .args(["-c", "echo text >\"$0\""])
            .arg(&pipe)
            .spawn()
            .expect("sh starts");
        for _ in 0..50 {
            assert!(open_plain(&pipe).is_err());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(writer.try_wait().expect("the child is ours"), None);
        writer.kill().expect("it runs");
        writer.wait().expect("the child is ours");
    }

    #[test]
    fn child_is_pinned() {
        let setup = ChildSetup { cpu_count: Some(1), ..ChildSetup::default() };
        assert_eq!(run("exit $(nproc)", setup).0, Ending::Code(1));
    }

    #[test]
    fn pidfd_becomes_readable_at_the_end() {
        let child = Command::new("/bin/true").spawn().expect("true starts");
        let pidfd = pidfd_open(child.id()).expect("the kernel has pidfds");
        let mut poll = libc::pollfd {
            fd: std::os::fd::AsRawFd::as_raw_fd(&pidfd),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid pollfd.
        let ready = unsafe { libc::poll(&mut poll, 1, 10_000) };
        assert_eq!(ready, 1);
        wait4(child.id()).expect("the child is ours");
    }
}
