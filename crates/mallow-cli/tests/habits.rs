// SPDX-License-Identifier: MIT
//! What every verb has in common: forms of results, colours, settings, help, manual.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::program::Program;
use crate::common::{is_there, json, mallow, ran, refuses, run, verbs, without_rights};

#[test]
fn every_help_ends_in_two_examples_and_the_next_verb() {
    for verb in &verbs() {
        for words in [[verb.as_str(), "--help"], [verb, "-h"], ["help", verb]] {
            let text = run(&words).stdout;
            let end: Vec<&str> = text.trim_end().lines().rev().take(5).collect();
            assert_eq!(end[4], "Examples:", "{text}");
            assert!(end[2..4].iter().all(|l| l.starts_with(&format!("  mallow {verb}"))), "{text}");
            assert!(end[0].starts_with("Next: mallow "), "{text}");
        }
    }
}

/// Where no terminal tells its width.
#[test]
fn help_has_room_whatever_columns_says() {
    let help = |columns: Option<&str>| {
        let mut command = Command::new("setsid");
        command.arg("-w").arg(mallow(&[]).get_program()).args(["compare", "--help"]);
        command.env_remove("COLUMNS").envs(columns.map(|columns| ("COLUMNS", columns)));
        let ran = ran(command.stdin(Stdio::null()).output().unwrap());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stdout
    };
    let usual = help(None);
    for columns in ["", "0", "1", "39", "-1", "x", "80x24", "1000", "99999999999999999999"] {
        assert_eq!(help(Some(columns)), usual, "COLUMNS={columns}");
    }
    let narrow = help(Some("60"));
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max();
    assert!(widest(&narrow) < widest(&usual), "{narrow}");
}

/// man finds nothing to complain of, and shows what the help shows.
#[test]
fn pages_of_the_manual_render_without_warnings() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    assert_eq!(run(&["man", "--all", pages.to_str().unwrap()]).code, Some(0));
    let verbs = verbs();
    assert_eq!(std::fs::read_dir(&pages).unwrap().count(), verbs.len() + 1);
    assert_eq!(
        std::fs::read_to_string(pages.join("mallow-run.1")).unwrap(),
        run(&["man", "run"]).stdout
    );
    let synopsis = "mallow run [OPTIONS] \\-\\- <COMMAND>...";
    assert!(run(&["man", "run"]).stdout.lines().any(|line| line == synopsis));
    if !is_there("man") {
        return;
    }
    for verb in std::iter::once(None).chain(verbs.iter().map(Some)) {
        let name = verb.map_or("mallow".to_owned(), |verb| format!("mallow-{verb}"));
        let mut man = Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-l"]).arg(pages.join(format!("{name}.1")));
        let shown =
            ran(man.env("MANWIDTH", "200").env("MAN_KEEP_FORMATTING", "").output().unwrap());
        assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""), "{name}");
        for heading in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"] {
            assert!(shown.stdout.contains(heading), "{heading} of {name}");
        }
        match verb {
            Some(_) => assert!(shown.stdout.contains("EXAMPLES"), "{}", shown.stdout),
            None => {
                for verb in &verbs {
                    assert!(
                        shown.stdout.contains(&format!("mallow-{verb}(1)")),
                        "{}",
                        shown.stdout
                    );
                }
                assert!(shown.stdout.contains("EXIT STATUS"));
            }
        }
    }
}

