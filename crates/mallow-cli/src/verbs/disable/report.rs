// SPDX-License-Identifier: MIT
//! What `disable` did, or would do: as data, as text, as a page.

use std::path::PathBuf;

use maud::html;
use serde::Serialize;

use crate::output::{Format, Page, Screen, Table, html};
use mallow_enabling::elsewhere::Other;
use mallow_enabling::{Entry, Place, System, described};

#[derive(Debug, Serialize)]
pub struct Report {
    pub schema: &'static str,
    pub is_dry_run: bool,
    pub files: Vec<File>,
    /// What this verb cannot undo, because `mallow enable` did not write it.
    pub others: Vec<Other>,
}

#[derive(Debug, Serialize)]
pub struct File {
    #[serde(serialize_with = "described")]
    place: Place,
    allocator: String,
    #[serde(serialize_with = "mallow_process::lossy::path")]
    file: PathBuf,
    outcome: Outcome,
    /// The command that makes systemd take the change.
    restart: Option<String>,
    /// What else there is to do.
    next: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    /// It is what it was before `mallow enable`.
    Restored,
    /// There was none.
    Removed,
}

impl File {
    pub fn new(entry: &Entry, system: &System) -> File {
        let is_for_shells = entry.place == Place::Global && system.is_running();
        let next = "Shells that run keep it until their end; here: unset LD_PRELOAD";
        File {
            place: entry.place.clone(),
            allocator: entry.allocator.clone(),
            file: system.at(&entry.file),
            outcome: if entry.had_file() { Outcome::Restored } else { Outcome::Removed },
            restart: entry.place.restart(),
            next: is_for_shells.then(|| next.into()),
        }
    }

    fn done(&self) -> String {
        let what = match self.outcome {
            Outcome::Restored => "is as it was before",
            Outcome::Removed => "is gone",
        };
        let (name, path) = (&self.allocator, self.file.display());
        let mut text = match &self.place {
            Place::Wrapper { .. } => format!("{path} {what}"),
            place => format!("{name} is disabled for {}:\n  {path} {what}", place.describe()),
        };
        if let Some(command) = &self.restart {
            text += &format!("\nTo make it take effect:\n  {command}");
        }
        if let Some(next) = &self.next {
            text += &format!("\n{next}");
        }
        text
    }
}

impl Report {
    pub fn text(&self, format: Format, screen: Screen) -> String {
        let sentences = self.sentences().join("\n") + "\n";
        match format {
            Format::Csv => self.table().render(format, screen),
            Format::Md => format!("{}\n{sentences}", self.table().render(format, screen)),
            _ => screen.fill(&sentences),
        }
    }

    pub fn page(&self) -> String {
        let sentences = self.sentences();
        let body = html! {
            (html::head("mallow disable", None, &sentences[0]))
            (html::table(&self.table()))
            (html::notes(&sentences[1..]))
        };
        let version = env!("CARGO_PKG_VERSION");
        Page { title: "mallow disable", body, version, script: None }.render()
    }

    fn table(&self) -> Table {
        let columns = ["for", "allocator", "file", "outcome"];
        let mut table = Table::new(&columns.map(|name| (name, false)));
        for file in &self.files {
            let outcome = match (file.outcome, self.is_dry_run) {
                (_, true) => "would be as it was before",
                (Outcome::Restored, false) => "as it was before",
                (Outcome::Removed, false) => "gone",
            };
            table.rows.push(vec![
                file.place.describe(),
                file.allocator.clone(),
                file.file.display().to_string(),
                outcome.into(),
            ]);
        }
        table
    }

    /// One at least.
    fn sentences(&self) -> Vec<String> {
        let files = self.files.iter();
        let mut sentences: Vec<String> = match self.is_dry_run {
            true => files
                .map(|file| format!("{} would be as it was before.", file.file.display()))
                .collect(),
            false => files.map(File::done).collect(),
        };
        if self.files.is_empty() {
            let nothing = "Nothing is enabled there, so nothing was changed. See: mallow status";
            sentences.push(nothing.into());
        } else if self.is_dry_run {
            sentences.push("Nothing was changed: this is a dry run.".into());
        }
        sentences.extend(self.others.iter().map(|other| {
            format!(
                "{} enables {} for {}, not by mallow enable; to undo that, {}.",
                other.file.display(),
                other.allocator,
                other.place,
                other.remedy
            )
        }));
        sentences
    }
}
