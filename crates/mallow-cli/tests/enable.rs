// SPDX-License-Identifier: MIT
//! `mallow enable`, `disable` and `status`, in systems that are folders: what is written is what
//! shells, systemd and programs take, and what is undone was never there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::chance::one_succeeds;
use crate::common::system::{DROP_IN, RECORD, SCRIPT, System};
use crate::common::{is_root, json, mallow, ran, run, without_rights};
use tempfile::TempDir;

#[test]
fn what_is_disabled_was_never_there() {
    let system = System::new();
    system.write("etc/ld.so.preload", "/usr/lib/other.so\n");
    fs::set_permissions(system.path("etc/ld.so.preload"), PermissionsExt::from_mode(0o640))
        .unwrap();
    let before = system.everything();
    let places: [&[&str]; 4] = [
        &["--global"],
        &["--unit", "web"],
        &["--wrappers", "/usr/local/bin"],
        &["--ld-so-preload"],
    ];
    for place in places {
        let enable = [&["enable"], place].concat();
        // A dry run says what would be there, and does nothing.
        let foreseen = system.succeeds(&[&enable[..], &["--dry-run"]].concat());
        assert!(foreseen.contains("would be written"), "{foreseen}");
        system.is(&before);
        system.succeeds(&enable);
        let once = system.everything();
        assert!(once != before, "{place:?}");
        assert!(system.succeeds(&enable).contains("enabled already"), "{place:?}");
        system.is(&once);
        let other = system.run(&[&enable[..], &["-a", "mallow-secure"]].concat());
        assert_eq!(other.code, Some(0), "{place:?}: {}", other.stderr);
        // Of wrappers there may be several, and that one was there.
        assert!(place[0] == "--wrappers" || system.everything() != once, "{place:?}");
        let disable = [&["disable"], place].concat();
        system.succeeds(&[&disable[..], &["--dry-run"]].concat());
        assert!(system.everything() != before, "{place:?}");
        system.succeeds(&disable);
        system.is(&before);
        assert!(system.succeeds(&disable).contains("Nothing is enabled"), "{place:?}");
    }
    for place in places {
        system.succeeds(&[&["enable"], place].concat());
    }
    let wrappers = fs::read_dir(system.path("usr/local/bin")).unwrap().count();
    assert!(wrappers >= 3, "there are three builds of Mallow");
    assert_eq!(system.status()["enabled"].as_array().unwrap().len(), 3 + wrappers);
    let shown = system.succeeds(&["status"]);
    assert!(shown.contains("unit web.service") && shown.contains("No process was"), "{shown}");
    system.succeeds(&["disable", "--all"]);
    system.is(&before);
}

#[test]
fn a_file_of_somebody_else_comes_back_and_is_not_lost() {
    let system = System::new();
    system.write(SCRIPT, "# mine\n");
    fs::write(system.path(SCRIPT), b"# mine \xff\n").unwrap();
    let before = system.everything();
    assert!(system.succeeds(&["enable", "--global"]).contains("is kept"));
    system.succeeds(&["enable", "--global", "-a", "mallow-secure"]);
    assert!(system.text(SCRIPT).contains("libmallow-secure.so"));
    assert_eq!(system.status()["enabled"][0]["allocator"], "mallow-secure");
    // Changed by hand: neither verb writes over that unless it is told to.
    let written = system.text(SCRIPT);
    system.write(SCRIPT, "# better\n");
    assert_eq!(system.status()["enabled"][0]["state"], "changed");
    let there = system.everything();
    system.refuses(&["disable", "--all"], 3, &["changed by somebody else", "--force"]);
    system.refuses(&["enable", "--global"], 3, &["changed by somebody else", "--force"]);
    system.is(&there);
    system.write(SCRIPT, &written);
    system.succeeds(&["disable", "--global"]);
    system.is(&before);
    system.succeeds(&["enable", "--global"]);
    system.write(SCRIPT, "# better\n");
    system.succeeds(&["disable", "--global", "--force"]);
    system.is(&before);
}

