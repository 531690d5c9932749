// SPDX-License-Identifier: MIT
//! Fields of JSON that may be missing, or something else than was expected.

use serde_json::Value;

/// No machine counts so far. jemalloc counts without locks: what it takes the difference of may be less than 0,
/// and stands in its dump as a number near 2^64.
const TOO_MUCH: u64 = 1 << 60;

pub fn number(value: &Value, name: &str) -> Option<u64> {
    value.get(name)?.as_u64().filter(|number| *number < TOO_MUCH)
}

pub fn signed(value: &Value, name: &str) -> Option<i64> {
    value.get(name)?.as_i64()
}

pub fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A sum that is unknown where nothing of it is known.
pub fn sum(parts: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    parts.into_iter().flatten().reduce(u64::saturating_add)
}

/// A value as an option of the allocator is written.
pub fn as_option(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}
