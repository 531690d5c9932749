// SPDX-License-Identifier: MIT
//! Huge pages that are mostly empty: a program that writes a byte here and there in them has all of each in memory.

use serde::{Deserialize, Serialize};

use crate::mappings::Mapping;
use crate::memory::Memory;
use crate::page_size;

/// Small pages that are looked at.
const LOOKS: u64 = 512;
/// Less in huge pages is not looked at.
const LEAST: u64 = 64 << 20;

/// Multiples of it are spread evenly (Knuth, The Art of Computer Programming, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a look at some small pages within huge ones found, spread evenly over all of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sparse {
    /// Bytes in huge pages of the mappings that were looked at.
    pub huge: u64,
    pub looked: u64,
    /// Of these, without a byte that is not 0.
    pub empty: u64,
}

/// Looks at mappings of which nearly all memory is in huge pages: in others a small page may lie beside them.
pub fn look(mappings: &[Mapping], memory: &dyn Memory) -> Option<Sparse> {
    let is_meant = |mapping: &&Mapping| mapping.huge > 0 && mapping.huge / 3 >= mapping.rss / 4;
    let meant: Vec<&Mapping> = mappings.iter().filter(is_meant).collect();
    let huge = meant.iter().map(|mapping| mapping.huge).fold(0, u64::saturating_add);
    if huge < LEAST {
        return None;
    }
    let small = page_size();
    let mut bytes = vec![0; small as usize];
    let mut sparse = Sparse { huge, ..Sparse::default() };
    for mapping in meant {
        let (pages, size) = (mapping.huge, mapping.end.saturating_sub(mapping.start) / small);
        let looks = (u128::from(LOOKS) * u128::from(pages)).div_ceil(u128::from(huge)) as u64;
        let step = (size / looks).max(1);
        for index in 0..looks.min(size) {
            // Anywhere in its step: what is written may lie at equal distances too.
            let within = (index.wrapping_mul(GOLDEN) >> 32) % step;
            let page = mapping.start + (step * index + within) * small;
            if memory.resident(page, page + small) == Some(small)
                && memory.read(page, &mut bytes).is_some()
            {
                sparse.looked += 1;
                sparse.empty += u64::from(bytes.iter().all(|byte| *byte == 0));
            }
        }
    }
    Some(sparse)
}

impl Sparse {
    /// What would not be in memory with small pages.
    pub fn empty_bytes(&self) -> u64 {
        let part = self.empty as f64 / self.looked.max(1) as f64;
        (self.huge as f64 * part) as u64
    }
}
