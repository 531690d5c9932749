// SPDX-License-Identifier: MIT
//! What help there is on a topic, as data.

use clap::{Arg, Command};
use mallow_advice::findings::{self, Entry};
use serde::Serialize;

use crate::guide;
use crate::output::{Page, Table};

#[derive(Serialize)]
pub struct Report {
    pub schema: &'static str,
    pub verbs: Vec<Verb>,
    pub findings: Vec<&'static Entry>,
}

#[derive(Debug, Serialize)]
pub struct Verb {
    pub name: String,
    pub about: String,
    pub usage: String,
    pub options: Vec<Flag>,
    pub examples: Vec<String>,
    /// The verb to go on with.
    pub next: Option<&'static str>,
}

/// An option, or an argument: that has no names.
#[derive(Debug, Serialize)]
pub struct Flag {
    pub names: Vec<String>,
    /// What stands for its value, if it takes one.
    pub value: Option<String>,
    pub about: String,
    /// Those that it takes, if they can be listed.
    pub values: Vec<String>,
    pub defaults: Vec<String>,
}

impl Report {
    /// Of everything, of the findings, of one of them, or of a verb; `None` if there is no such topic.
    pub fn on(topic: Option<&str>, command: &Command) -> Option<Report> {
        let verbs: Vec<Verb> = command
            .get_subcommands()
            .filter(|verb| topic.is_none_or(|topic| topic == verb.get_name()))
            .map(Verb::of)
            .collect();
        let findings = match topic {
            None | Some("findings") => findings::CATALOGUE.iter().collect(),
            Some(id) => Vec::from_iter(findings::find(id)),
        };
        let is_known = !verbs.is_empty() || !findings.is_empty();
        is_known.then_some(Report { schema: "mallow.help/1", verbs, findings })
    }

    pub fn table(&self) -> Table {
        let mut table = Table::new(&[("topic", false), ("about", false), ("more", false)]);
        let verbs = self.verbs.iter().map(|verb| [&verb.name, &verb.about, &verb.usage]);
        table.rows.extend(verbs.map(|row| row.map(String::clone).to_vec()));
        let findings = self.findings.iter().map(|entry| [entry.id, entry.title, entry.text]);
        table.rows.extend(findings.map(|row| row.map(str::to_owned).to_vec()));
        table
    }

    pub fn page(&self) -> String {
        Page::of_table("mallow help", "Verbs, and what they may find.", &self.table())
    }
}

impl Verb {
    fn of(command: &Command) -> Verb {
        let name = command.get_name();
        let usage = command.clone().render_usage().to_string();
        Verb {
            name: name.to_owned(),
            about: command.get_about().map(ToString::to_string).unwrap_or_default(),
            usage: usage.trim_start_matches("Usage:").trim().to_owned(),
            options: command
                .get_arguments()
                .filter(|arg| !arg.is_hide_set())
                .map(Flag::of)
                .collect(),
            examples: guide::examples(name).collect(),
            next: guide::next(name).map(|(verb, _)| verb),
        }
    }
}

impl Flag {
    fn of(arg: &Arg) -> Flag {
        let short = arg.get_short().map(|short| format!("-{short}"));
        let long = arg.get_long().map(|long| format!("--{long}"));
        let takes_value = arg.get_action().takes_values();
        let value = arg.get_value_names().unwrap_or_default().join(" ");
        let possible = arg.get_possible_values();
        let defaults = arg.get_default_values().iter();
        Flag {
            names: short.into_iter().chain(long).collect(),
            value: takes_value.then_some(value),
            about: arg.get_help().map(ToString::to_string).unwrap_or_default(),
            values: possible.iter().filter(|_| takes_value).map(|v| v.get_name().into()).collect(),
            defaults: defaults
                .filter(|_| takes_value)
                .map(|value| value.to_string_lossy().into_owned())
                .collect(),
        }
    }
}
