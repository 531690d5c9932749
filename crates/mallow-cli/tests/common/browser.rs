// SPDX-License-Identifier: MIT
//! Chromium without a window, asked by its debugging protocol: messages of JSON, each with a zero at its end.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const NAMES: [&str; 4] =
    ["chromium", "chromium-headless-shell", "chromium-browser", "google-chrome"];

/// The installed one; visibly none.
pub fn name() -> Option<&'static str> {
    let starts = |name: &&str| {
        let output = Command::new(name).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    let found = NAMES.into_iter().find(starts);
    if found.is_none() {
        eprintln!("skipped: chromium is not installed, so nothing opens the page");
    }
    found
}

pub struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    sent: u64,
    page: Option<String>,
    /// What it told unasked since the last page began.
    events: Vec<Value>,
    _folder: TempDir,
}

impl Browser {
    pub fn start() -> Option<Browser> {
        let folder = tempfile::tempdir().unwrap();
        // It listens on descriptor 3 and answers on 4. Whatever happens it ends some time.
        let script = "exec timeout 300 \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", name()?, "--headless", "--no-sandbox", "--disable-gpu"]);
        command.arg(format!("--user-data-dir={}", folder.path().display()));
        command.args(["--remote-debugging-pipe", "about:blank"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let (page, events) = (None, Vec::new());
        let mut browser =
            Browser { child, commands, answers, sent: 0, page, events, _folder: folder };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", target);
        browser.page = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Opens a file in a window of this width, for somebody whose system is light or dark.
    pub fn open(&mut self, path: &str, width: u32, scheme: &str) {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [scheme] }));
        self.events.clear();
        let opened = self.call("Page.navigate", json!({ "url": format!("file://{path}") }));
        assert!(opened["errorText"].is_null(), "{path}: {opened}");
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next();
            self.events.push(event);
        }
    }

    /// The value of an expression in the page.
    pub fn ask(&mut self, expression: &str) -> Value {
        let question = json!({ "expression": expression, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", question);
        assert!(answer["exceptionDetails"].is_null(), "{answer}");
        answer["result"]["value"].clone()
    }

    /// What the page and the browser complained of since the page was opened.
    pub fn complaints(&self) -> Vec<&Value> {
        let is_complaint = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => event["params"]["type"] != "log",
            Some("Log.entryAdded") => event["params"]["entry"]["level"] != "verbose",
            _ => false,
        };
        self.events.iter().filter(is_complaint).collect()
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        let mut message = json!({ "id": self.sent, "method": method, "params": params });
        if let Some(page) = &self.page {
            message["sessionId"] = page.clone().into();
        }
        self.commands.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut answer = self.next();
            if answer["id"] == self.sent {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.events.push(answer);
        }
    }

    fn next(&mut self) -> Value {
        let mut message = Vec::new();
        self.answers.read_until(0, &mut message).unwrap();
        assert_eq!(message.pop(), Some(0), "the browser has ended");
        serde_json::from_slice(&message).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // timeout hands it on to the browser's processes.
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}
