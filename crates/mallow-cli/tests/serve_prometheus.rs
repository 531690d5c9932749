// SPDX-License-Identifier: MIT
//! `mallow serve` with the Prometheus of the system: it scrapes, and answers what docs/serve.md and the
//! dashboard ask; promtool finds nothing wrong with the metrics, and the alerts hold what they say.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::chance::{own_listener, until};
use crate::common::mallow;
use crate::common::program::Program;
use crate::common::push::Collector;
use serde_json::Value;

/// Allocates and frees, and keeps a few megabytes.
const PROGRAM: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
    int main(void) { for (int i = 0; i < 5000; i++) memset(malloc(1000), 1, 1000);\n\
    puts(\"{}\"); fflush(stdout);\n\
    for (;;) { for (int i = 0; i < 1000; i++) free(malloc(64 + i)); usleep(20000); } }\n";

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_there(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: {program} is not installed");
    }
    is_there
}

fn packaging(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8(answer).ok()?;
    Some(answer.split_once("\r\n\r\n")?.1.to_owned())
}

/// The samples that a query finds; whatever is wrong with it fails the test.
#[track_caller]
fn query(prometheus: &str, expression: &str) -> Vec<Value> {
    let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let answer = get(prometheus, &format!("/api/v1/query?query={encoded}")).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["status"], "success", "{expression}: {answer}");
    answer["data"]["result"].as_array().unwrap().clone()
}

struct Scene {
    folder: tempfile::TempDir,
    program: Program,
    server: String,
    _server: Killed,
}

impl Scene {
    fn start() -> Option<Scene> {
        Scene::start_with(&[])
    }

    fn start_with(options: &[&str]) -> Option<Scene> {
        let folder = tempfile::tempdir().unwrap();
        let program = crate::common::compile("cc", folder.path(), PROGRAM, &["-O0"])?;
        let program = Program::start(&mut mallow(&["run", "--", program.to_str().unwrap()]));
        let words = ["serve", "--listen", "127.0.0.1:0", "--pid", &program.pid()];
        let mut command = mallow(&words);
        let mut child = command.args(options).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let server = line.split_once("http://").unwrap().1.split('/').next().unwrap().to_owned();
        Some(Scene { folder, program, server, _server: Killed(child) })
    }

    /// A Prometheus that scrapes every second and knows the alerts; its address.
    fn prometheus(&self) -> (Killed, String) {
        let rules = packaging("packaging/prometheus/mallow.rules.yml").canonicalize().unwrap();
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             scrape_configs:\n- job_name: mallow\n  static_configs:\n  - targets: ['{}']\n\
             rule_files: ['{}']\n",
            self.server,
            rules.display()
        );
        let words = prometheus_of_the_page();
        assert_eq!(words[..2], ["prometheus", "--config.file=prometheus.yml"]);
        let options: Vec<&str> = words[2..].iter().map(String::as_str).collect();
        self.prometheus_with("prometheus.yml", &config, &options)
    }

    fn prometheus_with(&self, name: &str, config: &str, options: &[&str]) -> (Killed, String) {
        let address = own_listener().local_addr().unwrap().to_string();
        let file = self.folder.path().join(name);
        std::fs::write(&file, config).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--web.listen-address={address}"))
            .args(options)
            .current_dir(self.folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        (Killed(child), address)
    }
}

/// The command that docs/serve.md starts one with.
fn prometheus_of_the_page() -> Vec<String> {
    let text = std::fs::read_to_string(packaging("docs/serve.md")).unwrap();
    let command = text.split('`').find(|code| code.starts_with("prometheus --")).unwrap();
    command.split_whitespace().map(str::to_owned).collect()
}

