// SPDX-License-Identifier: MIT
//! How a report writes names and numbers.

use std::fmt::Write as _;

use mallow_report::{Amount, Frame};
pub use mallow_stats::figures::count;

use crate::output;
use mallow_stats::figures::counted;

const STD_STRING: &str =
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";

/// `function at file:line (inlined)`, or with the module where there is no line.
pub fn place(frame: &Frame) -> String {
    let mut text = readable(&frame.function);
    match (&frame.file, frame.line, &frame.module) {
        (Some(file), Some(line), _) => {
            let _ = write!(text, " at {file}:{line}");
        }
        (Some(file), None, _) => {
            let _ = write!(text, " at {file}");
        }
        (None, _, Some(module)) if !text.starts_with(file_name(module)) => {
            let _ = write!(text, " in {}", file_name(module));
        }
        _ => {}
    }
    if frame.inlined {
        text += " (inlined)";
    }
    text
}

/// A long C++ or Rust name without the contents of its longest brackets; the page and JSON have
/// them whole.
pub fn readable(name: &str) -> String {
    const LONG_NAME: usize = 80;
    const LONG_BRACKETS: usize = 24;
    if name.len() <= LONG_NAME {
        return name.to_owned();
    }
    let name = name.replace(STD_STRING, "std::string");
    // Where each open bracket begins in the text that has been copied.
    let mut open: Vec<usize> = Vec::new();
    let mut text = String::new();
    for (at, letter) in name.char_indices() {
        // Arrows and comparisons are no brackets.
        let is_sign = name[..at].ends_with("operator") || name[..at].ends_with(['-', '=']);
        match letter {
            '<' | '(' if !is_sign => open.push(text.len() + 1),
            '>' | ')' if !is_sign => {
                // An outer bracket of the start, such as `<A as B>::c`, is the name itself.
                if let Some(begin) = open.pop()
                    && begin > 1
                    && text.len() - begin > LONG_BRACKETS
                {
                    text.truncate(begin);
                    text.push_str("...");
                }
            }
            _ => {}
        }
        text.push(letter);
    }
    text
}

pub fn change(before: u64, after: u64) -> String {
    match (before, after) {
        (before, after) if before == after => "none".into(),
        (0, _) => "new".into(),
        (_, 0) => "gone".into(),
        _ => output::percent_change(after as f64 / before as f64),
    }
}

/// The folded stack turned round: the function that allocates comes first.
pub fn innermost(stack: &str, depth: usize) -> String {
    if stack.is_empty() {
        return "(no stack)".into();
    }
    let names: Vec<&str> = stack.split(';').rev().take(depth.min(4)).collect();
    names.join(" < ")
}

pub fn amount(amount: Amount) -> String {
    format!("{} in {}", output::bytes(amount.bytes as f64), counted(amount.blocks, "block"))
}

pub fn nanoseconds(ns: u64) -> String {
    if ns < 1000 { format!("{ns} ns") } else { output::seconds(ns as f64 / 1e9) }
}

pub fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 / whole.max(1) as f64 * 100.0)
}

pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

pub fn shortened(command: &str) -> String {
    const MOST: usize = 60;
    match command.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &command[..end]),
        None => command.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(nanoseconds(999), "999 ns");
        assert_eq!(nanoseconds(1500), "1.50 us");
        assert_eq!(share(1, 3), "33.3 %");
        assert_eq!(change(0, 5), "new");
        assert_eq!(amount(Amount { blocks: 1, bytes: 4096 }), "4.00 KiB in 1 block");
        assert_eq!(amount(Amount { blocks: 1200, bytes: 4096 }), "4.00 KiB in 1,200 blocks");
        assert_eq!(innermost("main;read;line", 12), "line < read < main");
    }

    #[test]
    fn long_names_lose_what_is_in_their_brackets() {
        assert_eq!(readable("store::Reader<int>::fill(int)"), "store::Reader<int>::fill(int)");
        let long = "std::map<std::__cxx11::basic_string<char, std::char_traits<char>, \
                    std::allocator<char> >, Item>::operator[](unsigned long)";
        assert_eq!(readable(long), "std::map<std::string, Item>::operator[](unsigned long)");
        let inner = "std::_Rb_tree<int, std::pair<int const, Item>, std::less<int> >::_M_insert\
                     <std::pair<int const, Item>, std::allocator<int> >(int, Item*)";
        assert_eq!(readable(inner), "std::_Rb_tree<...>::_M_insert<...>(int, Item*)");
        let arrow = "bool operator< <char, std::char_traits<char>, std::allocator<char> >\
                     (std::string const&, std::string const&)";
        assert_eq!(readable(arrow), "bool operator< <...>(...)");
        let rust = "<alloc::collections::btree::map::BTreeMap<alloc::string::String, u64> \
                    as core::iter::Extend>::extend";
        assert!(readable(rust).ends_with(" as core::iter::Extend>::extend"), "{}", readable(rust));
    }
}
