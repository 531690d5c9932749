// SPDX-License-Identifier: MIT
//! Finds the dumps in a text: other output may stand before, behind and between them.

use serde_json::Value;

use crate::{Error, Stats, glibc, jemalloc, mimalloc};

/// What begins each kind, behind its opening brace.
const JEMALLOC: &str = "\"jemalloc\"";
const MIMALLOC: &str = "\"stat_version\"";
/// Of mimalloc before 2.2, which tells no version of its statistics.
const MIMALLOC_OLD: &str = "\"mimalloc_version\"";
const GLIBC: &str = "<malloc version";

/// The statistics of the last whole dump in a text.
pub fn read(bytes: &[u8]) -> Result<Stats, Error> {
    let text = String::from_utf8_lossy(bytes);
    if text.trim().is_empty() {
        return Err(Error::Empty);
    }
    let found = |mark: &str| text.contains(mark);
    if found(JEMALLOC) {
        let last = last_object(&text, JEMALLOC).ok_or(Error::Damaged("jemalloc"))?;
        return jemalloc::read(&last).ok_or(Error::Damaged("jemalloc"));
    }
    for mark in [MIMALLOC, MIMALLOC_OLD] {
        if found(mark) {
            let last = last_object(&text, mark).ok_or(Error::Damaged("mimalloc"))?;
            return mimalloc::read(&last).ok_or(Error::Damaged("mimalloc"));
        }
    }
    if found(GLIBC) {
        return last_element(&text).and_then(glibc::read).ok_or(Error::Damaged("malloc_info"));
    }
    if found("Begin jemalloc statistics") { Err(Error::JemallocText) } else { Err(Error::Foreign) }
}

/// Objects that are tried: a text that begins more of them and ends none has no whole one.
const TRIES: usize = 1000;

/// The last whole object whose first key is this one.
fn last_object(text: &str, mark: &str) -> Option<Value> {
    let ends = text.rmatch_indices(mark).map(|(at, _)| text[..at].trim_end());
    ends.filter_map(|before| before.strip_suffix('{')).take(TRIES).find_map(|before| {
        let mut objects =
            serde_json::Deserializer::from_str(&text[before.len()..]).into_iter::<Value>();
        objects.next()?.ok()
    })
}

/// The last whole `<malloc>` element.
fn last_element(text: &str) -> Option<&str> {
    const END: &str = "</malloc>";
    let end = text.rfind(END)? + END.len();
    let start = text[..end].rfind(GLIBC)?;
    Some(&text[start..end])
}
