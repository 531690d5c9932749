// SPDX-License-Identifier: MIT
//! The files that a pattern names, as systemd finds them: by glob(), in the C locale.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::System;

/// Nobody means more files, or folders on the way to them.
pub const MOST: usize = 10_000;

/// The files of the system that a pattern names, which may have wildcards in each of its parts, in order;
/// `None` of more than [`MOST`]. Without wildcards it need not be there.
pub fn matching(pattern: &str, system: &System) -> Option<Vec<PathBuf>> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        if !part.contains(['*', '?', '[', '\\']) {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        let mut below = Vec::new();
        for folder in found {
            let entries = std::fs::read_dir(system.resolved(&folder)).into_iter().flatten();
            let names = entries.flatten().map(|entry| entry.file_name());
            let fitting = names.filter(|name| fits(part.as_bytes(), name.as_bytes()));
            below.extend(fitting.map(|name| folder.join(name)).take(MOST + 1 - below.len()));
            if below.len() > MOST {
                return None;
            }
        }
        found = below;
    }
    found.sort();
    Some(found)
}

/// Whether a name fits a pattern, as fnmatch() has it with FNM_PERIOD. Where a star was too short all before it stays
/// as it is, so that it takes no more steps than the product of both lengths.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let is_meant = pattern.starts_with(b".") || pattern.starts_with(b"\\.");
    if name.starts_with(b".") && !is_meant {
        return false;
    }
    let (mut pattern, mut name) = (pattern, name);
    // What follows the last star, and what of the name is tried with that.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some(behind) = pattern.strip_prefix(b"*") {
            star = Some((behind, name));
            pattern = behind;
            continue;
        }
        if pattern.is_empty() && name.is_empty() {
            return true;
        }
        let next = name.split_first().and_then(|(byte, rest)| Some((one(pattern, *byte)?, rest)));
        if next.is_none() {
            star = star.and_then(|(behind, name)| Some((behind, name.get(1..)?)));
        }
        match next.or(star) {
            Some(next) => (pattern, name) = next,
            None => return false,
        }
    }
}

/// What follows the first element of a pattern, if the byte fits that.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    let (first, rest) = pattern.split_first()?;
    let set = if *first == b'[' { set(rest, byte) } else { None };
    match (first, set) {
        (_, Some((has, behind))) => has.then_some(behind),
        (b'?', _) => Some(rest),
        (b'\\', _) => rest.strip_prefix(&[byte]),
        _ => (*first == byte).then_some(rest),
    }
}

/// Whether a set such as `!a-z_[:digit:]]` has the byte, and what follows it; `None` where nothing closes it.
fn set(text: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let is_inverse = matches!(text.first(), Some(b'!' | b'^'));
    let start = &text[usize::from(is_inverse)..];
    let (mut rest, mut has) = (start, false);
    loop {
        if let Some(behind) = rest.strip_prefix(b"]").filter(|_| rest.len() < start.len()) {
            return Some((has != is_inverse, behind));
        }
        if let Some((class, behind)) = class(rest) {
            has |= class(&byte);
            rest = behind;
            continue;
        }
        let (low, behind) = letter(rest)?;
        let high = behind.strip_prefix(b"-").filter(|end| !end.starts_with(b"]"));
        let (high, behind) = high.map_or(Some((low, behind)), letter)?;
        has |= (low..=high).contains(&byte);
        rest = behind;
    }
}

/// A letter of a set, which a backslash takes its meaning from.
fn letter(text: &[u8]) -> Option<(u8, &[u8])> {
    let text = text.strip_prefix(b"\\").unwrap_or(text);
    text.split_first().map(|(first, rest)| (*first, rest))
}

type Class = fn(&u8) -> bool;

/// What a set begins with, if that is a class such as `[:digit:]`.
fn class(text: &[u8]) -> Option<(Class, &[u8])> {
    const CLASSES: [(&[u8], Class); 12] = [
        (b"[:alnum:]", u8::is_ascii_alphanumeric),
        (b"[:alpha:]", u8::is_ascii_alphabetic),
        (b"[:blank:]", |byte| b" \t".contains(byte)),
        (b"[:cntrl:]", u8::is_ascii_control),
        (b"[:digit:]", u8::is_ascii_digit),
        (b"[:graph:]", u8::is_ascii_graphic),
        (b"[:lower:]", u8::is_ascii_lowercase),
        (b"[:print:]", |byte| (b' '..=b'~').contains(byte)),
        (b"[:punct:]", u8::is_ascii_punctuation),
        (b"[:space:]", |byte| byte.is_ascii_whitespace() || *byte == b'\x0b'),
        (b"[:upper:]", u8::is_ascii_uppercase),
        (b"[:xdigit:]", u8::is_ascii_hexdigit),
    ];
    CLASSES.iter().find_map(|(name, class)| Some((*class, text.strip_prefix(*name)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_as_fnmatch_has_it() {
        for (pattern, names, others) in [
            ("a**b", &["ab", "a*b", "acb"][..], &["a", "abc", "ba"][..]),
            ("***", &["a", ""], &[".a"]),
            ("a*b*c", &["abc", "a-bb-cc"], &["acb", "abcd"]),
            ("?.env", &["a.env"], &["ab.env", ".env", "..env", "\u{f6}.env"]),
            (".*", &[".a"], &["a"]),
            ("\\.a", &[".a"], &["a"]),
            ("[.]a", &[], &[".a"]),
            ("*\\*", &["*", "a*", "\\*"], &["a", "*a"]),
            ("a\\", &[], &["a", "a\\"]),
            ("[a-c]", &["a", "c"], &["-", "d"]),
            ("[!a-c]", &["d", "-"], &["a", ""]),
            ("[^a]", &["b", "^"], &["a"]),
            ("[]a]", &["]", "a"], &["[", "b"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[\\]]", &["]"], &["\\"]),
            ("[[:digit:]x]", &["7", "x"], &["a", ":", "["]),
            ("[![:upper:]]", &["a"], &["A"]),
            ("[a", &["[a"], &["a"]),
            ("*[", &["[", "a["], &["a"]),
        ] {
            let fits = |name: &&str| fits(pattern.as_bytes(), name.as_bytes());
            let wrong = names.iter().filter(|name| !fits(name));
            let wrong: Vec<_> = wrong.chain(others.iter().filter(|name| fits(name))).collect();
            assert!(wrong.is_empty(), "{pattern}: {wrong:?}");
        }
    }

    /// By trying each length of each star this one would not end.
    #[test]
    fn many_stars_take_few_steps() {
        let (pattern, name) = ("*a".repeat(100) + "b", "a".repeat(255));
        assert!(!fits(pattern.as_bytes(), name.as_bytes()));
        assert!(fits(pattern.as_bytes(), (name + "b").as_bytes()));
    }
}
