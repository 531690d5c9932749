// SPDX-License-Identifier: MIT
//! Completions: that shells can read them, and what they offer.

use std::path::Path;
use std::process::Command;

use crate::common::{is_there, ran, run, verbs};

const SHELLS: [(&str, &[&str]); 3] = [
    ("bash", &["--norc", "-e"]),
    // -i: completions need the functions of an interactive shell.
    ("zsh", &["-f", "-c", "autoload -U compinit && compinit -u -D && . \"$0\""]),
    ("fish", &["--no-config"]),
];

#[test]
fn completions_are_read_by_their_shells() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, words) in SHELLS {
        let file = folder.path().join(shell);
        let written = run(&["completions", shell, "-o", file.to_str().unwrap()]);
        assert_eq!((written.code, written.stdout.as_str()), (Some(0), ""), "{}", written.stderr);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), run(&["completions", shell]).stdout);
        if !is_there(shell) {
            continue;
        }
        let read = Command::new(shell).args(words).arg(&file).env("HOME", folder.path()).output();
        let read = ran(read.unwrap());
        assert_eq!((read.code, read.stderr.as_str()), (Some(0), ""), "{shell}");
    }
}

/// What bash offers for the last word of a line, where `before` was typed into the shell.
fn offered_by_bash(before: &str, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "{before}\n{}\nCOMP_WORDS=({})\nCOMP_CWORD={}\n_mallow mallow '{}' '{}'\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        run(&["completions", "bash"]).stdout,
        quoted.join(" "),
        words.len() - 1,
        words[words.len() - 1],
        words[words.len() - 2],
    );
    let output = Command::new("bash").args(["--norc", "-c", &script]).output().unwrap();
    ran(output).stdout
}

fn offered_by_fish(folder: &Path, line: &str) -> String {
    let script = format!("{}\ncomplete -C '{line}'", run(&["completions", "fish"]).stdout);
    let mut fish = Command::new("fish");
    fish.args(["--no-config", "-c", &script]).current_dir(folder).env("HOME", folder);
    ran(fish.output().unwrap()).stdout
}

