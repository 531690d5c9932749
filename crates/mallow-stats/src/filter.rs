// SPDX-License-Identifier: MIT
//! Takes the JSON of jemalloc, and of Mallow in its schema, out of what a program writes, and passes the rest on as it
//! comes.

use crate::Stats;

/// How a dump begins: jemalloc 5.3 writes one line, 5.2 and Mallow many.
const BEGINNINGS: [&str; 3] = ["{\"jemalloc\"", "{\n\t\"jemalloc\"", "{\n\"jemalloc\""];
const LONGEST_BEGINNING: usize = BEGINNINGS[1].len();
/// Stands once in a dump.
const NAME: &[u8] = b"\"jemalloc\"";
/// What has not become a whole dump by then is none.
const LARGEST_DUMP: usize = 4 << 20;

/// Takes pieces of a text in turn, and gives back what of them is not a dump.
#[derive(Default)]
pub struct Filter {
    held: Vec<u8>,
    /// How far what is held was looked at, as a dump that it begins with.
    dump: Option<Scan>,
    /// The line of a dump ends with it.
    is_behind_dump: bool,
    mixture: Option<Mixture>,
    /// Those that were found, in turn.
    pub dumps: Vec<Stats>,
    /// Dumps that were written at once, and cannot be told from each other.
    pub mixed: u64,
}

/// Pieces of several dumps, one among the other.
#[derive(Default)]
struct Mixture {
    begun: u64,
    /// Braces that are open: a dump has as many that close, and none in its texts.
    open: u64,
    /// How far what is held was searched for the end of a line.
    searched: usize,
}

/// Finds the end of an object, a piece at a time.
#[derive(Default)]
struct Scan {
    at: usize,
    depth: usize,
    is_string: bool,
    is_escaped: bool,
}

impl Scan {
    /// Where the object ends, if it does.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        for &byte in &bytes[self.at..] {
            self.at += 1;
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_string => self.is_escaped = true,
                b'"' => self.is_string = !self.is_string,
                b'{' if !self.is_string => self.depth += 1,
                b'}' if !self.is_string => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(self.at);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

impl Filter {
    /// What can be passed on of this and of what came before.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        let mut passed = Vec::new();
        loop {
            if self.mixture.is_some() && !self.skip_mixture() {
                return passed;
            }
            let Some(mut scan) = self.dump.take().or_else(|| self.begin(&mut passed)) else {
                return passed;
            };
            // Of what was looked at before, only what a beginning may end behind.
            let from = scan.at.saturating_sub(LONGEST_BEGINNING).max(1);
            let end = scan.end(&self.held);
            if has_beginning(&self.held[from..end.unwrap_or(self.held.len())]) {
                self.mixture = Some(Mixture::default());
                continue;
            }
            let Some(end) = end else {
                if self.held.len() < LARGEST_DUMP {
                    self.dump = Some(scan);
                } else {
                    passed.append(&mut self.held);
                }
                return passed;
            };
            let object: Vec<u8> = self.held.drain(..end).collect();
            match crate::read(&object) {
                Ok(stats) => {
                    self.dumps.push(stats);
                    self.is_behind_dump = true;
                }
                Err(_) => passed.extend(object),
            }
        }
    }

    /// Drops lines until all dumps that have begun are at their end; false where more has to come.
    fn skip_mixture(&mut self) -> bool {
        while let Some(mixture) = &mut self.mixture {
            let Some(end) = self.held[mixture.searched..].iter().position(|byte| *byte == b'\n')
            else {
                mixture.searched = self.held.len();
                break;
            };
            let line: Vec<u8> = self.held.drain(..=mixture.searched + end).collect();
            mixture.searched = 0;
            mixture.begun += line.windows(NAME.len()).filter(|part| *part == NAME).count() as u64;
            for byte in line {
                match byte {
                    b'{' => mixture.open += 1,
                    b'}' => mixture.open = mixture.open.saturating_sub(1),
                    _ => {}
                }
            }
            if mixture.open == 0 && mixture.begun > 0 {
                self.mixed += mixture.begun;
                self.mixture = None;
            }
        }
        self.mixture.is_none()
    }

