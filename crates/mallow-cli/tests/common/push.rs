// SPDX-License-Identifier: MIT
//! A server that pushes, all that it says, and what it pushes to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::chance::own_listener;
use super::mallow;
use super::program::Running;

pub const LONG: Duration = Duration::from_secs(120);

/// The server under test, and all that it says.
pub struct Server {
    pub child: Running,
    pub said: Arc<Mutex<String>>,
    address: String,
}

impl Server {
    pub fn start(words: &[&str]) -> Server {
        let mut command = mallow(&["serve", "--listen", "127.0.0.1:0"]);
        let mut child = Running(command.args(words).stderr(Stdio::piped()).spawn().unwrap());
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = Arc::new(Mutex::new(String::new()));
        let copy = said.clone();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| *copy.lock().unwrap() += &(line + "\n"));
        });
        let mut server = Server { child, said, address: String::new() };
        server.says("/metrics");
        let said = server.said.lock().unwrap().clone();
        let begin = said.split_once("://").unwrap().1;
        server.address = begin.split_once('/').unwrap().0.to_owned();
        server
    }

    /// Waits until it has said this.
    #[track_caller]
    pub fn says(&self, words: &str) {
        let begin = Instant::now();
        while !self.said.lock().unwrap().contains(words) {
            assert!(begin.elapsed() < LONG, "{words}: {}", self.said.lock().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn get(&self, path: &str) -> String {
        get(&self.address, path)
    }
}

#[track_caller]
pub fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") || answer.starts_with("HTTP/1.0 200 "), "{answer}");
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// A request as it came.
pub struct Pushed {
    pub head: String,
    pub body: Vec<u8>,
}

/// Reads one request and answers it.
fn take(mut stream: impl Read + Write, answer: &[u8]) -> Option<Pushed> {
    let mut bytes = Vec::new();
    let end = loop {
        let mut part = [0; 4096];
        let many = stream.read(&mut part).ok().filter(|many| *many > 0)?;
        bytes.extend(&part[..many]);
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = bytes.split_off(end);
    let rest = length.parse::<usize>().unwrap() - body.len();
    let begin = body.len();
    body.resize(begin + rest, 0);
    stream.read_exact(&mut body[begin..]).ok()?;
    stream.write_all(answer).ok()?;
    Some(Pushed { head, body })
}

/// A collector that answers each request with the next of `answers`, and with the last from then on.
pub fn collector(
    listener: TcpListener,
    answers: Vec<Vec<u8>>,
    tls: Option<ServerConfig>,
) -> Receiver<Pushed> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let tls = tls.map(Arc::new);
        let mut next = 0;
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = &answers[next.min(answers.len() - 1)];
            let pushed = match &tls {
                Some(config) => {
                    let connection = ServerConnection::new(config.clone()).unwrap();
                    take(StreamOwned::new(connection, stream), answer)
                }
                None => take(stream, answer),
            };
            if let Some(pushed) = pushed {
                next += 1;
                if sender.send(pushed).is_err() {
                    return;
                }
            }
        }
    });
    receiver
}

pub fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

pub fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/x-protobuf\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

pub fn taken() -> Vec<u8> {
    answer("200 OK", "", b"")
}

/// The collector of OpenTelemetry itself, as `packaging/fleet` sets it up.
pub struct Collector {
    /// Where it takes pushes, and where it gives out what it has for Prometheus.
    pub otlp: String,
    pub prometheus: String,
    said: std::path::PathBuf,
    _child: Running,
}

/// A test that fails shows why the collector may have ended.
impl Drop for Collector {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", std::fs::read_to_string(&self.said).unwrap_or_default());
        }
    }
}

impl Collector {
    /// None, visibly, where there is none.
    pub fn start(folder: &Path) -> Option<Collector> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let own = here.join(".tools/bin/otelcol");
        let program = if own.exists() { own } else { "otelcol".into() };
        if Command::new(&program).arg("--version").output().is_err() {
            println!("skipped: otelcol is not installed (make collectors)");
            return None;
        }
        let text = std::fs::read_to_string(here.join("packaging/fleet/otel-collector.yml"));
        let mut text = text.unwrap();
        let mut free = |place: &str| {
            let address = own_listener().local_addr().unwrap().to_string();
            assert!(text.contains(place), "{text}");
            text = text.replace(place, &address);
            address
        };
        let (otlp, prometheus) = (free("0.0.0.0:4318"), free("0.0.0.0:8889"));
        let config = folder.join("collector.yml");
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(&program);
        let said = folder.join("collector.log");
        let log = std::fs::File::create(&said).unwrap();
        command.arg("--config").arg(&config).stdout(Stdio::null()).stderr(log);
        let child = Running(command.spawn().unwrap());
        Some(Collector { otlp, prometheus, said, _child: child })
    }
}
