// SPDX-License-Identifier: MIT
//! What several targets need.

#[path = "../../mallow-trace/tests/repair/mod.rs"]
pub mod repair;
#[path = "../../mallow-process/tests/words/mod.rs"]
pub mod words;

use std::cell::Cell;
use std::collections::BTreeMap;

use words::{FewWords, Words};

/// The word of this number, over and over.
pub fn word_at(bytes: &[u8], index: u64) -> u64 {
    let count = bytes.len() as u64 / 8;
    if count == 0 {
        return 0;
    }
    let at = (index % count) as usize * 8;
    bytes[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Memory of these words, some of which the input makes others: sixteen bytes each, of which the first eight
/// choose the place.
pub fn changed(
    mut words: BTreeMap<u64, u64>,
    places: &[u64],
    bytes: &[u8],
    reads: u32,
) -> Words<FewWords> {
    words.extend((0..bytes.len() as u64 / 16).map(|index| {
        let place = places[word_at(bytes, 2 * index) as usize % places.len()];
        (place, word_at(bytes, 2 * index + 1))
    }));
    Words { word: FewWords(words), resident: u64::MAX, left: Cell::new(reads) }
}
