// SPDX-License-Identifier: MIT
//! Settings: which there are, which hold, and where each comes from.
//!
//! Every option of a verb that is a preference is a setting of its name, `[VERB] option = value` in
//! a file and `MALLOW_VERB_OPTION` in the environment; `keys` takes them from the definition of the
//! command line, so there is no second list. What holds becomes the default of the option: a flag
//! of the command line wins over the environment, that over `./mallow.toml`, that over the user's
//! file, and that over the system's.

mod file;
mod keys;
mod read;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Command};

use crate::error::{Error, Result};
use crate::output::Notes;
pub use keys::Key;
use read::Found;

const SYSTEM: &str = "/etc/mallow/config.toml";
const HERE: &str = "mallow.toml";

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    BuiltIn,
    File { path: PathBuf, line: usize },
    Variable(String),
    CommandLine,
}

/// The values of a setting: one, or those of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub values: Vec<String>,
    pub source: Source,
}

/// What was set anywhere, by the name of its key.
#[derive(Debug, Default)]
pub struct Config {
    set: BTreeMap<String, Value>,
    keys: Vec<Key>,
    /// The files that may be, and whether they are.
    pub files: Vec<(PathBuf, bool)>,
}

/// The files, the strongest last.
#[derive(Clone, Debug)]
pub struct Places {
    system: PathBuf,
    user: Option<PathBuf>,
    here: PathBuf,
}

impl Places {
    pub fn of_this_process() -> Places {
        let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let user = folder("XDG_CONFIG_HOME")
            .or_else(|| folder("HOME").map(|home| home.join(".config")))
            .map(|folder| folder.join("mallow/config.toml"));
        Places { system: SYSTEM.into(), user, here: HERE.into() }
    }
}

impl Config {
    /// Reads the files and the environment; the first that is wrong is the error.
    pub fn load(
        definition: &Command,
        places: &Places,
        environment: impl Iterator<Item = (OsString, OsString)>,
        notes: Notes,
    ) -> Result<Config> {
        let mut config = Config { keys: keys::all(definition), ..Config::default() };
        for path in std::iter::once(&places.system).chain(&places.user).chain([&places.here]) {
            let leave_out = |why: &str| {
                notes.note(&format!("{} {why}.", path.display()));
                None
            };
            let is_here = path == &places.here;
            let text = match read::read(path, is_here)? {
                Found::Text(text) => Some(text),
                Found::Nothing => None,
                Found::Foreign => leave_out("belongs to another user and is not read"),
                Found::Forbidden => leave_out("may not be read and is left out"),
            };
            config.files.push((path.clone(), text.is_some()));
            if let Some(text) = text {
                file::read(path, &text, &config.keys, is_here, &mut config.set)?;
            }
        }
        // In an order that does not depend on the environment's, for the error's sake.
        let variables: BTreeMap<OsString, OsString> = environment.collect();
        for (name, value) in &variables {
            config.read_variable(name.to_str().unwrap_or(""), &value.to_string_lossy())?;
        }
        Ok(config)
    }

    fn read_variable(&mut self, name: &str, value: &str) -> Result<()> {
        let Some(key) = self.keys.iter().find(|key| key.variable() == name) else {
            // Of other variables this program knows nothing, but for those that look like these.
            let verbs = self.keys.iter().filter_map(|key| key.verb.as_deref());
            let mut prefixes = verbs.map(|verb| format!("MALLOW_{}_", verb.to_uppercase()));
            if !prefixes.any(|prefix| name.starts_with(&prefix)) {
                return Ok(());
            }
            let names: Vec<String> = self.keys.iter().map(Key::variable).collect();
            let hint = keys::hint(name, names.iter().map(String::as_str));
            return Err(Error::Usage(format!(
                "The environment sets {name}, but there is no such setting{hint}"
            )));
        };
        // As scripts and CI systems turn a variable off.
        if value.is_empty() {
            return Ok(());
        }
        let values = key.split(value);
        key.check(&values).map_err(|reason| {
            Error::Usage(format!("The environment sets {name} to \"{value}\", but {reason}."))
        })?;
        self.set.insert(key.name(), Value { values, source: Source::Variable(name.into()) });
        Ok(())
    }

    /// What the command line itself sets, for `mallow config`.
    pub fn note_flags(&mut self, matches: &ArgMatches) {
        for key in &self.keys {
            if let Some(values) = key.given(matches) {
                self.set.insert(key.name(), Value { values, source: Source::CommandLine });
            }
        }
    }

    /// The definition with what holds as its defaults.
    pub fn apply(&self, definition: Command) -> Command {
        self.keys.iter().fold(with_negations(definition), |command, key| {
            match self.set.get(&key.name()) {
                Some(value) => key.set_default(command, value.values.clone()),
                None => command,
            }
        })
    }

