// SPDX-License-Identifier: MIT
//! The environment that puts an allocator in front of a program.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::allocator::Allocator;
use crate::error::{Error, Result};
use crate::options;
use crate::words::has_separator;
use mallow_process::allocators::Family;

/// How the names of glibc's tunables for malloc begin.
const GLIBC: &str = "glibc.malloc.";

/// What to set (or, with `None`, to remove) in the environment of the program.
pub type Changes = Vec<(String, Option<OsString>)>;

/// The environment for `allocator`. What LD_PRELOAD holds already stays behind it; for the system's
/// own allocator the other allocators are taken out.
pub fn changes(allocator: &Allocator, options: &[(String, String)]) -> Result<Changes> {
    let existing = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    let kept: Vec<&[u8]> = existing
        .as_bytes()
        .split(|byte| matches!(byte, b':' | b' ' | b'\t' | b'\n'))
        .filter(|entry| !entry.is_empty())
        .collect();
    let mut changes = Changes::new();
    match &allocator.path {
        Some(path) if has_separator(path.as_os_str()) => {
            return Err(Error::Library {
                path: path.clone(),
                reason: "LD_PRELOAD cannot name a path with a space or a colon".into(),
                remedy: "Make a link to it under a path without them".into(),
            });
        }
        Some(path) => {
            let entries = [path.as_os_str().as_bytes()]
                .into_iter()
                .chain(kept.into_iter().filter(|entry| *entry != path.as_os_str().as_bytes()));
            changes.push(("LD_PRELOAD".into(), Some(join(entries))));
        }
        None if !kept.is_empty() => {
            let others = kept
                .into_iter()
                .filter(|entry| !is_an_allocator(Path::new(OsStr::from_bytes(entry))));
            let value = join(others);
            changes.push(("LD_PRELOAD".into(), (!value.is_empty()).then_some(value)));
        }
        None => {}
    }
    changes.extend(option_changes(allocator, options)?);
    Ok(changes)
}

