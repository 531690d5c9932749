// SPDX-License-Identifier: MIT
//! Where a result goes, and in which form: the options that all verbs share.

use std::io::IsTerminal;
use std::iter;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::{
    Format, Screen, check_writable, clean, fill_file, json, write_file, write_pieces, write_result,
};
use crate::error::Result;

#[derive(Args, Debug)]
pub struct OutputArgs {
    /// How to print the result
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,

    #[command(flatten)]
    pub to: Destination,
}

/// Where a result goes: a program, a file, a page.
#[derive(Args, Clone, Debug)]
pub struct Destination {
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,

    /// Write the result to FILE instead of standard output
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Also write the result to PAGE, as one HTML file that needs nothing else
    #[arg(long, value_name = "PAGE")]
    pub html: Option<PathBuf>,
}

impl OutputArgs {
    pub fn chosen_format(&self) -> Format {
        if self.to.json { Format::Json } else { self.format }
    }

    /// Unicode only on a terminal, and only where the locale has it.
    pub fn screen(&self) -> Screen {
        if self.to.file.is_some() || !std::io::stdout().is_terminal() {
            return Screen::PLAIN;
        }
        let size = ratatui::crossterm::terminal::size().ok();
        Screen {
            unicode: Screen::has_unicode(),
            width: size.map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0),
        }
    }

    /// Fails before any work is done if a result could not be written.
    pub fn check(&self) -> Result<()> {
        self.to.file.iter().chain(&self.to.html).try_for_each(|path| check_writable(path))
    }

    /// Writes the result in the form that is asked for, and as a page too where that is wanted.
    pub fn write(
        &self,
        report: &impl Serialize,
        page: impl Fn() -> String,
        text: impl FnOnce(Format, Screen) -> String,
    ) -> Result<()> {
        self.write_in_pieces(report, || iter::once(page()), text)
    }

    /// The same with a page that may be too large to be held as a whole.
    pub fn write_in_pieces<Pieces: Iterator<Item = String>>(
        &self,
        report: &impl Serialize,
        page: impl Fn() -> Pieces,
        text: impl FnOnce(Format, Screen) -> String,
    ) -> Result<()> {
        // Before what a closed window takes no more.
        if let Some(path) = &self.to.html {
            fill_file(path, page().map(|piece| clean::text(&piece).into_owned()))?;
        }
        match self.chosen_format() {
            Format::Json => write_result(self, &json(report)?),
            Format::Html => write_pieces(self, page()),
            Format::Csv => write_result(self, &text(Format::Csv, Screen::PLAIN)),
            format => write_result(self, &text(format, self.screen())),
        }
    }

    /// The part of `--html`.
    pub fn write_page(&self, page: impl FnOnce() -> Result<String>) -> Result<()> {
        match &self.to.html {
            Some(path) => write_file(path, &clean::text(&page()?)),
            None => Ok(()),
        }
    }
}
