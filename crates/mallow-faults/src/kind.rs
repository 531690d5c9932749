// SPDX-License-Identifier: MIT
//! What can be wrong.

use serde::Serialize;

/// The kinds of faults, as the reports name them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    DoubleFree,
    InteriorFree,
    MisalignedFree,
    InvalidFree,
    ForeignFree,
    Overflow,
    Underflow,
    WriteAfterFree,
    ReadAfterFree,
    OutOfBounds,
    SizeMismatch,
    AlignmentMismatch,
    KindMismatch,
    DamagedList,
    OutOfMemory,
    Broken,
    Leak,
    /// Any other.
    #[default]
    Misuse,
}

/// Each with the word for it.
const WORDS: [(Kind, &str); 18] = [
    (Kind::DoubleFree, "double-free"),
    (Kind::InteriorFree, "interior-free"),
    (Kind::MisalignedFree, "misaligned-free"),
    (Kind::InvalidFree, "invalid-free"),
    (Kind::ForeignFree, "foreign-free"),
    (Kind::Overflow, "overflow"),
    (Kind::Underflow, "underflow"),
    (Kind::WriteAfterFree, "write-after-free"),
    (Kind::ReadAfterFree, "read-after-free"),
    (Kind::OutOfBounds, "out-of-bounds"),
    (Kind::SizeMismatch, "size-mismatch"),
    (Kind::AlignmentMismatch, "alignment-mismatch"),
    (Kind::KindMismatch, "kind-mismatch"),
    (Kind::DamagedList, "damaged-list"),
    (Kind::OutOfMemory, "out-of-memory"),
    (Kind::Broken, "broken"),
    (Kind::Leak, "leak"),
    (Kind::Misuse, "misuse"),
];

impl Kind {
    pub fn all() -> impl Iterator<Item = Kind> {
        WORDS.iter().map(|(kind, _)| *kind)
    }

    pub fn word(self) -> &'static str {
        WORDS.iter().find(|(kind, _)| *kind == self).map_or("misuse", |(_, word)| word)
    }

    /// A word of a later version is some misuse.
    pub fn of_word(word: &str) -> Kind {
        WORDS.iter().find(|(_, known)| *known == word).map_or(Kind::Misuse, |(kind, _)| *kind)
    }
}
