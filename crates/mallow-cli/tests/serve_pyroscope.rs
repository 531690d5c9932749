// SPDX-License-Identifier: MIT
//! `mallow serve --pyroscope`: which profiles are pushed, and in which form.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::chance::own_listener;
use crate::common::program::{Running, profiled};
use crate::common::push::{LONG, Pushed, Server, answer, collector, listen};
use crate::common::refuses;
use prost::Message;

/// As push.proto of Pyroscope has it.
#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    series: Vec<Series>,
}

#[derive(Clone, PartialEq, Message)]
struct Series {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Pair>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(bytes = "vec", tag = "1")]
    profile: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Pair {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// The labels and the profile, unpacked.
fn read(pushed: &Pushed) -> (BTreeMap<String, String>, Vec<u8>) {
    let head = &pushed.head;
    assert!(head.starts_with("POST /push.v1.PusherService/Push HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/proto\r\n"), "{head}");
    let request = Request::decode(pushed.body.as_slice()).unwrap();
    let [series] = &request.series[..] else { panic!("{} series", request.series.len()) };
    let labels = series.labels.iter().map(|pair| (pair.name.clone(), pair.value.clone()));
    let mut profile = Vec::new();
    let packed = series.samples[0].profile.as_slice();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut profile).unwrap();
    (labels.collect(), profile)
}

fn has(profile: &[u8], name: &str) -> bool {
    profile.windows(name.len()).any(|part| part == name.as_bytes())
}

/// Another file of the process, newer than all others.
fn write_another(folder: &Path, pid: &str, number: u32) {
    let is_profile = |path: &Path| path.extension().is_some_and(|end| end == "heap");
    let paths = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let text = std::fs::read(paths.filter(|path| is_profile(path)).max().unwrap()).unwrap();
    let path = folder.join(format!("jeprof.{pid}.9{number}.i9{number}.heap"));
    let part = folder.join("part");
    std::fs::write(&part, text).unwrap();
    std::fs::rename(part, path).unwrap();
}

#[test]
fn each_new_profile_is_pushed_once() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = profiled(folder.path(), "") else { return };
    let pid = program.pid();
    let (listener, url) = listen();
    let fine = answer("200 OK", "", b"");
    let answers = vec![answer("503 Service Unavailable", "", b""), fine.clone()];
    let answers = [answers, vec![answer("400 Bad Request", "", b""), fine]].concat();
    let pushes = collector(listener, answers, None);
    let server = Server::start(&["--pyroscope", &url, "--pid", &pid, "--interval", "100ms"]);
    let (labels, profile) = read(&pushes.recv_timeout(LONG).unwrap());
    assert!(has(&profile, "hoard") && has(&profile, "inuse_space"));
    assert_eq!((&*labels["__name__"], &*labels["service_name"]), ("memory", "program"));
    assert_eq!((&labels["pid"], &*labels["allocator"]), (&pid, "mallow"));
    // Who was away gets the same one again, and then no more of it.
    let (again, same) = read(&pushes.recv_timeout(LONG).unwrap());
    assert!(again == labels && same == profile);
    assert!(pushes.recv_timeout(Duration::from_secs(1)).is_err(), "pushed twice");
    // One that is refused for good is left out, and is in nobody's way.
    write_another(folder.path(), &pid, 1);
    pushes.recv_timeout(LONG).unwrap();
    server.says("A profile is not at");
    assert!(pushes.recv_timeout(Duration::from_secs(1)).is_err(), "refused for good");
    write_another(folder.path(), &pid, 2);
    pushes.recv_timeout(LONG).unwrap();
    assert!(server.get("/metrics").contains("mallow_target_info"));
}

#[test]
fn addresses_that_are_none_are_refused() {
    let serve = ["serve", "--listen", "127.0.0.1:0", "--pyroscope"];
    refuses(&[&serve[..], &["pyroscope:4040"]].concat(), 2, &["no address for --pyroscope"]);
    let ca = ["http://x:1", "--pyroscope-ca", "/etc/passwd"];
    refuses(&[&serve[..], &ca].concat(), 2, &["--pyroscope-ca", "https"]);
}

/// The service that Pyroscope's clients push to, as its own API module has it, and pprof's own reader
/// (`make collectors`).
#[test]
fn the_service_of_pyroscope_reads_what_is_pushed() {
    let receiver = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/bin/profile-receiver");
    if !receiver.exists() {
        println!("skipped: make collectors was not run");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = profiled(folder.path(), "") else { return };
    let free = own_listener().local_addr().unwrap().to_string();
    let mut child = Command::new(receiver).arg(&free).stdout(Stdio::piped()).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    let _receiver = Running(child);
    let pid = program.pid();
    let url = format!("http://{free}");
    let server = Server::start(&["--pyroscope", &url, "--pid", &pid, "--interval", "200ms"]);
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    println!("{line}");
    let told: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(told["labels"]["service_name"], "program");
    assert_eq!(told["labels"]["pid"], pid.as_str());
    let types: Vec<&str> =
        told["types"].as_array().unwrap().iter().filter_map(|t| t.as_str()).collect();
    assert_eq!(types.last(), Some(&"inuse_space:bytes"), "{types:?}");
    assert_eq!(told["period"], "space:bytes");
    let bytes = told["functions"]["hoard"].as_f64().unwrap();
    assert!((26e6..33e6).contains(&bytes), "{line}");
    drop(server);
}
