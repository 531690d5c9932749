// SPDX-License-Identifier: MIT
//! One configuration file: its keys with their values, and what is wrong with it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{self, Key};
use super::{Source, Value};
use crate::error::{Error, Result};

/// Adds what the file sets, over what is there. `is_here`: it is in the working folder, and may not set everything.
pub fn read(
    path: &Path,
    text: &str,
    keys: &[Key],
    is_here: bool,
    set: &mut BTreeMap<String, Value>,
) -> Result<()> {
    let file = File { path, text, keys, is_here };
    let table = DeTable::parse(text)
        .map_err(|error| file.wrong(error.span().unwrap_or_default(), &syntax(error.message())))?;
    for (name, value) in table.get_ref() {
        match value.get_ref() {
            DeValue::Table(table) => file.read_verb(name, table, set)?,
            _ => file.read_setting(None, name, value, set)?,
        }
    }
    Ok(())
}

/// What the parser says, as one sentence.
fn syntax(message: &str) -> String {
    let lines: Vec<&str> = message.lines().collect();
    format!("{}.", lines.join("; "))
}

struct File<'a> {
    path: &'a Path,
    text: &'a str,
    keys: &'a [Key],
    is_here: bool,
}

type Name<'a> = Spanned<std::borrow::Cow<'a, str>>;

impl File<'_> {
    fn line(&self, at: usize) -> usize {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    fn wrong(&self, span: Range<usize>, sentence: &str) -> Error {
        Error::Usage(format!("{}, line {}: {sentence}", self.path.display(), self.line(span.start)))
    }

    fn read_verb(
        &self,
        verb: &Name,
        table: &DeTable,
        set: &mut BTreeMap<String, Value>,
    ) -> Result<()> {
        let verbs = || self.keys.iter().filter_map(|key| key.verb.as_deref());
        let name: &str = verb.get_ref();
        if !verbs().any(|known| known == name) {
            let hint = keys::hint(name, verbs());
            return Err(self.wrong(verb.span(), &format!("there is no verb {name}{hint}")));
        }
        for (key, value) in table {
            self.read_setting(Some(name), key, value, set)?;
        }
        Ok(())
    }

    fn read_setting(
        &self,
        verb: Option<&str>,
        option: &Name,
        value: &Spanned<DeValue>,
        set: &mut BTreeMap<String, Value>,
    ) -> Result<()> {
        let full =
            verb.map_or(option.get_ref().to_string(), |v| format!("{v}.{}", option.get_ref()));
        let Some(key) = self.keys.iter().find(|key| key.name() == full) else {
            return Err(self.wrong(option.span(), &self.unknown(&full, option.get_ref())));
        };
        let values = self.values(key, value)?;
        let checked = key.check(&values).and_then(|()| match self.is_here {
            true => key.check_here(&values),
            false => Ok(()),
        });
        checked.map_err(|reason| {
            let shown = values.join(",");
            self.wrong(value.span(), &format!("{full} cannot be \"{shown}\": {reason}."))
        })?;
        let source =
            Source::File { path: self.path.to_owned(), line: self.line(option.span().start) };
        set.insert(full, Value { values, source });
        Ok(())
    }

    fn unknown(&self, full: &str, option: &str) -> String {
        let verb = full.split_once('.').map(|(verb, _)| verb);
        if keys::is_of_one_call(verb, option) {
            return format!("{full} is of one call and has to be given on the command line.");
        }
        let names: Vec<String> = self.keys.iter().map(Key::name).collect();
        let hint = keys::hint(full, names.iter().map(String::as_str));
        format!("there is no setting {full}{hint}")
    }

    fn values(&self, key: &Key, value: &Spanned<DeValue>) -> Result<Vec<String>> {
        let name = key.name();
        match value.get_ref() {
            DeValue::Boolean(flag) if key.is_flag() => Ok(vec![flag.to_string()]),
            _ if key.is_flag() => {
                let sentence = format!("{name} is true or false, without quotes.");
                Err(self.wrong(value.span(), &sentence))
            }
            DeValue::Array(_) if !key.is_list() => {
                Err(self.wrong(value.span(), &format!("{name} takes one value.")))
            }
            DeValue::Array(values) => {
                values.iter().map(|value| self.text_of(&name, value)).collect()
            }
            DeValue::String(text) => Ok(key.split(text)),
            _ => Ok(vec![self.text_of(&name, value)?]),
        }
    }

    fn text_of(&self, name: &str, value: &Spanned<DeValue>) -> Result<String> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) => Ok(number.to_string()),
            DeValue::Float(number) => Ok(number.to_string()),
            _ => Err(self.wrong(value.span(), &format!("{name} takes text or numbers."))),
        }
    }
}