#[test]
fn every_verb_with_a_result_has_the_same_forms() {
    let program = Program::start(Command::new("sh").args(["-c", "echo {}; exec sleep 1000"]));
    let pid = program.pid();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (trace, result, page) = (path("trace"), path("result"), path("page"));
    assert_eq!(run(&["record", "-q", "-o", &trace, "--", "ls", "/"]).code, Some(0));
    let baseline = path("baseline");
    let lines: [&[&str]; 19] = [
        &["run", "--dry-run", "--", "true"],
        &["enable", "--docker"],
        &["disable", "--all", "--dry-run"],
        &["help", "MLW2101"],
        &["guard", "-q", "--", "true"],
        &["check", "-q", "--update", "-b", &baseline, "-r", "1", "--", "true"],
        &["list"],
        &["status"],
        &["compare", "-q", "-a", "glibc,mallow", "-r", "1", "-w", "0", "--", "true"],
        &["verify", &pid],
        &["explain", &pid],
        &["watch", "-q", "-i", "50ms", "-d", "150ms", &pid],
        &["top", "--once", "--pid", &pid],
        &["stats", &pid],
        &["advise", &pid],
        &["report", &trace],
        &["replay", "-q", "-a", "glibc,mallow", "-r", "1", &trace],
        &["tune", "-q", "-a", "mallow", "-r", "9", "--", "true"],
        &["config"],
    ];
    let has_result = |verb: &String| run(&[verb, "--help"]).stdout.contains("--html");
    for verb in verbs().iter().filter(|verb| has_result(verb)) {
        // `record` has a test of its own: its -o is the trace.
        let is_here = verb == "record" || lines.iter().any(|words| words[0] == verb.as_str());
        assert!(is_here, "{verb} has a result and no line here");
    }
    for words in lines {
        let with = |options: &[&str]| {
            let words = [&words[..1], options, &words[1..]].concat();
            let ran = run(&words);
            assert!(ran.code == Some(0) || ran.code == Some(6), "{words:?}: {}", ran.stderr);
            ran
        };
        let report = json(&with(&["--json", "--html", &page]));
        let schema = report["schema"].as_str().unwrap();
        assert!(schema.starts_with(&format!("mallow.{}/", words[0])), "{schema}");
        let shown = std::fs::read_to_string(&page).unwrap();
        assert!(shown.starts_with("<!DOCTYPE html>") && shown.ends_with("</html>\n"), "{words:?}");
        let shown = shown.replace("http://www.w3.org/2000/svg", "");
        assert!(shown.contains("default-src 'none'") && !shown.contains("http:"), "{words:?}");
        let ran = with(&["-o", &result, "--format", "json"]);
        assert_eq!(ran.stdout, "", "{words:?}");
        let text = std::fs::read_to_string(&result).unwrap();
        let written: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(written["schema"], schema);
        assert!(with(&["--format", "html"]).stdout.starts_with("<!DOCTYPE html>"));
    }
}

/// On a terminal of 34 columns, made by script(1). What is wider is one word, such as a path.
#[test]
fn results_fit_a_narrow_terminal() {
    if !is_there("script") {
        return;
    }
    let program = Program::start(Command::new("sh").args(["-c", "echo {}; exec sleep 1000"]));
    let pid = program.pid();
    let tool = mallow(&[]).get_program().to_str().unwrap().to_owned();
    for words in [
        "list",
        "status",
        "config",
        "help MLW2101",
        "disable --all --dry-run",
        "compare -a glibc,mallow -r 2 -w 0 -- true",
        "top --once --pid PID",
        "explain PID",
        "stats PID",
        "advise --rules",
    ] {
        let line = format!("stty cols 34; exec {tool} -q {}", words.replace("PID", &pid));
        let mut script = Command::new("script");
        script.args(["-q", "-e", "-c", &line, "/dev/null"]).env("NO_COLOR", "1");
        script.env("XDG_CONFIG_HOME", "/nonexistent").env("TERM", "xterm");
        let shown = ran(script.output().unwrap()).stdout;
        assert!(shown.lines().count() > 2, "{words}: {shown}");
        for line in shown.lines().map(str::trim) {
            let is_narrow = line.chars().count() <= 34 || !line.contains(' ');
            assert!(is_narrow, "{words}: {line}");
        }
    }
}

#[test]
fn a_recording_has_a_summary_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (trace, page) = (path("trace"), path("page"));
    let words = ["record", "--json", "--html", &page, "-o", &trace, "--", "echo", "spoken"];
    let recorded = run(&words);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    // Standard output is the summary's alone.
    let summary = json(&recorded);
    assert!(recorded.stderr.contains("spoken\n"), "{}", recorded.stderr);
    assert_eq!(summary["schema"], "mallow.record/1");
    assert_eq!(summary["trace"], trace.as_str());
    assert_eq!(summary["trace_bytes"], std::fs::metadata(&trace).unwrap().len());
    let calls = summary["calls"].as_u64().unwrap();
    assert!(calls > 0 && summary["processes"] == 1 && summary["dropped"] == 0, "{summary}");
    let report = json(&run(&["report", "--json", &trace]));
    assert_eq!(report["totals"]["calls"], calls);
    let shown = std::fs::read_to_string(page).unwrap();
    assert!(shown.contains(&format!("<td class=\"words\">calls</td><td>{calls}</td>")), "{shown}");
}

fn compare_once(options: &[&str]) -> Command {
    let fixed = ["compare", "-q", "-a", "glibc,mallow", "-r", "5", "-w", "0"];
    mallow(&[&fixed, options, &["--", "true"]].concat())
}

