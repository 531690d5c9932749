// SPDX-License-Identifier: MIT
//! The options of a process under Mallow, from where the allocator takes them when a program starts:
//! the files below /etc, and the environment that the process was started with. They count where the allocator
//! does not tell what holds, as older builds do not.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use mallow_launch::options::parse_number;
use mallow_process::stat::folder;

/// Those that rules ask for, as they are if nobody sets them.
const DEFAULTS: [(&str, &str); 2] = [("dirty_decay_ms", "10000"), ("purge_thread", "false")];

/// Nothing, if the environment of the process may not be read.
pub fn of_process(pid: u32) -> BTreeMap<String, String> {
    let Ok(environment) = fs::read(folder(pid).join("environ")) else { return BTreeMap::new() };
    let root = folder(pid).join("root/etc");
    let variable = |name: &str| value_of(&environment, name);
    // The later ones win.
    options(&[
        link_or_file(&root.join("malloc.conf")),
        variable("MALLOC_CONF"),
        file(&root.join("mallow.conf")),
        variable("MALLOW_CONF"),
    ])
}

fn file(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The settings may stand in the name that a link leads to.
fn link_or_file(path: &Path) -> String {
    match fs::read_link(path) {
        Ok(target) => target.to_string_lossy().into_owned(),
        Err(_) => file(path),
    }
}

/// As getenv: the first of that name counts.
fn value_of(environment: &[u8], name: &str) -> String {
    let mut variables = environment.split(|&byte| byte == 0);
    let value = variables
        .find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=".as_slice()));
    String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
}

/// A comment begins where a setting does, or behind a blank.
fn without_comment(line: &str) -> &str {
    let mut before = b',';
    let end = line.bytes().position(|byte| {
        let begins = byte == b'#' && matches!(before, b',' | b' ' | b'\t' | b'\r');
        before = byte;
        begins
    });
    &line[..end.unwrap_or(line.len())]
}

/// What holds of `key:value,key:value` texts, of which the later ones win.
fn options(texts: &[String]) -> BTreeMap<String, String> {
    let mut options: BTreeMap<String, String> =
        DEFAULTS.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let lines = texts.iter().flat_map(|text| text.lines());
    for setting in lines.flat_map(|line| without_comment(line).split(',')) {
        let Some((key, value)) = setting.split_once(':') else { continue };
        let (key, value) = (key.trim(), value.trim());
        // jemalloc's name of it.
        let key = if key == "background_thread" { "purge_thread" } else { key };
        let is_valid = match key {
            "dirty_decay_ms" => parse_number(value).is_some_and(|value| value >= -1),
            _ => matches!(value, "true" | "false"),
        };
        if let Some(known) = options.get_mut(key).filter(|_| is_valid) {
            *known = parse_number(value).map_or(value.to_owned(), |number| number.to_string());
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> (String, String) {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let options = options(&texts);
        (options["dirty_decay_ms"].clone(), options["purge_thread"].clone())
    }

    #[test]
    fn later_settings_win_and_wrong_ones_are_none() {
        let pair = |decay: &str, thread: &str| (decay.to_owned(), thread.to_owned());
        assert_eq!(of(&[]), pair("10000", "false"));
        let both = [
            "dirty_decay_ms:-1,background_thread:true",
            "# no, dirty_decay_ms:0\n dirty_decay_ms : 2K #x\n",
        ];
        assert_eq!(of(&both), pair("2048", "true"));
        let path = "prof_prefix:/tmp/a#b,dirty_decay_ms:5,#dirty_decay_ms:6";
        assert_eq!(of(&[path]), pair("5", "false"));
        assert_eq!(of(&["purge_thread:yes,dirty_decay_ms:-2,narenas:1,x"]), pair("10000", "false"));
    }

    #[test]
    fn variables_are_found_by_their_whole_name() {
        let environment =
            b"XMALLOW_CONF=a:1\0MALLOW_CONFIG=b:1\0MALLOW_CONF=c:1\0MALLOW_CONF=d:1\0";
        assert_eq!(value_of(environment, "MALLOW_CONF"), "c:1");
        assert_eq!(value_of(environment, "MALLOC_CONF"), "");
    }
}
