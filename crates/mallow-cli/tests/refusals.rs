// SPDX-License-Identifier: MIT
//! Every bad input is refused early, in one sentence with the remedy and with the right exit code.

use std::os::unix::fs::PermissionsExt;

use crate::common::{HELLO, Ran, compile, is_root, mallow, other_allocator, ran, refuses, run};

/// Before the command runs at all.
fn refuses_first(options: &[&str], code: i32, words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    refuses(&[options, &["--", "touch", mark.to_str().unwrap()]].concat(), code, words);
    assert!(!mark.exists(), "{options:?}: the command ran");
}

#[test]
fn no_command_is_a_usage_error() {
    for arguments in [&["run"][..], &["compare"], &["verify"], &["run", "--"], &[], &["jump"]] {
        let ran = run(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}");
        assert_eq!(ran.stdout, "");
        assert!(ran.stderr.contains("Usage:"), "{}", ran.stderr);
    }
}

#[test]
fn commands_that_do_not_exist_or_cannot_run() {
    refuses(&["run", "--", "no-such-command"], 127, &["no-such-command", "not found"]);
    refuses(&["compare", "--", "no-such-command"], 127, &["not found"]);
    refuses(&["run", "--", "/etc/passwd"], 126, &["cannot be executed"]);
    refuses(&["run", "--", "/"], 126, &["directory"]);
    let folder = tempfile::tempdir().unwrap();
    let closed = folder.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o000)).unwrap();
    let mut command = crate::common::without_rights(folder.path());
    let refused = command.args(["run", "--"]).arg(closed.join("program"));
    let refused = ran(refused.output().unwrap());
    assert_eq!(refused.code, Some(126), "{}", refused.stderr);
    assert!(refused.stderr.contains("may not be entered"), "{}", refused.stderr);
    let mut command = crate::common::without_rights(folder.path());
    let refused = command
        .args(["run", "--", "program"])
        .env("PATH", format!("{}:/usr/bin:/bin", closed.display()));
    let refused = ran(refused.output().unwrap());
    assert_eq!(refused.code, Some(126), "{}", refused.stderr);
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn missing_and_wrong_libraries() {
    refuses_first(&["run", "-a", "x=/none.so"], 2, &["/none.so", "no such file"]);
    refuses_first(&["compare", "-a", "glibc,x=/none.so"], 2, &["no such file"]);
    refuses_first(&["run", "-a", "jemaloc"], 2, &["Did you mean jemalloc?"]);
    refuses_first(&["run", "-a", "x=/etc/passwd"], 2, &["not an ELF library"]);
    refuses_first(&["compare", "-a", "mallow,mallow"], 2, &["named twice"]);
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = compile("cc", folder.path(), "int x;\n", &["-shared", "-fPIC"]) else {
        return;
    };
    let library = format!("x={}", library.display());
    refuses_first(&["run", "-a", &library], 2, &["does not define malloc"]);
}

#[test]
fn missing_known_allocator_names_the_package() {
    let report = crate::common::json(&run(&["list", "--json"]));
    let Some(missing) = report["missing"].as_array().unwrap().first() else {
        eprintln!("skipped: every known allocator is installed");
        return;
    };
    let (name, install) = (missing["name"].as_str().unwrap(), missing["install"].as_str().unwrap());
    refuses_first(&["run", "-a", name], 2, &[name, "not installed", install]);
}

#[test]
fn wrong_options() {
    refuses_first(&["run", "--opt", "dirty_decay:0"], 2, &["dirty_decay_ms?"]);
    refuses_first(&["run", "--opt", "foreign:explode"], 2, &["abort, ignore, next"]);
    let all = crate::common::json(&run(&["list", "--json"]));
    if all["allocators"].as_array().unwrap().iter().any(|a| a["name"] == "glibc") {
        refuses_first(&["run", "-a", "glibc", "--opt", "bogus:1"], 2, &["arena_max, "]);
    }
    refuses_first(&["compare", "-a", "mallow", "--opt", "arenas:x"], 2, &["arenas"]);
    refuses_first(&["compare", "--cpus", "100000"], 2, &["100000 CPUs"]);
    refuses_first(&["compare", "--matrix", "LD_PRELOAD=a,b"], 2, &["LD_PRELOAD"]);
}

#[test]
fn static_target() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile("cc", folder.path(), HELLO, &["-static"]) else { return };
    let program = program.to_str().unwrap();
    refuses(&["run", "--", program], 4, &["statically linked", "libmallow.a"]);
    refuses(&["compare", "--", program], 4, &["statically linked"]);
    refuses(&["verify", "-a", "mallow", "--", program], 4, &["statically linked"]);
    // Without a preload there is nothing to refuse.
    assert_eq!(run(&["run", "-a", "glibc", "--", program]).stdout, "hello\n");
    let verified = run(&["verify", "--", program]);
    assert_eq!(verified.code, Some(0), "{}", verified.stderr);
    assert!(verified.stdout.contains("static"), "{}", verified.stdout);
    assert_eq!(run(&["verify", "--expect", "mallow", "--", program]).code, Some(3));
}

