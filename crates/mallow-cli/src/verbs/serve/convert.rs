// SPDX-License-Identifier: MIT
//! A heap profile in pprof's format, with names, as collectors fetch it.
//!
//! Whoever wrote the profile chose the paths in its map, and may have written the files there: so they
//! are read by a child, `mallow report`, that runs as the user of the process, in bounds of memory and time.
//! What it says is kept until the process writes another profile; that it failed is kept too.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Bytes;
use mallow_os::ChildSetup;
use tokio::io::AsyncReadExt;
use tokio::process::Child;
use tokio::sync::{OnceCell, Semaphore};

use super::profile::{Dump, Place};

/// Of one child.
const MOST_TIME: Duration = Duration::from_secs(20);
const MOST_MEMORY: u64 = 1 << 30;
const LARGEST: u64 = 32 << 20;
/// Children at a time.
const AT_A_TIME: usize = 2;
/// What is kept.
const MOST_KEPT: usize = 256;
const MOST_KEPT_BYTES: usize = 128 << 20;

/// What readers of a profile show first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Heap,
    Allocs,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Heap => "heap",
            Kind::Allocs => "allocs",
        }
    }
}

/// A process with its start, so that no other is meant by it.
pub type Process = (u32, u64);
type Outcome = Result<Bytes, String>;

struct Kept {
    process: Process,
    kind: Kind,
    identity: [u64; 5],
    outcome: Arc<OnceCell<Outcome>>,
}

pub struct Converter {
    /// The oldest first.
    kept: Mutex<Vec<Kept>>,
    places: Semaphore,
}

impl Converter {
    pub fn new() -> Converter {
        Converter { kept: Mutex::default(), places: Semaphore::new(AT_A_TIME) }
    }

    pub async fn convert(
        &self,
        process: Process,
        kind: Kind,
        uid: u32,
        place: &Place,
        dump: Dump,
    ) -> Outcome {
        let cell = self.cell(process, kind, dump.identity);
        let run = || async {
            // It is never closed.
            let _place = self.places.acquire().await;
            run(process.0, kind, uid, place, dump).await
        };
        cell.get_or_init(run).await.clone()
    }

    /// Where the outcome is, or will be.
    fn cell(&self, process: Process, kind: Kind, identity: [u64; 5]) -> Arc<OnceCell<Outcome>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |kept: &&Kept| (kept.process, kept.kind) == (process, kind);
        if let Some(found) = kept.iter().filter(is_it).find(|kept| kept.identity == identity) {
            return found.outcome.clone();
        }
        let mut bytes = 0;
        let mut places = MOST_KEPT - 1;
        let size = |kept: &Kept| match kept.outcome.get() {
            Some(Ok(bytes)) => bytes.len(),
            _ => 0,
        };
        let mut newest_first: Vec<Kept> = kept.drain(..).rev().collect();
        newest_first.retain(|kept| {
            bytes += size(kept);
            places = places.saturating_sub(1);
            bytes <= MOST_KEPT_BYTES && places > 0
        });
        kept.extend(newest_first.into_iter().rev());
        let outcome = Arc::new(OnceCell::new());
        kept.push(Kept { process, kind, identity, outcome: outcome.clone() });
        outcome
    }
}

async fn run(pid: u32, kind: Kind, uid: u32, place: &Place, dump: Dump) -> Outcome {
    let is_root = nix::unistd::geteuid().is_root();
    if place.is_elsewhere && is_root && uid == 0 {
        return Err(format!(
            "Process {pid} is root in a container: names of its functions would be looked up as root \
             here, wherever it leads. Fetch its profile with ?debug=1, and run mallow report there."
        ));
    }
    let started = start(pid, kind, uid, place, dump, is_root);
    let failed = |error| format!("The profile of process {pid} could not be read: {error}.");
    let mut child = started.map_err(failed)?;
    match tokio::time::timeout(MOST_TIME, output(&mut child)).await {
        Ok(Ok(outcome)) => outcome.map_err(|why| format!("The profile of process {pid}: {why}")),
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => {
            // Dropping it kills it.
            let most = MOST_TIME.as_secs();
            Err(format!(
                "To name the places in the profile of process {pid} took more than {most} s."
            ))
        }
    }
}

fn start(
    pid: u32,
    kind: Kind,
    uid: u32,
    place: &Place,
    dump: Dump,
    is_root: bool,
) -> std::io::Result<Child> {
    // The running file, even if it has been replaced.
    let mut command = Command::new("/proc/self/exe");
    let by = match kind {
        Kind::Heap => "leaked",
        Kind::Allocs => "bytes",
    };
    command.args(["report", "-", "--pprof", "-", "--quiet", "--by", by]);
    if place.is_elsewhere {
        command.arg("--symbols").arg(format!("/proc/{pid}/root"));
    }
    command.current_dir("/").stdin(dump.file).stdout(Stdio::piped()).stderr(Stdio::piped());
    if is_root && uid != 0 {
        // Only what that user may read is read, and nothing of ours is in the child for it to see.
        command.env_clear().uid(uid).gid(place.gid);
    }
    let setup = ChildSetup {
        dies_with_parent: true,
        most: Some((MOST_MEMORY, MOST_TIME.as_secs())),
        ..ChildSetup::default()
    };
    mallow_os::configure(&mut command, setup)?;
    tokio::process::Command::from(command).kill_on_drop(true).spawn()
}

async fn output(child: &mut Child) -> std::io::Result<Outcome> {
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(std::io::ErrorKind::BrokenPipe.into());
    };
    let (mut bytes, mut said) = (Vec::new(), Vec::new());
    let mut stdout = stdout.take(LARGEST + 1);
    let mut stderr = stderr.take(4096);
    let whole = async {
        let read = stdout.read_to_end(&mut bytes).await? as u64;
        // At once: the child waits until more is read, and its standard error stays open as long.
        if read > LARGEST { Err(std::io::ErrorKind::FileTooLarge.into()) } else { Ok(()) }
    };
    match tokio::try_join!(whole, stderr.read_to_end(&mut said)) {
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            return Ok(Err(format!("it is larger than {} MiB.", LARGEST >> 20)));
        }
        read => drop(read?),
    }
    // Closed, so that who says more than is read does not wait for us.
    drop((stdout, stderr));
    let status = child.wait().await?;
    if status.success() && !bytes.is_empty() {
        return Ok(Ok(bytes.into()));
    }
    let said = String::from_utf8_lossy(&said);
    let sentence = said.lines().rev().find_map(|line| line.strip_prefix("mallow: "));
    Ok(Err(sentence.map_or_else(
        || format!("mallow report ended with {status}; it may use {} MiB.", MOST_MEMORY >> 20),
        str::to_owned,
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Not after the time for the child: it waits for who reads.
    #[test]
    fn what_is_too_large_is_told_at_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let said = runtime.block_on(async {
            let mut command = tokio::process::Command::new("head");
            command.args(["-c", "40000000", "/dev/zero"]).kill_on_drop(true);
            let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = piped.spawn().unwrap();
            tokio::time::timeout(MOST_TIME, output(&mut child)).await
        });
        let outcome = said.expect("before the time is over").unwrap();
        assert_eq!(outcome.unwrap_err(), "it is larger than 32 MiB.");
    }
}