fn documented(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(packaging(page)).unwrap();
    let blocks = text.split("```promql\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().trim().to_owned()).collect()
}

fn of_dashboard() -> Vec<String> {
    let text = std::fs::read_to_string(packaging("packaging/grafana/mallow.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let expression = |target: &Value| {
        let text = target["expr"].as_str().unwrap();
        text.replace("$comm", ".*").replace("$instance", ".*").replace("$__rate_interval", "1m")
    };
    targets.map(expression).collect()
}

/// Grafana's own types read it strictly. Built by `make collectors`; Go makes it too where it has the module already.
#[test]
fn the_dashboard_is_as_the_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    let (made, built) = (packaging(".tools/bin/dashboard-schema"), folder.path().join("schema"));
    let mut go = Command::new("go");
    go.args(["build", "-C"]).arg(packaging("tools/collectors/dashboard")).arg("-o").arg(&built);
    go.args(["."]).env("GOPROXY", "off").env("GOFLAGS", "-buildvcs=false").stderr(Stdio::null());
    let checker = match made.exists() {
        true => made,
        false if go.status().is_ok_and(|status| status.success()) => built,
        false => {
            println!("skipped: dashboard-schema is not built (make collectors)");
            return;
        }
    };
    let text = std::fs::read_to_string(packaging("packaging/grafana/mallow.json")).unwrap();
    let dashboard = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let output = Command::new(&checker).arg(path).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (is_right, said) = dashboard("ours.json", &text);
    assert!(is_right, "{said}");
    let (is_right, said) = dashboard("wrong.json", &text.replace("\"calcs\"", "\"calculations\""));
    assert!(!is_right && said.contains("legend.calcs"), "{said}");
}

/// Processes of the same number and name on two hosts are two.
#[test]
fn sums_of_the_dashboard_are_of_one_host() {
    let text = std::fs::read_to_string(packaging("packaging/grafana/mallow.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()) {
        let (query, legend) = (target["expr"].as_str().unwrap(), target["legendFormat"].as_str());
        let sums = query.split(" by (").skip(1).map(|rest| rest.split_once(')').unwrap().0);
        for labels in sums.filter(|labels| labels.contains("pid")) {
            assert_eq!(labels, "instance, comm, pid", "{query}");
        }
        let has_pid = legend.is_some_and(|legend| legend.contains("{{pid}}"));
        assert!(!has_pid || legend.unwrap().contains("{{instance}}"), "{legend:?}");
    }
}

#[test]
fn prometheus_answers_what_is_asked() {
    if !is_there("prometheus") {
        return;
    }
    let Some(scene) = Scene::start() else { return };
    let (_prometheus, address) = scene.prometheus();
    let counted = "count_over_time(mallow_serve_collect_seconds[1m]) >= 3";
    until("Prometheus scrapes", || {
        get(&address, "/-/ready").filter(|text| text.contains("is Ready"))?;
        (!query(&address, counted).is_empty()).then_some(())
    });
    // Debian's would write elsewhere, where not everybody may.
    assert!(scene.folder.path().join("data/wal").exists());
    let pid = scene.program.pid();
    // A heap whose reading took too long, as on a busy machine, is left alone for a minute.
    let heap = until("the heap is read", || {
        query(&address, "sum without (arena) (mallow_heap_allocated_bytes)").first().cloned()
    });
    assert_eq!(heap["metric"]["pid"], pid.as_str());
    let bytes: f64 = heap["value"][1].as_str().unwrap().parse().unwrap();
    assert!((5.1e6..6e6).contains(&bytes), "{bytes}");
    let has_limit = !query(&address, "mallow_process_memory_limit_bytes").is_empty();
    let (documented, dashboard) = (documented("docs/serve.md"), of_dashboard());
    assert!(documented.len() >= 10 && dashboard.len() >= 15, "{documented:?} {dashboard:?}");
    for expression in documented.iter().chain(&dashboard) {
        let is_wanted = has_limit || !expression.contains("memory_limit");
        until(expression, || (!is_wanted || !query(&address, expression).is_empty()).then_some(()));
    }
    let rules = get(&address, "/api/v1/rules").unwrap();
    let rules: Value = serde_json::from_str(&rules).unwrap();
    let rules = rules["data"]["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 4);
    assert!(rules.iter().all(|rule| rule["health"] != "err"), "{rules:?}");
}

#[test]
fn an_agent_on_each_host_sends_on_what_it_reads() {
    if !is_there("prometheus") {
        return;
    }
    let Some(scene) = Scene::start() else { return };
    let data = format!("--storage.tsdb.path={}", scene.folder.path().join("data").display());
    let options = [data.as_str(), "--web.enable-remote-write-receiver"];
    let (_central, address) = scene.prometheus_with("central.yml", "", &options);
    let config = std::fs::read_to_string(packaging("packaging/fleet/agent.yml")).unwrap();
    let config = config.replace("127.0.0.1:9095", &scene.server).replace("CENTRAL", &address);
    let config = config.replace("HOST", "host-7").replace("30s", "1s");
    let data = format!("--storage.agent.path={}", scene.folder.path().join("agent").display());
    let options = [data.as_str(), "--enable-feature=agent"];
    let (_agent, _) = scene.prometheus_with("agent.yml", &config, &options);
    until("the samples arrive", || {
        get(&address, "/-/ready").filter(|text| text.contains("is Ready"))?;
        (!query(&address, "mallow_target_info{instance='host-7'}").is_empty()).then_some(())
    });
    for expression in documented("docs/fleet.md").iter().chain(&of_dashboard()) {
        let is_limit = expression.contains("memory_limit");
        // A rate needs a second scrape.
        until(expression, || (is_limit || !query(&address, expression).is_empty()).then_some(()));
    }
    assert!(query(&address, "mallow_heap_mapped_bytes").is_empty(), "the agent leaves these out");
}

/// Each host pushes, and `packaging/fleet` is the centre.
#[test]
fn the_centre_answers_what_is_asked_of_what_is_pushed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(collector) = Collector::start(folder.path()) else { return };
    if !is_there("prometheus") {
        return;
    }
    let otlp = format!("http://{}", collector.otlp);
    let Some(scene) = Scene::start_with(&["--otlp", &otlp, "--interval", "1s"]) else { return };
    let rules = packaging("packaging/prometheus/mallow.rules.yml").canonicalize().unwrap();
    let config = std::fs::read_to_string(packaging("packaging/fleet/prometheus.yml")).unwrap();
    let config = config.replace("collector:8889", &collector.prometheus).replace("30s", "1s");
    let config = config.replace("mallow.rules.yml", rules.to_str().unwrap());
    let data = format!("--storage.tsdb.path={}", scene.folder.path().join("data").display());
    let (_prometheus, address) = scene.prometheus_with("centre.yml", &config, &[&data]);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let own = format!("mallow_target_info{{instance='{}'}}", host.trim());
    until("the samples arrive", || {
        get(&address, "/-/ready").filter(|text| text.contains("is Ready"))?;
        (!query(&address, &own).is_empty()).then_some(())
    });
    for page in ["docs/fleet.md", "docs/serve.md"] {
        for expression in documented(page).iter().chain(&of_dashboard()) {
            let is_limit = expression.contains("memory_limit");
            until(expression, || {
                (is_limit || !query(&address, expression).is_empty()).then_some(())
            });
        }
    }
}

#[test]
fn open_metrics_are_what_prometheus_prefers() {
    if !is_there("prometheus") {
        return;
    }
    let Some(scene) = Scene::start() else { return };
    let (_prometheus, address) = scene.prometheus();
    until("the target is up", || {
        get(&address, "/-/ready").filter(|text| text.contains("is Ready"))?;
        query(&address, "up == 1").first().cloned()
    });
    // Only the form that knows units and counters as such tells Prometheus of them.
    let told = until("the heap is told of", || {
        let answer = get(&address, "/api/v1/metadata?metric=mallow_heap_allocated_bytes")?;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["data"]["mallow_heap_allocated_bytes"].get(0).cloned()
    });
    assert_eq!((&told["unit"], &told["type"]), (&"bytes".into(), &"gauge".into()), "{told}");
    assert!(told["help"].as_str().unwrap().contains("blocks that the program holds"), "{told}");
}

#[test]
fn promtool_finds_nothing_wrong_with_the_metrics() {
    if !is_there("promtool") {
        return;
    }
    let Some(scene) = Scene::start() else { return };
    let metrics = until("the heap is read", || {
        get(&scene.server, "/metrics").filter(|text| text.contains("mallow_heap_allocated_bytes{"))
    });
    let mut promtool = Command::new("promtool");
    let mut child = promtool
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn alerts_are_raised_when_they_should_be() {
    if !is_there("promtool") {
        return;
    }
    let folder = packaging("packaging/prometheus");
    for words in
        [["check", "rules", "mallow.rules.yml"], ["test", "rules", "mallow.rules.test.yml"]]
    {
        let output = Command::new("promtool").args(words).current_dir(&folder).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && said.contains("SUCCESS"), "{said}");
    }
}
