// SPDX-License-Identifier: MIT
//! The pages of all verbs in a browser: whether they fit a narrow window and a wide one, can be read in the
//! light and in the dark, and do nothing that the browser complains of.

use std::path::Path;

use crate::common::browser::{self, Browser};
use crate::common::compile;
use crate::common::program::{HOLDS, Program};
use crate::common::{mallow, run, verbs};

const WIDTHS: [u32; 2] = [360, 1280];
const SCHEMES: [&str; 2] = ["light", "dark"];
/// As the Web Content Accessibility Guidelines want it of text that is not large.
const CONTRAST: f64 = 4.5;
/// A name that no line can be broken in; paths and commands have such.
const LONG: &str =
    "a-folder-whose-name-is-so-long-that-it-does-not-fit-into-the-window-of-a-telephone";

/// All that can be opened is open. What is wider than the window, and text that is hardly there.
const QUESTION: &str = r#"(() => {
  for (const part of document.querySelectorAll("details")) part.open = true;
  const name = (element) => element.tagName.toLowerCase() + "." + element.getAttribute("class") + " " +
    element.textContent.trim().slice(0, 60);
  const scrolls = (element) => element && element !== document.body && element !== document.documentElement &&
    (getComputedStyle(element).overflowX !== "visible" || scrolls(element.parentElement));
  const wide = [...document.body.querySelectorAll("*")].filter((element) =>
    element.getBoundingClientRect().right > innerWidth + 0.5 && !scrolls(element.parentElement));
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const paint = (colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    const [red, green, blue] = [...canvas.getImageData(0, 0, 1, 1).data].map((part) =>
      part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const grounds = (element) => element ?
    [...grounds(element.parentElement), getComputedStyle(element).backgroundColor] : ["white"];
  const faint = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let read = 0;
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || !element.checkVisibility() || element.tagName === "SCRIPT") continue;
    const style = getComputedStyle(element);
    const behind = grounds(element);
    const ink = element.closest("svg") ? style.fill : style.color;
    const [text, ground] = [paint([...behind, ink]), paint(behind)];
    const contrast = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
    read += 1;
    if (contrast < CONTRAST) faint.push(contrast.toFixed(2) + " " + name(element));
  }
  return { scroll: document.documentElement.scrollWidth, inner: innerWidth, wide: wide.map(name), faint, read };
})()"#;

/// Gives all of its memory back, and takes more of it, in steps.
const STEPS: &str = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
    int main(void) { for (int i = 0; i < 6; i++) { char *p = malloc(20 << 20); memset(p, 1, 20 << 20); \
    usleep(50000); if (i % 2) free(p); } return 0; }\n";

