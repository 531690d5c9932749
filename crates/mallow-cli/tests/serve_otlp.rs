// SPDX-License-Identifier: MIT
//! `mallow serve --otlp`: what a collector is sent, and that none of them can do the server harm.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::chance::{own_listener, until};
use crate::common::program::{HOLDS, Program};
use crate::common::push::{Collector, LONG, Pushed, Server, answer, collector, get, listen, taken};
use crate::common::{certificate, compile, mallow, refuses};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Metric, NumberDataPoint, ResourceMetrics, metric, number_data_point,
};
use prost::Message;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

fn message(pushed: &Pushed) -> ExportMetricsServiceRequest {
    assert!(pushed.head.contains("content-encoding: gzip\r\n"), "{}", pushed.head);
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(pushed.body.as_slice()).read_to_end(&mut bytes).unwrap();
    ExportMetricsServiceRequest::decode(bytes.as_slice()).unwrap()
}

const HEAP: &str = "mallow_heap_allocated_bytes{";

fn has_heap(pushed: &Pushed) -> bool {
    series(&message(pushed).resource_metrics).iter().any(|name| name.starts_with(HEAP))
}

fn holding(folder: &Path) -> Option<Program> {
    let program = compile("cc", folder, HOLDS, &["-O0"])?;
    Some(Program::start(&mut mallow(&["run", "--", program.to_str().unwrap()])))
}

fn words(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let word = |attribute: &KeyValue| {
        let value = match attribute.value.as_ref().unwrap().value.as_ref().unwrap() {
            Value::StringValue(text) => text.clone(),
            Value::IntValue(number) => number.to_string(),
            other => panic!("{other:?}"),
        };
        (attribute.key.clone(), value)
    };
    attributes.iter().map(word).collect()
}

/// Its name in Prometheus by OpenTelemetry's rules, whether it is a counter, and its points.
fn read(metric: &Metric) -> (String, bool, &[NumberDataPoint]) {
    let (is_counter, points) = match metric.data.as_ref().unwrap() {
        metric::Data::Gauge(gauge) => (false, &gauge.data_points),
        metric::Data::Sum(sum) => {
            assert!(sum.is_monotonic, "{}", metric.name);
            assert_eq!(sum.aggregation_temporality(), AggregationTemporality::Cumulative);
            (true, &sum.data_points)
        }
        other => panic!("{other:?}"),
    };
    let unit = match metric.unit.as_str() {
        "By" => "_bytes",
        "s" => "_seconds",
        "" => "",
        other => panic!("{other}"),
    };
    let total = if is_counter { "_total" } else { "" };
    (metric.name.replace('.', "_") + unit + total, is_counter, points)
}

/// Names with labels, sorted, as in Prometheus's text.
fn series(resources: &[ResourceMetrics]) -> BTreeSet<String> {
    let metrics = resources.iter().flat_map(|resource| &resource.scope_metrics[0].metrics);
    let mut found = BTreeSet::new();
    for metric in metrics {
        let (name, _, points) = read(metric);
        for point in points {
            assert!(found.insert(labelled(&name, words(&point.attributes))), "twice: {name}");
        }
    }
    found
}

fn labelled(name: &str, labels: BTreeMap<String, String>) -> String {
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{name}{{{}}}", labels.join(","))
}

/// The same of `/metrics`, without the labels that a collector adds.
fn series_of_text(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| line.starts_with("mallow_"));
    let names = lines.map(|line| line.rsplit_once(' ').unwrap().0);
    let parts = names.map(|name| name.split_once('{').unwrap_or((name, "}")));
    let added =
        ["job", "instance", "otel_scope_name", "otel_scope_version", "otel_scope_schema_url"];
    let labels = |labels: &str| -> BTreeMap<String, String> {
        let pairs = labels.trim_end_matches('}').split(',').filter_map(|pair| pair.split_once('='));
        let pairs = pairs.filter(|(key, _)| !added.contains(key));
        pairs.map(|(key, value)| (key.into(), value.trim_matches('"').into())).collect()
    };
    parts.map(|(name, rest)| labelled(name, labels(rest))).collect()
}

fn value(point: &NumberDataPoint) -> f64 {
    match point.value.unwrap() {
        number_data_point::Value::AsDouble(value) => value,
        number_data_point::Value::AsInt(value) => value as f64,
    }
}

/// As Debian's redis-server, which is a link to redis-check-rdb.
#[test]
fn a_service_has_the_name_that_it_was_started_by() {
    let folder = tempfile::tempdir().unwrap();
    let Some(file) = compile("cc", folder.path(), HOLDS, &["-O0"]) else { return };
    let link = folder.path().join("service-with-a-long-name");
    std::os::unix::fs::symlink(file, &link).unwrap();
    let program = Program::start(&mut mallow(&["run", "--", link.to_str().unwrap()]));
    let (listener, url) = listen();
    let pushes = collector(listener, vec![taken()], None);
    let _server = Server::start(&["--otlp", &url, "--pid", &program.pid(), "--interval", "300ms"]);
    let sent = message(&pushes.recv_timeout(LONG).unwrap());
    let named = words(&sent.resource_metrics[1].resource.as_ref().unwrap().attributes);
    assert_eq!(named["service.name"], "service-with-a-long-name");
    assert_eq!(named["process.executable.name"], "program");
}

