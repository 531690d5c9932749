// SPDX-License-Identifier: MIT
//! Leaks that are known and left out, in LeakSanitizer's syntax: lines of `leak:PATTERN`, where the
//! pattern is found anywhere in the name of a function, a source file or a module; `*` stands for any
//! text, `^` and `$` for the ends. Lines that begin with # are comments.

#[derive(Debug, Default)]
pub struct Suppressions {
    patterns: Vec<String>,
}

/// The line, from 1 on, that is none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misspelt(pub usize);

impl Suppressions {
    pub fn parse(text: &str) -> Result<Suppressions, Misspelt> {
        let mut patterns = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let pattern = line.strip_prefix("leak:").filter(|pattern| !pattern.is_empty());
            patterns.push(pattern.ok_or(Misspelt(index + 1))?.to_owned());
        }
        Ok(Suppressions { patterns })
    }

    /// Whether one of them is in a leak with these names of functions, source files and modules.
    pub fn cover<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> bool {
        names.any(|name| self.patterns.iter().any(|pattern| is_match(pattern, name)))
    }
}

/// Whether the pattern is found in the text.
fn is_match(pattern: &str, text: &str) -> bool {
    let (pattern, is_at_start) = match pattern.strip_prefix('^') {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let (pattern, is_at_end) = match pattern.strip_suffix('$') {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let pieces: Vec<&str> = pattern.split('*').collect();
    let last = pieces.len() - 1;
    let mut rest = text;
    for (index, piece) in pieces.into_iter().enumerate() {
        let is_anchored = index == 0 && is_at_start;
        if index == last && is_at_end {
            return rest.ends_with(piece) && (!is_anchored || rest == piece);
        }
        match rest.find(piece) {
            Some(at) if !is_anchored || at == 0 => rest = &rest[at + piece.len()..],
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_leak_sanitizer() {
        let cases = [
            ("make", "app::make_table", true),
            ("make", "build", false),
            ("^make", "app::make", false),
            ("^app*table$", "app::make_table", true),
            ("^app$", "app2", false),
            ("lib*.so", "/usr/lib/libx.so.1", true),
            ("table$", "table_of", false),
            ("a*a$", "a", false),
            ("*", "", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(is_match(pattern, text), expected, "{pattern} in {text}");
        }
    }

    #[test]
    fn lines_are_patterns_comments_or_mistakes() {
        let known =
            Suppressions::parse("# of ours\n\n  leak:make\nleak:^lib*.so\r\n").expect("right");
        assert!(known.cover(["main", "app::make_table"].into_iter()));
        assert!(known.cover(["libx.so.1"].into_iter()) && !known.cover(["main"].into_iter()));
        assert_eq!(Suppressions::parse("leak:a\nrace:b").err(), Some(Misspelt(2)));
        assert_eq!(Suppressions::parse("leak:").err(), Some(Misspelt(1)));
    }
}
