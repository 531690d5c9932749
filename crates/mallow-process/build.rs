// SPDX-License-Identifier: MIT
//! Makes Rust of the table of allocators (allocators.toml), so that a mistake in it is an error of the
//! build. The keys are those that the head of the table names.

use std::fmt::Write as _;
use std::path::Path;

use toml::{Table, Value};

/// Those that only the benchmarks read.
const OF_THE_BENCHMARKS: [&str; 3] = ["installed", "peers", "slow"];

/// As their keys are written, each a variant of `Distribution`.
const DISTRIBUTIONS: [&str; 4] = ["debian", "alpine", "fedora", "arch"];

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
    let allowed = ["name", "family", "origin", "variant", "stems", "symbols", "secure"];
    for key in entry.keys() {
        let is_known = [&allowed[..], &DISTRIBUTIONS, &OF_THE_BENCHMARKS]
            .iter()
            .any(|keys| keys.contains(&key.as_str()));
        assert!(is_known, "{name} has a key {key}, which means nothing");
    }
    let text = |key| entry.get(key).and_then(Value::as_str);
    let optional = |key| format!("{:?}", text(key));
    let packages: String = DISTRIBUTIONS
        .iter()
        .filter_map(|key| Some(packages(name, key, entry.get(*key)?)))
        .collect();
    let list = |key| format!("&{:?}", words(entry, key));
    let mut code = String::new();
    let _ = writeln!(
        code,
        "Known {{ name: {name:?}, family: Family::{}, origin: Origin::{}, variant: {:?}, stems: {}, \
         symbols: {}, packages: &[{packages}], secure: {} }},",
        variant(text("family").unwrap_or("other")),
        variant(text("origin").unwrap_or("library")),
        text("variant").unwrap_or(""),
        list("stems"),
        list("symbols"),
        optional("secure")
    );
    code
}

/// Those of one distribution: one, or a list by releases, which ends in that of the newest.
fn packages(name: &str, distribution: &str, value: &Value) -> String {
    let one = std::slice::from_ref(value);
    let all = value.as_array().map_or(one, Vec::as_slice);
    let newest = all.iter().position(|entry| entry.get("releases").is_none());
    assert!(newest == Some(all.len() - 1), "{name} for {distribution} ends without releases");
    all.iter().map(|entry| package(name, distribution, entry)).collect()
}

fn package(name: &str, distribution: &str, value: &Value) -> String {
    let table = value.as_table().expect("a package is a table");
    for key in table.keys() {
        let is_known =
            ["package", "file", "repository", "releases", "without"].contains(&key.as_str());
        assert!(is_known, "{name} has a package with a key {key}, which means nothing");
    }
    let text = |key| table.get(key).and_then(Value::as_str);
    let package = text("package").expect("a package has a name");
    format!(
        "Packaged {{ distribution: Distribution::{}, releases: &{:?}, without: &{:?}, package: {package:?}, \
         file: {:?}, repository: {:?} }},",
        variant(distribution),
        words(table, "releases"),
        words(table, "without"),
        text("file"),
        text("repository")
    )
}

fn words<'a>(entry: &'a Table, key: &str) -> Vec<&'a str> {
    let values = entry.get(key).map(|value| value.as_array().expect("a list of words"));
    values.into_iter().flatten().map(|word| word.as_str().expect("of text")).collect()
}

/// `jemalloc` as the name of an enum's variant.
fn variant(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
