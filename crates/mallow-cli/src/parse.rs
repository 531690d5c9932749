// SPDX-License-Identifier: MIT
//! Values of options: times, sizes, percentages, stacks, and the text of files that they name.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mallow_capture::StackKind;
use mallow_launch::options;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// What a verb runs, where it cannot do without.
#[derive(Args, Debug)]
pub struct CommandArgs {
    /// The command and its arguments
    #[arg(id = "command", last = true, required = true, value_name = "COMMAND")]
    pub words: Vec<OsString>,
}

/// What `--stacks` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stacks {
    /// No stacks
    None,
    /// By frame pointers: quick, and whole where programs and libraries are built with them
    Fp,
    /// By unwind tables, from copies of the stack: whole, and sampled
    Full,
}

impl From<Stacks> for StackKind {
    fn from(stacks: Stacks) -> StackKind {
        match stacks {
            Stacks::None => StackKind::None,
            Stacks::Fp => StackKind::Fp,
            Stacks::Full => StackKind::Full,
        }
    }
}

/// `90`, `1.5s`, `500ms`, `2m`, `1h`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("a time is written like 500ms, 1.5s, 2m or 1h".into()),
    };
    // Shorter than any look at a process: what it would mean is to be said in another way.
    const LEAST_S: f64 = 0.001;
    match number.parse::<f64>() {
        Ok(number) if number * scale >= LEAST_S && number * scale < 1e9 => {
            Ok(Duration::from_secs_f64(number * scale))
        }
        _ => Err("a time is written like 500ms, 1.5s, 2m or 1h, and is at least 1ms".into()),
    }
}

/// The whole name of a systemd unit: one without a unit's ending is a service's. A dot alone is no ending, as in
/// `php8.2-fpm`.
pub fn unit(name: &str) -> String {
    const ENDINGS: [&str; 11] = [
        "service",
        "socket",
        "timer",
        "target",
        "mount",
        "automount",
        "swap",
        "path",
        "slice",
        "scope",
        "device",
    ];
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    match ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
        true => name.to_owned(),
        false => format!("{name}.service"),
    }
}

pub fn size(text: &str) -> Result<u64, String> {
    let size = options::parse_number(text.trim_end_matches(['b', 'B']));
    match size.and_then(|size| u64::try_from(size).ok()) {
        Some(size) if size > 0 => Ok(size),
        _ => Err("a size is written like 400M or 2G".into()),
    }
}

pub fn margin(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent < 50.0 => Ok(percent),
        _ => Err("a margin is a percentage between 0 and 50".into()),
    }
}

/// Of a file that is all text. A device may have no end.
pub fn text_of(path: &Path) -> io::Result<String> {
    const LARGEST: u64 = 256 << 20;
    let not_text = || io::Error::new(io::ErrorKind::InvalidData, "it is not text");
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST || bytes.contains(&0) {
        return Err(not_text());
    }
    String::from_utf8(bytes).map_err(|_| not_text())
}

/// Of a file that a verb keeps from one run to the next, such as a `baseline`; `None` where there is none.
pub fn kept_text(
    path: &Path,
    what: &str,
    damaged: fn(&Path, &str) -> Error,
) -> crate::error::Result<Option<String>> {
    match text_of(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(damaged(path, &error.to_string()))
        }
        Err(error) => {
            Err(Error::io(format!("The {what} {} cannot be read", path.display()))(error))
        }
    }
}

/// What a verb wrote as JSON and reads again, or why the text is not that.
pub fn of_schema<T: DeserializeOwned>(text: &str, schema: &str) -> Result<T, String> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    // The same, but of another version.
    let family = schema.trim_end_matches(|letter: char| letter.is_ascii_digit());
    match value["schema"].as_str() {
        Some(known) if known == schema => {}
        Some(other) if other.starts_with(family) => {
            return Err(format!("its schema {other} is not known here"));
        }
        Some(_) => return Err(format!("its schema is not {schema}")),
        None => return Err("it has no schema".into()),
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// Copies of a result as somebody may have changed it: in each, one number is another, up to
/// `largest`, or one list or text is empty.
/// Of long lists only the begin is in them.
#[cfg(test)]
pub fn changed_copies(mut value: serde_json::Value, largest: u64) -> Vec<serde_json::Value> {
    use serde_json::{Value, json};

    fn collect(
        value: &mut Value,
        place: &str,
        found: &mut Vec<(String, Vec<Value>)>,
        largest: u64,
    ) {
        const LONGEST: usize = 3;
        let numbers = || vec![json!(0), json!(1), json!(largest), json!(-1), json!(1e308)];
        match value {
            Value::Number(_) => found.push((place.to_owned(), numbers())),
            Value::String(_) => found.push((place.to_owned(), vec![json!("")])),
            Value::Array(items) => {
                found.push((place.to_owned(), vec![json!([])]));
                items.truncate(LONGEST);
                let items = items.iter_mut().enumerate();
                items.for_each(|(index, item)| {
                    collect(item, &format!("{place}/{index}"), found, largest)
                });
            }
            Value::Object(fields) => {
                let fields = fields.iter_mut();
                fields.for_each(|(name, field)| {
                    collect(field, &format!("{place}/{name}"), found, largest)
                });
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    let mut found = Vec::new();
    collect(&mut value, "", &mut found, largest);
    let copy = |place: &str, other: Value| {
        let mut copy = value.clone();
        *copy.pointer_mut(place).expect("it was found there") = other;
        copy
    };
    let copies = found.into_iter().flat_map(|(place, others)| {
        others.into_iter().map(|other| copy(&place, other)).collect::<Vec<_>>()
    });
    copies.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_services_where_they_name_no_other_kind() {
        for (given, whole) in [
            ("nginx", "nginx.service"),
            ("php8.2-fpm", "php8.2-fpm.service"),
            ("a@1.service", "a@1.service"),
            ("user-1000.slice", "user-1000.slice"),
            ("session-3.scope", "session-3.scope"),
        ] {
            assert_eq!(unit(given), whole);
        }
    }

    #[test]
    fn times_and_sizes() {
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("1ms"), Ok(Duration::from_millis(1)));
        // Nothing that is rounded to none, nor is called so.
        assert!(duration("0.0000000001").is_err() && duration("0.5ms").is_err());
        assert!(duration("0").is_err() && duration("5 years").is_err());
        assert_eq!(size("400M"), Ok(400 << 20));
        assert_eq!(size("2GB"), Ok(2 << 30));
        assert!(size("-1").is_err() && size("much").is_err());
        assert_eq!(margin("5%"), Ok(5.0));
        assert!(margin("0").is_err() && margin("50").is_err());
    }
}
