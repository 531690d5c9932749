// SPDX-License-Identifier: MIT
//! `mallow enable` in the running system, by dry runs or in a mount namespace: what it asks the
//! loader, programs and file systems before it writes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::common::system::{DROP_IN, SCRIPT, System};
use crate::common::{HELLO, Ran, compile, is_root, mallow, ran, refuses, run};

/// A library with a malloc, built for glibc; `None` without a compiler.
fn library(source: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir().unwrap();
    let built = compile("cc", folder.path(), source, &["-shared", "-fPIC", "-fno-builtin"])?;
    let library = folder.path().join("libown.so");
    fs::rename(built, &library).unwrap();
    Some((folder, library))
}

/// As in a folder that a package manager fills, and enters to run the packages' scripts.
#[test]
fn a_system_without_devices_is_no_reason_to_refuse() {
    let script =
        "mount --make-rprivate / && mount -t tmpfs none /dev && echo mounted && exec \"$@\"";
    let system = System::new();
    let library = format!("mallow={}", system.path("usr/lib/libmallow.so").display());
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(mallow(&[]).get_program());
    command.args(["enable", "--global", "--dry-run", "-a", &library]);
    let ran = ran(command.output().unwrap());
    if !ran.stdout.starts_with("mounted") {
        println!("skipped: nothing can be mounted over /dev here");
        return;
    }
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

/// The loader takes these, and no program works with them.
#[test]
fn a_library_that_ends_programs_is_refused() {
    let rest = "void *calloc(unsigned long n, unsigned long m) { (void)n; (void)m; return 0; }\n\
                void *realloc(void *p, unsigned long n) { (void)p; (void)n; return 0; }\n\
                void free(void *p) { (void)p; }\n";
    let faults = [
        (
            "void *malloc(unsigned long n) { (void)n; return 0; }\n\
          void abort(void);\n__attribute__((constructor)) static void f(void) { abort(); }\n",
            "SIGABRT",
        ),
        (
            "void *malloc(unsigned long n) { (void)n; return 0; }\n\
          void _exit(int);\n__attribute__((constructor)) static void f(void) { _exit(7); }\n",
            "exit code 7",
        ),
        // /bin/true needs no memory.
        ("void *malloc(unsigned long n) { (void)n; return 0; }\n", "/bin/sh, started with"),
    ];
    for (source, word) in faults {
        let Some((_folder, library)) = library(&format!("{source}{rest}")) else { return };
        let named = format!("own={}", library.display());
        for place in ["--ld-so-preload", "--global"] {
            let words = ["enable", place, "--dry-run", "-a", &named];
            refuses(&words, 4, &["own does not work here", word, &library.display().to_string()]);
        }
        let config = tempfile::tempdir().unwrap();
        let units = config.path().join("systemd/user");
        fs::create_dir_all(&units).unwrap();
        fs::write(units.join("tried.service"), "[Service]\nExecStart=/bin/true\n").unwrap();
        let mut command =
            mallow(&["enable", "--unit", "tried", "--user", "--dry-run", "-a", &named]);
        let ran = ran(command.env("XDG_CONFIG_HOME", config.path()).output().unwrap());
        assert_eq!(ran.code, Some(4), "{}", ran.stderr);
        assert!(ran.stderr.contains("own does not work here"), "{}", ran.stderr);
    }
}

/// musl's loader does not look into the folders of Debian that have the machine in their names.
#[test]
fn a_service_of_musl_gets_the_full_path() {
    let system = System::new();
    let folder = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    fs::create_dir(system.path(&folder)).unwrap();
    fs::rename(system.path("usr/lib/libmallow.so"), system.path(&folder).join("libmallow.so"))
        .unwrap();
    let preload = |word: &str| {
        system.succeeds(&["enable", "--unit", "web"]);
        let drop_in = system.text(DROP_IN);
        let line = format!("Environment=\"LD_PRELOAD={word}\"\n");
        assert!(drop_in.contains(&line), "{drop_in}");
    };
    preload("libmallow.so");
    let built = tempfile::tempdir().unwrap();
    let Some(program) = compile("musl-gcc", built.path(), HELLO, &[]) else { return };
    fs::copy(program, system.path("usr/bin/web")).unwrap();
    preload(&format!("/{folder}/libmallow.so"));
    // As on Alpine.
    fs::rename(system.path(&folder).join("libmallow.so"), system.path("usr/lib/libmallow.so"))
        .unwrap();
    preload("libmallow.so");
}

/// The loader finds what a snippet names, and the package that the snippet installs has it.
#[test]
fn snippets_name_libraries_that_are_found() {
    let names = crate::common::installed_allocators().into_iter().chain(["scudo".to_owned()]);
    for name in names {
        let snippet = run(&["enable", "--docker", "-a", &name]);
        let line = snippet.stdout.lines().find_map(|line| line.strip_prefix("ENV LD_PRELOAD="));
        let (Some(word), true) = (line, snippet.stdout.contains("apt-get install")) else {
            println!("skipped: {name} is no package here");
            continue;
        };
        let ran = ran(Command::new("/bin/true").env("LD_PRELOAD", word).output().unwrap());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{name}: {word}");
    }
}

/// Alpine calls some packages and libraries otherwise; what is not installed here is known too.
#[test]
fn snippets_name_what_alpine_has() {
    let system = System::new();
    for (name, package, word) in [
        ("mimalloc", "mimalloc2-insecure", "libmimalloc-insecure.so.2"),
        ("jemalloc", "jemalloc", "libjemalloc.so.2"),
        ("tcmalloc", "tcmalloc-minimal", "libtcmalloc_minimal.so.4"),
    ] {
        let docker = system.succeeds(&["enable", "--docker", "-a", name]);
        let lines = format!("apk add --no-cache {package}\n#         ENV LD_PRELOAD={word}\n");
        assert!(docker.contains(&lines), "{docker}");
    }
    let compose = system.succeeds(&["enable", "--compose", "-a", "mimalloc"]);
    assert!(compose.contains("LD_PRELOAD is libmimalloc-insecure.so.2 there"), "{compose}");
    assert!(compose.contains("LD_PRELOAD: \"libmimalloc.so.3\""), "{compose}");
    // Nobody can say where Debian's is, but Debian.
    system.refuses(&["enable", "--docker", "-a", "scudo"], 2, &["apt install libclang-rt-dev"]);
    let tbb = system.succeeds(&["enable", "--docker", "-a", "tbbmalloc"]);
    assert!(!tbb.contains("Alpine"), "{tbb}");
}

/// Debian 13 has another mimalloc than Debian 12, and an image may be of either.
#[test]
fn snippets_name_what_the_release_has() {
    let system = System::new();
    let docker = |os_release| {
        system.write("etc/os-release", os_release);
        system.succeeds(&["enable", "--docker", "-a", "mimalloc"])
    };
    for (os_release, own, word, other) in [
        (
            "ID=debian\nVERSION_CODENAME=bookworm\n",
            "libmimalloc2.0",
            "libmimalloc.so.2",
            "# newer Debian and Ubuntu: RUN apt-get install -y libmimalloc3\n\
             #         ENV LD_PRELOAD=libmimalloc.so.3\n",
        ),
        (
            "ID=debian\nVERSION_CODENAME=trixie\n",
            "libmimalloc3",
            "libmimalloc.so.3",
            "# bookworm, jammy, noble: RUN apt-get install -y libmimalloc2.0\n\
             #         ENV LD_PRELOAD=libmimalloc.so.2\n",
        ),
    ] {
        let docker = docker(os_release);
        assert!(docker.contains(&format!("--no-install-recommends {own} ")), "{docker}");
        assert!(docker.ends_with(&format!("ENV LD_PRELOAD={word}\n")), "{docker}");
        assert!(docker.contains(other), "{docker}");
    }
    system.write("etc/os-release", "ID=fedora\n");
    let tbb = ["enable", "--global", "-a", "tbbmalloc"];
    system.refuses(&tbb, 2, &["install it with: dnf install tbb"]);
}

/// What a dry run says in a system that is mounted read-only; `None` where nothing can be mounted.
fn dry_read_only(system: &System, words: &[&str]) -> Option<Ran> {
    let script =
        "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" || exit 99; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(system.folder.path());
    let ran = as_dry_run(command, mallow(&[]).get_program(), system, words);
    (ran.code != Some(99)).then_some(ran)
}

/// As an ordinary user; `None` where only that is to be had.
fn dry_as_nobody(system: &System, words: &[&str]) -> Option<Ran> {
    let tool = tempfile::tempdir().unwrap();
    let everyone = fs::Permissions::from_mode(0o755);
    fs::set_permissions(tool.path(), everyone.clone()).unwrap();
    fs::set_permissions(system.folder.path(), everyone).unwrap();
    let copy = tool.path().join("mallow");
    fs::copy(mallow(&[]).get_program(), &copy).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    is_root().then(|| as_dry_run(command, copy.as_os_str(), system, words))
}

fn as_dry_run(mut command: Command, tool: &OsStr, system: &System, words: &[&str]) -> Ran {
    command.arg(tool).args(words).args(["--dry-run", "--root"]).arg(system.folder.path());
    command
        .env("HOME", "/home/somebody")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_STATE_HOME");
    ran(command.env_remove("LD_PRELOAD").output().unwrap())
}

/// As the real run would, it exits with 5, and says why.
#[test]
fn a_dry_run_says_that_nothing_could_be_written() {
    type Dry = fn(&System, &[&str]) -> Option<Ran>;
    let ways: [(Dry, &str); 2] =
        [(dry_read_only, "mounted read-only"), (dry_as_nobody, "sudo mallow")];
    for (dry, reason) in ways {
        let system = System::new();
        system.succeeds(&["enable", "--unit", "web"]);
        let before = system.everything();
        for place in
            [&["--global"][..], &["--ld-so-preload"], &["--unit", "web", "-a", "mallow-debug"]]
        {
            let Some(ran) = dry(&system, &[&["enable"], place].concat()) else {
                println!("skipped: {reason}");
                break;
            };
            assert_eq!(ran.code, Some(5), "{place:?}: {}", ran.stderr);
            assert!(ran.stdout.contains(" could not be written:\n"), "{place:?}: {}", ran.stdout);
            assert!(!ran.stdout.contains("would be"), "{place:?}: {}", ran.stdout);
            assert!(ran.stderr.contains(reason), "{place:?}: {}", ran.stderr);
        }
        let code = |words: &[&str]| dry(&system, words).map(|ran| ran.code);
        assert!(code(&["disable", "--all"]).is_none_or(|code| code == Some(5)), "{reason}");
        // What is there already needs no rights.
        assert!(code(&["enable", "--unit", "web"]).is_none_or(|code| code == Some(0)), "{reason}");
        system.is(&before);
    }
}

/// Who has the command from pip, npm or cargo has no library beside it, and nothing to make.
#[test]
fn the_remedy_for_a_library_that_is_only_inside_works() {
    let system = System::new();
    for build in ["libmallow", "libmallow-secure", "libmallow-debug"] {
        fs::remove_file(system.path("usr/lib").join(format!("{build}.so"))).unwrap();
    }
    for (name, file) in [("mallow", "libmallow.so"), ("mallow-secure", "libmallow-secure.so")] {
        let enable = ["enable", "--global", "-a", name];
        let ran = system.run(&enable);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        let (_, remedy) = ran.stderr.trim_end().split_once("as root: ").unwrap();
        let status = Command::new("sh").args(["-c", remedy]).status().unwrap();
        assert!(status.success(), "{remedy}");
        system.succeeds(&enable);
        let word = format!("LD_PRELOAD=/usr/local/lib/{file} /bin/true");
        assert!(system.text(SCRIPT).contains(&word), "{}", system.text(SCRIPT));
    }
}