    /// Passes on what stands before the next dump.
    fn begin(&mut self, passed: &mut Vec<u8>) -> Option<Scan> {
        if self.is_behind_dump && !self.held.is_empty() {
            self.is_behind_dump = false;
            if self.held[0] == b'\n' {
                self.held.remove(0);
            }
        }
        let starts = BEGINNINGS.iter().filter_map(|start| find(&self.held, start.as_bytes()));
        let start = starts.min();
        let end = start.unwrap_or_else(|| self.held.len() - possible_beginning(&self.held));
        passed.extend(self.held.drain(..end));
        start.map(|_| Scan::default())
    }

    /// What was held back, for nothing more comes.
    pub fn end(&mut self) -> Vec<u8> {
        self.dump = None;
        let held = std::mem::take(&mut self.held);
        match self.mixture.take() {
            Some(mixture) => {
                self.mixed += mixture.begun;
                Vec::new()
            }
            None => held,
        }
    }
}

fn has_beginning(bytes: &[u8]) -> bool {
    BEGINNINGS.iter().any(|start| find(bytes, start.as_bytes()).is_some())
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// Bytes at the end that a dump may begin with.
fn possible_beginning(bytes: &[u8]) -> usize {
    let longest = |beginning: &&str| {
        (1..beginning.len()).rev().find(|length| bytes.ends_with(&beginning.as_bytes()[..*length]))
    };
    BEGINNINGS.iter().filter_map(longest).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = include_str!("../tests/dumps/jemalloc-5.3.1-bins.json");
    const OLD: &str = include_str!("../tests/dumps/jemalloc-5.2.1-arenas.json");
    const MALLOW: &str = include_str!("../tests/dumps/mallow-0.1.0.json");

    /// The text goes through it in pieces of this size; and what is left of it.
    fn filtered(text: &str, piece: usize) -> (Filter, String) {
        let mut filter = Filter::default();
        let mut passed = Vec::new();
        for part in text.as_bytes().chunks(piece) {
            passed.extend(filter.take(part));
        }
        passed.extend(filter.end());
        (filter, String::from_utf8(passed).expect("it was text"))
    }

    #[test]
    fn dumps_are_taken_out_wherever_the_pieces_end() {
        let text =
            format!("first {{\n{}\nsecond {{\"a\": 1}}\n{}\nlast {{", DUMP.trim(), OLD.trim());
        let text = text + &format!("\n{}\n", MALLOW.trim());
        for piece in [1 << 20, 4096, 1000, 7] {
            let (filter, passed) = filtered(&text, piece);
            assert_eq!(filter.dumps.len(), 3, "pieces of {piece}");
            assert_eq!(passed, "first {\nsecond {\"a\": 1}\nlast {\n");
        }
    }

    #[test]
    fn dumps_that_were_written_at_once_are_left_out() {
        for dump in [DUMP, OLD, MALLOW] {
            let dump = dump.trim().to_owned() + "\n";
            let (first, last) = dump.split_at(dump.len() / 2);
            let mixtures = [
                format!("{first}{dump}{last}"),
                format!("{first}{first}{last}{last}"),
                format!("{first}{first}{first}{last}{last}{last}"),
            ];
            for mixture in mixtures {
                let text = format!("before\n{mixture}between\n{dump}after\n");
                for piece in [1 << 20, 4096, 61] {
                    let (filter, passed) = filtered(&text, piece);
                    assert_eq!(passed, "before\nbetween\nafter\n", "pieces of {piece}");
                    assert_eq!(filter.dumps.len(), 1);
                    let begun = mixture.matches("\"jemalloc\"").count() as u64;
                    assert_eq!(filter.mixed, begun);
                }
            }
        }
    }

    #[test]
    fn what_is_no_dump_is_passed_on() {
        let mut filter = Filter::default();
        assert_eq!(filter.take(b"plain\n"), b"plain\n");
        let cut = &DUMP.as_bytes()[..5000];
        assert_eq!(filter.take(cut), b"");
        assert_eq!(filter.end(), cut);
        assert!(filter.dumps.is_empty());
    }
}
