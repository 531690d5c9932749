// SPDX-License-Identifier: MIT
//! A profile of the heap as Mallow and jemalloc write it, the text that is called `heap_v2`: samples of
//! the blocks by their call stacks, and the map of the process; or the same as gperftools writes it (`prof_format:pprof`).
//! Sums are scaled to the whole heap.

use std::fmt;

use crate::held::Amount;

/// What the first line begins with.
const MAGIC: &str = "heap_v2/";
/// What it begins with in gperftools' form, and what of it says the same.
const MAGIC_OF_PPROF: &str = "heap profile:";
const DISTANCE_OF_PPROF: &str = "@ heap_v2/";
const MAPS: &str = "MAPPED_LIBRARIES:";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapProfile {
    /// Mean distance in bytes between two samples.
    pub distance: u64,
    pub stacks: Vec<HeapStack>,
    /// `/proc/PID/maps` of the process, as it was.
    pub maps: String,
}

/// The blocks of one call stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapStack {
    /// Return addresses, innermost first.
    pub addresses: Vec<u64>,
    /// Held when the profile was written.
    pub live: Amount,
    /// Ever asked for; nothing where the program was not told to count that.
    pub all: Amount,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeapProfileError {
    NotOne,
    Line(usize, String),
    NoMap,
}

impl fmt::Display for HeapProfileError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::NotOne => {
                write!(
                    out,
                    "the file is no heap profile with samples: its first line has no {MAGIC}DISTANCE"
                )
            }
            Self::Line(number, text) => {
                write!(out, "line {number} of the heap profile is not understood: {text:?}")
            }
            Self::NoMap => {
                write!(out, "the heap profile is cut off: it does not end with {MAPS} and the map")
            }
        }
    }
}

impl std::error::Error for HeapProfileError {}

impl HeapProfile {
    pub fn is_one(start: &[u8]) -> bool {
        start.starts_with(MAGIC.as_bytes()) || start.starts_with(MAGIC_OF_PPROF.as_bytes())
    }

    pub fn parse(text: &str) -> Result<HeapProfile, HeapProfileError> {
        let head = text.lines().next().unwrap_or_default();
        let distance = match head.strip_prefix(MAGIC_OF_PPROF) {
            Some(rest) => rest.split_once(DISTANCE_OF_PPROF).map(|(_, distance)| distance),
            None => head.strip_prefix(MAGIC),
        };
        let distance = distance.ok_or(HeapProfileError::NotOne)?;
        let distance = distance
            .trim()
            .parse()
            .ok()
            .filter(|&distance| distance > 0)
            .ok_or_else(|| malformed(0, head))?;
        let (samples, maps) = text.split_once(MAPS).ok_or(HeapProfileError::NoMap)?;
        let mut profile =
            HeapProfile { distance, maps: maps.trim_start().to_owned(), ..HeapProfile::default() };
        let mut stack: Option<HeapStack> = None;
        for (number, line) in samples.lines().enumerate().skip(1) {
            let failed = || malformed(number, line);
            if let Some(places) = line.strip_prefix('@') {
                profile.stacks.extend(stack.take());
                let addresses = addresses(places).ok_or_else(failed)?;
                stack = Some(HeapStack { addresses, ..HeapStack::default() });
            } else if let Some((numbers, places)) = of_pprof(line) {
                let [live, all] = amounts(numbers).ok_or_else(failed)?;
                profile.stacks.push(HeapStack {
                    addresses: addresses(places).ok_or_else(failed)?,
                    live: scaled(live, distance),
                    all: scaled(all, distance),
                });
            } else if let Some(numbers) = line.trim_start().strip_prefix("t*:") {
                let [live, all] = amounts(numbers).ok_or_else(failed)?;
                // Those before the first stack are the sums of all.
                if let Some(stack) = &mut stack {
                    stack.live = scaled(live, distance);
                    stack.all = scaled(all, distance);
                }
            } else if !(line.is_empty() || line.trim_start().starts_with('t')) {
                return Err(failed());
            }
        }
        profile.stacks.extend(stack);
        Ok(profile)
    }

    /// Whether blocks that were freed are in it too.
    pub fn has_all(&self) -> bool {
        self.stacks.iter().any(|stack| stack.all.blocks > 0)
    }
}

fn malformed(number: usize, line: &str) -> HeapProfileError {
    HeapProfileError::Line(number + 1, line.chars().take(60).collect())
}