/// Makes the command start in the changed environment.
pub fn apply(command: &mut Command, changes: &Changes) {
    for (name, value) in changes {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

/// The same with libraries that come last; for the system's own allocator, without other
/// allocators.
pub fn with_libraries(changes: &Changes, is_system: bool, libraries: &[PathBuf]) -> Changes {
    let mut changes = changes.clone();
    let kept = libraries.iter().filter(|path| !is_system || !is_an_allocator(path));
    let added = kept.map(|path| path.as_os_str().as_bytes());
    let place = changes.iter().position(|(name, _)| name == "LD_PRELOAD");
    let before = place.and_then(|place| changes.swap_remove(place).1);
    let before = before.as_ref().map(|before| before.as_bytes());
    let value = join(before.into_iter().chain(added));
    if !value.is_empty() {
        changes.push(("LD_PRELOAD".into(), Some(value)));
    }
    changes
}

fn join<'a>(entries: impl Iterator<Item = &'a [u8]>) -> OsString {
    OsStr::from_bytes(&entries.collect::<Vec<_>>().join(&b':')).to_owned()
}

pub fn is_an_allocator(path: &Path) -> bool {
    match mallow_process::elf::ElfInfo::read(path) {
        Ok(Some(info)) => info.defined.contains("malloc"),
        // A bare name is looked up by the loader; go by the name.
        _ => mallow_process::allocators::name_from_file(path).is_some(),
    }
}

fn option_changes(allocator: &Allocator, options: &[(String, String)]) -> Result<Changes> {
    if options.is_empty() {
        return Ok(Changes::new());
    }
    if allocator.family == Family::Mallow {
        options::validate(options)?;
    }
    let pairs = |separator: &str, between: &str, prefix: &str| -> String {
        let written: Vec<String> =
            options.iter().map(|(key, value)| format!("{prefix}{key}{separator}{value}")).collect();
        written.join(between)
    };
    let extended = |variable: &str, value: String, between: char, prefix: &str| -> Changes {
        let given = std::env::var(variable).unwrap_or_default();
        let value = merged(&given, options, value, between, prefix);
        vec![(variable.to_owned(), Some(value.into()))]
    };
    let one_each = |prefix: &str| -> Changes {
        let variable = |key: &str| format!("{prefix}{}", key.to_ascii_uppercase());
        options.iter().map(|(key, value)| (variable(key), Some(OsString::from(value)))).collect()
    };
    Ok(match allocator.family {
        Family::Mallow => extended("MALLOW_CONF", pairs(":", ",", ""), ',', ""),
        Family::Jemalloc => extended("MALLOC_CONF", pairs(":", ",", ""), ',', ""),
        Family::System => extended("GLIBC_TUNABLES", pairs("=", ":", GLIBC), ':', GLIBC),
        Family::Scudo => extended("SCUDO_OPTIONS", pairs("=", ":", ""), ':', ""),
        Family::Mimalloc => one_each("MIMALLOC_"),
        Family::Tcmalloc => one_each("TCMALLOC_"),
        Family::Other => {
            return Err(Error::Usage(format!(
                "{} takes no options that mallow knows of. Leave out --opt, or set its variables in \
                 the environment.",
                allocator.name
            )));
        }
    })
}

/// The value behind what the user has set, without what it sets anew.
fn merged(
    given: &str,
    options: &[(String, String)],
    value: String,
    between: char,
    prefix: &str,
) -> String {
    let is_replaced = |entry: &&str| {
        let key = entry.trim().strip_prefix(prefix).unwrap_or(entry.trim());
        let key = key.split([':', '=']).next().unwrap_or_default().trim();
        key.is_empty() || options.iter().any(|(name, _)| name == key)
    };
    let kept = given.split(between).filter(|entry| !is_replaced(entry));
    kept.chain([value.as_str()]).collect::<Vec<_>>().join(&between.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocator(family: Family) -> Allocator {
        Allocator { family, ..Allocator::system() }
    }

    fn opts(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_is_set_anew_replaces_what_was_set() {
        let given = "glibc.cpu.x86_ibt=on:glibc.malloc.arena_max=8::glibc.malloc.check=1";
        let entries = |options: &[(&str, &str)]| {
            let pairs = opts(options);
            merged(given, &pairs, "glibc.malloc.arena_max=1".into(), ':', GLIBC)
        };
        assert_eq!(
            entries(&[("arena_max", "1")]),
            "glibc.cpu.x86_ibt=on:glibc.malloc.check=1:glibc.malloc.arena_max=1"
        );
        let of_jemalloc = merged(
            " narenas:4 ,junk:true",
            &opts(&[("narenas", "1")]),
            "narenas:1".into(),
            ',',
            "",
        );
        assert_eq!(of_jemalloc, "junk:true,narenas:1");
    }

    #[test]
    fn options_are_written_as_each_allocator_reads_them() {
        let pairs = opts(&[("arena_max", "1"), ("trim_threshold", "0")]);
        let written = |family| {
            let mut changes = option_changes(&allocator(family), &pairs).expect("known family");
            let (name, value) = changes.remove(0);
            (name, value.expect("set").into_string().expect("text"))
        };
        assert_eq!(
            written(Family::System),
            (
                "GLIBC_TUNABLES".into(),
                "glibc.malloc.arena_max=1:glibc.malloc.trim_threshold=0".into()
            )
        );
        assert_eq!(
            written(Family::Jemalloc),
            ("MALLOC_CONF".into(), "arena_max:1,trim_threshold:0".into())
        );
        assert_eq!(written(Family::Mimalloc), ("MIMALLOC_ARENA_MAX".into(), "1".into()));
        assert!(option_changes(&allocator(Family::Other), &pairs).is_err());
        assert!(option_changes(&allocator(Family::Mallow), &pairs).is_err());
    }
}
