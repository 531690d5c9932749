// SPDX-License-Identifier: MIT
//! The page of the site that has every verb with its options: `docs/reference.md`.

use std::fmt::Write as _;

use clap::{Arg, Command};

use crate::guide;

const HEAD: &str = "\
# Every verb and option

This page is written by `mallow man --markdown` from the definition that help and manual come from. What a verb can and
cannot tell stands on its own page; where its settings come from, in [Settings of the command](config.md).
";

pub fn page(command: &Command) -> String {
    let mut text = format!("{HEAD}\n{}\n\n", usage(command));
    let common: Vec<&Arg> = command.get_arguments().filter(|arg| is_shown(arg)).collect();
    table(&mut text, "every verb", &common);
    let codes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(text, "{codes}");
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        section(&mut text, verb);
    }
    text
}

fn section(text: &mut String, verb: &Command) {
    let about = verb.get_long_about().or(verb.get_about()).map(ToString::to_string);
    let about = plain(&about.unwrap_or_default());
    let stop = if about.ends_with(['.', ':']) { "" } else { "." };
    let _ = write!(text, "\n## mallow {}\n\n{about}{stop}\n\n", verb.get_name());
    let _ = write!(text, "{}\n\n", usage(verb));
    let own: Vec<&Arg> =
        verb.get_arguments().filter(|arg| is_shown(arg) && !arg.is_global_set()).collect();
    table(text, "", &own);
    let _ = writeln!(text, "```");
    for example in guide::examples(verb.get_name()) {
        let _ = writeln!(text, "{example}");
    }
    let _ = writeln!(text, "```");
    if let Some((next, sentence)) = guide::next(verb.get_name()) {
        let name = format!("mallow {next}");
        let link = format!("[{name}](#mallow-{next})");
        let _ = writeln!(text, "\nNext: {}", plain(&sentence).replacen(&name, &link, 1));
    }
}

/// As the help has it.
fn usage(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let lines: Vec<String> =
        usage.trim_start_matches("Usage:").lines().map(|line| code(line.trim())).collect();
    lines.join("  \n").replace("\\|", "|")
}

fn is_shown(arg: &Arg) -> bool {
    !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str())
}

/// Arguments first, then the options.
fn table(text: &mut String, title: &str, arguments: &[&Arg]) {
    if arguments.is_empty() {
        return;
    }
    let title = if title.is_empty() { " ".into() } else { format!(" {title} ") };
    let _ = writeln!(text, "|{title}| |\n|---|---|");
    let (first, rest): (Vec<&Arg>, Vec<&Arg>) = arguments.iter().partition(|a| a.is_positional());
    for arg in first.into_iter().chain(rest) {
        let _ = writeln!(text, "| {} | {} |", name(arg), help(arg));
    }
    text.push('\n');
}

fn name(arg: &Arg) -> String {
    let values = || {
        let names = arg.get_value_names().unwrap_or_default();
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        names.join(" ")
    };
    if arg.is_positional() {
        return code(&values());
    }
    let short = arg.get_short().map(|short| code(&format!("-{short}")));
    let long = arg.get_long().map(|long| match arg.get_action().takes_values() {
        true => code(&format!("--{long} {}", values())),
        false => code(&format!("--{long}")),
    });
    short.into_iter().chain(long).collect::<Vec<_>>().join(", ")
}

fn help(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
    let mut text = plain(&help.unwrap_or_default());
    if arg.get_action().takes_values() && !arg.is_hide_possible_values_set() {
        let values = arg.get_possible_values();
        let values: Vec<String> = values
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| match value.get_help() {
                Some(help) => format!("{} ({})", code(value.get_name()), plain(&help.to_string())),
                None => code(value.get_name()),
            })
            .collect();
        if !values.is_empty() {
            let _ = write!(text, ". One of {}", values.join(", "));
        }
    }
    let defaults = arg.get_default_values();
    if arg.get_action().takes_values() && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        let defaults: Vec<String> =
            defaults.iter().map(|value| code(&value.to_string_lossy())).collect();
        let _ = write!(text, ". Default: {}", defaults.join(", "));
    }
    text
}

fn code(words: &str) -> String {
    format!("`{}`", words.replace('|', "\\|"))
}

/// Text in one line that means in Markdown what it says; what stands in backticks is left alone. Options
/// get some: two dashes may be taken for one long one.
fn plain(text: &str) -> String {
    let option = |word: &str| {
        let end = |letter: char| !(letter.is_ascii_alphanumeric() || letter == '-');
        let name = &word[..word.find(end).unwrap_or(word.len())];
        match name.strip_prefix("--") {
            Some(_) => format!("{}{}", code(name), &word[name.len()..]),
            None => word.to_owned(),
        }
    };
    let text = text.split_whitespace().map(option).collect::<Vec<_>>().join(" ");
    let escaped = |part: &str| {
        let mut escaped = String::new();
        for letter in part.chars() {
            if matches!(letter, '*' | '_' | '<' | '>' | '[' | ']' | '\\') {
                escaped.push('\\');
            }
            escaped.push(letter);
        }
        escaped
    };
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(at, part)| if at % 2 == 0 { escaped(part) } else { part.to_owned() });
    parts.collect::<Vec<_>>().join("`").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_shows_what_the_help_says() {
        assert_eq!(plain("a *b* <c>\n  `d_e *|` f|g"), "a \\*b\\* \\<c\\> `d_e *\\|` f\\|g");
        assert_eq!(plain("as --a-b, or\n -- c"), "as `--a-b`, or `--` c");
        let command = Command::new("x")
            .arg(Arg::new("kind").short('k').long("kind").help("Which").default_value("b"))
            .arg(Arg::new("flag").long("flag").help("Do").action(clap::ArgAction::SetTrue))
            .arg(Arg::new("FILE").help("What"));
        let arguments: Vec<&Arg> = command.get_arguments().collect();
        let mut text = String::new();
        table(&mut text, "", &arguments);
        assert!(text.starts_with("| | |\n|---|---|\n| "), "{text}");
        assert!(text.contains("| `-k`, `--kind "), "{text}");
        assert!(text.contains("Which. Default: `b` |\n| `--flag` | Do |\n"), "{text}");
    }
}
