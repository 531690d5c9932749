// SPDX-License-Identifier: MIT
//! A disk that is soon full.

use std::path::Path;
use std::process::Command;

use super::{Ran, is_root, mallow, ran};

/// Runs a script in a folder beside a disk of its own, `disk`, of 256 KiB, with the command as $MALLOW; `None`, visibly,
/// where none can be mounted.
pub fn beside_small_disk(folder: &Path, script: &str) -> Option<Ran> {
    std::fs::create_dir(folder.join("disk")).unwrap();
    let script = format!("mount -t tmpfs -o size=256k none disk || exit 99; {script}");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).env("MALLOW", mallow(&[]).get_program());
    command.env_remove("LD_PRELOAD").env("XDG_CONFIG_HOME", "/nonexistent");
    let found = command.current_dir(folder).output().ok().map(ran);
    let found = found.filter(|ran| is_root() && ran.code != Some(99));
    if found.is_none() {
        println!("skipped: a disk cannot be mounted here");
    }
    found
}
