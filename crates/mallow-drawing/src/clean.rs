// SPDX-License-Identifier: MIT
//! Text from elsewhere: names of processes, files and functions may hold anything, also what tells
//! a terminal to change its colours, its title, or the line above.

use std::borrow::Cow;

use super::colour;

/// Of several lines; the marks of colours stay.
pub fn text(text: &str) -> Cow<'_, str> {
    visible(text, |character| matches!(character, '\n' | '\t') || colour::is_mark(character))
}

/// Of one line.
pub fn line(text: &str) -> Cow<'_, str> {
    visible(text, |_| false)
}

/// Of one line, in Markdown, where `vector<int>` would be an element of HTML.
pub fn markdown(text: &str) -> String {
    line(text).replace('|', "\\|").replace('<', "\\<")
}

/// Writes out what a terminal would obey, such as `\x1b`.
fn visible(text: &str, may_stay: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_bad = |character: char| acts(character) && !may_stay(character);
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    let mut visible = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_bad(character) {
            visible.extend(character.escape_default());
        } else {
            visible.push(character);
        }
    }
    Cow::Owned(visible)
}

/// Controls, marks of colours, and marks that turn the direction of what follows.
fn acts(character: char) -> bool {
    character.is_control()
        || colour::is_mark(character)
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_shows_what_html_would_obey() {
        assert_eq!(markdown("<b>|\u{1b}"), "\\<b>\\|\\u{1b}");
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(text("plain \u{2014} text\n\tnext"), "plain \u{2014} text\n\tnext");
        assert_eq!(text("a\u{1b}[31mb\rc"), "a\\u{1b}[31mb\\rc");
        assert_eq!(line("a\nb\tc"), "a\\nb\\tc");
        assert_eq!(line("x\u{9b}y\u{202e}z\u{7f}"), "x\\u{9b}y\\u{202e}z\\u{7f}");
    }
}