/// One allocator at a time, whoever enabled it: a package's script gives way and comes back.
#[test]
fn the_script_of_a_package_is_known() {
    let system = System::new();
    system.install_package("mallow-global", "libmallow.so");
    let before = system.everything();
    let text = system.succeeds(&["enable", "--global"]);
    assert!(text.contains("enabled already") && text.contains("package mallow-global"), "{text}");
    system.is(&before);
    let text = system.succeeds(&["enable", "--global", "-a", "mallow-secure"]);
    assert!(text.contains("mallow-global.sh enables mallow no more"), "{text}");
    let enabled = system.status()["enabled"].clone();
    assert_eq!(enabled[0]["allocator"], "mallow-secure");
    assert_eq!(enabled[0]["state"], "in-place");
    assert_eq!(enabled[1]["state"], "superseded");
    assert!(system.succeeds(&["status"]).contains("replaced by mallow enable"));
    // Somebody who has a script of his own changes the allocator by it.
    system.succeeds(&["enable", "--global"]);
    assert_eq!(system.status()["enabled"][0]["allocator"], "mallow");
    let text = system.succeeds(&["disable", "--global"]);
    assert!(text.contains("to undo that, remove the package mallow-global"), "{text}");
    system.is(&before);
    // Removed and not purged: the script is still there, and does nothing.
    fs::remove_file(system.path("usr/share/mallow-global/installed")).unwrap();
    assert_eq!(system.status()["enabled"].as_array().unwrap().len(), 0);
    assert!(system.succeeds(&["enable", "--global"]).contains("is enabled for login shells"));
}

#[test]
fn a_script_with_the_last_word_is_a_reason_to_write_none() {
    let system = System::new();
    system.write("etc/profile.d/zz.sh", "export LD_PRELOAD=libjemalloc.so.2\n");
    let before = system.everything();
    system.refuses(&["enable", "--global"], 3, &["zz.sh preloads jemalloc", "--force"]);
    system.is(&before);
    system.succeeds(&["enable", "--global", "--force"]);
    assert!(system.path(SCRIPT).exists());
}

/// A package's script and somebody's own line are told, and what `enable` writes comes beside them.
#[test]
fn what_others_enabled_is_shown() {
    let system = System::new();
    system.install_package("mallow-secure-global", "libmallow-secure.so");
    system.write("etc/profile.d/other.sh", "# LD_PRELOAD=libjemalloc.so.2\nexport PAGER=less\n");
    system.write("etc/ld.so.preload", "/opt/lib/libjemalloc.so.2\n");
    let before = system.everything();
    let enabled = system.status()["enabled"].clone();
    assert_eq!(enabled.as_array().unwrap().len(), 2, "{enabled}");
    assert_eq!(enabled[0]["allocator"], "mallow-secure");
    assert_eq!(enabled[0]["state"], "elsewhere");
    assert_eq!(enabled[0]["since"], serde_json::Value::Null);
    assert_eq!(enabled[1]["place"], "every program");
    assert_eq!(enabled[1]["preload"], "/opt/lib/libjemalloc.so.2");
    assert_eq!(enabled[1]["state"], "library-missing");
    assert!(system.succeeds(&["status"]).contains("not by mallow enable"));
    system.succeeds(&["enable", "--global"]);
    assert_eq!(system.status()["enabled"].as_array().unwrap().len(), 3);
    system.succeeds(&["disable", "--all"]);
    system.is(&before);
}

