// SPDX-License-Identifier: MIT
//! Makes Rust of the table of allocators (allocators.toml), so that a mistake in it is an error of the
//! build. The keys are those that the head of the table names.

use std::fmt::Write as _;
use std::path::Path;

use toml::{Table, Value};

/// Those that only the benchmarks read.
const OF_THE_BENCHMARKS: [&str; 3] = ["installed", "peers", "slow"];

fn main() {
    println!("cargo::rerun-if-changed=allocators.toml");
    let text = std::fs::read_to_string("allocators.toml").expect("the table of allocators");
    let table: Table = text.parse().expect("allocators.toml is TOML");
    let entries = table["allocator"].as_array().expect("allocators.toml has [[allocator]] entries");
    let mut code = format!("pub const KNOWN: [Known; {}] = [\n", entries.len());
    for entry in entries {
        code += &known(entry.as_table().expect("an entry is a table"));
    }
    code += "];\n";
    let folder = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&folder).join("known.rs"), code).expect("OUT_DIR can be written to");
}

fn known(entry: &Table) -> String {
    let name = entry["name"].as_str().expect("an allocator has a name");
    let allowed =
        ["name", "family", "origin", "variant", "stems", "symbols", "debian", "alpine", "secure"];
    for key in entry.keys() {
        let is_known = allowed.contains(&key.as_str()) || OF_THE_BENCHMARKS.contains(&key.as_str());
        assert!(is_known, "{name} has a key {key}, which means nothing");
    }
    let text = |key| entry.get(key).and_then(Value::as_str);
    let optional = |key| format!("{:?}", text(key));
    let brought = |key| entry.get(key).map_or("None".to_owned(), |value| package(name, value));
    let list = |key| format!("&{:?}", words(entry, key));
    let mut code = String::new();
    let _ = writeln!(
        code,
        "Known {{ name: {name:?}, family: Family::{}, origin: Origin::{}, variant: {:?}, stems: {}, \
         symbols: {}, debian: {}, alpine: {}, secure: {} }},",
        variant(text("family").unwrap_or("other")),
        variant(text("origin").unwrap_or("library")),
        text("variant").unwrap_or(""),
        list("stems"),
        list("symbols"),
        brought("debian"),
        brought("alpine"),
        optional("secure")
    );
    code
}

fn package(name: &str, value: &Value) -> String {
    let table = value.as_table().expect("debian and alpine are tables");
    for key in table.keys() {
        let is_known = ["package", "file", "repository"].contains(&key.as_str());
        assert!(is_known, "{name} has a package with a key {key}, which means nothing");
    }
    let text = |key| table.get(key).and_then(Value::as_str);
    let package = text("package").expect("a package has a name");
    format!(
        "Some(Packaged {{ package: {package:?}, file: {:?}, repository: {:?} }})",
        text("file"),
        text("repository")
    )
}

fn words<'a>(entry: &'a Table, key: &str) -> Vec<&'a str> {
    let values = entry.get(key).map(|value| value.as_array().expect("stems and symbols are lists"));
    values.into_iter().flatten().map(|word| word.as_str().expect("of text")).collect()
}

/// `jemalloc` as the name of an enum's variant.
fn variant(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
