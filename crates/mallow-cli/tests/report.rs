// SPDX-License-Identifier: MIT
//! `mallow report` on traces that are written here, so that every number is known.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{json, mallow, ran, refuses, run};
use mallow_trace::*;

/// Two threads; the second allocates 20 blocks of 8,225 bytes, of which 5 stay.
fn write_trace(path: &Path, kept: u64) {
    let header = Header {
        command: vec!["./program".into(), "</script><b>".into()],
        allocator: "glibc".into(),
        libc: "glibc".into(),
        stacks: Stacks::Fp,
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    let mut time = 0;
    let mut write = |thread, event| {
        time += 1000;
        writer.write(&Record { time, thread, event }).unwrap();
    };
    let process = Process { id: 1, pid: 4242, command: header.command.clone(), ..<_>::default() };
    write(COLLECTOR, Event::Process(Box::new(process)));
    for (thread, name) in [(1, "main"), (2, "reader")] {
        let definition = Thread { process: 1, tid: 4241 + thread, name: name.into() };
        write(thread, Event::Thread(definition));
    }
    let jit = Module { id: 1, kind: ModuleKind::Jit, process: 1, ..Module::default() };
    write(COLLECTOR, Event::Module(Box::new(jit)));
    let gone = Module { id: 2, path: "/gone/libgone.so".into(), ..Module::default() };
    write(COLLECTOR, Event::Module(Box::new(gone)));
    for (start, name) in [(0x100, "py::main:/srv/app.py"), (0x200, "py::read <x>:/srv/app.py")] {
        let symbol = Symbol { module: 1, start, size: 0x100, name: name.into() };
        write(COLLECTOR, Event::Symbol(Box::new(symbol)));
    }
    let frames = |places: &[(u32, u64)]| {
        places
            .iter()
            .map(|(module, address)| Frame { module: *module, address: *address })
            .collect()
    };
    write(
        COLLECTOR,
        Event::Stack(Stack { id: 1, frames: frames(&[(2, 0x51), (1, 0x110)]), ..Stack::default() }),
    );
    write(
        COLLECTOR,
        Event::Stack(Stack {
            id: 2,
            frames: frames(&[(1, 0x210), (1, 0x110)]),
            ..Stack::default()
        }),
    );
    let malloc = |size, address, stack| {
        Event::Call(Call { op: Op::Malloc, size, address, stack, ..Call::default() })
    };
    let free = |address| Event::Call(Call { op: Op::Free, address, ..Call::default() });
    for n in 0..20 {
        write(2, malloc(8225, 0x10000 * (n + 1), 2));
    }
    for n in 0..20 - kept {
        write(2, free(0x10000 * (n + 1)));
    }
    for _ in 0..25 {
        write(1, malloc(16, 0x9000, 1));
        write(1, free(0x9000));
    }
    let memory = Memory { process: 1, rss: 9 << 20, ..Memory::default() };
    write(COLLECTOR, Event::Memory(Box::new(memory)));
    write(COLLECTOR, Event::ProcessEnd(ProcessEnd { process: 1, ending: Ending::Code(3) }));
    std::fs::write(path, writer.finish().unwrap()).unwrap();
}

struct Fixture {
    folder: tempfile::TempDir,
    trace: PathBuf,
}

impl Fixture {
    fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace.mlwt");
        write_trace(&trace, 5);
        Fixture { folder, trace }
    }

    fn trace(&self) -> &str {
        self.trace.to_str().unwrap()
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

#[test]
fn text_has_every_section_with_its_numbers() {
    let fixture = Fixture::new();
    let ran = run(&["report", fixture.trace()]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    for line in [
        "45 allocations of 161 KiB in all; peak 161 KiB in 20 blocks",
        "25 temporary (55.6 %), 0 freed by another thread, never freed 40.2 KiB in 5 blocks",
        "4242 ./program </script><b> (exit 3)",
        "8225     20  44.44 %",
        "read <x> at /srv/app.py",
        "libgone.so+0x50",
        "no names where the file is not here (/gone/libgone.so)",
    ] {
        assert!(ran.stdout.contains(line), "{line:?} is not in:\n{}", ran.stdout);
    }
    let recorded = ran.stdout.lines().find(|line| line.starts_with("recorded for"));
    assert!(recorded.unwrap().ends_with(" on glibc"), "{recorded:?}");
    let by_thread = ran.stdout.lines().find(|line| line.contains("4243 reader")).unwrap();
    assert!(by_thread.contains("8225 (100 %)"), "{by_thread}");
    let markdown = run(&["report", fixture.trace(), "--format", "md"]).stdout;
    assert!(markdown.contains("| malloc | 45 | "), "{markdown}");
}

#[test]
fn peak_rss_is_the_least_where_a_process_was_too_short() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.mlwt");
    for (measured, says) in [(1, "peak RSS at least 9.00 MiB"), (2, "peak RSS 18.0 MiB")] {
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        let mut write =
            |event| writer.write(&Record { time: 1, thread: COLLECTOR, event }).unwrap();
        for id in [1, 2] {
            write(Event::Process(Box::new(Process { id, pid: 4242 + id, ..<_>::default() })));
        }
        for process in 1..=measured {
            let memory = Memory { process, rss: 9 << 20, ..Memory::default() };
            write(Event::Memory(Box::new(memory)));
        }
        std::fs::write(&trace, writer.finish().unwrap()).unwrap();
        let text = run(&["report", trace.to_str().unwrap()]).stdout;
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn json_is_versioned_and_whole() {
    let fixture = Fixture::new();
    let report = json(&run(&["report", fixture.trace(), "--json"]));
    assert_eq!(report["schema"], "mallow.report/1");
    assert_eq!(report["totals"]["allocated"]["blocks"], 45);
    assert_eq!(report["totals"]["peak"]["bytes"], 20 * 8225);
    assert_eq!(report["totals"]["peak_rss_bytes"], 9 << 20);
    assert_eq!(report["totals"]["leaked"]["bytes"], 5 * 8225);
    assert_eq!(report["sizes"]["frequent"][0]["size"], 16);
    let reader = &report["processes"][0]["threads"][1];
    assert_eq!(reader["name"], "reader");
    assert_eq!(reader["sizes"]["frequent"][0]["size"], 8225);
    let stack = &report["stacks"][0];
    assert_eq!(stack["frames"][0]["function"], "read <x>");
    assert_eq!(stack["leaked"]["blocks"], 5);
}

#[test]
fn folded_and_csv_are_the_same_numbers() {
    let fixture = Fixture::new();
    let folded = run(&["report", fixture.trace(), "--folded=calls"]).stdout;
    assert_eq!(folded, "main;libgone.so+0x50 25\nmain;read <x> 20\n");
    let leaked = run(&["report", fixture.trace(), "--folded=leaked"]).stdout;
    assert_eq!(leaked, format!("main;read <x> {}\n", 5 * 8225));
    let csv = run(&["report", fixture.trace(), "--csv"]).stdout;
    assert!(csv.contains("\nmain;read <x>,20,164500,20,164500,5,41125,0,15,"), "{csv}");
    for (table, line) in [
        ("functions", "\nfree,40,0,0\n"),
        ("threads", "\n4242,4243,reader,"),
        ("sizes", "\n4242,4243,reader,8225,20,1.000000\n"),
        ("lifetimes", "from_ns,to_ns,blocks,bytes\n"),
        ("timeline", ",9437184,"),
    ] {
        let csv = run(&["report", fixture.trace(), &format!("--csv={table}")]).stdout;
        assert!(csv.contains(line), "{table}: {csv}");
    }
}

#[test]
fn difference_of_two_traces() {
    let fixture = Fixture::new();
    let other = fixture.folder.path().join("before.mlwt");
    write_trace(&other, 1);
    let other = other.to_str().unwrap();
    let text = run(&["report", fixture.trace(), "--diff", other, "--by", "leaked"]).stdout;
    assert!(text.contains(&format!("Against {other}")), "{text}");
    let stacks = text.split("Stacks that changed most, by leaked").nth(1).unwrap();
    assert!(stacks.contains("8.03 KiB  40.2 KiB  +400.0 %  read <x> < main"), "{stacks}");
    let report = json(&run(&["report", fixture.trace(), "--diff", other, "--json"]));
    let leaked = &report["difference"]["totals"][3];
    assert_eq!((&leaked["before"], &leaked["after"]), (&8225.into(), &(5 * 8225).into()));
    let folded = run(&["report", fixture.trace(), "--diff", other, "--folded=leaked"]).stdout;
    assert_eq!(folded, format!("main;read <x> 8225 {}\n", 5 * 8225));
    let same = json(&run(&["report", other, "--diff", other, "--json"]));
    assert_eq!(same["difference"]["stacks"], serde_json::json!([]));
}

#[test]
fn children_stand_below_their_parents_and_an_exec_beside_what_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("tree.mlwt");
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    let images = [
        (1, 10, 0, Start::First, "sh -c a"),
        (2, 11, 1, Start::Fork, "sh -c a"),
        (3, 11, 2, Start::Exec, "cc a.c"),
        (4, 12, 3, Start::Fork, "as a.s"),
    ];
    for (id, pid, parent, start, command) in images {
        let command = command.split(' ').map(str::to_owned).collect();
        let process = Process { id, pid, parent, start, command, ..Process::default() };
        let thread = Thread { process: id, tid: pid, name: "main".into() };
        for event in [Event::Process(Box::new(process)), Event::Thread(thread)] {
            writer.write(&Record { time: 0, thread: id, event }).unwrap();
        }
        let call = Call { op: Op::Malloc, size: 8, address: 16, ..Call::default() };
        writer.write(&Record { time: 1, thread: id, event: Event::Call(call) }).unwrap();
    }
    let ending = ProcessEnd { process: 4, ending: Ending::Signal(9) };
    let event = Event::ProcessEnd(ending);
    writer.write(&Record { time: 2, thread: COLLECTOR, event }).unwrap();
    std::fs::write(&trace, writer.finish().unwrap()).unwrap();
    let text = run(&["report", trace.to_str().unwrap()]).stdout;
    let tree: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(" 8 (100 %)"))
        .map(|line| line.split("  1  ").next().unwrap().trim_end())
        .map(|line| line.split(" 1 ").next().unwrap().trim_end())
        .collect();
    let expected = [
        " 10 sh -c a",
        "   fork 11 sh -c a",
        "   exec 11 cc a.c",
        "     fork 12 as a.s (signal 9)",
    ];
    assert_eq!(tree, expected, "{text}");
    assert!(text.contains("1 of 4 processes were ended by a signal"), "{text}");
    assert!(text.contains("does not hold the end of 3 of 4 processes"), "{text}");
}

#[test]
fn pprof_opens_the_profile() {
    let fixture = Fixture::new();
    let profile = fixture.path("profile.pb.gz");
    assert_eq!(run(&["report", fixture.trace(), "--pprof", &profile]).code, Some(0));
    let arguments = ["tool", "pprof", "-top", "-sample_index=leaked_space", "-unit=B", &profile];
    let Ok(output) = Command::new("go").args(arguments).output() else {
        eprintln!("skipped: go is not installed, so pprof is not there to open the profile");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    // It leaves out what stands in angle brackets.
    let line = text.lines().find(|line| line.trim_end().ends_with(" read"));
    assert!(line.is_some_and(|line| line.trim().starts_with("41125B")), "{text}");
    assert!(text.contains("Type: leaked_space"), "{text}");
}

#[test]
fn what_can_be_read_of_a_damaged_trace_is_reported() {
    let fixture = Fixture::new();
    let bytes = std::fs::read(&fixture.trace).unwrap();
    let cut = fixture.path("cut.mlwt");
    std::fs::write(&cut, &bytes[..bytes.len() - 100]).unwrap();
    let ran = run(&["report", &cut]);
    assert_eq!(ran.code, Some(7));
    assert!(ran.stdout.contains("allocations of"), "{}", ran.stdout);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("cut off"), "{}", ran.stderr);

    let foreign = fixture.path("foreign");
    std::fs::write(&foreign, "#!/bin/sh\necho something else entirely\n").unwrap();
    refuses(&["report", &foreign], 7, &["not a mallow trace", "mallow record"]);
    std::fs::write(&foreign, "").unwrap();
    refuses(&["report", &foreign], 7, &["not a mallow trace"]);
    refuses(&["report", &fixture.path("none")], 2, &["There is no file"]);

    // Any one byte wrong: a report or a refusal, in one sentence, and never a crash.
    let broken = fixture.path("broken.mlwt");
    for at in (0..bytes.len()).step_by(bytes.len() / 60) {
        let mut copy = bytes.clone();
        copy[at] ^= 0x55;
        std::fs::write(&broken, &copy).unwrap();
        let ran = run(&["report", &broken]);
        assert!(matches!(ran.code, Some(0 | 7)), "byte {at}: {}", ran.stderr);
        assert!(ran.stderr.lines().count() <= 1, "byte {at}: {}", ran.stderr);
    }
}

/// What the page is asked in the browser: errors of its own, and whether keys do what they should.
const QUESTIONS: &str = r##"<script>
const problems = [];
window.addEventListener("error", (event) => problems.push(event.message));
window.addEventListener("load", () => {
  const check = (what, holds) => { if (!holds) problems.push(what); };
  const key = (target, name) => target.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  try {
    const graph = document.getElementById("flame-graph");
    const line = () => document.getElementById("flame-line").textContent;
    const stop = graph.querySelector('[tabindex="0"]');
    check("one frame can be reached with Tab", graph.querySelectorAll('[tabindex="0"]').length === 1);
    stop.focus();
    key(document.activeElement, "ArrowDown");
    check("down goes to main: " + line(), line().startsWith("main: "));
    key(document.activeElement, "ArrowDown");
    check("down goes to the widest: " + line(), line().startsWith("read <x>: 161 KiB"));
    key(document.activeElement, "ArrowRight");
    check("right goes to the next: " + line(), line().startsWith("libgone.so+0x50: "));
    key(document.activeElement, "ArrowLeft");
    key(document.activeElement, "Enter");
    check("Enter zooms", document.activeElement.style.width === "100%" && line().startsWith("read <x>"));
    key(document.activeElement, "Escape");
    check("Escape shows all: " + line(), line().startsWith("all: "));
    key(document.body, "/");
    document.activeElement.blur();
    key(document.body, "/");
    check("a slash goes to the search", document.activeElement.id === "flame-search");
    const chart = document.querySelector("#timeline svg");
    key(chart, "End");
    check("the chart says what is at its end", document.getElementById("cursor-line").textContent.includes("RSS 9.00 MiB"));
    const before = document.documentElement.dataset.theme;
    document.getElementById("theme").click();
    check("the theme can be switched", document.documentElement.dataset.theme !== before);
    const select = document.querySelector("#sizes select");
    select.value = "2";
    select.dispatchEvent(new Event("change"));
    check("sizes of a thread", document.querySelector("#sizes tbody").textContent.startsWith("8,22520100.0 %"));
    check("all sections", ["timeline", "functions", "tasks", "sizes", "lifetimes", "stacks", "flame", "difference"].every((id) => document.getElementById(id)));
    check("the command is text", document.querySelector("h1").textContent === "./program <\/script><b>");
  } catch (error) { problems.push(String(error)); }
  const result = document.createElement("pre");
  result.id = "answers";
  result.textContent = problems.length ? "PROBLEMS " + problems.join("; ") : "ALL WELL";
  document.body.append(result);
});
</script>
<script id="data""##;

#[test]
fn the_page_works_in_a_browser_without_a_network() {
    let fixture = Fixture::new();
    let other = fixture.folder.path().join("before.mlwt");
    write_trace(&other, 1);
    let page = fixture.path("page.html");
    let other = other.to_str().unwrap();
    let ran = run(&["report", fixture.trace(), "--diff", other, "--html", &page]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let text = std::fs::read_to_string(&page).unwrap();
    for outside in ["src=\"", "@import", "url(", "<link rel=\"stylesheet\"", "fetch("] {
        assert!(!text.contains(outside), "the page refers to something outside: {outside}");
    }
    assert_eq!(text.matches("</script>").count(), 2, "a name of the trace ended a script");
    let Some(browser) = crate::common::browser::name() else { return };
    let asked = fixture.path("asked.html");
    let questions = text.replacen("<script id=\"data\"", QUESTIONS, 1);
    std::fs::write(&asked, questions).unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"])
        .arg(format!("--user-data-dir={}", fixture.path("browser")))
        .args(["--virtual-time-budget=5000", "--dump-dom", &format!("file://{asked}")])
        .output()
        .unwrap();
    let page = String::from_utf8_lossy(&output.stdout);
    let answers = page.split("<pre id=\"answers\">").nth(1).and_then(|rest| rest.split('<').next());
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(answers, Some("ALL WELL"), "{log}");
    let console: Vec<&str> = log.lines().filter(|line| line.contains(":CONSOLE")).collect();
    assert!(console.is_empty(), "{console:?}");
}

/// What unpacks or fetches a trace writes it into a pipe.
#[test]
fn a_trace_may_come_from_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let (file, pipe) = (folder.path().join("a.trace"), folder.path().join("pipe"));
    write_trace(&file, 5);
    let wanted = run(&["report", file.to_str().unwrap()]).stdout;
    assert!(wanted.contains("never freed"), "{wanted}");

    let mut command = mallow(&["report", "-"]);
    let piped = ran(command.stdin(std::fs::File::open(&file).unwrap()).output().unwrap());
    assert_eq!((piped.code, &piped.stdout), (Some(0), &wanted), "{}", piped.stderr);

    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for verb in [&["report"][..], &["replay", "-a", "glibc", "--mode", "lockstep"]] {
        let text = "cat \"$0\" >\"$1\"";
        let mut writer =
            Command::new("sh").args(["-c", text]).args([&file, &pipe]).spawn().unwrap();
        let piped = run(&[verb, &[pipe.to_str().unwrap()]].concat());
        assert_eq!(piped.code, Some(0), "{verb:?}: {}", piped.stderr);
        assert!(verb[0] != "report" || piped.stdout == wanted, "{}", piped.stdout);
        writer.wait().unwrap();
    }
}