/// The command is ended after the record and before the file, or the other way round.
#[test]
fn interrupted_changes_can_be_undone_and_repeated() {
    let system = System::new();
    let before = system.everything();
    system.succeeds(&["enable", "--global"]);
    let first = system.text(SCRIPT);
    system.succeeds(&["enable", "--global", "-a", "mallow-secure"]);
    // The record knows the second allocator, the file still has the first.
    system.write(SCRIPT, &first);
    system.succeeds(&["disable", "--global"]);
    system.is(&before);
    // The record knows a file that was not written yet, and a draft was left.
    system.succeeds(&["enable", "--global"]);
    fs::remove_file(system.path(SCRIPT)).unwrap();
    system.write("etc/profile.d/.mallow.sh.mallow-draft", "half");
    assert_eq!(system.status()["enabled"][0]["state"], "removed");
    system.succeeds(&["enable", "--global"]);
    assert_eq!(system.text(SCRIPT), first);
    // The file is back, and the record still has it.
    fs::remove_file(system.path(SCRIPT)).unwrap();
    system.succeeds(&["disable", "--all"]);
    system.is(&before);
    system.write(RECORD, "{\"schema\":");
    system.refuses(&["status"], 7, &["enabled.json"]);
}

/// What a login shell makes of LD_PRELOAD, which held `before`.
fn login(shell: &str, script: &Path, before: Option<&str>) -> (String, String) {
    let words = format!(". {}; echo \"${{LD_PRELOAD-unset}}\"", script.display());
    let mut command = Command::new(shell);
    command.args(["-u", "-e", "-c", &words]).env_remove("LD_PRELOAD");
    before.map(|before| command.env("LD_PRELOAD", before));
    let ran = ran(command.output().unwrap());
    assert_eq!(ran.code, Some(0), "{shell}: {}", ran.stderr);
    (ran.stdout.trim().to_owned(), ran.stderr)
}

#[test]
fn shells_read_the_script_with_and_without_the_library() {
    let system = System::new();
    // A library that the loader of this machine finds: by its full path.
    let library = system.path("usr/lib/libmallow.so").display().to_string();
    let root = System::new();
    fs::create_dir_all(root.path(&library[1..]).parent().unwrap()).unwrap();
    fs::copy(&library, root.path(&library[1..])).unwrap();
    root.succeeds(&["enable", "--global", "-a", &format!("mallow={library}")]);
    let script = root.path(SCRIPT);
    for shell in ["sh", "dash", "bash", "busybox", "zsh"] {
        let is_there = Command::new(shell).args(["-c", ":"]).output().is_ok();
        if !is_there || shell == "busybox" {
            println!("skipped: {shell} is not installed");
            continue;
        }
        let with = |before| login(shell, &script, before);
        assert_eq!(with(None), (library.clone(), String::new()), "{shell}");
        // Read twice, and after another allocator: one at a time, and what else is there stays.
        assert_eq!(with(Some(&library)).0, library, "{shell}");
        let other = format!("/nowhere/libmallow-secure.so {library}:/nowhere/libz.so");
        let (preload, _) = with(Some(&other));
        assert_eq!(preload, format!("{library}:/nowhere/libz.so"), "{shell}");
    }
    // What the allocator says of its settings is no complaint of the loader.
    let mut command = Command::new("sh");
    let words = format!(". {}; echo \"$LD_PRELOAD\"", script.display());
    command.args(["-e", "-c", &words]).env_remove("LD_PRELOAD").env("MALLOW_CONF", "nosuch:1");
    assert_eq!(ran(command.output().unwrap()).stdout.lines().last(), Some(library.as_str()));
    // A library that is damaged ends programs: as if there were none.
    let whole = fs::read(&library).unwrap();
    fs::write(&library, &whole[..whole.len() / 4]).unwrap();
    for shell in ["sh", "dash", "bash"].iter().filter(|shell| Command::new(shell).output().is_ok())
    {
        assert_eq!(login(shell, &script, None), ("unset".into(), String::new()), "{shell}");
    }
    // The library goes away: nothing is set, and nothing is said.
    fs::remove_file(&library).unwrap();
    for before in [None, Some("")] {
        let kept = before.unwrap_or("unset").to_owned();
        assert_eq!(login("sh", &script, before), (kept, String::new()));
    }
    assert_eq!(root.status()["enabled"][0]["state"], "in-place");
    let installed = root.path(&library[1..]);
    let whole = fs::read(&installed).unwrap();
    for left in [0, whole.len() / 4] {
        fs::write(&installed, &whole[..left]).unwrap();
        assert_eq!(root.status()["enabled"][0]["state"], "library-damaged", "{left}");
    }
    fs::remove_file(&installed).unwrap();
    nix::unistd::mkfifo(&installed, nix::sys::stat::Mode::S_IRUSR).unwrap(); // nobody writes to it
    assert_eq!(root.status()["enabled"][0]["state"], "library-damaged");
    fs::remove_file(&installed).unwrap();
    assert_eq!(root.status()["enabled"][0]["state"], "library-missing");
    // Links lead through the system that they are in, and no farther up than its root.
    fs::write(root.path("kept.so"), &whole).unwrap();
    for target in ["/kept.so", "../../../../../../../../../../kept.so"] {
        std::os::unix::fs::symlink(target, &installed).unwrap();
        assert_eq!(root.status()["enabled"][0]["state"], "in-place", "{target}");
        fs::remove_file(&installed).unwrap();
    }
}

