// SPDX-License-Identifier: MIT
//! `mallow serve`: what it says, to whom, and that no process takes it down.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::chance::{one_succeeds, until};
use crate::common::program::{HOLDS, PROFILED, Program, Running, profiled};
use crate::common::{certificate, compile, json, mallow, refuses, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// What keeps a test from waiting for ever; nothing that works takes a part of it.
const FOR_EVER: Duration = Duration::from_secs(300);

pub struct Server {
    child: Running,
    pub address: String,
}

impl Server {
    /// On a port that is free.
    pub fn start(words: &[&str]) -> Server {
        let mut serve = mallow(&["serve", "--listen", "127.0.0.1:0"]);
        let mut child = Running(serve.args(words).stderr(Stdio::piped()).spawn().unwrap());
        let address = address_of(&mut child);
        Server { child, address }
    }

    pub fn get(&self, path: &str, headers: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n"))
    }

    pub fn ask(&self, request: &str) -> String {
        exchange(TcpStream::connect(&self.address).unwrap(), request)
    }

    pub fn metrics(&self) -> String {
        let answer = self.get("/metrics", "");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// The same with each heap that can be read: whose reading once took too long, as on a busy machine, is left alone
    /// for a minute.
    #[track_caller]
    pub fn all_metrics(&self) -> String {
        until("each heap is read", || {
            let metrics = self.metrics();
            let is_whole = metrics.contains("mallow_serve_targets{state=\"unreadable\"} 0\n");
            is_whole.then_some(metrics)
        })
    }

    /// SIGTERM, and the exit code.
    fn end(&mut self) -> Option<i32> {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

fn address_of(child: &mut Child) -> String {
    let mut line = String::new();
    let stderr = child.stderr.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut line).unwrap();
    let begin = line.split_once("://").unwrap_or_else(|| panic!("no address: {line}")).1;
    begin.split_once('/').unwrap().0.to_owned()
}

pub fn exchange(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

/// The value of the first sample with this name and this process.
pub fn value(metrics: &str, name: &str, pid: &str) -> Option<f64> {
    let beginning = format!("{name}{{pid=\"{pid}\",");
    let line = metrics.lines().find(|line| line.starts_with(&beginning))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn holding(folder: &Path, settings: &str) -> Option<Program> {
    let program = compile("cc", folder, HOLDS, &["-O0"])?;
    let mut command = mallow(&["run", "--", program.to_str().unwrap()]);
    command.env("MALLOW_CONF", settings).current_dir(folder);
    Some(Program::start(&mut command))
}

/// Pages that a thread keeps are free: no verb counts them as active, and none twice.
#[test]
fn each_page_counts_once_and_alike_everywhere() {
    const KEEPS: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nint main(void) { \
        static void *blocks[20000]; for (int i = 0; i < 20000; i++) blocks[i] = malloc(16 + i % 3000);\n\
        for (int i = 0; i < 20000; i++) if (i % 300 != 0) free(blocks[i]);\n\
        puts(\"{}\"); fflush(stdout); sleep(100); }\n";
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile("cc", folder.path(), KEEPS, &["-O1"]) else { return };
    let mut command = mallow(&["run", "--", program.to_str().unwrap()]);
    command.env("MALLOW_CONF", "narenas:1,dirty_decay_ms:-1");
    let program = Program::start(&mut command);
    let pid = program.pid();
    let stats = json(&run(&["stats", "--json", &pid]));
    let explained = json(&run(&["explain", "--json", &pid]));
    let metrics = Server::start(&["--pid", &pid]).all_metrics();
    let arena = &explained["heap"]["arenas"][0];
    let [active, kept, dirty] = ["active", "cached", "dirty"].map(|name| arena[name].as_u64());
    let (active, kept, dirty) = (active.unwrap(), kept.unwrap(), dirty.unwrap());
    assert!(kept > 0, "{arena}");
    for (name, expected) in [("active", active), ("dirty", dirty + kept)] {
        assert_eq!(stats["stats"]["totals"][name].as_u64(), Some(expected), "{name}");
        let metric = value(&metrics, &format!("mallow_heap_{name}_bytes"), &pid);
        assert_eq!(metric, Some(expected as f64), "{name}");
    }
    let all = ["mapped", "muzzy", "retained"].map(|name| arena[name].as_u64().unwrap());
    let [mapped, muzzy, retained] = all;
    assert_eq!(active + kept + dirty + muzzy + retained, mapped, "{arena}");
}

#[test]
fn a_heap_is_what_the_program_holds() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = holding(folder.path(), "") else { return };
    let pid = program.pid();
    let mut server = Server::start(&["--pid", &pid]);
    let metrics = server.all_metrics();
    let allocated = value(&metrics, "mallow_heap_allocated_bytes", &pid).unwrap();
    // Of the class of 1,024 bytes, and what the C library keeps.
    assert!((30.7e6..31.5e6).contains(&allocated), "{allocated}");
    let rss = value(&metrics, "mallow_process_resident_bytes", &pid).unwrap();
    assert!(rss > allocated && rss < 2.0 * allocated, "{rss}");
    let before = value(&metrics, "mallow_heap_slot_allocations_total", &pid).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let after = value(&server.all_metrics(), "mallow_heap_slot_allocations_total", &pid).unwrap();
    assert!(after > before && before > 30_000.0, "{before} {after}");
    let open = server.get("/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n");
    assert!(open.contains("application/openmetrics-text") && open.ends_with("# EOF\n"), "{open}");
    let page = server.get("/", "");
    assert!(page.contains("<title>mallow serve</title>") && page.contains(&pid), "{page}");
    assert!(server.get("/healthz", "").ends_with("\r\n\r\nok\n"));
    assert_eq!(server.end(), Some(0));
}

#[test]
fn nothing_but_reading_is_served() {
    let server = Server::start(&["--pid", &std::process::id().to_string()]);
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let answer =
            server.ask(&format!("{method} / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    }
    let head = server.ask("HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(server.get("/none", "").starts_with("HTTP/1.1 404 "));
    assert!(server.get("/debug/pprof/heap", "").starts_with("HTTP/1.1 400 "));
    assert!(server.get("/debug/pprof/heap?pid=1", "").contains("Process 1 is not served"));
    // Nonsense, and requests that never end, are their sender's trouble alone.
    assert!(server.ask("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let mut waiting = TcpStream::connect(&server.address).unwrap();
    waiting.write_all(b"GET /metr").unwrap();
    let long = "x".repeat(1 << 20);
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let _ = stream.write_all(format!("GET /{long} HTTP/1.1\r\n\r\n").as_bytes());
    assert!(server.get("/healthz", "").starts_with("HTTP/1.1 200 OK"));
}

/// More than there are places. Of those that say nothing the oldest go at once, not when their time is
/// over: the last ones are still there when somebody is answered who came after them.
#[test]
fn who_says_nothing_makes_room() {
    let server = Server::start(&["--pid", &std::process::id().to_string()]);
    let connect = |_| TcpStream::connect(&server.address).unwrap();
    let mut silent: Vec<TcpStream> = (0..300).map(connect).collect();
    assert!(server.get("/healthz", "").starts_with("HTTP/1.1 200 OK"));
    silent[250].set_nonblocking(true).unwrap();
    let outcome = silent[250].read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(outcome, Err(std::io::ErrorKind::WouldBlock));
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
}

/// More than there are places, who ask a moment after they have come: nobody is sent away before. On a busy machine that
/// moment may be longer than they have.
#[test]
fn a_crowd_is_answered() {
    let server = Server::start(&["--pid", &std::process::id().to_string()]);
    let connect = |_| TcpStream::connect(&server.address).unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    one_succeeds(0..5, |_| {
        let crowd: Vec<TcpStream> = (0..100).map(connect).collect();
        let sent: Vec<_> = crowd.iter().map(|mut stream| stream.write_all(request)).collect();
        for (mut stream, sent) in crowd.iter().zip(sent) {
            let mut answer = String::new();
            let outcome = sent.and_then(|()| stream.read_to_string(&mut answer));
            if !answer.starts_with("HTTP/1.1 200 OK") {
                return Err(format!("{answer:?} {outcome:?}"));
            }
        }
        Ok(())
    });
}

/// They fill all places with questions, and take no answer.
#[test]
fn who_does_not_read_makes_room() {
    let server = Server::start(&["--pid", &std::process::id().to_string()]);
    let questions = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2000);
    let _deaf: Vec<TcpStream> = (0..64)
        .map(|_| {
            let mut stream = TcpStream::connect(&server.address).unwrap();
            stream.set_nonblocking(true).unwrap();
            let _ = stream.write(&questions);
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_secs(1));
    assert!(server.get("/healthz", "").starts_with("HTTP/1.1 200 OK"));
}

#[test]
fn a_token_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let token = "0123456789abcdef";
    std::fs::write(&file, format!("{token}\n")).unwrap();
    let server =
        Server::start(&["--token-file", file.to_str().unwrap(), "--pid", "1"].map(|word| {
            if word == "1" {
                Box::leak(std::process::id().to_string().into_boxed_str())
            } else {
                word
            }
        }));
    assert!(server.get("/metrics", "").starts_with("HTTP/1.1 401 "));
    for wrong in ["0123456789abcdeX", "0123456789abcdef0", "", "0123"] {
        let answer = server.get("/metrics", &format!("Authorization: Bearer {wrong}\r\n"));
        assert!(answer.starts_with("HTTP/1.1 401 "), "{wrong}: {answer}");
    }
    let answer = server.get("/metrics", &format!("Authorization: bearer {token}\r\n"));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    std::fs::write(&file, "short\n").unwrap();
    refuses(&["serve", "--token-file", file.to_str().unwrap()], 2, &["at least 16 characters"]);
}

#[test]
fn tls_is_spoken_with_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let Some((cert, key)) = certificate(folder.path(), "own") else { return };
    let Some((other, _)) = certificate(folder.path(), "other") else { return };
    let own = std::process::id().to_string();
    let words = ["--tls-cert", &cert, "--tls-key", &key, "--pid", &own];
    let mut server = Server::start(&words);
    let url = format!("https://{}/metrics", server.address);
    let curl = |more: &[&str]| {
        let words = [&["--silent", "--show-error", "--max-time", "20"][..], more, &[&url]].concat();
        Command::new("curl").args(words).output()
    };
    let Ok(answer) = curl(&["--cacert", &cert]) else {
        eprintln!("skipped: curl is not installed");
        return;
    };
    let said = String::from_utf8_lossy(&answer.stderr);
    assert!(String::from_utf8_lossy(&answer.stdout).contains("mallow_target_info"), "{said}");
    for version in ["--tlsv1.3", "--tls-max=1.2"] {
        let words = ["--cacert", &cert, version].map(|word| word.split('=').collect::<Vec<_>>());
        assert!(curl(&words.concat()).unwrap().status.success(), "{version}");
    }
    assert!(!curl(&["--cacert", &other]).unwrap().status.success(), "of another server");
    // Who speaks no TLS is not answered, and who says nothing is in nobody's way.
    let _silent = TcpStream::connect(&server.address).unwrap();
    let mut plain = TcpStream::connect(&server.address).unwrap();
    plain.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    assert!(curl(&["--cacert", &cert]).unwrap().status.success());
    assert_eq!(server.end(), Some(0));
}

/// A new certificate and its key come one after the other.
#[test]
fn a_renewed_certificate_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let Some((cert, key)) = certificate(folder.path(), "own") else { return };
    let Some((new_cert, new_key)) = certificate(folder.path(), "new") else { return };
    let old = folder.path().join("old.crt").display().to_string();
    std::fs::copy(&cert, &old).unwrap();
    let own = std::process::id().to_string();
    let server = Server::start(&["--tls-cert", &cert, "--tls-key", &key, "--pid", &own]);
    let url = format!("https://{}/healthz", server.address);
    let is_trusted = |ca: &str| {
        let words = ["--silent", "--max-time", "20", "--cacert", ca, &url];
        Command::new("curl").args(words).output().map(|answer| answer.status.success())
    };
    let Ok(trusted) = is_trusted(&old) else {
        eprintln!("skipped: curl is not installed");
        return;
    };
    assert!(trusted && !is_trusted(&new_cert).unwrap());
    std::fs::rename(std::fs::canonicalize(&new_cert).unwrap(), &cert).unwrap();
    assert!(is_trusted(&old).unwrap(), "its key has not come yet");
    std::fs::rename(&new_key, &key).unwrap();
    assert!(is_trusted(&cert).unwrap() && !is_trusted(&old).unwrap());
    // One that cannot be used, or none at all, does not take the server down.
    std::fs::copy(&cert, &new_cert).unwrap();
    std::fs::write(&cert, "nothing").unwrap();
    assert!(is_trusted(&new_cert).unwrap());
    std::fs::remove_file(&cert).unwrap();
    assert!(is_trusted(&new_cert).unwrap());
}

#[test]
fn certificates_that_cannot_be_used_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some((cert, key)) = certificate(folder.path(), "own") else { return };
    let Some((_, other)) = certificate(folder.path(), "other") else { return };
    let serve = |cert: &str, key: &str, code: i32, words: &[&str]| {
        let listen = ["serve", "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key];
        refuses(&listen, code, words);
    };
    serve("/nonexistent/crt", &key, 2, &["/nonexistent/crt"]);
    serve(&cert, "/nonexistent/key", 2, &["/nonexistent/key"]);
    serve(&key, &key, 2, &["no certificate"]);
    serve(&cert, &cert, 2, &["no private key"]);
    serve(&cert, &other, 2, &["together"]);
    let cut = folder.path().join("cut");
    std::fs::write(&cut, &std::fs::read(&cert).unwrap()[..200]).unwrap();
    serve(cut.to_str().unwrap(), &key, 2, &["no certificate"]);
    let socket = format!("unix:{}/socket", folder.path().display());
    refuses(&["serve", "--listen", &socket, "--tls-cert", &cert, "--tls-key", &key], 2, &["TLS"]);
    assert_eq!(run(&["serve", "--tls-cert", &cert]).code, Some(2));
}

#[test]
fn places_that_cannot_be_listened_on_are_refused() {
    refuses(&["serve", "--listen", "0.0.0.0:0"], 2, &["--token-file", "--no-token"]);
    refuses(&["serve", "--listen", "[::]:0"], 2, &["--token-file"]);
    refuses(&["serve", "--listen", "here"], 2, &["here is no address"]);
    refuses(
        &["serve", "--listen", "192.0.2.1:80", "--no-token"],
        2,
        &["no address of this machine"],
    );
    refuses(&["serve", "--match", "("], 2, &["regular expression"]);
    refuses(&["serve", "--listen", "unix:/nonexistent/socket"], 2, &["/nonexistent/socket"]);
    let server = Server::start(&["--pid", &std::process::id().to_string()]);
    refuses(&["serve", "--listen", &server.address], 2, &["is in use", "--listen"]);
}

#[test]
fn processes_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("come{}", std::process::id());
    let Some(program) = compile("cc", folder.path(), HOLDS, &["-O0"]) else { return };
    let named = folder.path().join(&name);
    std::fs::rename(program, &named).unwrap();
    let server = Server::start(&["--match", &name]);
    let mut seen = Vec::new();
    for _ in 0..3 {
        let program = Program::start(&mut mallow(&["run", "--", named.to_str().unwrap()]));
        let pid = program.pid();
        std::thread::sleep(Duration::from_millis(600)); // readings are shared for half a second
        let metrics = server.all_metrics();
        assert!(value(&metrics, "mallow_heap_allocated_bytes", &pid).is_some(), "{metrics}");
        drop(program);
        seen.push(pid);
    }
    std::thread::sleep(Duration::from_millis(600));
    let metrics = server.metrics();
    assert!(
        seen.iter().all(|pid| value(&metrics, "mallow_target_info", pid).is_none()),
        "{metrics}"
    );
}

/// A program with a page of its own making, whose tables and numbers say anything.
const LIES: &str = "#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n\
    struct page { char magic[16]; uint32_t version, size; const void *self; char build[24];\n\
    const void *roots, *numbers, *fields; uint32_t counts[4]; const void *lines; };\n\
    static struct { char name[24]; uint64_t value; } table[3] = {{\"page_shift\", 0}, {\"arenas\", 8},\n\
    {\"arenas_used\", 0}};\n\
    static uint32_t many = 0xffffffff, shift = 12;\n\
    __attribute__((visibility(\"default\"))) struct page mw_stats_page;\n\
    int main(void) { memcpy(mw_stats_page.magic, \"mallow:stats:2\\n\", 15);\n\
    mw_stats_page.version = 2; mw_stats_page.self = &mw_stats_page;\n\
    memset(mw_stats_page.build, 'x', 24);\n\
    table[0].value = (uint64_t)&shift; table[2].value = (uint64_t)&many;\n\
    mw_stats_page.roots = table; mw_stats_page.numbers = table; mw_stats_page.fields = table;\n\
    mw_stats_page.lines = table; for (int i = 0; i < 3; i++) mw_stats_page.counts[i] = LINES;\n\
    puts(\"{}\"); fflush(stdout); for (;;) pause(); }\n";

#[test]
fn a_page_that_lies_does_no_harm() {
    let mut programs = Vec::new();
    let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    for (folder, lines) in folders.iter().zip(["3", "1000", "0xffffffffu"]) {
        let flag = format!("-DLINES={lines}");
        let flags = ["-O1", "-rdynamic", &flag];
        let Some(program) = compile("cc", folder.path(), LIES, &flags) else { return };
        programs.push(Program::start(&mut Command::new(program)));
    }
    let pids: Vec<String> = programs.iter().map(Program::pid).collect();
    let words: Vec<&str> = pids.iter().flat_map(|pid| ["--pid", pid]).collect();
    let mut server = Server::start(&words);
    for _ in 0..2 {
        let metrics = server.metrics();
        for pid in &pids {
            assert!(value(&metrics, "mallow_process_resident_bytes", pid).is_some(), "{metrics}");
            assert!(value(&metrics, "mallow_heap_allocated_bytes", pid).is_none(), "{metrics}");
        }
        std::thread::sleep(Duration::from_millis(600));
    }
    assert_eq!(server.end(), Some(0));
}

impl Server {
    /// The head and the body, whatever bytes it has.
    fn fetch(&self, path: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(FOR_EVER)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        (head, answer.split_off(end + 4))
    }
}

#[test]
fn a_profile_that_was_written_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = profiled(folder.path(), "") else { return };
    let pid = program.pid();
    let server = Server::start(&["--pid", &pid]);
    for kind in ["heap", "allocs"] {
        let path = format!("/debug/pprof/{kind}?pid={pid}");
        let (head, body) = server.fetch(&path);
        assert!(head.starts_with("HTTP/1.1 200 "), "{head} {}", String::from_utf8_lossy(&body));
        assert!(head.contains("content-type: application/octet-stream"), "{head}");
        assert!(head.contains(&format!("filename=\"{kind}.pb.gz\"")), "{head}");
        let mut profile = Vec::new();
        flate2::read::GzDecoder::new(body.as_slice()).read_to_end(&mut profile).unwrap();
        let has = |name: &[u8]| profile.windows(name.len()).any(|part| part == name);
        assert!(has(b"hoard") && has(b"inuse_space"), "{kind}");
        let text = server.get(&format!("{path}&debug=1"), "");
        assert!(text.contains("text/plain") && text.contains("\r\nheap_v2/"), "{text}");
    }
    // Where one process is served it need not be named.
    assert!(server.fetch("/debug/pprof/heap").0.starts_with("HTTP/1.1 200 "));
    // One that writes none: the sentence says what to do.
    let quiet = tempfile::tempdir().unwrap();
    let Some(program) = holding(quiet.path(), "") else { return };
    let pid = program.pid();
    let server = Server::start(&["--pid", &pid]);
    let answer = server.get(&format!("/debug/pprof/heap?pid={pid}"), "");
    assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("prof:true"), "{answer}");
}

/// What collectors are made of: it fetches the URL itself, and needs neither program nor symbols.
#[test]
fn go_reads_profiles_from_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = profiled(folder.path(), ",prof_accum:true") else { return };
    let pid = program.pid();
    let server = Server::start(&["--pid", &pid]);
    for (kind, shown) in [("heap", "inuse_space"), ("allocs", "alloc_space")] {
        let url = format!("http://{}/debug/pprof/{kind}?pid={pid}", server.address);
        let mut pprof = crate::common::pprof(folder.path());
        let Ok(output) = pprof.args(["-top", "-unit=B", &url]).output() else {
            eprintln!("skipped: pprof: no go");
            return;
        };
        let text = String::from_utf8(output.stdout).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(&format!("Type: {shown}")), "{text}{said}");
        let first = text.lines().skip_while(|line| !line.contains("flat%")).nth(1).unwrap();
        assert!(first.ends_with(" hoard"), "{text}");
        let bytes: f64 = first.trim().split_once('B').unwrap().0.parse().unwrap();
        assert!((26e6..33e6).contains(&bytes), "{text}");
    }
}

/// As root the server may read every file; what names the places of a profile runs as its process.
#[test]
fn what_its_user_may_not_read_is_not_read_for_a_process() {
    use object::{Object, ObjectSymbol};
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    if !crate::common::is_root() {
        eprintln!("skipped: only root can start a process of another user");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    mode(folder.path(), 0o755);
    let Some(file) = compile("cc", folder.path(), PROFILED, &["-g", "-O0"]) else { return };
    let bytes = std::fs::read(&file).unwrap();
    let elf = object::File::parse(bytes.as_slice()).unwrap();
    let hoard = elf.symbols().find(|symbol| symbol.name() == Ok("hoard")).unwrap().address();
    let mut command = Command::new("sh");
    command.args(["-c", "echo '{}'; exec sleep 1000"]).current_dir(folder.path());
    let program = Program::start(command.uid(NOBODY).gid(NOBODY));
    let pid = program.pid();
    let server = Server::start(&["--pid", &pid]);
    let name = file.display();
    let text = format!(
        "heap_v2/1\n@ {:#x}\n  t*: 1: 100 [0: 0]\n\nMAPPED_LIBRARIES:\n\
         10000000-10100000 r-xp 1000 00:00 1 {name}\n",
        0x1000_0000 - 0x1000 + hoard + 1
    );
    for (number, (bits, is_named)) in [(0o644, true), (0o600, false)].into_iter().enumerate() {
        mode(&file, bits);
        let profile = folder.path().join(format!("jeprof.{pid}.{number}.i0.heap"));
        std::fs::write(&profile, &text).unwrap();
        chown(&profile, Some(NOBODY), None).unwrap();
        let (head, body) = server.fetch("/debug/pprof/heap");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head} {}", String::from_utf8_lossy(&body));
        let mut profile = Vec::new();
        flate2::read::GzDecoder::new(body.as_slice()).read_to_end(&mut profile).unwrap();
        assert_eq!(profile.windows(5).any(|part| part == b"hoard"), is_named, "{bits:o}");
    }
}

/// Maps that name pipes and devices, numbers that cannot be, and a file that never ends.
#[test]
fn profiles_that_lie_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = holding(folder.path(), "") else { return };
    let pid = program.pid();
    let mut server = Server::start(&["--pid", &pid]);
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let map =
        |range: &str, offset: &str, path: &str| format!("{range} r-xp {offset} 00:00 1 {path}\n");
    let maps = [
        map("1000-2000", "0", pipe.to_str().unwrap()),
        map("2000-3000", "0", "/dev/zero"),
        map("3000-4000", "0", "/dev/tty"),
        map("5000-4000", "ffffffffffffffff", "/bin/sh"),
        map("0-ffffffffffffffff", "ffffffffffffffff", "/bin/sh"),
        map("6000-7000", "0", "/proc/self/mem"),
        map("7000-8000", "0", folder.path().to_str().unwrap()),
    ];
    let stacks =
        "@ 0x1001 0x2001 0x3001 0x6001 0x7001 0xffffffffffffffff 0x0\n  t*: 1: 100 [1: 100]\n";
    let whole =
        format!("heap_v2/1\n  t*: 1: 100 [1: 100]\n{stacks}\nMAPPED_LIBRARIES:\n{}", maps.concat());
    let texts =
        [whole.as_str(), "heap_v2/", "heap_v2/0\n", "heap_v2/1\n@ zero\nMAPPED_LIBRARIES:\n"];
    for (number, text) in texts.iter().enumerate() {
        let file = folder.path().join(format!("jeprof.{pid}.{number}.i0.heap"));
        std::fs::write(&file, text).unwrap();
        let (head, body) = server.fetch("/debug/pprof/heap");
        let is_fine = head.starts_with("HTTP/1.1 200 ");
        // The damaged ones are newer; what could be read before is given out.
        let is_told = head.starts_with("HTTP/1.1 500 ");
        assert!(is_fine || is_told, "{head} {}", String::from_utf8_lossy(&body));
        assert!(number > 0 || is_fine, "{head} {}", String::from_utf8_lossy(&body));
    }
    std::os::unix::fs::symlink("/dev/zero", folder.path().join(format!("jeprof.{pid}.8.i0.heap")))
        .unwrap();
    assert!(server.fetch("/debug/pprof/heap").0.starts_with("HTTP/1.1 "));
    // Who writes finds nobody who waits for the pipe's other end.
    let writer = File::options().write(true).custom_flags(nix::libc::O_NONBLOCK).open(&pipe);
    assert_eq!(writer.unwrap_err().raw_os_error(), Some(nix::libc::ENXIO));
    assert_eq!(server.end(), Some(0));
}
