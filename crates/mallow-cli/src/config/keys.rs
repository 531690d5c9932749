// SPDX-License-Identifier: MIT
//! The settings that there are, as the definition of the command line has them.

use clap::builder::PossibleValue;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use mallow_launch::options::nearest;

/// Options that say what one call is about, not how its user likes it. Whatever starts a program
/// must be among them: a file in a folder must not.
const OF_ONE_CALL: [&str; 61] = [
    "all",
    "cleanup",
    "compare",
    "compose",
    "constraint",
    "cpus",
    "csv",
    "debug",
    "diff",
    "docker",
    "dry-run",
    "expect",
    "export-json",
    "folded",
    "force",
    "global",
    "help",
    "html",
    "json",
    "kubernetes",
    "ld-so-preload",
    "listen",
    "load",
    "markdown",
    "match",
    "matrix",
    "no-token",
    "once",
    "otlp",
    "otlp-ca",
    "otlp-headers",
    "output",
    "pid",
    "pprof",
    "prepare",
    "process",
    "procfile",
    "pyroscope",
    "pyroscope-ca",
    "pyroscope-headers",
    "ready",
    "root",
    "rules",
    "save",
    "second",
    "secure",
    "server",
    "setup",
    "state",
    "supervisor",
    "suppressions",
    "textfile",
    "tls-cert",
    "tls-key",
    "token-file",
    "unit",
    "update",
    "user",
    "value",
    "version",
    "wrappers",
];
/// Verbs that are about the command itself.
const WITHOUT_SETTINGS: [&str; 3] = ["completions", "man", "help"];

#[derive(Clone, Debug)]
pub struct Key {
    /// None for what all verbs share.
    pub verb: Option<String>,
    /// The option, without its dashes.
    pub option: String,
    /// Its default, if it has one.
    pub built_in: Option<Vec<String>>,
    arg: Arg,
}

/// In the order of the verbs, and of their options.
pub fn all(definition: &Command) -> Vec<Key> {
    let mut keys = of_command(definition, None);
    for verb in definition.get_subcommands() {
        if !WITHOUT_SETTINGS.contains(&verb.get_name()) {
            keys.extend(of_command(verb, Some(verb.get_name())));
        }
    }
    keys
}

fn of_command(command: &Command, verb: Option<&str>) -> Vec<Key> {
    let named = command.get_arguments().filter_map(|arg| Some((arg, arg.get_long()?)));
    let lasting = named.filter(|(_, option)| !OF_ONE_CALL.contains(option));
    let key = |(arg, option): (&Arg, &str)| Key {
        verb: verb.map(str::to_owned),
        option: option.to_owned(),
        built_in: built_in(arg),
        arg: arg.clone(),
    };
    lasting.map(key).collect()
}

fn built_in(arg: &Arg) -> Option<Vec<String>> {
    if is_flag(arg) {
        return Some(vec!["false".into()]);
    }
    let values = arg.get_default_values().iter();
    let values: Vec<String> = values.map(|value| value.to_string_lossy().into_owned()).collect();
    (!values.is_empty()).then_some(values)
}

fn is_flag(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// Whether it is an option that is no setting because it is of one call.
pub fn is_of_one_call(option: &str) -> bool {
    OF_ONE_CALL.contains(&option)
}

/// `; did you mean X?`, where something is near. It ends a sentence that would end in a point.
pub fn hint<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match nearest(word, &names) {
        Some(name) => format!("; did you mean {name}?"),
        None => "; mallow config lists all.".into(),
    }
}

impl Key {
    /// As in `compare.runs`.
    pub fn name(&self) -> String {
        match &self.verb {
            Some(verb) => format!("{verb}.{}", self.option),
            None => self.option.clone(),
        }
    }

    pub fn variable(&self) -> String {
        let name = self.name().to_uppercase().replace(['.', '-'], "_");
        format!("MALLOW_{name}")
    }

    pub fn is_flag(&self) -> bool {
        is_flag(&self.arg)
    }

    pub fn is_list(&self) -> bool {
        matches!(self.arg.get_action(), ArgAction::Append)
    }

    /// The values that a text on one line holds.
    pub fn split(&self, text: &str) -> Vec<String> {
        if !self.is_list() {
            return vec![text.to_owned()];
        }
        let delimiter = self.arg.get_value_delimiter().unwrap_or(',');
        text.split(delimiter).map(str::to_owned).collect()
    }