/// Completes the line when it is about to be edited; what is offered goes to a file.
const ZSHRC: &str = "\
autoload -U compinit && compinit -u -D
. $COMPLETIONS
compadd() {
    local -a offered
    # Questions of zsh's own functions.
    [[ -n ${(M)@:#-[ADO]*} ]] && { builtin compadd \"$@\"; return }
    builtin compadd -A offered \"$@\"
    print -rl -- $offered >>$OFFERED
}
complete-line() { BUFFER=$LINE CURSOR=$#LINE; zle complete-word; exit }
zle -N zle-line-init complete-line
";

/// What zsh offers for the last word of a line. It completes at a terminal alone, so another one makes that.
fn offered_by_zsh(line: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path(".zshrc"), ZSHRC).unwrap();
    std::fs::write(path("completions"), run(&["completions", "zsh"]).stdout).unwrap();
    std::fs::write(path("offered"), "").unwrap();
    let script = "zmodload zsh/zpty && zpty inner zsh -d -i && while zpty -r inner; do :; done";
    let mut zsh = Command::new("timeout");
    zsh.args(["60", "zsh", "-f", "-c", script]).env("LINE", line).env("ZDOTDIR", folder.path());
    zsh.env("HOME", folder.path()).env("COMPLETIONS", path("completions"));
    let said = zsh.env("OFFERED", path("offered")).output().unwrap();
    let offered = std::fs::read_to_string(path("offered")).unwrap();
    assert_ne!(said.status.code(), Some(124), "{}", String::from_utf8_lossy(&said.stdout));
    offered.lines().map(str::to_owned).collect()
}

/// What a shell offers is what the definition has.
#[test]
fn completions_offer_verbs_and_options() {
    if is_there("bash") {
        let offered = |line| offered_by_bash("", line);
        assert_eq!(offered("mallow comp"), "compare\ncompletions\n");
        assert_eq!(offered("mallow compare --bu"), "--budget\n");
        assert_eq!(offered("mallow list --format j"), "json\n");
    }
    if is_there("fish") {
        let folder = tempfile::tempdir().unwrap();
        let offered = offered_by_fish(folder.path(), "mallow rep");
        assert!(offered.contains("report\t") && offered.contains("replay\t"), "{offered}");
    }
    if is_there("zsh") {
        assert_eq!(offered_by_zsh("mallow comp"), ["compare", "completions"]);
        assert_eq!(offered_by_zsh("mallow compare --bu"), ["--budget"]);
        assert_eq!(offered_by_zsh("mallow list --format j"), ["json"]);
        assert_eq!(offered_by_zsh("mallow help MLW210"), findings("MLW210"));
        assert_eq!(offered_by_zsh("mallow comx"), [""; 0]);
    }
}

/// Verbs for `man`, and findings too for `help`.
#[test]
fn completions_offer_topics() {
    if is_there("bash") {
        let offered = |line| offered_by_bash("", line);
        assert_eq!(offered("mallow help re"), "record\nreport\nreplay\n");
        assert_eq!(offered("mallow help MLW210"), findings("MLW210").join("\n") + "\n");
        assert_eq!(offered("mallow help fi"), "findings\n");
        assert_eq!(offered("mallow man comp"), "compare\ncompletions\n");
        assert_eq!(offered("mallow man MLW"), "\n");
    }
    if is_there("fish") {
        let folder = tempfile::tempdir().unwrap();
        let names = |line| {
            let offered = offered_by_fish(folder.path(), line);
            let names = offered.lines().map(|line| line.split('\t').next().unwrap().to_owned());
            names.collect::<Vec<_>>()
        };
        assert_eq!(names("mallow help MLW210"), findings("MLW210"));
        assert_eq!(names("mallow man comp"), ["compare", "completions"]);
    }
    let zsh = run(&["completions", "zsh"]).stdout;
    let topics = |verb: &str| {
        let start = zsh.find(&format!("\n({verb})\n")).unwrap();
        zsh[start..].split(";;").next().unwrap().to_owned()
    };
    assert!(topics("help").contains("MLW4101\\:\"a block was freed twice\""));
    assert!(topics("man").contains("\nrun\\:\"") && !topics("man").contains("MLW4101"));
}

/// The ids of findings that begin so, by `mallow help findings`.
fn findings(begin: &str) -> Vec<String> {
    let list = run(&["help", "findings"]).stdout;
    let lines = list.lines().filter(|line| line.starts_with(begin));
    let ids: Vec<String> = lines.map(|line| line[..7].to_owned()).collect();
    assert!(ids.len() > 3, "{list}");
    ids
}

/// After `--`: programs for the first word, files for those behind it.
#[test]
fn completions_offer_commands_and_their_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("other"), "").unwrap();
    let verbs = verbs();
    let has_command = |verb: &&String| run(&["help", verb]).stdout.contains("-- <COMMAND>...");
    let starters: Vec<&String> = verbs.iter().filter(has_command).collect();
    assert!(starters.len() > 5, "{starters:?}");
    let line = |verb: &str, rest: &str| format!("mallow {verb} {rest}");
    if is_there("bash") {
        let known = "_command_offset() { COMPREPLY=(\"from $1\"); }";
        for verb in &starters {
            assert_eq!(offered_by_bash("", &line(verb, "-a x -- mktem")), "mktemp\n", "{verb}");
            assert_eq!(offered_by_bash(known, &line(verb, "-a x -- a b")), "from 5\n", "{verb}");
        }
        // Words of the shell alone are no programs.
        assert_eq!(offered_by_bash("mktemps() { :; }", "mallow run -- mktem"), "mktemp\n");
        // Nothing is said, so bash offers files.
        for line in ["mallow run -- cat ", "mallow run -- cat -", "mallow run -- ./o"] {
            assert_eq!(offered_by_bash("", line), "\n", "{line}");
        }
        assert!(run(&["completions", "bash"]).stdout.contains(" -o default mallow\n"));
        assert_eq!(offered_by_bash("", "mallow report -- mktem"), "\n");
        assert_eq!(offered_by_bash("", "mallow run --deb"), "--debug\n");
    }
    if is_there("fish") {
        let offered = |line: &str| offered_by_fish(folder.path(), line);
        for verb in &starters {
            assert!(offered(&line(verb, "-- mktem")).starts_with("mktemp\t"), "{verb}");
            assert_eq!(offered(&line(verb, "-- cat oth")), "other\n", "{verb}");
        }
        assert!(offered("mallow run -- ").contains("\nmktemp\t"));
        assert_eq!(offered("mallow report -- mktem"), "");
    }
    if is_there("zsh") {
        let script = run(&["completions", "zsh"]).stdout;
        // In place of what completes a command of its own.
        let told = |line: &str| {
            let call = "_normal() { print $CURRENT $words; }; _mallow_command || print none";
            let count = line.split(' ').count();
            let script =
                format!("compdef() {{ :; }}\n{script}\nwords=({line}); CURRENT={count}; {call}");
            ran(Command::new("zsh").args(["-f", "-c", &script]).output().unwrap()).stdout
        };
        for verb in &starters {
            assert_eq!(told(&line(verb, "-a x -- cat oth")), "2 cat oth\n", "{verb}");
        }
        assert_eq!(told("mallow run -- mktem"), "1 mktem\n");
        assert_eq!(told("mallow run --"), "none\n");
        assert_eq!(told("mallow report -- mktem"), "none\n");
    }
}