/// In a mount namespace with a /etc of its own: `sh -l` takes it from there, and verify agrees.
#[test]
fn login_shell_of_a_system_gets_the_allocator() {
    let Some(name) = crate::common::other_allocator() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (upper, tool) = (folder.path().join("upper"), mallow(&[]).get_program().to_owned());
    fs::create_dir(&upper).unwrap();
    // Everything in it dies with the namespace: the real /etc and /var/lib are below.
    let script = format!(
        "set -e\nup={}\nmount -t tmpfs none $up\n\
         for d in etc var/lib; do mkdir -p $up/$d/u $up/$d/w; \
         mount -t overlay none -o lowerdir=/$d,upperdir=$up/$d/u,workdir=$up/$d/w /$d; done\n\
         echo mounted >&2\n\
         $MALLOW enable --global -a {name} >&2\n\
         sh -lc 'sh -c \"\\$MALLOW verify --expect {name} --no-children \\$\\$; exit \\$?\"' >&2\n\
         sh -lc 'exec sleep 300' >/dev/null 2>&1 &\n\
         for try in $(seq 600); do seen=$($MALLOW status --json)\n\
         case $seen in *'\"served_by\": \"{name}\"'*) break;; esac; sleep 0.1; done\n\
         printf '%s\\n' \"$seen\"; kill $!\n\
         $MALLOW disable --global >&2\n\
         test ! -e /etc/profile.d/mallow.sh && test ! -e /var/lib/mallow\n\
         mount -o remount,ro /etc\n\
         $MALLOW enable --global -a {name} && exit 9 || code=$?\n\
         test $code = 5 && test ! -e /var/lib/mallow\n",
        upper.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).env("MALLOW", tool).env_remove("LD_PRELOAD");
    let ran = ran(command.output().unwrap());
    if !ran.stderr.contains("mounted\n") {
        println!("skipped: no mount namespace with overlays: {}", ran.stderr);
        return;
    }
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("Log in again, or run: . /etc/profile.d/mallow.sh"));
    assert!(ran.stderr.contains("mounted read-only"), "{}", ran.stderr);
    let status = json(&ran);
    assert_eq!(status["enabled"][0]["allocator"], name);
    let processes = status["processes"].as_array().unwrap();
    let has = |process: &serde_json::Value| process["served_by"] == name.as_str();
    assert!(processes.iter().any(has), "{status}");
}