#[test]
fn script_of_a_static_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile("cc", folder.path(), HELLO, &["-static"]) else { return };
    let script = folder.path().join("script");
    std::fs::write(&script, format!("#!{}\n", program.display())).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    refuses(&["run", "--", script.to_str().unwrap()], 4, &["run by", "statically linked"]);
}

#[test]
fn setuid_target() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile("cc", folder.path(), HELLO, &[]) else { return };
    let program = if is_root() {
        // Setuid to somebody else: for root itself the loader honours a preload.
        std::os::unix::fs::chown(&program, Some(65534), None).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
        program
    } else {
        let Some(su) = ["/usr/bin/su", "/bin/su"]
            .map(std::path::PathBuf::from)
            .into_iter()
            .find(|su| su.exists())
        else {
            eprintln!("skipped: there is no setuid program here");
            return;
        };
        su
    };
    let program = program.to_str().unwrap();
    refuses(&["run", "--", program], 4, &["setuid", "ignores LD_PRELOAD"]);
    refuses(&["compare", "--", program], 4, &["setuid"]);
}

#[test]
fn go_target() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("hello.go");
    let program = folder.path().join("hello");
    std::fs::write(&source, "package main\nfunc main() { println(\"hello\") }\n").unwrap();
    let built = std::process::Command::new("go")
        .args(["build", "-o"])
        .args([&program, &source])
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=mod")
        .env("GOCACHE", folder.path().join("cache"))
        .current_dir(folder.path())
        .status();
    match built {
        Ok(status) => assert!(status.success(), "go build failed"),
        Err(error) => {
            eprintln!("skipped: go: {error}");
            return;
        }
    }
    let program = program.to_str().unwrap();
    refuses(&["run", "--", program], 4, &["Go program without cgo", "GOGC"]);
    refuses(&["compare", "--", program], 4, &["Go program without cgo"]);
    let verified = run(&["verify", "--", program]);
    assert!(verified.stdout.contains("Go's own"), "{}", verified.stdout);
}

#[test]
fn musl_target_with_a_glibc_library() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile("musl-gcc", folder.path(), HELLO, &[]) else { return };
    let program = program.to_str().unwrap();
    if let Some(other) = other_allocator() {
        refuses(&["run", "-a", &other, "--", program], 4, &["musl program", &other, "glibc"]);
        refuses(&["compare", "-a", &other, "--", program], 4, &["musl program"]);
    }
    let served = run(&["run", "--", program]);
    assert_eq!((served.code, served.stdout.as_str()), (Some(0), "hello\n"), "{}", served.stderr);
    let verified = run(&["verify", "-a", "mallow", "--expect", "mallow", "--", program]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
}

#[test]
fn an_allocator_inside_another_c_library() {
    let words = ["part of the C library musl", "glibc program", "-a glibc"];
    for verb in ["run", "verify", "record"] {
        refuses_first(&[verb, "-a", "musl"], 4, &words);
    }
    refuses_first(&["compare", "-a", "musl,mallow"], 4, &words);
    refuses_first(&["compare", "-a", "mallow", "--baseline", "musl"], 4, &words);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (trace, baseline) = (file("trace"), file("baseline"));
    refuses_first(&["watch", "-q", "-a", "musl"], 4, &words);
    refuses_first(&["check", "-q", "--update", "-b", &baseline, "-a", "musl"], 4, &words);
    let recorded = run(&["record", "-q", "-o", &trace, "--", "ls", "/"]);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    refuses(&["replay", "-q", &trace, "-a", "musl"], 4, &words);
    let Some(program) = compile("musl-gcc", folder.path(), HELLO, &[]) else { return };
    let program = program.to_str().unwrap();
    refuses(&["run", "-a", "glibc", "--", program], 4, &["musl program", "-a musl"]);
    assert_eq!(run(&["run", "-a", "musl", "--", program]).stdout, "hello\n");
}

#[test]
fn target_with_a_malloc_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stddef.h>\nstatic char heap[1 << 20]; static size_t top;\n\
        void *malloc(size_t n) { void *p = heap + top; top += (n + 15) & ~15ul; return p; }\n\
        void free(void *p) { (void)p; }\nint main(void) { return malloc(1) == NULL; }\n";
    let flags = ["-rdynamic", "-fno-builtin"];
    let Some(program) = compile("cc", folder.path(), source, &flags) else { return };
    refuses(&["run", "--", program.to_str().unwrap()], 4, &["its own malloc"]);
}

