// SPDX-License-Identifier: MIT
//! `mallow top` on processes whose heaps are known, with and without a terminal.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::program::Program;
use crate::common::{json, mallow, ran, refuses, run};
use serde_json::Value;

/// 3,000 blocks, of which two thirds are freed; then it sleeps.
const HOLDS: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
    #include <unistd.h>\nint main(void) { static char *p[3000]; for (int i = 0; i < 3000; i++) \
    memset(p[i] = malloc(1000), 1, 1000); for (int i = 0; i < 3000; i++) if (i % 3) free(p[i]); \
    puts(\"{}\"); fflush(stdout); for (;;) pause(); }\n";

struct Holder {
    program: Program,
    _folder: tempfile::TempDir,
}

fn holder(allocator: &str) -> Holder {
    let folder = tempfile::tempdir().unwrap();
    let program =
        crate::common::compile("cc", folder.path(), HOLDS, &["-O1", "-fno-builtin"]).unwrap();
    let words = ["run", "-q", "-a", allocator, "--", program.to_str().unwrap()];
    Holder { program: Program::at_rest(&mut mallow(&words)), _folder: folder }
}

fn only(report: &Value) -> &Value {
    assert_eq!(report["schema"], "mallow.top/1");
    let processes = report["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 1, "{report}");
    &processes[0]
}

#[test]
fn figures_are_those_of_stats() {
    for allocator in ["mallow", "glibc"] {
        let holder = holder(allocator);
        let pid = holder.program.pid();
        let begin = Instant::now();
        let report = json(&run(&["top", "--once", "--json", "--pid", &pid]));
        let took = begin.elapsed().as_secs_f64();
        let row = only(&report);
        let stats = json(&run(&["stats", "--json", &pid]));
        assert_eq!(row["allocator"], allocator);
        assert_eq!(
            row["live"], stats["stats"]["totals"]["allocated"],
            "{allocator}: {row} {stats}"
        );
        assert!(row["live"].as_u64().unwrap() > 1_000_000, "{row}");
        assert!(row["free"].as_u64().unwrap() > 1_000_000, "{row}");
        // It was read by this run.
        assert!(row["heap_age_s"].as_f64().unwrap() <= took && row["why_no_heap"].is_null());
        assert_eq!(row["name"], "program");
        let text = run(&["top", "--once", "--pid", &pid]);
        assert!(text.stdout.contains(allocator) && text.stdout.contains("MiB"), "{}", text.stdout);
        let csv = run(&["top", "--once", "--format", "csv", "--pid", &pid]).stdout;
        assert!(csv.starts_with("PID,user,allocator,RSS,live,"), "{csv}");
        assert!(csv.contains(&format!("{},", row["live"])), "{csv}");
    }
}

#[test]
fn the_whole_machine_is_listed_without_kernel_threads() {
    let report = json(&run(&["top", "--once", "--json", "--sort", "pid"]));
    let processes = report["processes"].as_array().unwrap();
    let own = u64::from(std::process::id());
    assert!(processes.iter().any(|row| row["pid"] == own));
    for row in processes {
        assert!(
            row["rss"].as_u64().is_some() && row["live"].is_null() != row["why_no_heap"].is_null()
        );
        assert_ne!(row["why_no_heap"], "it is a thread of the kernel");
    }
    let pids: Vec<u64> = processes.iter().map(|row| row["pid"].as_u64().unwrap()).collect();
    assert!(pids.is_sorted());
    let none = json(&run(&["top", "--once", "--json", "--filter", "no such\u{1b}[2Jprocess"]));
    assert_eq!(none["processes"], serde_json::json!([]));
}

/// As another user: what can be seen is there, and why the rest is not.
#[test]
fn processes_of_others_say_why_they_have_no_figures() {
    if !crate::common::is_root() {
        println!("skipped: only root can be another user");
        return;
    }
    let holder = holder("mallow");
    let folder = tempfile::tempdir().unwrap();
    let mut command = crate::common::without_rights(folder.path());
    command.args(["top", "--once", "--json", "--pid", &holder.program.pid()]);
    let report = json(&ran(command.output().unwrap()));
    let row = only(&report);
    assert!(row["rss"].as_u64().unwrap() > 1_000_000 && row["name"] == "program", "{row}");
    assert!(row["live"].is_null() && row["allocator"].is_null());
    assert!(row["why_no_heap"].as_str().unwrap().contains("another user"), "{row}");
}

#[test]
fn names_cannot_change_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let tool = folder.path().join("a\u{1b}[31mb\n");
    std::fs::copy("/bin/sleep", &tool).unwrap();
    let mut child = Command::new(&tool).arg0("\u{1b}]0;x\u{7}").arg("1000").spawn().unwrap();
    let pid = child.id().to_string();
    for format in ["table", "csv", "md", "html"] {
        let text = run(&["top", "--once", "--format", format, "--pid", &pid]).stdout;
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text:?}");
        assert!(text.contains("a\\u{1b}[31mb"), "{text:?}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn documents_follow_each_other_and_end_with_their_reader() {
    let holder = holder("mallow");
    let pid = holder.program.pid();
    let text = run(&["top", "--json", "-n", "3", "-i", "300ms", "--pid", &pid]).stdout;
    let reports: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(reports.len(), 3);
    assert!(only(&reports[2])["rss_per_s"].as_f64().is_some());
    assert_eq!(only(&reports[2])["rss_history"].as_array().unwrap().len(), 3);
    let mut top = mallow(&["top", "-i", "20ms", "--pid", &pid]);
    let mut top = top.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(top.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("process"), "{line}");
    assert_eq!(top.wait().unwrap().code(), Some(0));
    refuses(&["top", "-n", "2", "--format", "md"], 2, &["--count"]);
    refuses(&["top", "--pid", "4194304"], 7, &["4194304"]);
}

/// A terminal of its own, made by tmux.
struct Tmux {
    socket: String,
}

impl Tmux {
    /// `None`, visibly, where tmux is missing.
    fn start(width: u16, height: u16, words: &[&str]) -> Option<Tmux> {
        if Command::new("tmux").arg("-V").output().is_err() {
            println!("skipped: tmux is not installed");
            return None;
        }
        let number = std::process::id();
        let tmux = Tmux { socket: format!("mallow-top-{number}-{width}x{height}") };
        let tool = mallow(&[]).get_program().to_str().unwrap().to_owned();
        let line = format!(
            "env -u CI -u NO_COLOR LC_ALL=C.UTF-8 XDG_CONFIG_HOME=/nonexistent {tool} {}; \
             echo ended with $?; stty -a | grep -o ' .*icanon'; sleep 1000",
            words.join(" ")
        );
        let (width, height) = (width.to_string(), height.to_string());
        let size = ["-x", &width, "-y", &height];
        let mut command = tmux.command(&["-u", "-f", "/dev/null", "new-session", "-d"]);
        assert!(command.args(size).arg(&line).status().unwrap().success());
        Some(tmux)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket]).args(words);
        command
    }

    fn press(&self, keys: &[&str]) {
        assert!(self.command(&["send-keys"]).args(keys).status().unwrap().success());
    }

    /// The screen, when it has all of these words.
    #[track_caller]
    fn shows(&self, words: &[&str]) -> String {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let output = self.command(&["capture-pane", "-p"]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            if words.iter().all(|word| text.contains(word)) {
                return text;
            }
            assert!(Instant::now() < deadline, "{words:?} are not in:\n{text}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.command(&["kill-server"]).output();
    }
}

#[test]
fn keys_do_what_the_help_says() {
    let holder = holder("mallow");
    let pid = holder.program.pid();
    let Some(tmux) = Tmux::start(80, 24, &["top", "--pid", &pid]) else { return };
    tmux.shows(&["ALLOC", "HISTORY", "mallow", "program", "heap read", "q quit"]);
    tmux.press(&["?"]);
    tmux.shows(&["explain its memory", "free but", "q back"]);
    tmux.press(&["q", "/", "nothing"]);
    tmux.shows(&["/nothing_", "No process that matches."]);
    tmux.press(&["Escape"]);
    // Together they would be one key, Alt-t.
    tmux.shows(&["program", "q quit"]);
    tmux.press(&["t"]);
    tmux.shows(&["program", "as a tree"]);
    tmux.press(&["r"]);
    tmux.shows(&["Record all allocations of", "y: yes   n: no"]);
    tmux.press(&["n"]);
    tmux.shows(&["not recorded"]);
    tmux.press(&["Enter"]);
    tmux.shows(&["mallow explain", "RSS is", "q back"]);
    tmux.press(&["q", "q"]);
    tmux.shows(&["ended with 0", " icanon"]);
}

#[test]
fn terminals_of_any_size_are_left_as_they_were() {
    let holder = holder("mallow");
    let pid = holder.program.pid();
    let Some(tmux) = Tmux::start(40, 12, &["top", "--pid", &pid]) else { return };
    tmux.shows(&["ALLOC", "LIVE", "? help  q quit"]);
    for (width, height) in [("20", "5"), ("3", "2"), ("120", "30"), ("40", "12")] {
        let resized = tmux.command(&["resize-window", "-x", width, "-y", height]).status();
        assert!(resized.unwrap().success());
        std::thread::sleep(Duration::from_millis(100));
    }
    tmux.shows(&["ALLOC", "? help  q quit"]);
    // A signal ends it as a key does.
    let command = format!("{} top --pid {pid}", mallow(&[]).get_program().to_str().unwrap());
    let found = mallow_process_of(&command);
    let signal = nix::sys::signal::Signal::SIGTERM;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(found), signal).unwrap();
    tmux.shows(&["ended with 0", " icanon"]);
}

/// `start()` starts it in a terminal of its own.
const START: &str = "import fcntl, os, pty, select, signal, struct, sys, termios, time\n\
    signal.alarm(60)\n\
    def start():\n    \
    pid, terminal = pty.fork()\n    \
    if pid == 0:\n        os.environ['TERM'] = 'xterm'\n        os.environ.pop('CI', None)\n        \
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))\n        \
    os.execv(sys.argv[1], sys.argv[1:])\n    \
    return pid, terminal\n";

/// Runs this Python, which starts `mallow top` of a process with `start()`.
fn in_terminals(script: &str, pid: &str) {
    let mut python = Command::new("python3");
    python.args(["-c", &format!("{START}{script}")]).arg(mallow(&[]).get_program());
    let Ok(output) = python.args(["top", "--pid", pid]).output() else {
        println!("skipped: python3 is not installed");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Under nohup nobody is told that the window was closed: reading from it then never ends by itself.
#[test]
fn it_ends_when_its_terminal_is_gone() {
    let holder = holder("mallow");
    let script = "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n\
        pid, terminal = start()\n\
        seen = b''\n\
        while b'ALLOC' not in seen:\n    seen += os.read(terminal, 4096)\n\
        os.close(terminal)\n\
        for i in range(600):\n    \
        if os.waitpid(pid, os.WNOHANG)[0]:\n        sys.exit(0)\n    time.sleep(0.05)\n\
        os.kill(pid, signal.SIGKILL)\n\
        sys.exit('still there')\n";
    in_terminals(script, &holder.program.pid());
}

/// What was written last about the screen and the cursor, while it is stopped and after each signal.
#[test]
fn a_stop_and_signals_leave_the_screen_and_a_cursor() {
    let holder = holder("mallow");
    let script = "def shows(terminal):\n    \
        seen = b''\n    \
        while b'q quit' not in seen:\n        seen += os.read(terminal, 4096)\n    \
        return seen\n\
        def is_given_back(pid, terminal, seen, number):\n    \
        os.kill(pid, number)\n    \
        status = os.waitpid(pid, os.WUNTRACED)[1]\n    \
        while select.select([terminal], [], [], 0.2)[0]:\n        \
        try: seen += os.read(terminal, 4096)\n        \
        except OSError: break\n    \
        for on, off in (b'?1049l', b'?1049h'), (b'?25h', b'?25l'):\n        \
        if seen.rfind(on) <= seen.rfind(off): sys.exit(f'{number}: {on} is not the last: {seen[-99:]}')\n    \
        return status\n\
        for number in signal.SIGHUP, signal.SIGTERM:\n    \
        pid, terminal = start()\n    \
        status = is_given_back(pid, terminal, shows(terminal), signal.SIGTSTP)\n    \
        if not os.WIFSTOPPED(status): sys.exit('not stopped')\n    \
        os.kill(pid, signal.SIGCONT)\n    \
        status = is_given_back(pid, terminal, shows(terminal), number)\n    \
        if status: sys.exit(f'ended with {status}')\n";
    in_terminals(script, &holder.program.pid());
}

fn mallow_process_of(command: &str) -> i32 {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_it = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ") == command
    };
    pids.into_iter().find(|pid| is_it(pid)).unwrap()
}
