// SPDX-License-Identifier: MIT
//! Colours on a terminal: whether they are wanted, and how a text carries them.
//!
//! A result is cleaned of control bytes as the last thing before it is written, so a tone is a mark
//! in the text until then: an invisible character without width that no text has (the last of the
//! variation selectors). Whoever wrote such marks into a name could give it a colour, no more.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::sync::OnceLock;

use clap::{ColorChoice, ValueEnum};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    #[default]
    Auto,
    Always,
    Never,
}

/// What a word says of itself by its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    Better,
    Worse,
    Unsure,
}

/// Green, red, yellow.
const TONES: [(Tone, char, &str); 3] = [
    (Tone::Better, '\u{e01ed}', "\u{1b}[32m"),
    (Tone::Worse, '\u{e01ee}', "\u{1b}[31m"),
    (Tone::Unsure, '\u{e01ef}', "\u{1b}[33m"),
];
const END: char = '\u{e01ec}';
const RESET: &str = "\u{1b}[39m";

static CHOSEN: OnceLock<When> = OnceLock::new();

/// What the command line or the configuration says, once for the process.
pub fn choose(when: When) {
    let _ = CHOSEN.set(when);
}

fn chosen() -> When {
    CHOSEN.get().copied().unwrap_or_default()
}

/// What a command line says before it can be read as a whole, for help and errors.
pub fn of_words(words: &[OsString]) -> ColorChoice {
    let mut words = words.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--");
    let mut choice = ColorChoice::Auto;
    while let Some(word) = words.next() {
        let value = match word.strip_prefix("--color") {
            Some("") => words.next().unwrap_or_default().into_owned(),
            Some(value) => value.trim_start_matches('=').to_owned(),
            None => continue,
        };
        choice = match value.as_str() {
            "always" => ColorChoice::Always,
            "never" => ColorChoice::Never,
            _ => ColorChoice::Auto,
        };
    }
    choice
}

/// Whether what goes to this stream has colours.
pub fn is_wanted(stream: &impl IsTerminal) -> bool {
    let is_refused = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = || std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    match chosen() {
        When::Always => true,
        When::Never => false,
        When::Auto => stream.is_terminal() && !is_refused() && !is_dumb(),
    }
}

/// The text in this tone; each word for itself, so that lines can be broken between them.
pub fn painted(tone: Tone, text: &str) -> String {
    let mark = TONES.iter().find(|known| known.0 == tone).map_or(END, |known| known.1);
    let word =
        |word: &str| if word.is_empty() { String::new() } else { format!("{mark}{word}{END}") };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

pub fn is_mark(character: char) -> bool {
    ('\u{e01ec}'..='\u{e01ef}').contains(&character)
}

/// The text for a terminal, or without any colour.
pub fn resolved(text: &str, is_coloured: bool) -> String {
    if !text.contains(is_mark) {
        return text.to_owned();
    }
    let mut resolved = String::with_capacity(text.len() + 64);
    for character in text.chars() {
        match TONES.iter().find(|tone| tone.1 == character) {
            Some((_, _, sequence)) if is_coloured => resolved.push_str(sequence),
            None if character == END && is_coloured => resolved.push_str(RESET),
            _ if is_mark(character) => {}
            _ => resolved.push(character),
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tones_become_colours_or_nothing() {
        let text = format!("a {} b", painted(Tone::Worse, "slower +3 %"));
        let red = |word| format!("\u{1b}[31m{word}\u{1b}[39m");
        let coloured = format!("a {} {} {} b", red("slower"), red("+3"), red("%"));
        assert_eq!(resolved(&text, true), coloured);
        assert_eq!(resolved(&text, false), "a slower +3 % b");
    }

    #[test]
    fn the_last_choice_before_the_command_counts() {
        let choice =
            |words: &[&str]| of_words(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(choice(&["mallow", "--color", "never", "--help"]), ColorChoice::Never);
        assert_eq!(choice(&["mallow", "--color=never", "--color=always"]), ColorChoice::Always);
        assert_eq!(choice(&["mallow", "run", "--", "ls", "--color=always"]), ColorChoice::Auto);
    }
}
