// SPDX-License-Identifier: MIT
//! The messages with which the C library ends a program, or that its debugging library prints.

use crate::Kind;

/// A message, and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: Kind,
    /// In a sentence, for who does not know glibc.
    pub meaning: &'static str,
}

/// What lines may begin with, and what is behind them; the longest comes first where one begins with another.
const MESSAGES: [(&str, Kind, &str); 28] = [
    ("free(): double free detected", Kind::DoubleFree, "a block was freed that was free already"),
    (
        "double free or corruption",
        Kind::DoubleFree,
        "a block was freed twice, or the size in front of a block was overwritten",
    ),
    ("block freed twice", Kind::DoubleFree, "a block was freed that was free already"),
    // With glibc.malloc.check the same words for all of these.
    (
        "free(): invalid pointer",
        Kind::Misuse,
        "free was given a pointer that is no start of a block, or a block that was free already, or one with bytes behind it that were overwritten: glibc's check does not tell which",
    ),
    ("free(): invalid size", Kind::Underflow, "the size in front of a block was overwritten"),
    ("free(): invalid next size", Kind::Overflow, "bytes behind the block were overwritten"),
    (
        "free(): too many chunks",
        Kind::DamagedList,
        "a list of free blocks was overwritten, as by a write after free",
    ),
    (
        "free(): unaligned chunk",
        Kind::DamagedList,
        "a list of free blocks was overwritten, as by a write after free",
    ),
    (
        "free(): corrupted unsorted chunks",
        Kind::DamagedList,
        "a list of free blocks was overwritten, as by a write after free",
    ),
    (
        "realloc(): invalid pointer",
        Kind::Misuse,
        "realloc was given a pointer that is no start of a block, or a block that was free already, or one with bytes behind it that were overwritten: glibc's check does not tell which",
    ),
    (
        "realloc(): invalid old size",
        Kind::Underflow,
        "the size in front of a block was overwritten",
    ),
    ("realloc(): invalid next size", Kind::Overflow, "bytes behind the block were overwritten"),
    (
        "munmap_chunk(): invalid pointer",
        Kind::InvalidFree,
        "free was given a pointer that is no start of a block, or the size in front of it was overwritten",
    ),
    (
        "mremap_chunk(): invalid pointer",
        Kind::InvalidFree,
        "realloc was given a pointer that is no start of a block, or the size in front of it was overwritten",
    ),
    (
        "malloc(): corrupted top size",
        Kind::Overflow,
        "bytes behind the last block were overwritten",
    ),
    (
        "malloc: top chunk is corrupt",
        Kind::Overflow,
        "bytes behind the last block were overwritten",
    ),
    ("malloc(): invalid size (unsorted)", Kind::Overflow, "bytes behind a block were overwritten"),
    (
        "malloc(): invalid next size (unsorted)",
        Kind::Overflow,
        "bytes behind a block were overwritten",
    ),
    (
        "malloc(): mismatching next->prev_size (unsorted)",
        Kind::Overflow,
        "bytes behind a block were overwritten",
    ),
    (
        "malloc(): ",
        Kind::DamagedList,
        "a list of free blocks was overwritten, as by a write after free",
    ),
    (
        "tcache_thread_shutdown(): ",
        Kind::DamagedList,
        "a list of free blocks was overwritten, as by a write after free",
    ),
    (
        "malloc_consolidate(): ",
        Kind::DamagedList,
        "a list of free blocks was overwritten, as by a write after free",
    ),
    ("corrupted size vs. prev_size", Kind::Overflow, "bytes behind a block were overwritten"),
    (
        "corrupted double-linked list",
        Kind::DamagedList,
        "a list of free blocks was overwritten, as by a write after free",
    ),
    (
        "invalid fastbin entry (free)",
        Kind::DamagedList,
        "a list of free blocks was overwritten, as by a write after free",
    ),
    (
        "memory clobbered before allocated block",
        Kind::Underflow,
        "bytes in front of the block were overwritten",
    ),
    (
        "memory clobbered past end of allocated block",
        Kind::Overflow,
        "bytes behind the block were overwritten",
    ),
    (
        "bogus mcheck_status, library is buggy",
        Kind::Broken,
        "the records of the debugging library were overwritten",
    ),
];

/// What a line of standard error says, if it is a message of glibc's malloc.
pub fn read(line: &str) -> Option<Message> {
    // With the program's name in front where the debugging library prints it.
    MESSAGES.iter().find_map(|(text, kind, meaning)| {
        let at = line.find(text)?;
        let is_message = at == 0 || line[..at].ends_with(": ");
        is_message.then_some(Message { kind: *kind, meaning })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_known_and_other_lines_are_not() {
        let kind = |line| read(line).map(|message| message.kind);
        assert_eq!(kind("free(): double free detected in tcache 2"), Some(Kind::DoubleFree));
        assert_eq!(kind("malloc(): corrupted top size"), Some(Kind::Overflow));
        assert_eq!(kind("malloc(): unaligned tcache chunk detected"), Some(Kind::DamagedList));
        let at_exit = "tcache_thread_shutdown(): unaligned tcache chunk detected";
        assert_eq!(kind(at_exit), Some(Kind::DamagedList));
        assert_eq!(kind("app: free(): invalid pointer"), Some(Kind::Misuse));
        assert_eq!(kind("I called free(): invalid pointer"), None);
        assert_eq!(kind("all is well"), None);
    }

    #[test]
    fn no_message_hides_behind_a_shorter_one() {
        for (index, (text, ..)) in MESSAGES.iter().enumerate() {
            let hidden = MESSAGES[..index].iter().find(|(other, ..)| text.starts_with(other));
            assert_eq!(hidden, None, "{text}");
        }
    }
}
