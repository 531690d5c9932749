// SPDX-License-Identifier: MIT
//! Everything that is shown: results to stdout or a file, notes and progress to stderr.
//!
//! A verb's report type becomes a table, a page (both by `mallow_drawing`), or JSON. `wording` writes verdicts.

mod args;
pub mod screen;
mod whole;
pub mod wording;

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use serde::Serialize;

use crate::error::{Error, Result};

pub use args::{Destination, OutputArgs};
pub use mallow_drawing::{Format, Page, Screen, Table, chart, clean, colour, html, scale};
pub use mallow_stats::figures::{bytes, duration, percent_change, percent_change_beside, seconds};
pub use whole::replace_file;

/// Sentences for the user, on stderr unless `--quiet`.
#[derive(Clone, Copy, Debug)]
pub struct Notes {
    pub quiet: bool,
}

impl Notes {
    pub fn note(self, sentence: &str) {
        if !self.quiet {
            tell(sentence);
        }
    }

    /// A bar on stderr; hidden off a terminal, in CI, for a dumb terminal and when quiet.
    pub fn progress(self, length: u64) -> ProgressBar {
        let hidden = self.quiet || is_plain() || !std::io::stderr().is_terminal();
        let target =
            if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let template = if colour::is_wanted(&std::io::stderr()) {
            "{bar:30.cyan} {pos}/{len} {msg}"
        } else {
            "{bar:30} {pos}/{len} {msg}"
        };
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::with_draw_target(Some(length), target).with_style(style)
    }
}

/// A terminal that only takes lines, or none that a person looks at.
fn is_plain() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    is_dumb || std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// Whether somebody is there for whom a screen can be drawn, and who can press keys.
pub fn is_interactive() -> bool {
    !is_plain() && std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

/// Of the terminal of this process, whatever goes into a pipe.
pub fn terminal_columns() -> Option<usize> {
    let size = ratatui::crossterm::terminal::window_size().ok()?;
    Some(usize::from(size.columns)).filter(|columns| *columns > 0)
}

/// A line on stderr. Nobody may be there to read it.
pub fn tell(sentence: &str) {
    let _ = writeln!(std::io::stderr(), "mallow: {}", clean::line(sentence));
}

/// A clean text of several lines on stderr.
pub fn tell_text(text: &str) {
    let _ = write!(std::io::stderr(), "{text}");
}

/// Writes a whole result. What other processes put into it does nothing to a terminal.
pub fn write_result(output: &OutputArgs, text: &str) -> Result<()> {
    write_pieces(output, std::iter::once(text))
}

/// The same of one that is made while it is written.
pub fn write_pieces(
    output: &OutputArgs,
    pieces: impl Iterator<Item = impl AsRef<str>>,
) -> Result<()> {
    let file = output.to.file.as_deref();
    let is_coloured = file.is_none() && colour::is_wanted(&std::io::stdout());
    let shown = pieces.map(|piece| colour::resolved(&clean::text(piece.as_ref()), is_coloured));
    match file {
        Some(path) => fill_file(path, shown),
        None => print_pieces(shown),
    }
}

/// A text that is no result, such as a script, to the file or to standard output.
pub fn put(file: Option<&Path>, text: &str) -> Result<()> {
    file.map_or_else(|| print(text), |path| write_file(path, text))
}

/// Text on standard output.
pub fn print(text: &str) -> Result<()> {
    print_pieces(std::iter::once(text))
}

fn print_pieces(pieces: impl Iterator<Item = impl AsRef<str>>) -> Result<()> {
    let mut stdout = std::io::stdout();
    printed(put_pieces(&mut stdout, pieces).and_then(|()| stdout.flush()))
}

fn put_pieces(
    to: &mut impl Write,
    mut pieces: impl Iterator<Item = impl AsRef<str>>,
) -> std::io::Result<()> {
    pieces.try_for_each(|piece| to.write_all(piece.as_ref().as_bytes()))
}

/// One of many texts on standard output, cleaned as a result is; false if nobody reads them any
/// more.
pub fn write_on(text: &str) -> Result<bool> {
    let text = colour::resolved(&clean::text(text), colour::is_wanted(&std::io::stdout()));
    let mut stdout = std::io::stdout();
    let outcome = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    let is_read = !matches!(&outcome, Err(error) if nobody_reads(error));
    printed(outcome).map(|()| is_read)
}

/// What came of printing. A reader that has gone away (`| head`, a closed window) is not an error.
pub fn printed(outcome: std::io::Result<()>) -> Result<()> {
    match outcome {
        Err(error) if !nobody_reads(&error) => {
            Err(Error::Io { what: "The result cannot be written".into(), source: error })
        }
        _ => Ok(()),
    }
}

/// The reader of standard output has ended, or its window was closed.
fn nobody_reads(error: &std::io::Error) -> bool {
    let is_window = || {
        let output = std::io::stdout().as_fd().try_clone_to_owned().map(File::from);
        output.and_then(|file| file.metadata()).is_ok_and(|file| file.file_type().is_char_device())
    };
    error.kind() == std::io::ErrorKind::BrokenPipe
        || (error.raw_os_error() == Some(nix::libc::EIO) && is_window())
}

pub fn write_file(path: &Path, text: &str) -> Result<()> {
    fill_file(path, std::iter::once(text))
}

/// The same with a text that is made while it is written.
pub fn fill_file(path: &Path, pieces: impl Iterator<Item = impl AsRef<str>>) -> Result<()> {
    File::create(path)
        .and_then(|mut file| put_pieces(&mut file, pieces))
        .map_err(Error::io(format!("The result cannot be written to {}", path.display())))
}

/// Fails before any work is done if the file cannot be written. A pipe is opened once: whoever reads it takes the
/// first end for the last.
pub fn check_writable(path: &Path) -> Result<()> {
    if path.metadata().is_ok_and(|found| found.file_type().is_fifo()) {
        return Ok(());
    }
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .map(drop)
        .map_err(Error::io(format!("The result cannot be written to {}", path.display())))
}

/// A report as JSON, for programs.
pub fn json(report: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(report);
    text.map(|text| text + "\n").map_err(|error| Error::Internal(error.to_string()))
}
