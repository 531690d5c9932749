// SPDX-License-Identifier: MIT
//! `mallow enable` and `disable` beside others of their kind, and without a record.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};

use crate::common::system::{RECORD, SCRIPT, System};

fn hold(folder: &Path) -> Flock<File> {
    Flock::lock(File::open(folder).unwrap(), FlockArg::LockExclusive).unwrap()
}

fn begin(system: &System, words: &[&str]) -> Child {
    let mut command = system.mallow(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until the process waits for a lock on this inode; false if it ended before.
fn waits_for(child: &mut Child, inode: u64) -> bool {
    let begin = Instant::now();
    let (pid, file) = (format!(" {} ", child.id()), format!(":{inode} "));
    while begin.elapsed() < Duration::from_secs(120) {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        if locks
            .lines()
            .any(|line| line.contains("->") && line.contains(&pid) && line.contains(&file))
        {
            return true;
        }
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it neither waits for a lock nor ends");
}

/// The folder that a call waits for is taken away by who held it, and made again by a third.
#[test]
fn a_lock_on_a_folder_that_is_gone_is_none() {
    let system = System::new();
    let before = system.everything();
    let folder = system.path(RECORD).parent().unwrap().to_owned();
    fs::create_dir(&folder).unwrap();
    let first = hold(&folder);
    let inode = folder.metadata().unwrap().ino();
    let mut child = begin(&system, &["enable", "--global"]);
    assert!(waits_for(&mut child, inode));
    fs::remove_dir(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    let second = hold(&folder);
    drop(first);
    assert!(waits_for(&mut child, folder.metadata().unwrap().ino()), "it goes on beside another");
    assert!(!system.path(SCRIPT).exists());
    // Nor does who finds nothing to undo take the folder of who is at work.
    system.succeeds(&["disable", "--all"]);
    assert!(folder.exists());
    drop(second);
    assert!(child.wait().unwrap().success());
    system.succeeds(&["disable", "--all"]);
    system.is(&before);
}

/// What is undone is what is enabled once it is this call's turn.
#[test]
fn what_another_enabled_meanwhile_is_undone_too() {
    let (system, other) = (System::new(), System::new());
    let before = system.everything();
    system.succeeds(&["enable", "--global"]);
    other.succeeds(&["enable", "--global", "-a", "mallow-secure"]);
    let folder = system.path(RECORD).parent().unwrap().to_owned();
    let lock = hold(&folder);
    let mut child = begin(&system, &["disable", "--global"]);
    assert!(waits_for(&mut child, folder.metadata().unwrap().ino()));
    for name in [RECORD, SCRIPT] {
        fs::copy(other.path(name), system.path(name)).unwrap();
    }
    drop(lock);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("mallow-secure is disabled"));
    system.is(&before);
}

/// A program that is tried out or compared may take its time until then.
#[test]
fn what_was_added_to_the_loaders_list_meanwhile_stays() {
    let system = System::new();
    let list = "etc/ld.so.preload";
    system.write(list, "/opt/agent.so\n");
    let folder = system.path(RECORD).parent().unwrap().to_owned();
    fs::create_dir(&folder).unwrap();
    let lock = hold(&folder);
    let mut child = begin(&system, &["enable", "--ld-so-preload"]);
    assert!(waits_for(&mut child, folder.metadata().unwrap().ino()));
    system.write(list, "/opt/agent.so\n/opt/more.so\n");
    let before = system.text(list);
    drop(lock);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(system.text(list), format!("/usr/lib/libmallow.so\n{before}"));
    system.succeeds(&["disable", "--ld-so-preload"]);
    assert_eq!(system.text(list), before);
}

/// Where /var is made anew, /etc may stay.
#[test]
fn what_mallow_wrote_is_its_own_without_a_record_too() {
    let system = System::new();
    let before = system.everything();
    system.succeeds(&["enable", "--global"]);
    fs::remove_dir_all(system.path("var/lib/mallow")).unwrap();
    let said = system.succeeds(&["disable", "--all"]);
    let remedy = format!("to undo that, remove {}.", system.path(SCRIPT).display());
    assert!(said.contains(&remedy), "{said}");
    let said = system.succeeds(&["enable", "--global", "-a", "mallow-secure"]);
    assert!(!said.contains("is kept"), "{said}");
    system.succeeds(&["disable", "--all"]);
    system.is(&before);
    // A script of somebody else that says the same comes back.
    system.write(SCRIPT, "# mine\nexport LD_PRELOAD=libmallow.so\n");
    let before = system.everything();
    let said = system.succeeds(&["enable", "--global"]);
    assert!(said.contains("what the file was before is kept"), "{said}");
    system.succeeds(&["disable", "--all"]);
    system.is(&before);
}
