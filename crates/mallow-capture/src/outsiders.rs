// SPDX-License-Identifier: MIT
//! Processes that the command started and that are not recorded: what `env -i`, sudo or a static program
//! becomes has no recorder, and what another user, or one in a user namespace, starts anew may not open the
//! recording. Those that live for a second are seen.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use mallow_launch::embedded;
use mallow_process::stat::{Start, Stat};
use mallow_process::{descendants, smaps};
use mallow_recorder::CHANNEL_NAME;
use nix::unistd::geteuid;

/// What may be so of a process that is not recorded.
pub const WHY_OUTSIDE: &str = "had another environment, as by env -i or sudo, cannot be preloaded, or may not open \
                               the recording (another user, user namespace or /proc, fewer capabilities)";

const EVERY: Duration = Duration::from_millis(500);
/// Of more the names are not kept.
const MOST: usize = 1000;

#[derive(Clone, Copy)]
enum Standing {
    Recorded,
    /// At the last look for the first time, perhaps before the loader had mapped the recorder.
    Unsure,
    Outside,
}

#[derive(Default)]
pub struct Outsiders {
    last: Option<Instant>,
    known: HashMap<(u32, Start), Standing>,
    names: Vec<String>,
}

impl Outsiders {
    /// Looks at the process and all that descend from it, if it is time to.
    pub fn look(&mut self, root: u32) {
        if self.last.is_some_and(|last| last.elapsed() < EVERY) {
            return;
        }
        self.last = Some(Instant::now());
        let mut processes = Vec::new();
        descendants(root, &mut processes);
        let mut known = HashMap::new();
        for pid in processes {
            let Ok(stat) = Stat::read(pid) else { continue };
            if stat.is_zombie() {
                continue;
            }
            // Another program in the same process is another one.
            let program = (pid, stat.start);
            let standing = match self.known.get(&program) {
                Some(&known @ (Standing::Recorded | Standing::Outside)) => known,
                _ if is_recorded(pid) => Standing::Recorded,
                None => Standing::Unsure,
                Some(Standing::Unsure) => {
                    if self.names.len() < MOST {
                        self.names.push(stat.comm);
                    }
                    Standing::Outside
                }
            };
            known.insert(program, standing);
        }
        self.known = known;
    }

    /// One name for each.
    pub fn into_names(self) -> Vec<String> {
        self.names
    }
}

/// Whether its /proc is ours: there the recorder opens the shared memory.
fn sees_us(pid: u32) -> bool {
    let ours = std::fs::read_link("/proc/self/exe");
    let seen = std::fs::read_link(format!("/proc/{pid}/root/proc/{}/exe", std::process::id()));
    // Who may not be looked at that closely is not doubted.
    match seen {
        Ok(seen) => ours.is_ok_and(|ours| ours == seen),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// Whether the kernel lets it open the shared memory: to who has our user, our user namespace, and all that we
/// may or the right to trace.
fn may_open(pid: u32) -> bool {
    const TRACE: u64 = 1 << 19; // CAP_SYS_PTRACE
    let owner = std::fs::metadata(format!("/proc/{pid}")).map(|folder| folder.uid());
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/user")).ok();
    let pid = pid.to_string();
    let ours = capabilities("self", "CapPrm").unwrap_or(0);
    let its = capabilities(&pid, "CapEff").unwrap_or(0);
    owner.is_ok_and(|owner| owner == geteuid().as_raw())
        && namespace(&pid) == namespace("self")
        && (ours & !its == 0 || its & TRACE != 0)
}

fn capabilities(process: &str, set: &str) -> Option<u64> {
    let status = std::fs::read(format!("/proc/{process}/status")).ok()?;
    let fields = smaps::parse_fields(&String::from_utf8_lossy(&status));
    u64::from_str_radix(fields.get(set)?, 16).ok()
}

/// Whether it has the shared memory, or the recorder, which opens that with the first call, where it may. Also
/// true of one that is just ending.
fn is_recorded(pid: u32) -> bool {
    let maps = match std::fs::read(format!("/proc/{pid}/maps")) {
        Ok(maps) => maps,
        Err(error) => return error.kind() != ErrorKind::PermissionDenied,
    };
    let has = |name: &[u8]| maps.windows(name.len()).any(|part| part == name);
    maps.is_empty()
        || has(&[b"/memfd:", CHANNEL_NAME.to_bytes()].concat())
        || (has(embedded::RECORDER.file.as_bytes()) && may_open(pid) && sees_us(pid))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Of a `cat` that is started through these words; `None` where they do not start it.
    fn may_open_behind(words: &[&str]) -> Option<bool> {
        let words = [words, &["cat"]].concat();
        let mut command = Command::new(words[0]);
        let mut child = command.args(&words[1..]).stdin(Stdio::piped()).spawn().ok()?;
        let pid = child.id();
        // Reads what nobody writes.
        let waits = |stat: Stat| stat.comm == "cat" && stat.state == 'S';
        while !Stat::read(pid).is_ok_and(waits) {
            if child.try_wait().unwrap().is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let answer = may_open(pid);
        child.kill().unwrap();
        child.wait().unwrap();
        Some(answer)
    }

    #[test]
    fn the_kernel_opens_the_recording_to_who_has_our_rights() {
        assert_eq!(may_open_behind(&[]), Some(true));
        let without: [&[&str]; 3] = [
            &["unshare", "-U"],
            &["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"],
            &["setpriv", "--bounding-set", "-all"],
        ];
        for words in without {
            match may_open_behind(words) {
                Some(answer) => assert!(!answer, "{words:?}"),
                None => println!("skipped: {words:?} does not work here"),
            }
        }
    }
}