/// A stack in gperftools' form: `blocks: bytes [blocks: bytes] @ 0x10`.
fn of_pprof(line: &str) -> Option<(&str, &str)> {
    // Names of threads may have the sign in them.
    line.split_once('@').filter(|(numbers, _)| !numbers.trim_start().starts_with('t'))
}

fn addresses(places: &str) -> Option<Vec<u64>> {
    let address = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    places.split_whitespace().map(address).collect()
}

/// ` blocks: bytes [blocks: bytes]`, of samples.
fn amounts(text: &str) -> Option<[Amount; 2]> {
    let words = text.split([' ', ':', '[', ']']).filter(|word| !word.is_empty());
    let numbers: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [a, b, c, d] = numbers[..] else { return None };
    Some([Amount { blocks: a, bytes: b }, Amount { blocks: c, bytes: d }])
}

/// What these samples stand for: a block of `n` bytes is a sample with the chance
/// 1 - exp(-n / distance). The writer has seen to it that the mean size gives the right sum.
fn scaled(samples: Amount, distance: u64) -> Amount {
    if samples.blocks == 0 || samples.bytes == 0 {
        return Amount::default();
    }
    let mean = samples.bytes as f64 / samples.blocks as f64;
    let factor = 1.0 / -(-mean / distance as f64).exp_m1();
    let times = |number: u64| (number as f64 * factor).round() as u64;
    Amount { blocks: times(samples.blocks), bytes: times(samples.bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "heap_v2/1024\n  t*: 3: 1536 [4: 2048]\n  t3: 3: 1536 [4: 2048] main@home\n\
        @ 0x10 0x20\n  t*: 2: 1024 [3: 1536]\n  t3: 2: 1024 [3: 1536]\n\
        @ 0x30\n  t*: 1: 4096000 [0: 0]\n\n\
        MAPPED_LIBRARIES:\n400000-401000 r-xp 00000000 fe:01 42 /bin/program\n";

    #[test]
    fn samples_are_scaled_to_what_they_stand_for() {
        let profile = HeapProfile::parse(TEXT).unwrap();
        assert!(HeapProfile::is_one(TEXT.as_bytes()) && profile.has_all());
        assert_eq!(profile.stacks.len(), 2);
        assert_eq!(profile.stacks[0].addresses, [0x10, 0x20]);
        // 1 / (1 - exp(-512 / 1024)) = 2.5415
        assert_eq!(profile.stacks[0].live, Amount { blocks: 5, bytes: 2602 });
        assert_eq!(profile.stacks[0].all, Amount { blocks: 8, bytes: 3904 });
        assert_eq!(profile.stacks[1].live, Amount { blocks: 1, bytes: 4_096_000 });
        assert_eq!(profile.stacks[1].all, Amount::default());
        assert!(profile.maps.starts_with("400000-401000 r-xp"));
    }

    #[test]
    fn the_form_of_gperftools_says_the_same() {
        let text = "heap profile: 3: 4097024 [3: 1536] @ heap_v2/1024\n\
            2: 1024 [3: 1536] @ 0x10 0x20\n1: 4096000 [0: 0] @ 0x30\n\n\
            MAPPED_LIBRARIES:\n400000-401000 r-xp 00000000 fe:01 42 /bin/program\n";
        assert!(HeapProfile::is_one(text.as_bytes()));
        assert_eq!(HeapProfile::parse(text), HeapProfile::parse(TEXT));
        let error = |from, to| HeapProfile::parse(&text.replace(from, to)).unwrap_err();
        assert_eq!(error("heap_v2", "growthz"), HeapProfileError::NotOne);
        for (from, to) in [("0x20", "20"), ("1: 4096000", "4096000"), ("heap_v2/1024", "heap_v2/x")]
        {
            assert!(matches!(error(from, to), HeapProfileError::Line(_, _)), "{from}");
        }
    }

    #[test]
    fn what_is_no_profile_is_told_where() {
        let error = |text: &str| HeapProfile::parse(text).unwrap_err();
        assert_eq!(error("MALLOWTR"), HeapProfileError::NotOne);
        assert_eq!(error(&TEXT[..60]), HeapProfileError::NoMap);
        for (from, to) in [("0x20", "20"), ("2: 1024 [", "2: ["), ("heap_v2/1024", "heap_v2/0")] {
            assert!(
                matches!(error(&TEXT.replace(from, to)), HeapProfileError::Line(_, _)),
                "{from}"
            );
        }
    }
}