#[test]
fn machine_of_another_kind() {
    let folder = tempfile::tempdir().unwrap();
    let other = if cfg!(target_arch = "x86_64") { "aarch64" } else { "x86_64" };
    let compiler = format!("{other}-linux-gnu-gcc");
    let Some(program) = compile(&compiler, folder.path(), HELLO, &[]) else { return };
    refuses(&["run", "--", program.to_str().unwrap()], 4, &["is a program for"]);
}

#[test]
fn script_that_clears_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/usr/bin/env -S -i sh\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    refuses(&["run", "--", script.to_str().unwrap()], 4, &["clear the environment"]);
}

#[test]
fn effect_is_checked_before_anything_is_timed() {
    // A wrapper that takes the preload away again.
    let ran = run(&["compare", "-a", "glibc,mallow", "--", "env", "-u", "LD_PRELOAD", "true"]);
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert!(ran.stderr.contains("took no effect"), "{}", ran.stderr);
    assert!(ran.stderr.contains("changes LD_PRELOAD"), "{}", ran.stderr);
    assert_eq!(ran.stdout, "");
    // A program that is what it is only behind a wrapper, and has its own malloc.
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stddef.h>\nstatic char heap[1 << 20]; static size_t top;\n\
        void *malloc(size_t n) { void *p = heap + top; top += (n + 15) & ~15UL; return p; }\n\
        void free(void *p) { (void)p; }\n\
        int main(void) { free(malloc(100)); return 0; }\n";
    let flags = ["-rdynamic", "-fno-builtin"];
    let Some(program) = compile("cc", folder.path(), source, &flags) else { return };
    let start = format!("exec {}", program.display());
    let ran = run(&["compare", "-a", "glibc,mallow", "--", "sh", "-c", &start]);
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert!(ran.stderr.contains("has its own malloc linked in"), "{}", ran.stderr);
}

#[test]
fn processes_that_cannot_be_examined() {
    refuses(&["verify", "4194304"], 7, &["no process 4194304"]);
    if is_root() {
        eprintln!("skipped: root may look at every process");
    } else {
        refuses(&["verify", "1"], 5, &["Process 1", "root"]);
    }
}

#[test]
fn process_that_has_ended_and_waits_for_its_parent() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id().to_string();
    while !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ") {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let parent = format!("parent, process {}", std::process::id());
    for verb in ["explain", "stats", "verify", "advise"] {
        refuses(&[verb, &pid], 7, &["has ended", &parent]);
    }
    child.wait().unwrap();
}

/// A pipe that nobody writes to, and a file whose next bytes may never come.
#[test]
fn files_that_would_make_the_command_wait() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let pipe = pipe.to_str().unwrap();
    for verb in ["run", "guard", "record"] {
        refuses(&[verb, "--", pipe], 126, &[pipe, "no plain file"]);
    }
    for library in [pipe, "/dev/zero"] {
        refuses(&["run", "-a", library, "--", "true"], 2, &[library, "no plain file"]);
    }
    std::thread::scope(|scope| {
        for verb in ["stats", "replay", "advise"] {
            scope.spawn(move || refuses(&[verb, pipe], 2, &[pipe, "nobody wrote to it"]));
            scope.spawn(move || refuses(&[verb, "/dev/ptmx"], 2, &["nothing to read now"]));
        }
    });
}

/// Of a pipe that somebody writes to, whoever that is says how long to wait.
#[test]
fn pipe_that_is_slow() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let text = "exec 3>\"$0\"; sleep 1; echo '<malloc version=\"1\">' >&3";
    let mut writer =
        std::process::Command::new("sh").args(["-c", text]).arg(&pipe).spawn().unwrap();
    refuses(&["stats", pipe.to_str().unwrap()], 7, &["cannot be read as statistics"]);
    writer.wait().unwrap();
}

#[test]
fn a_result_goes_into_a_pipe_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut reader = std::process::Command::new("cat");
    let reader = reader.arg(&pipe).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut list = mallow(&["list", "--json", "-o", pipe.to_str().unwrap()]).spawn().unwrap();
    let text = reader.wait_with_output().unwrap().stdout;
    if text.is_empty() {
        // It waits for another reader.
        list.kill().unwrap();
    }
    assert_eq!(list.wait().unwrap().code(), Some(0));
    let report: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(report["schema"], "mallow.list/1");
}

#[test]
fn result_file_that_cannot_be_written_is_refused_first() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("missing/x");
    let file = file.to_str().unwrap();
    refuses_first(&["compare", "-o", file], 2, &[file]);
}

/// It would end before its first line, and then there would be nothing to look at.
#[test]
fn verify_refuses_what_run_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-fsanitize=address"];
    let Some(program) = compile("gcc", folder.path(), HELLO, &options) else { return };
    let words = ["verify", "-a", "mallow", "--", program.to_str().unwrap()];
    refuses(&words, 4, &["AddressSanitizer"]);
}