    /// The reason, if the option does not take these values.
    pub fn check(&self, values: &[String]) -> Result<(), String> {
        if self.is_flag() {
            let is_fine = matches!(values, [value] if value == "true" || value == "false");
            return if is_fine { Ok(()) } else { Err("it is true or false".into()) };
        }
        // The option alone, with its way of reading values.
        let alone = Arg::new("value")
            .long("value")
            .action(self.arg.get_action().clone())
            .value_parser(self.arg.get_value_parser().clone())
            .allow_hyphen_values(true);
        let words = values.iter().map(|value| format!("--value={value}"));
        let command = Command::new("").no_binary_name(true).arg(alone);
        match command.try_get_matches_from(words) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.reason(&error)),
        }
    }

    fn reason(&self, error: &clap::Error) -> String {
        use std::error::Error as _;
        let possible: Vec<PossibleValue> = self.arg.get_possible_values();
        match error.source() {
            Some(reason) => reason.to_string(),
            None if !possible.is_empty() && error.kind() == ErrorKind::InvalidValue => {
                let names: Vec<&str> = possible.iter().map(PossibleValue::get_name).collect();
                format!("it is one of {}", names.join(", "))
            }
            None => "it is not understood".into(),
        }
    }

    /// What a command line sets it to, if it does.
    pub fn given(&self, matches: &ArgMatches) -> Option<Vec<String>> {
        let matches = match &self.verb {
            Some(verb) => matches.subcommand_matches(verb)?,
            None => matches,
        };
        let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let id = self.arg.get_id().as_str();
        if self.is_flag() {
            let is_either = is_given(id) || is_given(&negation(&self.option));
            return is_either.then(|| vec![matches.get_flag(id).to_string()]);
        }
        let values = matches.get_raw(id).filter(|_| is_given(id))?;
        Some(values.map(|value| value.to_string_lossy().into_owned()).collect())
    }

    /// The option with these values instead of its default.
    pub fn set_default(&self, command: Command, values: Vec<String>) -> Command {
        let negation = negation(&self.option);
        let is_flag = self.is_flag();
        let change = move |arg: Arg| {
            let arg = arg.default_values(values);
            if is_flag { arg.default_value_if(negation, "true", "false") } else { arg }
        };
        let id = self.arg.get_id().to_string();
        match &self.verb {
            Some(verb) => command.mut_subcommand(verb, |verb| verb.mut_arg(id, change)),
            None => command.mut_arg(id, change),
        }
    }
}

fn negation(option: &str) -> String {
    option.strip_prefix("no-").map_or_else(|| format!("no-{option}"), str::to_owned)
}

/// `--no-NAME`, which undoes a flag that is set; the last of the two holds.
pub fn add_negation(command: Command, key: &Key) -> Command {
    if !key.is_flag() {
        return command;
    }
    let name = negation(&key.option);
    let no = Arg::new(name.clone())
        .long(name)
        .action(ArgAction::SetTrue)
        .hide(true)
        .global(key.arg.is_global_set())
        .overrides_with(key.arg.get_id().to_string());
    match &key.verb {
        Some(verb) => command.mut_subcommand(verb, |verb| verb.arg(no)),
        None => command.arg(no),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_can_start_a_program_or_write_a_file() {
        for key in all(&crate::cli::definition()) {
            let values = key.arg.get_value_names().unwrap_or_default();
            let acts = |name: &str| ["CMD", "FILE", "PAGE", "DIR"].contains(&name);
            // Where debug files are looked for is a preference.
            assert!(
                key.option == "symbols" || !values.iter().any(|name| acts(name)),
                "{}",
                key.name()
            );
        }
    }

    #[test]
    fn what_is_of_one_call_is_an_option_of_some_verb() {
        let mut definition = crate::cli::definition();
        definition.build();
        let verbs = definition.get_subcommands();
        let options = verbs.flat_map(|verb| verb.get_arguments()).chain(definition.get_arguments());
        let longs: Vec<&str> = options.filter_map(Arg::get_long).collect();
        for option in OF_ONE_CALL {
            assert!(longs.contains(&option), "{option}");
        }
    }
}
