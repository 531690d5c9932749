// SPDX-License-Identifier: MIT
//! Whether an allocator proved better than the baseline, from its row of the report.

use mallow_measure::statistics::Verdict;
use mallow_measure::verdict::Versus;

use super::report::Entry;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// Faster, or as fast with less CPU, or with no more CPU and less memory.
    Better,
    NotBetter,
    /// The runs prove neither.
    Unclear,
}

/// The same order as in the sentence of `mallow compare`: time, then CPU, then memory. A faster
/// allocator is better even if it takes more memory.
pub fn worth(entry: &Entry) -> Worth {
    let verdict = |versus: &Option<Versus>| versus.as_ref().map(|versus| versus.verdict);
    let time = verdict(&entry.time);
    // That of a small command is not judged, however many the runs.
    let memory = verdict(&entry.memory).or(time.map(|_| Verdict::NoDifference));
    by_verdicts(time, verdict(&entry.cpu), memory)
}

fn by_verdicts(time: Option<Verdict>, cpu: Option<Verdict>, memory: Option<Verdict>) -> Worth {
    let is_open = |verdict| matches!(verdict, None | Some(Verdict::Inconclusive));
    match time {
        Some(Verdict::Less) => Worth::Better,
        Some(Verdict::More) => Worth::NotBetter,
        Some(Verdict::NoDifference) if cpu == Some(Verdict::Less) => Worth::Better,
        // Less memory for more CPU is no gain that this verb may judge.
        Some(Verdict::NoDifference) if cpu == Some(Verdict::More) => Worth::NotBetter,
        // Nor is it where more CPU is not excluded.
        Some(Verdict::NoDifference) if is_open(cpu) => Worth::Unclear,
        Some(Verdict::NoDifference) if memory == Some(Verdict::Less) => Worth::Better,
        Some(Verdict::NoDifference) if !is_open(memory) => Worth::NotBetter,
        _ => Worth::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Inconclusive, Less, More, NoDifference};

    #[test]
    fn only_what_is_proven_counts() {
        let of = |time, cpu, memory| by_verdicts(Some(time), Some(cpu), Some(memory));
        assert_eq!(of(Less, More, More), Worth::Better);
        assert_eq!(of(More, Less, Less), Worth::NotBetter);
        assert_eq!(of(NoDifference, Less, More), Worth::Better);
        assert_eq!(of(NoDifference, NoDifference, Less), Worth::Better);
        assert_eq!(of(NoDifference, Inconclusive, Less), Worth::Unclear);
        assert_eq!(of(NoDifference, More, Less), Worth::NotBetter);
        assert_eq!(of(NoDifference, NoDifference, NoDifference), Worth::NotBetter);
        assert_eq!(of(NoDifference, Inconclusive, More), Worth::Unclear);
        assert_eq!(of(Inconclusive, Less, Less), Worth::Unclear);
        assert_eq!(by_verdicts(None, None, None), Worth::Unclear);
    }
}
