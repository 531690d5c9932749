// SPDX-License-Identifier: MIT
//! What the generator of completions leaves out: the topics of `help` and `man`, and what follows `--`.

use clap::Command;
use clap::builder::{PossibleValue, PossibleValuesParser};
use mallow_advice::findings::CATALOGUE;

use super::args::ShellName;
use crate::error::{Error, Result};

/// A function for each shell that completes the words after `--`, which are a command with its arguments. It
/// fails where there are none. In place of VERBS stand the verbs that start a command.
const BASH: &str = r#"_mallow_command() {
    local i
    for ((i = 2; i < COMP_CWORD; i++)); do
        [[ "${COMP_WORDS[i]}" == -- ]] && break
    done
    [[ $i -lt $COMP_CWORD && " ${COMP_WORDS[*]:1:i-1} " =~ \ (VERBS)\  ]] || return 1
    # This completes each command's own arguments; without it there are files, which bash offers of itself.
    if declare -F _command_offset >/dev/null; then
        _command_offset $((i + 1))
    elif [[ $COMP_CWORD -eq $((i + 1)) && "$1" != */* ]]; then
        local name
        while IFS= read -r name; do
            type -P "$name" >/dev/null && COMPREPLY+=("$name")
        done < <(compgen -c -- "$1" | sort -u)
    fi
    return 0
}

"#;
const ZSH: &str = r#"_mallow_command() {
    local -i mark=${words[(i)--]}
    (( mark < CURRENT && ${words[1,mark][(I)(VERBS)]} )) || return 1
    shift $mark words
    (( CURRENT -= mark ))
    _normal -p mallow
}

"#;
const FISH: &str = r#"
function __fish_mallow_command
    set -l words (commandline -opc)
    set -l mark (contains -i -- -- $words)
    or return
    string match -qr '^(VERBS)$' -- $words[1..$mark]
    or return
    set -e words[1..$mark]
    set -l line (string join ' ' -- (string escape -- $words) (commandline -ct))
    complete -C "$line"
end

complete -c mallow -n "__fish_mallow_command >/dev/null" -x -a "(__fish_mallow_command)"
"#;

/// `help` and `man` say what may follow them, to the generator alone: the command itself has a better answer
/// to what it does not know.
pub fn with_topics(command: Command) -> Command {
    let verbs = topics(&command);
    let findings = findings();
    command
        .mut_subcommand("help", |verb| {
            let all = PossibleValuesParser::new(verbs.iter().chain(&findings).map(value));
            verb.mut_arg("topic", |topic| topic.value_parser(all).hide_possible_values(true))
        })
        .mut_subcommand("man", |verb| {
            let all = PossibleValuesParser::new(verbs.iter().map(value));
            verb.mut_arg("verb", |name| name.value_parser(all).hide_possible_values(true))
        })
}

type Topic = (String, String);

fn topics(command: &Command) -> Vec<Topic> {
    let about = |verb: &Command| verb.get_about().map(ToString::to_string).unwrap_or_default();
    command.get_subcommands().map(|verb| (verb.get_name().to_owned(), about(verb))).collect()
}

fn findings() -> Vec<Topic> {
    let list = ("findings".to_owned(), "All findings, a line each".to_owned());
    let each = CATALOGUE.iter().map(|entry| (entry.id.to_owned(), entry.title.to_owned()));
    std::iter::once(list).chain(each).collect()
}

fn value((name, about): &Topic) -> PossibleValue {
    PossibleValue::new(name).help(about)
}

pub fn add(shell: ShellName, script: String, command: &Command) -> Result<String> {
    let starts = |verb: &&Command| verb.get_arguments().any(clap::Arg::is_last_set);
    let starters: Vec<&str> =
        command.get_subcommands().filter(starts).map(Command::get_name).collect();
    let verbs = starters.join("|");
    match shell {
        ShellName::Bash => {
            let begin = format!("{}_mallow() {{\n", BASH.replace("VERBS", &verbs));
            let script = placed(&script, "_mallow() {\n", &begin)?;
            let first = "    COMPREPLY=()\n";
            placed(&script, first, &format!("{first}    _mallow_command \"$2\" && return 0\n"))
        }
        ShellName::Zsh => {
            let first = "_mallow() {\n";
            let begin =
                format!("{}{first}    _mallow_command && return\n", ZSH.replace("VERBS", &verbs));
            placed(&script, first, &begin)
        }
        ShellName::Fish => Ok(script + &FISH.replace("VERBS", &verbs) + &fish_topics(command)),
    }
}

/// `new` in the place of the first `old`.
fn placed(script: &str, old: &str, new: &str) -> Result<String> {
    let missing = || Error::Internal(format!("the generated completions have no line {old:?}"));
    script.contains(old).then(|| script.replacen(old, new, 1)).ok_or_else(missing)
}

/// The generator for fish knows options alone.
fn fish_topics(command: &Command) -> String {
    let verbs = topics(command);
    let mut text = String::new();
    let mut offer = |verb: &str, (name, about): &Topic| {
        let about = about.replace('\\', "\\\\").replace('\'', "\\'");
        text += &format!(
            "complete -c mallow -n \"__fish_mallow_using_subcommand {verb}\" -f -a {name} -d '{about}'\n"
        );
    };
    verbs.iter().chain(&findings()).for_each(|topic| offer("help", topic));
    verbs.iter().for_each(|topic| offer("man", topic));
    text
}