/// Names of files with a page each.
fn write_pages(folder: &Path) -> Vec<String> {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    std::fs::create_dir_all(folder.join("steps")).unwrap();
    let options = ["-O1", "-g", "-fno-builtin", "-Wno-unused-result"];
    let steps = compile("cc", &folder.join("steps"), STEPS, &options).expect("a compiler");
    let steps = steps.to_str().unwrap();
    let holds = compile("cc", folder, HOLDS, &options).expect("a compiler");
    let faults = include_str!("programs/faults.c");
    std::fs::create_dir_all(folder.join("faults")).unwrap();
    let options = ["-w", "-g", "-O1", "-fno-builtin", "-pthread"];
    let faults = compile("cc", &folder.join("faults"), faults, &options).expect("a compiler");
    let faults = faults.to_str().unwrap();
    let process = Program::start(&mut mallow(&["run", "--", holds.to_str().unwrap()]));
    let glibc = Program::start(&mut std::process::Command::new(&holds));
    let (pid, glibc) = (process.pid(), glibc.pid());
    let dump = path("dump.json");
    let dumps = concat!(env!("CARGO_MANIFEST_DIR"), "/../mallow-stats/tests/dumps");
    std::fs::copy(format!("{dumps}/jemalloc-5.3.1-bins.json"), &dump).unwrap();
    let (trace, other, result) = (path("a.trace"), path("b.trace"), path("result"));
    for trace in [&trace, &other] {
        assert_eq!(run(&["record", "-q", "-o", trace, "--", steps]).code, Some(0));
    }
    let baseline = path("baseline");
    let update = run(&["check", "-q", "--update", "-b", &baseline, "-r", "1", "--", steps]);
    assert_eq!(update.code, Some(0), "{}", update.stderr);
    let all = "glibc,mallow,mallow-secure,mallow-debug";
    let lines: [(&str, &[&str]); 23] = [
        ("explain", &["explain", "--all", &pid]),
        ("explain-glibc", &["explain", "--all", &glibc]),
        ("watch", &["watch", "-q", "-i", "20ms", "--", steps]),
        ("compare", &["compare", "-q", "-a", all, "-r", "5", "-w", "0", "--timeline", "--", steps]),
        ("tune", &["tune", "-q", "-a", "mallow", "-r", "9", "--", "true"]),
        ("stats", &["stats", "--all", &pid]),
        ("stats-dump", &["stats", "--all", &dump]),
        ("stats-interval", &["stats", "--interval", "10ms", "--count", "5", &pid]),
        ("advise", &["advise", &dump]),
        ("guard", &["guard", "-q", "--", faults, "double"]),
        ("check", &["check", "-q", "-b", &baseline, "-r", "1", "--", steps]),
        ("report", &["report", &trace]),
        ("report-difference", &["report", &trace, "--diff", &other]),
        ("replay", &["replay", "-q", "-a", all, "-r", "3", &trace]),
        ("list", &["list"]),
        ("status", &["status"]),
        ("top", &["top", "--once", "--pid", &pid]),
        ("verify", &["verify", &pid]),
        ("run", &["run", "--dry-run", "--", steps]),
        ("enable", &["enable", "--docker"]),
        ("disable", &["disable", "--all", "--dry-run"]),
        ("help", &["help", "MLW2101"]),
        ("config", &["config"]),
    ];
    let has_page = |verb: &String| run(&[verb, "--help"]).stdout.contains("--html");
    for verb in verbs().iter().filter(|verb| has_page(verb)) {
        // The page of `record` is that of `report`.
        let is_here = verb == "record" || lines.iter().any(|(_, words)| words[0] == verb.as_str());
        assert!(is_here, "{verb} has a page and no line here");
    }
    let mut pages = Vec::new();
    for (name, words) in lines {
        let page = path(&format!("{name}.html"));
        let ran = run(&[&words[..1], &["--html", &page, "-o", &result], &words[1..]].concat());
        assert!(matches!(ran.code, Some(0 | 3 | 6)), "{words:?}: {:?} {}", ran.code, ran.stderr);
        pages.push(page);
    }
    pages
}

#[test]
fn pages_fit_and_can_be_read_in_a_browser() {
    if browser::name().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join(LONG);
    std::fs::create_dir_all(&folder).unwrap();
    let question = QUESTION.replace("CONTRAST", &CONTRAST.to_string());
    let mut faults = Vec::new();
    let pages = write_pages(&folder);
    let mut browser = Browser::start().unwrap();
    for page in pages {
        let name = Path::new(&page).file_name().unwrap().to_str().unwrap();
        for (width, scheme) in WIDTHS.into_iter().flat_map(|width| SCHEMES.map(|s| (width, s))) {
            browser.open(&page, width, scheme);
            let answer = browser.ask(&question);
            let mut add =
                |what: String| faults.push(format!("{name}, {width} pixels, {scheme}: {what}"));
            assert_eq!(answer["inner"], width, "{answer}");
            assert!(answer["read"].as_u64().unwrap() > 3, "{name} has no text: {answer}");
            if answer["scroll"].as_u64() > answer["inner"].as_u64() {
                add(format!("{} pixels wide: {}", answer["scroll"], answer["wide"]));
            }
            let dark = browser.ask("matchMedia('(prefers-color-scheme: dark)').matches");
            assert_eq!(dark, scheme == "dark");
            if answer["faint"] != serde_json::json!([]) {
                add(format!("hardly to be read: {}", answer["faint"]));
            }
            let complaints = browser.complaints();
            if !complaints.is_empty() {
                add(format!("{complaints:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
