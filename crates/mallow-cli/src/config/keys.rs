// SPDX-License-Identifier: MIT
//! The settings that there are, as the definition of the command line has them.

use std::path::{Component, Path};

use clap::builder::PossibleValue;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use mallow_launch::options::nearest;

/// Options that say what one call is about, not how its user likes it. Whatever starts a program
/// must be among them: a file in a folder must not.
const OF_ONE_CALL: [&str; 64] = [
    "all",
    "cleanup",
    "compare",
    "compose",
    "constraint",
    "count",
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
    "leaks",
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
    "sample",
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
/// Of one call of this verb: statistics that lie in a file have no times.
const OF_ONE_CALL_OF_VERB: [(&str, &str); 1] = [("stats", "interval")];
/// What the help calls the values of options that take an allocator, and of the one that takes the baseline of `check`.
const ALLOCATORS: [&str; 2] = ["NAME", "LIST"];
const BASELINE: [&str; 1] = ["BASELINE"];
/// And of those that take options of an allocator.
const OPTIONS: [&str; 1] = ["K:V"];
/// Options of allocators whose value is the name of a file or of a program, in small letters: jemalloc's, that of gperftools'
/// tcmalloc, and those that the first Scudo has from the sanitizers. Mallow, mimalloc and glibc have none.
const NAME_FILES: [&str; 9] = [
    "prof_prefix",
    "memfs_malloc_path",
    "log_path",
    "coverage_dir",
    "cov_8bit_counters_out",
    "cov_pcs_out",
    "external_symbolizer_path",
    "include",
    "include_if_exists",
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
    let lasting = named.filter(|(_, option)| !is_of_one_call(verb, option));
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
pub fn is_of_one_call(verb: Option<&str>, option: &str) -> bool {
    OF_ONE_CALL.contains(&option)
        || verb.is_some_and(|verb| OF_ONE_CALL_OF_VERB.contains(&(verb, option)))
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

    /// The reason, if a file in the working folder may not set these values. It may have come with somebody's sources,
    /// so it neither has a library loaded into what this user starts nor a file written elsewhere.
    pub fn check_here(&self, values: &[String]) -> Result<(), String> {
        let is_name = |value: &String| !value.contains(['/', '=']);
        let is_below = |value: &String| {
            let mut parts = Path::new(value).components();
            parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        };
        let (what, others) = if self.takes(&ALLOCATORS) && !values.iter().all(is_name) {
            ("chooses among the names of mallow list", "a library is named")
        } else if self.takes(&BASELINE) && !values.iter().all(is_below) {
            ("chooses a file in or below that folder", "another is named")
        } else if self.takes(&OPTIONS) && values.iter().any(|value| names_a_file(value)) {
            ("sets options that name no file or program", "others are given")
        } else {
            return Ok(());
        };
        Err(format!(
            "a file of settings in the working folder {what}; {others} on the command line, or in the \
             user's own file"
        ))
    }

    /// Whether its values are called one of these.
    fn takes(&self, names: &[&str]) -> bool {
        let is_one = |name: &str| names.contains(&name);
        let own = self.arg.get_value_names().unwrap_or_default();
        own.iter().any(|name| is_one(name))
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

/// Whether an option of an allocator, as `K:V`, leads to a file, also as one that is hidden in the value of another:
/// allocators read them all as one text.
fn names_a_file(option: &str) -> bool {
    let words = option.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut words = words.map(str::to_ascii_lowercase);
    option.contains('/') || words.any(|word| NAME_FILES.contains(&word.as_str()))
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
        // Numbers and words, which lead to no file.
        let harmless = ["METRIC=PERCENT", "N", "PERCENT", "SIZE", "TEXT", "TIME"];
        for key in all(&crate::cli::definition()) {
            let is_choice = key.is_flag() || !key.arg.get_possible_values().is_empty();
            // Where debug files are looked for is a preference.
            if is_choice || key.takes(&harmless) || key.option == "symbols" {
                continue;
            }
            let is_refused = |value: &str| key.check_here(&[value.to_owned()]).is_err();
            if key.takes(&OPTIONS) {
                let refused = ["prof_prefix:x", "a:1,prof_prefix:x", "LOG_PATH=x", "a:/x"];
                assert!(refused.into_iter().all(is_refused), "{}", key.name());
                assert!(!is_refused("prof:true") && !is_refused("bin_shards:1-160:16|161-512:8"));
                continue;
            }
            // Of all others a file that comes with sources may give a name alone.
            assert!(["/x", "../x", "x/../../x"].into_iter().all(is_refused), "{}", key.name());
            let is_loaded = !key.takes(&BASELINE);
            assert!(
                !is_loaded || ["x=x.so", "./x.so"].into_iter().all(is_refused),
                "{}",
                key.name()
            );
            assert!(!is_refused("jemalloc"), "{}", key.name());
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