#[test]
fn a_collector_is_sent_what_metrics_says() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = holding(folder.path()) else { return };
    let pid = program.pid();
    let (listener, url) = listen();
    let pushes = collector(listener, vec![taken()], None);
    let server = Server::start(&["--otlp", &url, "--pid", &pid, "--interval", "300ms"]);
    // A heap whose reading took too long, as on a busy machine, is left alone for a minute.
    let (pushed, text) = until("the heap is read", || {
        let both = (pushes.recv_timeout(LONG).unwrap(), server.get("/metrics"));
        (has_heap(&both.0) && both.1.contains(HEAP)).then_some(both)
    });
    assert!(pushed.head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{}", pushed.head);
    assert!(pushed.head.contains("content-type: application/x-protobuf\r\n"), "{}", pushed.head);
    assert_eq!(series(&message(&pushed).resource_metrics), series_of_text(&text));

    let sent = message(&pushed);
    let [own, process] = &sent.resource_metrics[..] else { panic!("two resources") };
    let of = |resource: &ResourceMetrics| words(&resource.resource.as_ref().unwrap().attributes);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
    let (own, named) = (of(own), of(process));
    assert_eq!(own["service.name"], "mallow-serve");
    assert_eq!(own["process.pid"], server.child.id().to_string());
    assert_eq!(named["process.pid"], pid);
    assert_eq!((&named["service.name"], &named["host.name"]), (&"program".to_owned(), &host));
    assert_eq!(named["process.executable.name"], "program");
    assert!(Path::new(&named["process.executable.path"]).is_file());
    assert_eq!(named["service.instance.id"], format!("{host}:{pid}"));

    let sum = |name: &str, resource: &ResourceMetrics| {
        let metrics = &resource.scope_metrics[0].metrics;
        let metric = metrics.iter().find(|metric| metric.name == name).unwrap();
        let (_, is_counter, points) = read(metric);
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        for point in points {
            assert!(point.time_unix_nano <= now && now - point.time_unix_nano < 600_000_000_000);
            assert_eq!(is_counter, point.start_time_unix_nano > 0, "{name}");
            assert!(point.start_time_unix_nano <= point.time_unix_nano, "{name}");
        }
        points.iter().map(value).sum::<f64>()
    };
    let allocated = sum("mallow.heap.allocated", process);
    assert!((30.7e6..31.5e6).contains(&allocated), "{allocated}");
    let before = sum("mallow.heap.slot_allocations", process);
    // Readings are shared for half a second, so the next pushes may be the same.
    let grows = pushes.iter().take(400).filter(has_heap).any(|pushed| {
        sum("mallow.heap.slot_allocations", &message(&pushed).resource_metrics[1]) > before
    });
    assert!(grows && before > 30_000.0, "{before}");
}

#[test]
fn a_collector_that_comes_late_is_found() {
    let address = own_listener().local_addr().unwrap();
    let url = format!("http://{address}");
    let own = std::process::id().to_string();
    let server = Server::start(&["--otlp", &url, "--pid", &own, "--interval", "200ms"]);
    server.says("Nothing is pushed to");
    assert!(server.get("/metrics").contains("mallow_target_info"));
    let pushes = collector(TcpListener::bind(address).unwrap(), vec![taken()], None);
    pushes.recv_timeout(LONG).unwrap();
    server.says("answers again");
}

