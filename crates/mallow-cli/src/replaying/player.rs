// SPDX-License-Identifier: MIT
//! The program that carries a plan out, started on one allocator after the other.

use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::ValueEnum;
use mallow_launch::allocator;
use mallow_launch::contender::{self, Choice, Contender};
use mallow_launch::embedded::{self, Library};
use mallow_launch::preflight;
use mallow_launch::preload::{self, Changes};
use mallow_launch::target::Target;
use mallow_launch::words;
use mallow_os::threads::why_not_started;
use mallow_os::{ChildSetup, Ending, signal_name};
use mallow_process::allocators::Family;
use mallow_replay::fidelity::Objection;
use mallow_replay::{Run, Summary};

use super::input::Input;
use crate::error::{Error, Result};

static PLAYER: Library = Library {
    name: "player",
    file: "mallow-player",
    hash: mallow_replay::PLAYER_HASH,
    bytes: mallow_replay::PLAYER,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Touch {
    /// The first byte of each page of a block
    Pages,
    /// Every byte
    All,
    /// Nothing
    None,
}

#[derive(Clone, Debug)]
pub struct Player {
    program: PathBuf,
    pub target: Target,
    shared: Vec<PathBuf>,
    touch: Touch,
}

impl Player {
    pub fn new(touch: Touch) -> Result<Player> {
        let program = embedded::materialise(&PLAYER)?;
        let target = Target::resolve(program.as_os_str())?;
        Ok(Player { program, target, shared: Vec::new(), touch })
    }

    /// From now on these allocators play the calls of that process.
    pub fn prepare(&mut self, summary: &Summary, contenders: &[Contender]) {
        self.shared = shared_libraries(summary, &self.target, contenders);
    }

    /// One run of the player; how it failed, if it did.
    pub fn play(
        &self,
        input: &Input,
        contender: &Contender,
        mode: &str,
        count: bool,
    ) -> Result<std::result::Result<Run, String>> {
        let name = self.program.display().to_string();
        let failed = |error: std::io::Error| Error::NotStarted {
            command: name.clone(),
            reason: why_not_started(&error),
        };
        let touch = match self.touch {
            Touch::Pages => "pages",
            Touch::All => "all",
            Touch::None => "none",
        };
        let mut command = Command::new(&self.program);
        command
            .arg(format!("/proc/{}/fd/{}", std::process::id(), input.plan.file.as_raw_fd()))
            .args([mode, touch])
            .args(count.then_some("count"))
            .args(input.summary.no_huge_pages.then_some("small-pages"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let is_system = contender.allocator.family == Family::System;
        let changes = preload::with_libraries(&contender.changes, is_system, &self.shared);
        mallow_launch::preload::apply(&mut command, &changes);
        let setup = ChildSetup { dies_with_parent: true, ..ChildSetup::default() };
        mallow_os::configure(&mut command, setup).map_err(failed)?;
        let output = command.spawn().and_then(|child| child.wait_with_output()).map_err(failed)?;
        if output.status.success() {
            let run = serde_json::from_slice(&output.stdout);
            return run.map(Ok).map_err(|error| Error::Internal(format!("the player: {error}")));
        }
        let words = String::from_utf8_lossy(&output.stderr);
        let words = words.lines().next().unwrap_or_default().trim();
        Ok(Err(describe_failure(output.status, words)))
    }

    /// A lockstep run on the allocator of the recording.
    pub fn reference(&self, input: &Input) -> Result<std::result::Result<Run, Objection>> {
        let name = input.recorded_allocator();
        let named = match &input.header.allocator_path {
            Some(path) if Path::new(path).exists() => format!("{name}={path}"),
            _ => name.clone(),
        };
        let missing = || Objection::NotInstalled { allocator: name.clone() };
        if allocator::find(&named, self.target.libc()).is_err() {
            return Ok(Err(missing()));
        }
        let choice = Choice {
            allocators: &[named],
            baseline: None,
            secure: false,
            debug: false,
            options: &[],
        };
        let chosen = contender::choose(choice, &self.target, &|_| {});
        let Some(contender) = chosen.ok().and_then(|chosen| chosen.into_iter().next()) else {
            return Ok(Err(missing()));
        };
        let run = self.play(input, &contender, "lockstep", false)?;
        Ok(run.map_err(|reason| Objection::Failed { reason }))
    }
}

/// Libraries that the recorded program is linked with and an allocator brings along too: the C++
/// runtime, or another allocator. The player loads them each time, so that they count for nobody.
/// None where the program is not on this machine.
fn shared_libraries(summary: &Summary, target: &Target, contenders: &[Contender]) -> Vec<PathBuf> {
    let objects = |target: &Target, changes: &Changes| {
        preflight::list_objects(target, changes).map_or(Vec::new(), |(objects, _)| objects)
    };
    let is_in = |objects: &[PathBuf], path: &Path| {
        objects.iter().any(|one| preflight::same_file(one, path))
    };
    let Ok(program) = Target::resolve(summary.executable.as_ref()) else { return Vec::new() };
    let own = objects(target, &Changes::new());
    let brought: Vec<PathBuf> =
        contenders.iter().flat_map(|contender| objects(target, &contender.changes)).collect();
    let linked = objects(&program, &Changes::new()).into_iter();
    linked
        .filter(|path| is_in(&brought, path) && !is_in(&own, path))
        .filter(|path| !words::has_separator(path.as_os_str()))
        .collect()
}

fn describe_failure(status: std::process::ExitStatus, words: &str) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    let ending = match (status.signal(), status.code()) {
        (Some(signal), _) => Ending::Signal(signal),
        (None, code) => Ending::Code(code.unwrap_or(1)),
    };
    let how = match ending {
        Ending::Signal(signal) => format!("the player was killed by {}", signal_name(signal)),
        Ending::Code(code) => format!("the player ended with exit code {code}"),
    };
    if words.is_empty() { how } else { format!("{how}: {words}") }
}
