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

/// The last whole object whose first key is this one.
fn last_object(text: &str, mark: &str) -> Option<Value> {
    let (mut last, mut from) = (None, 0);
    while let Some(at) = text[from..].find(mark).map(|at| from + at) {
        from = at + mark.len();
        let before = text[..at].trim_end();
        if !before.ends_with('{') {
            continue;
        }
        let start = before.len() - 1;
        let mut objects = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        if let Some(Ok(object)) = objects.next() {
            from = start + objects.byte_offset();
            last = Some(object);
        }
    }
    last
}

/// The last whole `<malloc>` element.
fn last_element(text: &str) -> Option<&str> {
    const END: &str = "</malloc>";
    let end = text.rfind(END)? + END.len();
    let start = text[..end].rfind(GLIBC)?;
    Some(&text[start..end])
}