#[test]
fn colours_are_for_terminals_and_for_who_asks() {
    let shown = |command: &mut Command| ran(command.output().unwrap()).stdout;
    let is_coloured = |text: &str| text.contains("\u{1b}[3");
    let plain = shown(&mut compare_once(&[]));
    assert!(!plain.contains('\u{1b}') && plain.contains("against baseline"), "{plain}");
    // Five runs prove nothing of time, which is a verdict too.
    let coloured = shown(&mut compare_once(&["--color", "always"]));
    assert!(is_coloured(&coloured), "{coloured}");
    assert!(is_coloured(&shown(compare_once(&["--color", "always"]).env("NO_COLOR", "1"))));
    assert!(is_coloured(&shown(compare_once(&[]).env("MALLOW_COLOR", "always"))));
    assert!(!is_coloured(&shown(
        compare_once(&["--color", "never"]).env("MALLOW_COLOR", "always")
    )));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result");
    let words = ["--color", "always", "-o", file.to_str().unwrap()];
    assert_eq!(shown(&mut compare_once(&words)), "");
    assert!(!std::fs::read_to_string(file).unwrap().contains('\u{1b}'));
    for form in ["csv", "md", "json", "html"] {
        let text = shown(&mut compare_once(&["--color", "always", "--format", form]));
        assert!(!text.contains('\u{1b}') && !text.is_empty(), "{form}: {text}");
    }
    refuses_color();
}

fn refuses_color() {
    let ran = run(&["list", "--color", "sometimes"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("always"), "{}", ran.stderr);
    let help = run(&["--color", "always", "--help"]).stdout;
    assert!(help.contains('\u{1b}'), "{help}");
    assert!(!run(&["--color", "never", "--help"]).stdout.contains('\u{1b}'));
}

/// On a terminal, made by script(1).
#[test]
fn a_terminal_has_colours_unless_they_are_refused() {
    if !is_there("script") {
        return;
    }
    let on_terminal = |variable: (&str, &str)| {
        let command = compare_once(&[]);
        let words: Vec<String> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let mut script = Command::new("script");
        script.args(["-q", "-e", "-c", &words.join(" "), "/dev/null"]).env_remove("NO_COLOR");
        script.env("XDG_CONFIG_HOME", "/nonexistent").env("TERM", "xterm");
        ran(script.env(variable.0, variable.1).output().unwrap()).stdout
    };
    let text = on_terminal(("LANG", "C"));
    assert!(text.contains("\u{1b}[3"), "{text:?}");
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb"), ("MALLOW_COLOR", "never")] {
        let text = on_terminal(variable);
        assert!(text.contains("baseline") && !text.contains("\u{1b}[3"), "{variable:?}: {text:?}");
    }
}

/// A folder with a file of settings, and another for the user's own.
struct Settings {
    folder: tempfile::TempDir,
}

impl Settings {
    fn new(here: &str, user: &str) -> Settings {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("here/mallow.toml", here);
        write("config/mallow/config.toml", user);
        Settings { folder }
    }

    fn mallow(&self, words: &[&str]) -> Command {
        let mut command = mallow(words);
        command.current_dir(self.folder.path().join("here"));
        command.env("XDG_CONFIG_HOME", self.folder.path().join("config"));
        command
    }
}

fn setting<'a>(report: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let settings = report["settings"].as_array().unwrap();
    settings.iter().find(|setting| setting["name"] == name).unwrap()
}

