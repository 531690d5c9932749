// SPDX-License-Identifier: MIT
//! How results look. A verb's report becomes a `table` (drawn, CSV, Markdown) or a page (`html`, with `chart` and
//! `scale`); `colour` says when there is colour, and `clean` takes out of it what other processes put there.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod chart;
pub mod clean;
pub mod colour;
pub mod html;
pub mod scale;
mod table;

use clap::ValueEnum;

pub use html::Page;
pub use table::Table;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Json,
    Csv,
    Md,
    Html,
}

impl Format {
    /// What a user may copy, marked where the form has a mark for it.
    pub fn code(self, text: &str) -> String {
        if self == Format::Md { format!("`{text}`") } else { text.into() }
    }
}

/// What a result is drawn for.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    pub unicode: bool,
    /// Columns of the terminal; `None` where lines may be of any length.
    pub width: Option<usize>,
}

impl Screen {
    /// A file or a pipe.
    pub const PLAIN: Screen = Screen { unicode: false, width: None };

    /// Whether the locale has it.
    pub fn has_unicode() -> bool {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
            .unwrap_or_default()
            .to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    }

    /// Text, each line in as many as the screen has room for; its indentation stays, and words are whole.
    pub fn fill(self, text: &str) -> String {
        let Some(width) = self.width else { return text.to_owned() };
        let fill = |line: &str| {
            let indent = &line[..line.len() - line.trim_start().len()];
            let options = textwrap::Options::new(width).subsequent_indent(indent);
            textwrap::fill(line, options.break_words(false))
        };
        text.split('\n').map(fill).collect::<Vec<_>>().join("\n")
    }
}