    /// Every setting with its value, in the order of the verbs; nothing where none holds.
    pub fn all(&self) -> impl Iterator<Item = (&Key, Option<Value>)> {
        self.keys.iter().map(|key| {
            let built_in = || key.built_in.clone().map(|values| (values, Source::BuiltIn));
            let built_in = || built_in().map(|(values, source)| Value { values, source });
            (key, self.set.get(&key.name()).cloned().or_else(built_in))
        })
    }
}

/// The definition with a `--no-NAME` for each flag.
pub fn with_negations(definition: Command) -> Command {
    keys::all(&definition).iter().fold(definition, keys::add_negation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{self, Cli, Verb};

    struct Setting {
        folder: tempfile::TempDir,
        environment: Vec<(OsString, OsString)>,
    }

    impl Setting {
        fn new() -> Setting {
            Setting { folder: tempfile::tempdir().unwrap(), environment: Vec::new() }
        }

        fn with(self, place: &str, text: &str) -> Setting {
            std::fs::write(self.folder.path().join(place), text).unwrap();
            self
        }

        fn variable(mut self, name: &str, value: &str) -> Setting {
            self.environment.push((name.into(), value.into()));
            self
        }

        fn load(&self) -> Result<Config> {
            let path = |name: &str| self.folder.path().join(name);
            let places =
                Places { system: path("system"), user: Some(path("user")), here: path("here") };
            let environment = self.environment.clone().into_iter();
            Config::load(&cli::definition(), &places, environment, Notes { quiet: true })
        }

        /// The sentence of the refusal, without the folder.
        fn refusal(&self) -> String {
            let error = self.load().unwrap_err();
            assert_eq!(error.exit_code(), 2);
            error.to_string().replace(&format!("{}/", self.folder.path().display()), "")
        }

        fn parse(&self, words: &[&str]) -> Cli {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let definition = self.load().unwrap().apply(cli::definition());
            Cli::parse(definition, &words).unwrap().0
        }

        fn runs(&self, words: &[&str]) -> Option<u32> {
            let words = [&["mallow", "compare"], words, &["--", "true"]].concat();
            let Verb::Compare(args) = self.parse(&words).verb else { panic!("another verb") };
            args.runs
        }
    }

    #[test]
    fn the_nearest_place_wins() {
        let line = |runs: u32| format!("[compare]\nruns = {runs}\n");
        let mut setting = Setting::new();
        assert_eq!(setting.runs(&[]), None);
        for (place, runs) in [("system", 11), ("user", 12), ("here", 13)] {
            setting = setting.with(place, &line(runs));
            assert_eq!(setting.runs(&[]), Some(runs), "{place}");
        }
        setting = setting.variable("MALLOW_COMPARE_RUNS", "14");
        assert_eq!(setting.runs(&[]), Some(14));
        assert_eq!(setting.runs(&["--runs", "15"]), Some(15));
    }

    #[test]
    fn lists_flags_and_global_settings_are_settings_too() {
        let text = "quiet = true\n[compare]\nallocators = [\"glibc\", \"mallow\"]\n\
            timeline = true\nmargin = 2.5\nbudget = \"5s\"\n";
        let setting = Setting::new().with("user", text).variable("MALLOW_COMPARE_STRICT", "true");
        let compare = |words: &[&str]| {
            let words = [&["mallow", "compare"], words, &["--", "true"]].concat();
            let cli = setting.parse(&words);
            let Verb::Compare(args) = cli.verb else { panic!("another verb") };
            (cli.quiet, args)
        };
        let (quiet, args) = compare(&[]);
        assert!(quiet && args.timeline && args.strict);
        assert_eq!(args.allocators, ["glibc", "mallow"]);
        assert_eq!((args.verdict.margin, args.budget.as_secs()), (2.5, 5));
        let (quiet, args) = compare(&["--no-timeline", "--no-quiet", "-a", "musl"]);
        assert!(!quiet && !args.timeline && args.strict);
        assert_eq!(args.allocators, ["musl"]);
        // The last word holds, and a form that is chosen does not clash with one that is set.
        assert!(compare(&["--no-timeline", "--timeline"]).1.timeline);
        let setting = Setting::new().with("user", "[list]\nformat = \"csv\"\n");
        let Verb::List(args) = setting.parse(&["mallow", "list", "--json"]).verb else { panic!() };
        assert_eq!(args.output.chosen_format(), crate::output::Format::Json);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let refusal = |text: &str| Setting::new().with("here", text).refusal();
        for (text, sentence) in [
            (
                "\n[compare]\nrunz = 3",
                "here, line 3: there is no setting compare.runz; did you mean compare.runs?",
            ),
            ("colour = \"auto\"", "here, line 1: there is no setting colour; did you mean color?"),
            (
                "[compere]\nruns = 3",
                "here, line 1: there is no verb compere; did you mean compare?",
            ),
            (
                "[compare]\nruns = 0",
                "here, line 2: compare.runs cannot be \"0\": 0 is not in 1..=10000.",
            ),
            (
                "[watch]\ninterval = \"soon\"",
                "here, line 2: watch.interval cannot be \"soon\": a time is written like 500ms, 1.5s, 2m or 1h.",
            ),
            (
                "[list]\nformat = \"xml\"",
                "here, line 2: list.format cannot be \"xml\": it is one of table, json, csv, md, html.",
            ),
            (
                "[compare]\ntimeline = \"yes\"",
                "here, line 2: compare.timeline is true or false, without quotes.",
            ),
            ("[compare]\nruns = [1, 2]", "here, line 2: compare.runs takes one value."),
            (
                "[compare]\nallocators = [\"glibc\",\n [1]]",
                "here, line 3: compare.allocators takes text or numbers.",
            ),
            (
                "[compare]\nprepare = \"rm x\"",
                "here, line 2: compare.prepare is of one call and has to be given on the command line.",
            ),
            ("[compare]\nruns = 1\nruns = 2", "here, line 3: duplicate key."),
            ("runs = = 3", "here, line 1: "),
        ] {
            let found = refusal(text);
            assert!(found.starts_with(sentence), "{text}: {found}");
            assert_eq!(found.lines().count(), 1, "{found}");
        }
    }

    /// It may have come with somebody's sources.
    #[test]
    fn a_file_in_the_working_folder_names_no_library_and_no_file_elsewhere() {
        for (text, part) in [
            ("[run]\nallocator = \"x=./x.so\"", "run.allocator cannot be \"x=./x.so\": "),
            ("[verify]\nallocator = \"x=x.so\"", "verify.allocator cannot be \"x=x.so\": "),
            ("[enable]\nallocator = \"mallow,./x.so\"", "enable.allocator cannot be "),
            ("[compare]\nallocators = [\"glibc\", \"./x.so\"]", "compare.allocators cannot be "),
            ("[compare]\nallocators = [\"glibc,x=x.so\"]", "compare.allocators cannot be "),
            ("[replay]\nbaseline = \"/x.so\"", "replay.baseline cannot be "),
            ("[check]\nbaseline = \"../x.json\"", "check.baseline cannot be \"../x.json\": "),
            ("[check]\nbaseline = \"/x.json\"", "check.baseline cannot be "),
            ("[run]\nopt = \"prof_prefix:x\"", "run.opt cannot be \"prof_prefix:x\": "),
            ("[tune]\nopt = \"memfs_malloc_path:/x\"", "tune.opt cannot be "),
            ("[compare]\nopt = [\"prof:true\", \"a:1,prof_prefix=x\"]", "compare.opt cannot be "),
        ] {
            let found = Setting::new().with("here", text).refusal();
            assert!(found.starts_with("here, line 2: ") && found.contains(part), "{found}");
            assert_eq!(found.lines().count(), 1, "{found}");
            // What the user and the system set comes with nothing.
            for place in ["user", "system"] {
                assert!(Setting::new().with(place, text).load().is_ok(), "{place}: {text}");
            }
        }
        let text = "[run]\nallocator = \"jemalloc\"\n[check]\nbaseline = \"tests/x.json\"\n";
        assert!(Setting::new().with("here", text).load().is_ok());
        assert!(Setting::new().variable("MALLOW_RUN_ALLOCATOR", "x=./x.so").load().is_ok());
    }

    #[test]
    fn variables_are_checked_as_well() {
        let refusal = |name, value| Setting::new().variable(name, value).refusal();
        assert_eq!(
            refusal("MALLOW_COMPARE_RUNS", "many"),
            "The environment sets MALLOW_COMPARE_RUNS to \"many\", but invalid digit found in string."
        );
        assert_eq!(
            refusal("MALLOW_COMPARE_RUN", "1"),
            "The environment sets MALLOW_COMPARE_RUN, but there is no such setting; did you mean \
             MALLOW_COMPARE_RUNS?"
        );
        assert!(Setting::new().variable("MALLOW_COMPARE_RUNS", "").load().is_ok());
        // Of others, such as the allocator's own, nothing is said.
        assert!(Setting::new().variable("MALLOW_CONF", "x:1").load().is_ok());
    }

    #[test]
    fn every_key_can_be_named_and_none_twice() {
        let keys = keys::all(&cli::definition());
        let mut names: Vec<String> = keys.iter().map(Key::name).collect();
        let count = names.len();
        assert!(count > 30, "{names:?}");
        names.extend(keys.iter().map(Key::variable));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 2 * count);
        cli::definition().debug_assert();
        Setting::new().load().unwrap().apply(cli::definition()).debug_assert();
    }
}
