// SPDX-License-Identifier: MIT
//! Mallow's options, from the table that the allocator itself is built with.

use crate::error::{Error, Result};

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Bool,
    Number {
        low: i64,
        high: i64,
    },
    /// Bytes, or a percentage of the cgroup's limit.
    Size,
    /// Words separated by `|`.
    Choice(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub struct MallowOption {
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/options.rs"));

/// Splits `K:V`; also accepts `K=V`.
pub fn parse_pair(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once([':', '=']) {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("an option is written KEY:VALUE, such as dirty_decay_ms:0".into()),
    }
}

pub fn validate(options: &[(String, String)]) -> Result<()> {
    options.iter().try_for_each(|(key, value)| validate_one(key, value))
}

fn validate_one(key: &str, value: &str) -> Result<()> {
    let Some(option) = OPTIONS.iter().find(|option| option.name == key) else {
        let all: Vec<&str> = OPTIONS.iter().map(|option| option.name).collect();
        let nearest = nearest(key, &all);
        return Err(Error::Usage(match nearest {
            Some(name) => format!("Mallow has no option {key}. Did you mean {name}?"),
            None => format!("Mallow has no option {key}. It has: {}.", all.join(", ")),
        }));
    };
    let problem = match option.kind {
        Kind::Bool if matches!(value, "true" | "false") => None,
        Kind::Bool => Some("true or false".to_owned()),
        Kind::Choice(words) if words.split('|').any(|word| word == value) => None,
        Kind::Choice(words) => Some(format!("one of {}", words.replace('|', ", "))),
        Kind::Number { low, high } => match parse_number(value) {
            Some(number) if (low..=high).contains(&number) => None,
            _ => Some(format!("a number from {low} to {high}")),
        },
        Kind::Size if is_size(value) => None,
        Kind::Size => Some("bytes such as 512M, or a share such as 80%".to_owned()),
    };
    match problem {
        None => Ok(()),
        Some(expected) => Err(Error::Usage(format!(
            "The option {key} takes {expected}, not {value} ({}).",
            option.help
        ))),
    }
}

fn is_size(text: &str) -> bool {
    match text.strip_suffix('%') {
        Some(share) => share.parse().is_ok_and(|share: u8| (1..=100).contains(&share)),
        None => parse_number(text).is_some_and(|bytes| bytes >= 0),
    }
}

/// A decimal number, with K, M or G for powers of 1024.
pub fn parse_number(text: &str) -> Option<i64> {
    let (digits, scale) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 1 << 10),
        b'M' | b'm' => (&text[..text.len() - 1], 1 << 20),
        b'G' | b'g' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<i64>().ok()?.checked_mul(scale)
}

/// The name that needs the fewest edits, if it is near enough to be what was meant.
pub fn nearest<'a>(word: &str, names: &[&'a str]) -> Option<&'a str> {
    let (distance, name) = names
        .iter()
        .map(|name| (strsim::levenshtein(word, name), *name))
        .min_by_key(|pair| pair.0)?;
    (distance <= 1 + word.len().min(name.len()) / 3).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(key: &str, value: &str) -> String {
        validate_one(key, value).expect_err("not valid").to_string()
    }

    #[test]
    fn table_comes_from_the_allocator() {
        let names: Vec<&str> = OPTIONS.iter().map(|option| option.name).collect();
        for name in ["abort_conf", "dirty_decay_ms", "foreign"] {
            assert!(names.contains(&name), "{name} is missing in {names:?}");
        }
        assert!(OPTIONS.iter().all(|option| !option.help.is_empty()));
    }

    #[test]
    fn wrong_key_names_the_nearest() {
        assert!(message("dirty_decay", "0").contains("Did you mean dirty_decay_ms?"));
        assert!(message("qqqqqqqqq", "0").contains("It has: "));
    }

    #[test]
    fn wrong_values_are_refused_with_the_range() {
        assert!(message("abort_conf", "yes").contains("true or false"));
        assert!(message("dirty_decay_ms", "-2").contains("from -1"));
        assert!(message("foreign", "crash").contains("abort, ignore, next"));
        assert!(validate_one("dirty_decay_ms", "-1").is_ok());
        assert!(validate_one("dirty_decay_ms", "2K").is_ok());
        assert!(message("memory_limit", "101%").contains("bytes such as 512M"));
        for limit in ["0", "512M", "1%", "100%"] {
            assert!(validate_one("memory_limit", limit).is_ok(), "{limit}");
        }
    }

    #[test]
    fn near_names_are_found() {
        let names = ["jemalloc", "mimalloc", "scudo"];
        assert_eq!(nearest("jemaloc", &names), Some("jemalloc"));
        assert_eq!(nearest("scuod", &names), Some("scudo"));
        assert_eq!(nearest("something", &names), None);
    }
}
