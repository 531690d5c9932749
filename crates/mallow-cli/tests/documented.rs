// SPDX-License-Identifier: MIT
//! What the documentation tells people to type exists: each command of its code blocks, with its options.

use std::path::{Path, PathBuf};

use crate::common::run;

/// The front page and those of docs/, but not what was tried once.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    for entry in std::fs::read_dir(root.join("docs")).unwrap() {
        let path = entry.unwrap().path();
        let is_page = path.extension().is_some_and(|extension| extension == "md");
        if is_page && !path.ends_with("experiments.md") {
            pages.push(path);
        }
    }
    pages
}

/// Lines of code blocks that begin with the command, without it; continued lines joined.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for block in text.split("```").skip(1).step_by(2) {
        for line in block.replace("\\\n", " ").lines() {
            let line = line.trim_start_matches("sudo ").trim_start_matches("$ ");
            // A row of a table begins so too, and has no verb.
            if let Some(rest) = line.strip_prefix("mallow ")
                && rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '-')
            {
                found.push(rest.to_owned());
            }
        }
    }
    found
}

/// Its own words, up to what it is to start and without the remark behind it.
fn words(command: &str) -> Vec<String> {
    let command = command.split(" #").next().unwrap();
    let words = shell_words::split(command).unwrap();
    let own = words.into_iter().take_while(|word| word != "--" && word != "|" && word != ">");
    own.map(|word| if word == "PID" { "1".to_owned() } else { word }).collect()
}

#[test]
fn each_documented_command_is_understood() {
    let mut tried = 0;
    for page in pages() {
        for command in commands(&std::fs::read_to_string(&page).unwrap()) {
            // Help comes only after all that stands before it was understood.
            let mut words = words(&command);
            if words[0] != "help" {
                words.push("--help".to_owned());
            }
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let ran = run(&words);
            assert_eq!(ran.code, Some(0), "{}: mallow {command}\n{}", page.display(), ran.stderr);
            tried += 1;
        }
    }
    assert!(tried > 100, "only {tried} commands were found");
}

#[test]
fn what_does_not_exist_is_noticed() {
    for command in ["watch PID --no-such-flag", "no-such-verb", "compare --budget soon -- x"] {
        let mut words = words(command);
        words.push("--help".to_owned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(run(&words).code, Some(2), "{command}");
    }
}

#[test]
fn the_page_of_verbs_is_what_the_definition_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference.md");
    let written = std::fs::read_to_string(page).unwrap();
    let said = run(&["man", "--markdown"]).stdout;
    let other = said.lines().zip(written.lines()).find(|(said, written)| said != written);
    assert!(
        said == written,
        "target/debug/mallow man --markdown >docs/reference.md writes the page anew: {other:?}"
    );
    let verbs = written.lines().filter(|line| line.starts_with("## mallow ")).count();
    assert!(verbs > 20, "{verbs}");
}
