// SPDX-License-Identifier: MIT
//! What setuid programs say of an allocator that is enabled for login shells.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::common::{mallow, ran};

/// In a mount namespace with a /etc of its own; a user other than root starts a setuid program there.
#[test]
fn setuid_programs_run_and_only_a_bare_name_makes_the_loader_speak() {
    let Some(name) = crate::common::other_allocator() else { return };
    let is_setuid =
        fs::metadata("/usr/bin/su").is_ok_and(|su| su.mode() & 0o4000 != 0 && su.uid() == 0);
    if !is_setuid || !crate::common::is_root() {
        println!("skipped: no setuid su here, or not root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "set -e\nmount -t tmpfs none $UP\n\
         for d in etc var/lib; do mkdir -p $UP/$d/u $UP/$d/w; \
         mount -t overlay none -o lowerdir=/$d,upperdir=$UP/$d/u,workdir=$UP/$d/w /$d; done\n\
         chmod 755 $UP /etc; echo mounted\n\
         for flag in '' --full-path; do\n\
         $MALLOW enable --global -a {name} $flag\n\
         echo \"with [$flag]\"\n\
         setpriv --reuid=65534 --regid=65534 --clear-groups env -u LD_PRELOAD PATH=$PATH \
         sh -lc '/usr/bin/su --version; grep -c {name} /proc/self/maps'\n\
         $MALLOW disable --global >/dev/null\ndone 2>&1\n"
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).env_remove("LD_PRELOAD");
    command.env("MALLOW", mallow(&[]).get_program()).env("UP", folder.path());
    let ran = ran(command.output().unwrap());
    let Some((_, both)) = ran.stdout.split_once("mounted\n") else {
        println!("skipped: no mount namespace with overlays: {}", ran.stderr);
        return;
    };
    assert_eq!(ran.code, Some(0), "{both}{}", ran.stderr);
    let (bare, full) = both.split_once("with [--full-path]\n").unwrap();
    for said in [bare, full] {
        assert!(said.contains("su from util-linux"), "{both}");
        // Other programs have it.
        let is_served = |line: &str| line.parse::<u32>().is_ok_and(|mappings| mappings > 0);
        assert!(said.lines().any(is_served), "{both}");
    }
    if cfg!(target_env = "gnu") {
        assert!(bare.contains("cannot be preloaded") && bare.contains("--full-path"), "{both}");
    }
    assert!(!full.contains("cannot be preloaded") && !full.contains("ld.so"), "{both}");
}