/// In a mount namespace, because what is enabled there is the real /etc. The command shows by itself
/// which allocator it has, so the verdict is the same on every machine.
#[test]
fn if_better_enables_only_what_proved_better() {
    let system = System::new();
    let (library, upper) = (system.path("usr/lib/libmallow.so"), system.path("upper"));
    fs::create_dir(&upper).unwrap();
    let script = "set -e\nmount -t tmpfs none $UP\n\
         for d in etc var/lib; do mkdir -p $UP/$d/u $UP/$d/w; \
         mount -t overlay none -o lowerdir=/$d,upperdir=$UP/$d/u,workdir=$UP/$d/w /$d; done\n\
         echo mounted >&2\n\
         $MALLOW enable --global -a mallow=$LIBRARY --if-better \"$@\" >&2 && code=0 || code=$?\n\
         test -e /etc/profile.d/mallow.sh && echo enabled\n\
         exit $code\n";
    let prove = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).args(words).env_remove("LD_PRELOAD");
        command.env("MALLOW", mallow(&[]).get_program()).env("UP", &upper).env("LIBRARY", &library);
        let ran = ran(command.output().unwrap());
        let is_enabled = ran.stdout.contains("enabled");
        (ran.code, is_enabled, ran.stderr)
    };
    // A machine that stops again and again during the runs proves nothing by them.
    let prove_clearly = |words: &[&str]| {
        one_succeeds(0..3, |_| match prove(words) {
            (Some(6), _, said) => Err(said),
            proven => Ok(proven),
        })
    };
    let slow_with = "case $LD_PRELOAD in *mallow*) sleep 0.1;; esac";
    let slow_without = "case $LD_PRELOAD in *mallow*) ;; *) sleep 0.1;; esac";
    let better = prove_clearly(&["--runs", "12", "--", "sh", "-c", slow_without]);
    if !better.2.contains("mounted\n") {
        println!("skipped: no mount namespace with overlays: {}", better.2);
        return;
    }
    assert_eq!((better.0, better.1), (Some(0), true), "{}", better.2);
    assert!(better.2.contains("mallow is faster than glibc"), "{}", better.2);
    let worse = prove_clearly(&["--runs", "12", "--", "sh", "-c", slow_with]);
    assert_eq!((worse.0, worse.1), (Some(3), false), "{}", worse.2);
    assert!(worse.2.contains("mallow was not enabled, because it is not better"), "{}", worse.2);
    // Two runs prove nothing, however clear they are.
    let unclear = prove(&["--runs", "2", "--", "sh", "-c", slow_without]);
    assert_eq!((unclear.0, unclear.1), (Some(6), false), "{}", unclear.2);
    assert!(unclear.2.contains("do not prove it better"), "{}", unclear.2);
    let failing = prove(&["--runs", "2", "--", "sh", "-c", "exit 9"]);
    assert_eq!((failing.0, failing.1), (Some(9), false), "{}", failing.2);
    let dry = prove_clearly(&["--dry-run", "--runs", "12", "--", "sh", "-c", slow_without]);
    assert_eq!((dry.0, dry.1), (Some(0), false), "{}", dry.2);
    assert_eq!(run(&["enable", "--global", "--if-better"]).code, Some(2));
    assert_eq!(run(&["enable", "--global", "--", "true"]).code, Some(2));
    assert_eq!(run(&["enable", "--docker", "--if-better", "--", "true"]).code, Some(2));
}

