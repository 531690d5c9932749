// SPDX-License-Identifier: MIT
//! Processes that the command started and that are not recorded: what `env -i`, sudo or a static program
//! becomes has no recorder, and what another user starts anew cannot open the recording. Those that live
//! for a second are seen.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use mallow_launch::embedded;
use mallow_process::descendants;
use mallow_process::stat::{Start, Stat};
use mallow_recorder::CHANNEL_NAME;
use nix::unistd::geteuid;

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

/// Whether it has the shared memory, or the recorder, which opens that with the first call; as another user
/// it cannot. Also true of one that is just ending.
fn is_recorded(pid: u32) -> bool {
    let maps = match std::fs::read(format!("/proc/{pid}/maps")) {
        Ok(maps) => maps,
        Err(error) => return error.kind() != ErrorKind::PermissionDenied,
    };
    let has = |name: &[u8]| maps.windows(name.len()).any(|part| part == name);
    let is_ours = || {
        let owner = std::fs::metadata(format!("/proc/{pid}")).map(|folder| folder.uid());
        owner.is_ok_and(|owner| owner == geteuid().as_raw())
    };
    maps.is_empty()
        || has(&[b"/memfd:", CHANNEL_NAME.to_bytes()].concat())
        || (has(embedded::RECORDER.file.as_bytes()) && is_ours() && sees_us(pid))
}
