// SPDX-License-Identifier: MIT
//! Words of a command line, as a shell reads and writes them, and of lists in variables.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::error::{Error, Result};

/// The word as a shell understands it.
pub fn quoted(word: &OsStr) -> String {
    match word.to_str() {
        Some(text) => shell_words::quote(text).into_owned(),
        None => printed(word.as_bytes()),
    }
}

/// Bytes that are no text, by what every shell has. It takes line feeds at the end away, so these stand behind it.
fn printed(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|&byte| byte != b'\n').map_or(0, |last| last + 1);
    let (bytes, line_feeds) = bytes.split_at(end);
    let shown = |&byte: &u8| match byte {
        b'/' | b'.' | b'_' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("\\{byte:03o}"),
    };
    let bytes: String = bytes.iter().map(shown).collect();
    format!("\"$(printf '{bytes}'){}\"", "\n".repeat(line_feeds.len()))
}

/// Several of them, with spaces in between.
pub fn line<'a>(words: impl IntoIterator<Item = &'a (impl AsRef<OsStr> + 'a + ?Sized)>) -> String {
    words.into_iter().map(|word| quoted(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// Words of a command as a shell splits them, as far as quotes go.
pub fn split(text: &str) -> Result<Vec<OsString>> {
    let words = shell_words::split(text).map_err(|_| {
        Error::Usage(format!("A quote is open at the end of the command {text}. Close it."))
    })?;
    Ok(words.into_iter().map(OsString::from).collect())
}

/// The loader splits LD_PRELOAD at these and knows no quoting.
pub fn has_separator(path: &OsStr) -> bool {
    path.as_bytes().iter().any(|byte| matches!(byte, b':' | b' ' | b'\t' | b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_by_a_shell() {
        let words = split(r#"redis-server --port 1 'a b' "c \"d\"" e\ f '' "#).unwrap();
        let expected = ["redis-server", "--port", "1", "a b", "c \"d\"", "e f", ""];
        assert_eq!(words, expected.map(OsString::from));
    }

    #[test]
    fn what_is_quoted_is_split_again() {
        let words = ["plain", "a b", "it's", "", "$x"].map(OsString::from);
        assert_eq!(split(&line(&words)).unwrap(), words);
        assert!(split("ls 'a b").is_err());
        assert_eq!(line(["ls", "-l"]), "ls -l");
    }

    #[test]
    fn what_is_no_text_is_what_a_shell_makes_of_it() {
        for bytes in [&b"/a\xff"[..], b"-\xff1 %s'\"$x\\", b"\xff\n\n", b"it's"] {
            let script = format!("printf %s {}", quoted(OsStr::from_bytes(bytes)));
            let mut shell = std::process::Command::new("/bin/sh");
            let output = shell.arg("-c").arg(&script).output().unwrap();
            assert_eq!(output.stdout, bytes, "{script}");
        }
    }

    #[test]
    fn separators_are_seen() {
        assert!(has_separator(OsStr::new("/a b/c.so")));
        assert!(has_separator(OsStr::new("/a:b/c.so")));
        assert!(!has_separator(OsStr::new("/usr/lib/libx-1.so")));
    }
}