#[test]
fn units_get_a_drop_in_that_systemd_understands() {
    let system = System::new();
    let unit = "[Service]\nExecStart=/usr/bin/web 100\nEnvironment=LD_PRELOAD=/opt/a.so:libmallow-debug.so\n";
    system.write("etc/systemd/system/web.service", unit);
    let text = system.succeeds(&["enable", "--unit", "web"]);
    assert!(text.contains("To undo it: mallow disable --unit web.service --root /"), "{text}");
    let text = system.succeeds(&["disable", "--unit", "web"]);
    assert!(text.contains("systemctl daemon-reload && systemctl restart web.service"), "{text}");
    system.succeeds(&["enable", "--unit", "web.service"]);
    let drop_in = system.text(DROP_IN);
    assert!(drop_in.contains("Environment=\"LD_PRELOAD=libmallow.so:/opt/a.so\"\n"), "{drop_in}");
    let shown = system.status();
    assert_eq!(shown["enabled"][0]["place"], "unit web.service");
    // An instance of a template, and a unit of the user's own.
    system.write("usr/lib/systemd/system/job@.service", "[Service]\nExecStart=/usr/bin/web %i\n");
    system.succeeds(&["enable", "--unit", "job@7"]);
    assert!(system.path("etc/systemd/system/job@7.service.d/zz-mallow.conf").exists());
    let own = "home/somebody/.config/systemd/user";
    system.write(&format!("{own}/sync.service"), "[Service]\nExecStart=/usr/bin/web 1\n");
    let text = system.succeeds(&["enable", "--unit", "sync", "--user"]);
    assert!(text.contains("mallow disable --unit sync.service --user"), "{text}");
    assert!(system.path(&format!("{own}/sync.service.d/zz-mallow.conf")).exists());
    assert!(system.path("home/somebody/.local/state/mallow/enabled.json").exists());
    system.refuses(&["enable", "--unit", "nothing"], 2, &["nothing.service", "list-units"]);
    system.refuses(&["enable", "--unit", "web.timer"], 2, &["not the name of a service"]);

    let systemd = Command::new("systemd-analyze").arg("--version").output();
    if !systemd.is_ok_and(|output| output.status.success()) {
        println!("skipped: systemd-analyze is not installed");
        return;
    }
    let verify = |folder: &TempDir| {
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no"]).arg(folder.path().join("web.service"));
        command.env("SYSTEMD_UNIT_PATH", format!("{}:", folder.path().display()));
        ran(command.output().unwrap()).stderr
    };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("web.service"), "[Service]\nExecStart=/bin/sleep 1\n").unwrap();
    fs::create_dir(folder.path().join("web.service.d")).unwrap();
    let place = folder.path().join("web.service.d/zz-mallow.conf");
    fs::write(&place, &drop_in).unwrap();
    let stderr = verify(&folder);
    assert!(!stderr.contains("zz-mallow.conf"), "{stderr}");
    // It would say so if it were wrong.
    fs::write(&place, drop_in.replace("Environment=\"LD", "Environment=\"L D")).unwrap();
    let stderr = verify(&folder);
    assert!(stderr.contains("zz-mallow.conf"), "{stderr}");
}

#[test]
fn wrappers_of_a_folder_are_for_what_is_installed_there() {
    let system = System::new();
    fs::copy(system.path("usr/lib/libmallow.so"), system.path("usr/lib/libjemalloc.so.2")).unwrap();
    system.succeeds(&["enable", "--wrappers", "/opt/bin"]);
    let made = fs::read_dir(system.path("opt/bin")).unwrap();
    let made = made.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut made: Vec<String> = made.collect();
    made.sort();
    assert_eq!(made, ["jemalloc.sh", "mallow-debug.sh", "mallow-secure.sh", "mallow.sh"]);
    let own = "own=/usr/lib/libjemalloc.so.2";
    system.succeeds(&["enable", "--wrappers", "/opt/bin", "-a", own]);
    assert!(system.text("opt/bin/own.sh").contains(own));
    let others = ["enable", "--wrappers", "/opt/bin", "-a", "mimalloc"];
    system.refuses(&others, 2, &["mimalloc is not installed"]);
}

