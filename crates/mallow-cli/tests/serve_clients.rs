// SPDX-License-Identifier: MIT
//! `mallow serve` and those who ask it: the ones that would keep others out, and the ones whose token is renewed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{refuses, run};
use crate::serve::Server;

const QUESTION: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
const PLACES: usize = 64;

fn server(token: &std::path::Path) -> Server {
    let own = std::process::id().to_string();
    Server::start(&["--token-file", token.to_str().unwrap(), "--pid", &own])
}

/// Before the server closes who says nothing.
const SOON: Duration = Duration::from_secs(8);
const LONG: Duration = Duration::from_secs(100);

/// The answer to who has the token, if it comes in time.
fn answer(server: &Server, token: &str, time: Duration) -> String {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(time)).unwrap();
    let head = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
    write!(stream, "{head}Authorization: Bearer {token}\r\n\r\n").unwrap();
    let mut answer = String::new();
    match stream.read_to_string(&mut answer) {
        Ok(_) => answer,
        Err(error) => format!("no answer: {error}"),
    }
}

/// They take all places: with a question each where everybody may ask, and with questions without end that need no
/// token.
#[test]
fn who_has_no_token_keeps_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    for goes_on in [false, true] {
        let own = std::process::id().to_string();
        let server = if goes_on { server(&token) } else { Server::start(&["--pid", &own]) };
        let is_over = AtomicBool::new(false);
        let ask = || {
            let mut stream = TcpStream::connect(&server.address).unwrap();
            let mut answer = [0; 512];
            loop {
                let sent = stream.write_all(QUESTION);
                if sent.is_err() || !matches!(stream.read(&mut answer), Ok(1..)) || !goes_on {
                    break;
                }
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            stream
        };
        let found = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..PLACES).map(|_| scope.spawn(ask)).collect();
            std::thread::sleep(Duration::from_secs(1));
            let found = answer(&server, "0123456789abcdef", SOON);
            is_over.store(true, Ordering::Relaxed);
            let streams: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            drop(streams);
            found
        });
        assert!(found.starts_with("HTTP/1.1 200 OK"), "{goes_on}: {found:.200}");
    }
}

#[test]
fn a_renewed_token_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    let server = server(&token);
    let code = |word: &str| answer(&server, word, LONG)[9..12].to_owned();
    assert_eq!(code("0123456789abcdef"), "200");
    std::fs::write(&token, "fedcba98765432100\n").unwrap();
    assert_eq!((code("0123456789abcdef"), code("fedcba98765432100")), ("401".into(), "200".into()));
    // While there is none the old one holds.
    std::fs::write(&token, "").unwrap();
    assert_eq!(code("fedcba98765432100"), "200");
    std::fs::remove_file(&token).unwrap();
    assert_eq!((code("fedcba98765432100"), code("")), ("200".into(), "401".into()));
}

#[test]
fn a_unit_has_a_name() {
    refuses(&["serve", "--unit", ""], 2, &["--unit", "systemctl"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("metrics.prom");
    let served = run(&["serve", "--textfile", file.to_str().unwrap(), "--unit", "no-such-unit"]);
    assert_eq!(served.code, Some(0), "{}", served.stderr);
    let note = "No process belongs to no-such-unit.service now.";
    assert!(served.stderr.contains(note), "{}", served.stderr);
}
