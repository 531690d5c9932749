// SPDX-License-Identifier: MIT
//! `mallow serve`: its socket, and the file that it writes for the node exporter.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use crate::common::chance::until;
use crate::common::{mallow, refuses, run};
use crate::serve::exchange;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Says that it is alive.
fn ask(path: &Path) -> String {
    let stream = until("no socket", || UnixStream::connect(path).ok());
    exchange(stream, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
}

#[test]
fn a_socket_is_for_its_user_and_goes_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listen = format!("unix:{}", path.display());
    let own = std::process::id().to_string();
    let words = ["serve", "--listen", &listen, "--pid", &own];
    for signal in [Signal::SIGINT, Signal::SIGHUP, Signal::SIGKILL, Signal::SIGTERM] {
        let mut child = mallow(&words).stderr(Stdio::null()).spawn().unwrap();
        assert!(ask(&path).ends_with("ok\n"));
        let mode = std::os::unix::fs::MetadataExt::mode(&path.metadata().unwrap());
        assert_eq!(mode & 0o777, 0o600);
        // Another one leaves it alone.
        refuses(&words, 2, &["socket is in use", "--listen"]);
        assert!(ask(&path).ends_with("ok\n"));
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        let code = child.wait().unwrap().code();
        // What a killed server left is no obstacle to the next.
        assert_eq!(code, (signal != Signal::SIGKILL).then_some(0));
        assert_eq!(path.exists(), signal == Signal::SIGKILL);
    }
    // What is no socket stays.
    std::fs::write(&path, "text").unwrap();
    refuses(&words, 2, &["socket is in use"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
}

#[test]
fn under_nohup_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let script = "trap '' HUP; exec \"$0\" serve --listen \"unix:$1\" --pid $$";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(mallow(&[]).get_program()).arg(&path);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    assert!(ask(&path).ends_with("ok\n"));
    let pid = Pid::from_raw(child.id().cast_signed());
    kill(pid, Signal::SIGHUP).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert!(ask(&path).ends_with("ok\n"));
    kill(pid, Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn files_for_the_node_exporter_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mallow.prom");
    let path = file.to_str().unwrap();
    let own = std::process::id().to_string();
    let ran = run(&["serve", "--textfile", path, "--pid", &own]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    let is_whole = |text: &str| text.ends_with("} 1\n") && text.contains("mallow_serve_build_info");
    assert!(is_whole(&std::fs::read_to_string(&file).unwrap()));
    let words = ["serve", "--textfile", path, "--pid", &own, "--interval", "10ms"];
    let written = || file.metadata().unwrap().modified().unwrap();
    let before = written();
    let mut child = mallow(&words).spawn().unwrap();
    until("it is written again", || (written() > before).then_some(()));
    for _ in 0..200 {
        assert!(is_whole(&std::fs::read_to_string(&file).unwrap()));
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    refuses(&["serve", "--textfile", "/nonexistent/x.prom", "--pid", &own], 2, &["/nonexistent/x"]);
}

/// A server that writes a file again and again, and the lines that it says.
struct Writer(Child, BufReader<ChildStderr>);

impl Writer {
    fn start(file: &Path) -> Writer {
        let own = std::process::id().to_string();
        let words = ["serve", "--textfile", file.to_str().unwrap(), "--pid", &own];
        let mut command = mallow(&words);
        let command = command.args(["--interval", "20ms"]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        Writer(child, lines)
    }

    #[track_caller]
    fn says(&mut self, words: &[&str]) {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        words.iter().for_each(|word| assert!(line.contains(word), "{word}: {line}"));
    }

    /// And says no more.
    #[track_caller]
    fn ends(mut self) {
        kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGTERM).unwrap();
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
        let mut rest = String::new();
        self.1.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
    }
}

#[test]
fn what_cannot_be_written_for_a_while_is_written_later() {
    let parent = tempfile::tempdir().unwrap();
    let (folder, away) = (parent.path().join("here"), parent.path().join("away"));
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("mallow.prom");
    let mut writer = Writer::start(&file);
    until("the file", || file.exists().then_some(()));
    std::fs::rename(&folder, &away).unwrap();
    writer.says(&["mallow.prom", "No such file", "tried again"]);
    std::thread::sleep(Duration::from_millis(200));
    std::fs::create_dir(&folder).unwrap();
    writer.says(&["mallow.prom is written again"]);
    until("the file again", || file.exists().then_some(()));
    writer.ends();
}

/// From the first time on.
#[test]
fn a_full_disk_does_not_end_the_server() {
    let mut writer = Writer::start(Path::new("/dev/full"));
    writer.says(&["/dev/full", "No space left", "tried again"]);
    std::thread::sleep(Duration::from_millis(200));
    writer.ends();
    // Who writes once is told by the exit code.
    let own = std::process::id().to_string();
    refuses(&["serve", "--textfile", "/dev/full", "--pid", &own], 5, &["No space left"]);
}

/// The draft lies beside the file that the link leads to: the folder of the link may be on another disk.
#[test]
fn a_link_stays_and_what_it_leads_to_is_replaced() {
    let parent = tempfile::tempdir().unwrap();
    let path = |name: &str| parent.path().join(name);
    std::fs::create_dir(path("target")).unwrap();
    std::fs::create_dir(path("links")).unwrap();
    let link = path("links/mallow.prom");
    symlink("../target/other", &link).unwrap();
    symlink("mallow.prom", path("target/other")).unwrap();
    let own = std::process::id().to_string();
    for _ in 0..2 {
        let ran = run(&["serve", "--textfile", link.to_str().unwrap(), "--pid", &own]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(link.read_link().unwrap(), Path::new("../target/other"));
        assert!(path("target/other").is_symlink() && !path("target/mallow.prom").is_symlink());
        let text = std::fs::read_to_string(path("target/mallow.prom")).unwrap();
        assert!(text.contains("mallow_serve_build_info"));
    }
}