#[test]
fn wrappers_run_a_program_under_their_allocator() {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("my bin").display().to_string();
    let state = folder.path().join("state");
    let with_state = |words: &[&str]| {
        let mut command = mallow(words);
        // As root the record is the system's, so the system is a folder.
        if is_root() {
            command.args(["--root", folder.path().to_str().unwrap()]);
        }
        ran(command.env("XDG_STATE_HOME", &state).output().unwrap())
    };
    // What the system has is not in the folder.
    let names = match crate::common::other_allocator().filter(|_| !is_root()) {
        Some(other) => vec!["mallow".to_owned(), "mallow-secure".into(), other],
        None => vec!["mallow".to_owned(), "mallow-secure".into()],
    };
    let made = with_state(&["enable", "--wrappers", &bin, "-a", &names.join(",")]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let bin = match is_root() {
        true => folder.path().join(&bin[1..]),
        false => PathBuf::from(&bin),
    };
    for name in &names {
        let wrapper = bin.join(format!("{name}.sh"));
        let tool = mallow(&[]).get_program().to_owned();
        let words = "\"$0\" verify --expect \"$1\" $$ && exit 7";
        let mut command = Command::new(&wrapper);
        command.args(["sh", "-c", words]).arg(&tool).arg(name).env_remove("LD_PRELOAD");
        let found = ran(command.output().unwrap());
        assert_eq!(found.code, Some(7), "{name}: {}", found.stderr);
        let usage = ran(Command::new(&wrapper).output().unwrap());
        assert_eq!(usage.code, Some(2));
        assert!(usage.stderr.contains(&format!("{name}.sh COMMAND")), "{}", usage.stderr);
    }
    // A preload without effect is refused, not ignored.
    let program = "int main(void) { return 0; }";
    if let Some(program) = crate::common::compile("cc", folder.path(), program, &["-static"]) {
        let wrapper = bin.join("mallow.sh");
        let refused = ran(Command::new(wrapper).arg(program).output().unwrap());
        assert_eq!(refused.code, Some(4), "{}", refused.stderr);
        assert!(refused.stderr.contains("statically linked"), "{}", refused.stderr);
    }
    let gone = with_state(&["disable", "--all"]);
    assert_eq!(gone.code, Some(0), "{}", gone.stderr);
    assert!(!bin.exists() && !state.exists());
}

#[test]
fn snippets_are_what_their_readers_expect() {
    let system = System::new();
    let shown = |words: &[&str]| system.succeeds(&[&["enable"], words].concat());
    let docker = shown(&["--docker"]);
    assert!(docker.contains("COPY libmallow.so /usr/local/lib/libmallow.so\n"), "{docker}");
    assert!(docker.contains("\nENV LD_PRELOAD=/usr/local/lib/libmallow.so\n"), "{docker}");
    assert_eq!(
        shown(&["--procfile", "-a", "mallow-secure"]),
        "web: env LD_PRELOAD=/usr/local/lib/libmallow-secure.so COMMAND\n"
    );
    assert!(shown(&["--supervisor"]).contains("environment=LD_PRELOAD=\"/usr/local/lib/"));
    assert!(!system.path(RECORD).exists());
    let check = "import sys, yaml\nd = yaml.safe_load(sys.stdin)\nfor k in sys.argv[1:]:\n    \
                 d = d[int(k) if k.isdigit() else k]\nprint(d)";
    let read = |text: &str, keys: &[&str]| {
        let file = system.path("snippet");
        fs::write(&file, text).unwrap();
        let mut command = Command::new("python3");
        command.args(["-c", check]).args(keys).stdin(fs::File::open(file).unwrap());
        let ran = ran(command.output().unwrap());
        if ran.stderr.contains("No module named") {
            println!("skipped: python3 has no yaml");
            return None;
        }
        Some(ran.stdout + &ran.stderr)
    };
    let place = "/usr/local/lib/libmallow.so\n";
    let compose = shown(&["--compose"]);
    let value = read(&compose, &["services", "NAME", "environment", "LD_PRELOAD"]);
    assert!(value.is_none_or(|value| value == place), "{compose}");
    let patch = shown(&["--kubernetes"]);
    let keys = ["spec", "template", "spec", "containers", "0", "env", "0", "value"];
    assert!(read(&patch, &keys).is_none_or(|value| value == place), "{patch}");
    // A package, where there is one.
    if run(&["run", "-a", "jemalloc", "--", "true"]).code == Some(0) {
        let docker =
            ran(mallow(&["enable", "--docker", "-a", "jemalloc"]).output().unwrap()).stdout;
        assert!(docker.contains("libjemalloc2") && docker.contains("apk add"), "{docker}");
        assert!(docker.contains("ENV LD_PRELOAD=libjemalloc.so"), "{docker}");
    }
}

#[test]
fn what_cannot_work_is_refused_by_name() {
    let system = System::new();
    let before = system.everything();
    system.refuses(&["enable", "--global", "-a", "jemalloc"], 2, &["apt install libjemalloc2"]);
    system.refuses(&["enable", "--global", "-a", "jemaloc"], 2, &["Did you mean jemalloc?"]);
    system.refuses(&["enable", "--global", "-a", "glibc"], 2, &["nothing to enable"]);
    system.refuses(&["enable", "--global", "-a", "mallow,mallow-debug"], 2, &["one allocator"]);
    system.refuses(&["enable", "--global", "-a", "/usr/lib/no.so"], 2, &["no such file"]);
    assert_eq!(run(&["enable"]).code, Some(2));
    assert_eq!(run(&["enable", "--global", "--docker"]).code, Some(2));
    let nowhere = ["enable", "--global", "--root", "/no/such/root"];
    crate::common::refuses(&nowhere, 2, &["/no/such/root"]);
    system.is(&before);

    // A link could lead anywhere.
    std::os::unix::fs::symlink("/dev/null", system.path(SCRIPT)).unwrap();
    system.refuses(&["enable", "--global"], 4, &["is a link"]);
    fs::remove_file(system.path(SCRIPT)).unwrap();

    let program = system.path("usr/bin/web");
    let fixed = tempfile::tempdir().unwrap();
    let source = "int main(void) { return 0; }";
    if let Some(built) = crate::common::compile("cc", fixed.path(), source, &["-static"]) {
        fs::copy(built, &program).unwrap();
        system.refuses(&["enable", "--unit", "web"], 4, &["statically linked"]);
    }
    if is_root() {
        fs::copy(fs::canonicalize("/bin/sleep").unwrap(), &program).unwrap();
        std::os::unix::fs::chown(&program, Some(65534), None).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
        system.refuses(&["enable", "--unit", "web"], 4, &["is setuid"]);
    } else {
        println!("skipped: only root can give files away");
    }
    assert!(!system.path(RECORD).exists() && !system.path(DROP_IN).exists());
    assert!(!system.path("var/lib/mallow").exists());
}

#[test]
fn without_rights_nothing_is_left() {
    let system = System::new();
    let folder = tempfile::tempdir().unwrap();
    // The record can be written, the file cannot.
    fs::set_permissions(system.folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    fs::set_permissions(system.path("var/lib"), PermissionsExt::from_mode(0o777)).unwrap();
    fs::set_permissions(system.path("etc/profile.d"), PermissionsExt::from_mode(0o555)).unwrap();
    let before = system.everything();
    let mut command = without_rights(folder.path());
    command.args(["enable", "--global", "--root"]).arg(system.folder.path());
    let ran = ran(command.output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), ""), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("sudo mallow enable --global"), "{}", ran.stderr);
    system.is(&before);
}

/// Without /proc no process was looked at, which is not the same as that none has it.
#[test]
fn without_proc_nothing_is_said_of_processes() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs none /var/lib && mount -t tmpfs none $UP || exit 99\n\
        $MALLOW enable --wrappers $UP/some -a mallow > /dev/null || exit 1\n\
        mount -t tmpfs none /proc\n\
        $MALLOW status || exit 1\n\
        $MALLOW enable --wrappers $UP/more -a mallow\n";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).env("MALLOW", mallow(&[]).get_program());
    let ran = ran(command.env("UP", folder.path()).output().unwrap());
    if ran.code == Some(99) || ran.stderr.starts_with("unshare:") {
        println!("skipped: no mount namespace: {}", ran.stderr);
        return;
    }
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert!(ran.stderr.contains("There is no /proc here"), "{}", ran.stderr);
    assert!(ran.stdout.contains("Which processes have it cannot be told."), "{}", ran.stdout);
}