#[test]
fn config_says_what_holds_and_where_it_comes_from() {
    let here = "[compare]\n# more\nruns = 12\n";
    let user = "color = \"never\"\n[compare]\nruns = 11\nbudget = \"5s\"\n";
    let settings = Settings::new(here, user);
    let mut command = settings.mallow(&["--quiet", "config", "--json"]);
    let report = json(&ran(command.env("MALLOW_COMPARE_MARGIN", "3").output().unwrap()));
    assert_eq!(report["schema"], "mallow.config/1");
    let is = |name: &str, value: &str, source: &str, line: Option<u64>| {
        let setting = setting(&report, name);
        assert_eq!(setting["values"], serde_json::json!([value]), "{name}");
        assert_eq!(
            (&setting["source"], setting["line"].as_u64()),
            (&source.into(), line),
            "{name}"
        );
    };
    is("compare.runs", "12", "file", Some(3));
    is("compare.budget", "5s", "file", Some(4));
    is("compare.margin", "3", "environment", None);
    is("color", "never", "file", Some(1));
    is("quiet", "true", "command line", None);
    is("watch.interval", "1s", "default", None);
    assert_eq!(setting(&report, "compare.timeout")["source"], "unset");
    assert_eq!(setting(&report, "compare.margin")["variable"], "MALLOW_COMPARE_MARGIN");
    let files: Vec<bool> =
        report["files"].as_array().unwrap().iter().map(|f| f["is_read"] == true).collect();
    assert_eq!(files[files.len() - 2..], [true, true]);

    // A flag that turns off what is set, and one of the verb itself.
    let config = |words: &[&str]| {
        let words = [&["config", "--format", "csv"], words].concat();
        ran(settings.mallow(&words).env("MALLOW_QUIET", "true").output().unwrap()).stdout
    };
    assert!(config(&["--no-quiet", "quiet"]).ends_with("\nquiet,false,command line\n"));
    assert!(config(&["config.format"]).ends_with("\nconfig.format,csv,command line\n"));

    // What a file turned on a word turns off.
    let settings = Settings::new("[compare]\ntimeline = true\n", "");
    let compare = |word: &[&str]| {
        let words =
            [&["compare", "-r", "2", "-w", "0", "-a", "glibc"], word, &["--", "sleep", "0.1"]];
        let compared = ran(settings.mallow(&words.concat()).output().unwrap());
        assert_eq!(compared.code, Some(0), "{}", compared.stderr);
        compared.stdout.contains("RSS over time")
    };
    assert!(compare(&[]) && !compare(&["--no-timeline"]));

    let settings = Settings::new(here, user);
    let table = ran(settings.mallow(&["config", "compare"]).output().unwrap()).stdout;
    assert!(table.contains("mallow.toml, line 3"), "{table}");
    assert!(!table.contains("watch."), "{table}");
    refuses(&["config", "nothing"], 2, &["nothing", "mallow config"]);
}

#[test]
fn settings_hold_and_flags_are_stronger() {
    let settings = Settings::new("", "[compare]\nruns = 2\nwarmup = 0\nallocators = \"glibc\"\n");
    let runs = |words: &[&str]| {
        let words = [&["compare", "-q", "--json"], words, &["--", "true"]].concat();
        let report = json(&ran(settings.mallow(&words).output().unwrap()));
        report["settings"]["rounds_made"].as_u64().unwrap()
    };
    assert_eq!(runs(&[]), 2);
    assert_eq!(runs(&["-r", "3"]), 3);
}

/// Wherever a setting is wrong, it is one sentence with the place, and 2; but help goes on.
#[test]
fn wrong_settings_are_said_in_one_sentence() {
    for (text, words) in [
        ("[compare]\nrunz = 3\n", ["mallow.toml, line 2", "compare.runs"]),
        ("[compare]\nruns = \"few\"\n", ["mallow.toml, line 2", "\"few\""]),
        ("color =\n", ["mallow.toml, line 1", "color"]),
    ] {
        let settings = Settings::new(text, "");
        let ran = ran(settings.mallow(&["list"]).output().unwrap());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        if !text.starts_with("color") {
            assert!(words.iter().all(|word| ran.stderr.contains(word)), "{}", ran.stderr);
        }
        for words in [&["--help"][..], &["help", "list"], &["--version"], &["man"]] {
            assert!(settings.mallow(words).output().unwrap().status.success(), "{words:?}");
        }
    }
    let mut command = mallow(&["list"]);
    let ran = ran(command.env("MALLOW_LIST_FORMAT", "xml").output().unwrap());
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr.contains("MALLOW_LIST_FORMAT") && ran.stderr.contains("json"),
        "{}",
        ran.stderr
    );
}

/// In a folder that anybody may write to, somebody else's file decides nothing.
#[test]
fn settings_of_another_user_are_not_read() {
    if !crate::common::is_root() {
        println!("skipped: only root can give files away");
        return;
    }
    let settings = Settings::new("[compare]\nrunz = 3\n", "");
    let file = settings.folder.path().join("here/mallow.toml");
    std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
    let ran = ran(settings.mallow(&["list"]).output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("belongs to another user"), "{}", ran.stderr);
    assert!(Path::new(&file).exists());
}

/// A file that this user may not read, as in the home of somebody else, keeps nobody from working.
#[test]
fn settings_that_may_not_be_read_are_left_out() {
    use std::os::unix::fs::PermissionsExt;
    let settings = Settings::new("", "color = \"wrong\"\n");
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    let mut command = without_rights(settings.folder.path());
    open(&settings.folder.path().join("config"), 0o000);
    command.env("XDG_CONFIG_HOME", settings.folder.path().join("config"));
    let ran = ran(command.args(["config", "list"]).output().unwrap());
    open(&settings.folder.path().join("config"), 0o755);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("may not be read and is left out"), "{}", ran.stderr);
}