#[test]
fn a_collector_that_is_silent_holds_nobody_up() {
    let (listener, url) = listen();
    let own = std::process::id().to_string();
    let mut server = Server::start(&["--otlp", &url, "--pid", &own, "--interval", "100ms"]);
    // It is connected to, and says nothing.
    let (_stream, _) = listener.accept().unwrap();
    for _ in 0..3 {
        assert!(server.get("/metrics").contains("mallow_target_info"));
    }
    server.says("no answer within");
    let pid = nix::unistd::Pid::from_raw(server.child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn what_a_collector_refuses_is_told_and_tried_again() {
    let partial = ExportMetricsServiceResponse {
        partial_success: Some(ExportMetricsPartialSuccess {
            rejected_data_points: 7,
            error_message: "too\u{1b}many".into(),
        }),
    };
    let answers = vec![
        answer("503 Service Unavailable", "retry-after: 1\r\n", b""),
        answer("200 OK", "", &partial.encode_to_vec()),
        answer("401 Unauthorized", "", b"\x1b[2Jno"),
        answer("302 Found", "location: http://127.0.0.1:1/\r\n", b""),
        b"nonsense".to_vec(),
        [answer("200 OK", "", b""), vec![0xff; 1 << 20]].concat(),
        answer("200 OK", "", &[0xff; 100]),
        taken(),
    ];
    let (listener, url) = listen();
    let many = answers.len();
    let pushes = collector(listener, answers, None);
    let own = std::process::id().to_string();
    let server = Server::start(&["--otlp", &url, "--pid", &own, "--interval", "100ms"]);
    for _ in 0..=many {
        pushes.recv_timeout(LONG).unwrap();
    }
    for words in ["503", "did not take 7 of the values", "401", "--otlp-headers", "302", "again."] {
        server.says(words);
    }
    assert!(!server.said.lock().unwrap().contains('\u{1b}'), "{}", server.said.lock().unwrap());
    assert!(server.get("/metrics").contains("mallow_target_info"));
}

#[test]
fn a_token_goes_to_the_collector_that_is_trusted_alone() {
    let folder = tempfile::tempdir().unwrap();
    let Some((cert, key)) = certificate(folder.path(), "own") else { return };
    let Some((other, _)) = certificate(folder.path(), "other") else { return };
    let headers = folder.path().join("headers");
    std::fs::write(&headers, "# a token\nAuthorization: Bearer first\n").unwrap();
    let chain = vec![CertificateDer::from_pem_file(&cert).unwrap()];
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(&key).unwrap())
        .unwrap();
    let (listener, url) = listen();
    let url = url.replace("http://", "https://");
    let pushes = collector(listener, vec![taken()], Some(config));
    let own = std::process::id().to_string();
    let words = |ca: &str| {
        let words = ["--otlp", &url, "--pid", &own, "--interval", "200ms", "--otlp-ca", ca];
        let words = [&words[..], &["--otlp-headers", headers.to_str().unwrap()]].concat();
        Server::start(&words.iter().map(|word| &**word).collect::<Vec<_>>())
    };
    let stranger = words(&other);
    stranger.says("Nothing is pushed to https://127.0.0.1");
    assert!(pushes.try_recv().is_err(), "a token was sent to a stranger");
    drop(stranger);
    let server = words(&cert);
    let head = pushes.recv_timeout(LONG).unwrap().head;
    assert!(head.to_lowercase().contains("authorization: bearer first\r\n"), "{head}");
    // A renewed token is sent without a new start; and no token is ever shown.
    std::fs::write(&headers, "Authorization: Bearer second\n").unwrap();
    assert!(pushes.iter().take(100).any(|pushed| pushed.head.contains("Bearer second\r\n")));
    std::fs::write(&headers, "Authorization Bearer third\n").unwrap();
    server.says("is no header");
    assert!(!server.said.lock().unwrap().contains("third"));
}

#[test]
fn addresses_that_are_none_are_refused() {
    let serve = |words: &[&str], code: i32, said: &[&str]| {
        refuses(&[&["serve", "--listen", "127.0.0.1:0"], words].concat(), code, said);
    };
    serve(&["--otlp", "127.0.0.1:4318"], 2, &["http://HOST:PORT"]);
    serve(&["--otlp", "grpc://x:4317"], 2, &["no address for --otlp"]);
    serve(&["--otlp", "http://x:1", "--otlp-ca", "/etc/passwd"], 2, &["https"]);
    serve(&["--otlp", "https://x:1", "--otlp-ca", "/etc/passwd"], 2, &["no certificate"]);
    let headers = ["--otlp", "http://x:1", "--otlp-headers", "/nonexistent/headers"];
    serve(&headers, 2, &["/nonexistent/headers"]);
    let ran = crate::common::run(&["serve", "--otlp", "http://x:1", "--textfile", "x"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

/// The collector of OpenTelemetry itself (`make collectors`), as `packaging/fleet` sets it up: what it
/// gives out for Prometheus are the series of `/metrics`, with the same values.
#[test]
fn the_collector_of_opentelemetry_makes_the_same_series_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(collector) = Collector::start(folder.path()) else { return };
    let Some(target) = holding(folder.path()) else { return };
    let pid = target.pid();
    let url = format!("http://{}", collector.otlp);
    let server = Server::start(&["--otlp", &url, "--pid", &pid, "--interval", "500ms"]);
    let text = || Some(server.get("/metrics")).filter(|text| text.contains(HEAP));
    let expected = series_of_text(&until("the heap is read", text));
    let begin = Instant::now();
    let text = loop {
        if TcpStream::connect(&collector.prometheus).is_ok() {
            let text = get(&collector.prometheus, "/metrics");
            if text.contains(HEAP) {
                break text;
            }
        }
        assert!(begin.elapsed() < LONG, "{}", server.said.lock().unwrap());
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(series_of_text(&text), expected);
    let line = text.lines().find(|line| line.starts_with(HEAP)).unwrap();
    println!("{line}");
    let allocated: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    assert!((30.7e6..31.5e6).contains(&allocated), "{line}");
    assert!(line.contains("job=\"program\""), "{line}");
}
