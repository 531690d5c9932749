// SPDX-License-Identifier: MIT
//! Each verb does what its help says, on real programs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::program::comes_to_rest;
use crate::common::{compile, json, mallow, other_allocator, ran, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[test]
fn list_shows_mallow_first_and_the_system() {
    let report = json(&run(&["list", "--json"]));
    assert_eq!(report["schema"], "mallow.list/1");
    let allocators = report["allocators"].as_array().unwrap();
    let names: Vec<&str> = allocators.iter().map(|a| a["name"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["mallow", "mallow-secure", "mallow-debug"]);
    assert!(names.contains(&"glibc") || names.contains(&"musl"));
    for allocator in allocators.iter().filter(|a| a["embedded"] == true) {
        assert_eq!(allocator["libc"], "either");
        assert!(std::path::Path::new(allocator["path"].as_str().unwrap()).exists());
    }
    let csv = run(&["list", "--format", "csv"]).stdout;
    assert!(csv.starts_with("allocator,version,libc,variant,"), "{csv}");
    assert!(run(&["list"]).stdout.lines().count() > names.len());
}

#[test]
fn run_puts_the_allocator_in_front_and_passes_the_exit_code_on() {
    let maps = "grep -c libmallow.so /proc/self/maps";
    let served = run(&["run", "--", "sh", "-c", maps]);
    assert!(served.stdout.trim().parse::<u32>().unwrap() > 1, "{}", served.stderr);
    assert_eq!(served.stderr, "");
    for build in ["secure", "debug"] {
        let maps = format!("grep -q libmallow-{build}.so /proc/self/maps");
        let flag = format!("--{build}");
        assert_eq!(run(&["run", &flag, "--", "sh", "-c", &maps]).code, Some(0), "{build}");
    }
    assert_eq!(run(&["run", "--", "sh", "-c", "exit 9"]).code, Some(9));
    let killed = mallow(&["run", "--", "sh", "-c", "kill -TERM $$"]).status().unwrap();
    assert_eq!(killed.signal(), Some(15));
    if let Some(other) = other_allocator() {
        let maps = format!("grep -q lib{other} /proc/self/maps");
        assert_eq!(run(&["run", "-a", &other, "--", "sh", "-c", &maps]).code, Some(0));
    }
}

#[test]
fn run_keeps_what_the_environment_holds() {
    let output = mallow(&["run", "--dry-run", "--opt", "dirty_decay_ms:0", "--", "echo", "a b"])
        .env("LD_PRELOAD", "/x/first.so /x/second.so")
        .env("MALLOW_CONF", "arenas:1")
        .output()
        .unwrap();
    let line = ran(output).stdout;
    assert!(line.contains("libmallow.so:/x/first.so:/x/second.so "), "{line}");
    assert!(line.contains("MALLOW_CONF=arenas:1,dirty_decay_ms:0 "), "{line}");
    assert!(line.ends_with("echo 'a b'\n"), "{line}");
    // The loader complains about the two libraries; the program runs all the same.
    let output = mallow(&["run", "--", "sh", "-c", "echo $LD_PRELOAD"])
        .env("LD_PRELOAD", "/x/first.so")
        .output()
        .unwrap();
    assert!(ran(output).stdout.ends_with("libmallow.so:/x/first.so\n"));
}

#[test]
fn verify_a_running_process() {
    let expected = json(&run(&["list", "--json"]));
    let library = expected["allocators"][0]["path"].as_str().unwrap().to_owned();
    let mut child = Command::new("sh")
        .args(["-c", "sleep 1000 & wait"])
        .env("LD_PRELOAD", &library)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let deadline = Instant::now() + Duration::from_secs(300);
    let report = loop {
        let report = json(&run(&["verify", "--json", &pid]));
        let processes = report["processes"].as_array().unwrap();
        let programs =
            |name: &str| processes.iter().any(|p| p["program"].as_str().unwrap().contains(name));
        if programs("sleep") && processes.iter().all(|p| p["served_by"] == "mallow") {
            break report;
        }
        assert!(Instant::now() < deadline, "{report}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(report["schema"], "mallow.verify/1");
    let main = &report["processes"][0]["report"]["main"]["bindings"];
    assert_eq!(main["malloc"]["allocator"], "mallow");
    assert_eq!(main["malloc"]["path"], library);
    assert_eq!(run(&["verify", "--expect", "mallow", &pid]).code, Some(0));
    let unmet = run(&["verify", "--expect", "jemalloc", &pid]);
    assert_eq!(unmet.code, Some(3));
    assert!(unmet.stderr.contains("Not everything is served by jemalloc"), "{}", unmet.stderr);
    kill(Pid::from_raw(-i32::try_from(child.id()).unwrap()), Signal::SIGKILL).ok();
    let sleeper = report["processes"][1]["pid"].as_i64().unwrap();
    kill(Pid::from_raw(i32::try_from(sleeper).unwrap()), Signal::SIGKILL).unwrap();
    child.wait().unwrap();
}

/// The kernel gives out names as they are, and writes a line feed in one as `\\012`.
#[test]
fn programs_in_folders_of_any_name_are_examined() {
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join(OsStr::from_bytes(b"d\xe9\nx"));
    std::fs::create_dir(&odd).unwrap();
    std::fs::copy("/bin/sleep", odd.join("sleep")).unwrap();
    let mut child = Command::new(odd.join("sleep")).arg("60").spawn().unwrap();
    let pid = child.id().to_string();
    comes_to_rest(&child);
    let (verified, explained) = (run(&["verify", &pid]), run(&["explain", &pid]));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(verified.code, Some(0), "{}", verified.stderr);
    let is_served = |text: &str| text.contains("glibc") || text.contains("musl");
    assert!(is_served(&verified.stdout), "{}", verified.stdout);
    assert!(is_served(&explained.stdout), "{}", explained.stdout);
    assert!(!explained.stdout.contains("no malloc"), "{}", explained.stdout);
}

/// Debian's redis-server is a link to the file redis-check-rdb.
#[test]
fn a_program_has_the_name_that_it_was_started_as() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("check-rdb"), folder.path().join("server"));
    std::fs::copy("/bin/sleep", &file).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let mut child = Command::new(&link).arg("60").spawn().unwrap();
    comes_to_rest(&child);
    let running = run(&["verify", &child.id().to_string()]);
    child.kill().unwrap();
    child.wait().unwrap();
    let started = run(&["verify", "--", link.to_str().unwrap(), "60"]);
    for ran in [running, started] {
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stdout.contains(" server "), "{}", ran.stdout);
        assert!(!ran.stdout.contains("check-rdb"), "{}", ran.stdout);
    }
}

#[test]
fn verify_a_command_with_its_children() {
    let script = "true; sh -c 'ls >/dev/null'";
    let ran =
        run(&["verify", "-a", "mallow", "--expect", "mallow", "--json", "--", "sh", "-c", script]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let report = json(&ran);
    assert_eq!(report["satisfied"], true);
    assert!(report["processes"].as_array().unwrap().len() >= 2, "{report}");
    // One child without the preload is found.
    let script = "env -u LD_PRELOAD ls >/dev/null; true";
    let ran = run(&["verify", "-a", "mallow", "--expect", "mallow", "--", "sh", "-c", script]);
    assert_eq!(ran.code, Some(3), "{}", ran.stdout);
    assert!(ran.stderr.contains("child"), "{}", ran.stderr);
    let system = run(&["verify", "--", "sleep", "60"]);
    assert_eq!(system.code, Some(0));
    assert!(system.stdout.contains("glibc") || system.stdout.contains("musl"));
}

/// As PHP opens its extensions: the libc's free gets a block of the preloaded allocator's.
#[test]
fn a_crash_of_modules_that_ask_the_libc_first_is_explained() {
    let Some(other) = crate::common::other_allocator() else { return };
    let [of_module, of_program] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let module = "#include <stdlib.h>\nvoid give_back(void *block) { free(block); }\n";
    let Some(module) = compile("cc", of_module.path(), module, &["-shared", "-fPIC"]) else {
        return;
    };
    let source = format!(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdlib.h>\nint main(void) {{ \
         void *module = dlopen(\"{}\", RTLD_NOW | RTLD_DEEPBIND); if (!module) return 3; \
         void (*give_back)(void *) = (void (*)(void *))dlsym(module, \"give_back\"); \
         for (int i = 0; i < 100; i++) give_back(calloc(1, 4096)); return 0; }}\n",
        module.display()
    );
    let program = compile("cc", of_program.path(), &source, &["-w"]).unwrap();
    let list = format!("glibc,mallow,{other}");
    let ran = run(&["compare", "-r", "2", "-w", "0", "-a", &list, "--", program.to_str().unwrap()]);
    let lines: Vec<&str> = ran.stdout.lines().filter(|line| line.contains("DEEPBIND")).collect();
    let [line] = lines[..] else { panic!("{}{}", ran.stdout, ran.stderr) };
    assert!(line.starts_with(&format!("{other}: 2 of 2 runs were killed by SIG")), "{line}");
    assert!(line.ends_with("as PHP does, ends so under preloaded allocators other than mallow"));
}

/// gcc links the sanitizers' libraries dynamically, so that a preloaded malloc comes before theirs.
#[test]
fn programs_of_sanitizers_with_a_malloc_of_their_own_are_refused() {
    let source = "#include <stdlib.h>\nint main(void) { free(malloc(99)); return 0; }\n";
    for (option, name) in
        [("-fsanitize=thread", "ThreadSanitizer"), ("-fsanitize=address", "AddressSanitizer")]
    {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compile("gcc", folder.path(), source, &[option]) else { return };
        let program = program.to_str().unwrap();
        for allocator in ["mallow", "mallow-secure", "mallow-debug", "glibc"] {
            let words = ["run", "-a", allocator, "--", program];
            if allocator != "glibc" {
                crate::common::refuses(&words, 4, &[name, option]);
            } else {
                let ran = run(&words);
                assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{allocator}");
            }
        }
    }
}

#[test]
fn who_runs_php_is_told_of_its_modules() {
    let Some(other) = crate::common::other_allocator() else { return };
    let folder = tempfile::tempdir().unwrap();
    let php = folder.path().join("php8.2");
    std::fs::copy("/bin/true", &php).unwrap();
    let php = php.to_str().unwrap();
    let verbs = [&["run"][..], &["compare", "-r", "1", "-w", "0"], &["verify"]];
    for verb in verbs {
        for (allocator, is_told) in [(other.as_str(), true), ("mallow", false), ("glibc", false)] {
            let ran = run(&[verb, &["-a", allocator, "--", php]].concat());
            assert_eq!(ran.stderr.contains("RTLD_DEEPBIND"), is_told, "{verb:?} {}", ran.stderr);
        }
    }
}

/// As those of the packages are.
#[test]
fn libraries_that_the_command_carries_stand_alone() {
    let check = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/check-library");
    let folder = tempfile::tempdir().unwrap();
    for library in mallow_launch::embedded::LIBRARIES {
        let path = folder.path().join(library.file);
        std::fs::write(&path, library.bytes).unwrap();
        let said = Command::new(check).arg(&path).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }
}
