//! Words of a command line, as a shell reads and writes them, and of lists in variables.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The word as a shell understands it.
pub fn quoted(word: &OsStr) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+=./:,@%^".contains(byte);
    let text = word.to_string_lossy();
    if !word.is_empty() && word.as_bytes().iter().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Several of them, with spaces in between.
pub fn line<'a>(words: impl IntoIterator<Item = &'a (impl AsRef<OsStr> + 'a + ?Sized)>) -> String {
    words.into_iter().map(|word| quoted(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// Words of a command as a shell splits them, as far as quotes go.
pub fn split(text: &str) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (_, '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words.into_iter().map(OsString::from).collect()
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
        let words = split(r#"redis-server --port 1 'a b' "c \"d\"" e\ f '' "#);
        let expected = ["redis-server", "--port", "1", "a b", "c \"d\"", "e f", ""];
        assert_eq!(words, expected.map(OsString::from));
    }

    #[test]
    fn what_is_quoted_is_split_again() {
        let words = ["plain", "a b", "it's", "", "$x"].map(OsString::from);
        assert_eq!(split(&line(&words)), words);
        assert_eq!(line(["ls", "-l"]), "ls -l");
    }

    #[test]
    fn separators_are_seen() {
        assert!(has_separator(OsStr::new("/a b/c.so")));
        assert!(has_separator(OsStr::new("/a:b/c.so")));
        assert!(!has_separator(OsStr::new("/usr/lib/libx-1.so")));
    }
}