/// The loader would leave the library out, and the program would run with the C library's malloc.
#[test]
fn a_library_that_the_loader_leaves_out_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = "void *malloc(unsigned long size) { (void)size; return 0; }\n\
        void free(void *block) { (void)block; }\n";
    let flags = ["-shared", "-fPIC", "-fno-builtin"];
    let Some(library) = compile("cc", folder.path(), source, &flags) else { return };
    let mut bytes = std::fs::read(&library).unwrap();
    bytes[7] = 0x42; // the system that it is for
    std::fs::write(&library, bytes).unwrap();
    let allocator = format!("odd={}", library.display());
    for verb in ["verify", "run", "record", "compare"] {
        let words = ["odd cannot be preloaded into", "OS ABI"];
        refuses_first(&[verb, "-a", &allocator], 4, &words);
    }
}

/// Others' processes are then as if they were not there.
#[test]
fn a_process_that_proc_hides_is_not_said_to_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let everyone = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), everyone).unwrap();
    let copy = folder.path().join("mallow");
    std::fs::copy(mallow(&[]).get_program(), &copy).unwrap();
    let script = "mount -t proc -o hidepid=2 none /proc || exit 99\n\
                  exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$0\" explain 1";
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(&copy);
    let ran = match command.output().map(ran) {
        Ok(ran) if !matches!(ran.code, Some(1 | 99 | 127)) => ran,
        _ => return println!("skipped: /proc cannot be mounted with hidepid here"),
    };
    assert_eq!(ran.code, Some(7), "{}", ran.stderr);
    assert!(ran.stderr.contains("hidepid"), "{}", ran.stderr);
}

/// Started by a shell in namespaces of its own.
fn inside<'a>(namespaces: &'a [&str], before: &'a str) -> impl Fn(&str) -> Option<Ran> + 'a {
    move |words: &str| {
        let script = format!("{before}\nexec \"$0\" {words}");
        let mut command = std::process::Command::new("unshare");
        command.args(namespaces).args(["sh", "-c", &script]).arg(mallow(&[]).get_program());
        command.output().ok().map(ran)
    }
}

const NEED_PROC: [&str; 8] = [
    "verify -- true",
    "watch -- sleep 9",
    "advise -- sleep 9",
    "record -o /dev/null -- true",
    "check --update -b /nonexistent/baseline -- true",
    "replay trace",
    "compare -a glibc -- true",
    "tune -- true",
];

/// There what is started has other numbers: nothing was said of it, or of another process.
#[test]
fn with_the_proc_of_another_namespace_nothing_is_followed() {
    let inside = inside(&["--pid", "--fork"], ":");
    if inside("list").is_none_or(|ran| ran.code != Some(0)) {
        return println!("skipped: no PID namespace can be made here");
    }
    for words in NEED_PROC {
        let ran = inside(words).unwrap();
        assert_eq!(ran.code, Some(4), "{words}: {}", ran.stderr);
        assert!(ran.stderr.contains("another PID namespace"), "{words}: {}", ran.stderr);
    }
    let number = std::process::id().to_string();
    let ran = inside(&format!("verify {number}")).unwrap();
    assert_eq!(ran.code, Some(0), "read as ps does: {}", ran.stderr);
    assert_eq!(inside("run -- true").unwrap().code, Some(0));
}

/// As in a chroot. Nothing is said of processes that cannot be seen.
#[test]
fn without_proc_the_remedy_is_to_mount_it() {
    let inside = inside(&["--mount"], "mount -t tmpfs none /proc || exit 99");
    if inside("list").is_none_or(|ran| ran.code != Some(0)) {
        return println!("skipped: nothing can be mounted on /proc here");
    }
    let reading = [("explain 1", 7), ("stats 1", 7), ("advise 1", 7)];
    let more = [("top --once", 4), ("serve --listen 127.0.0.1:0", 4)];
    for (words, code) in NEED_PROC.map(|words| (words, 4)).into_iter().chain(more).chain(reading) {
        let ran = inside(words).unwrap();
        assert_eq!(ran.code, Some(code), "{words}: {}", ran.stderr);
        assert!(ran.stderr.contains("mount -t proc proc /proc"), "{words}: {}", ran.stderr);
    }
    assert_eq!(inside("run -- true").unwrap().code, Some(0));
}

#[test]
fn what_is_no_process_is_said_in_words() {
    // A test is not on the first thread.
    let own = std::fs::read_link("/proc/thread-self").unwrap();
    let tid = own.file_name().unwrap().to_str().unwrap();
    let thread_of = format!("{tid} is a thread of process {}.", std::process::id());
    refuses(&["watch", "-d", "100ms", tid], 7, &[&thread_of]);
    for number in ["0", "4294967295"] {
        refuses(&["watch", number], 7, &["There is no process"]);
    }
}
