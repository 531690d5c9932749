// SPDX-License-Identifier: MIT
//! How far a replay can be trusted: the recorded run's memory against that of its replay on the
//! same allocator, and how much of the run the trace holds.

use serde::Serialize;

use crate::process::{Coverage, RecordedSample, Summary};
use crate::result::Run;

/// Beyond these a replay says nothing about the program.
pub const LARGEST_ERROR: f64 = 0.15;
pub const MOST_MISSING: f64 = 0.01;
/// With fewer measurements the moments are compared as they fell, on slopes too.
const FEWEST_SAMPLES: usize = 8;
/// Differences this small are the programs' own, not their heaps'.
const UNAVOIDABLE: f64 = 512.0 * 1024.0;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fidelity {
    /// The allocator that the run was recorded on, and replayed on for this.
    pub allocator: String,
    /// Of the replay's peak, as a part of the recorded one; none where nothing was measured.
    pub rss_error: Option<f64>,
    /// What the program had resident beside its heap, in bytes, as far as can be told.
    pub other_memory: Option<f64>,
    /// Measurements of the recorded run that were compared.
    pub samples: usize,
    /// They were too few, so the peaks of the whole runs were compared.
    pub is_of_peaks: bool,
    pub missing: f64,
    pub coverage: Coverage,
}

impl Fidelity {
    /// Compares the recorded measurements with the player's samples at the same moments; where those are
    /// few, the peaks of both runs.
    ///
    /// Where the trace says which mappings the memory lay in, those that held blocks are the heap.
    /// Else the process's other memory is taken to be what it had more than the replay at the
    /// moment when the replay had least, so that whatever grows differently from then on counts as
    /// error.
    pub fn of(summary: &Summary, allocator: &str, replay: Option<&Run>) -> Fidelity {
        let samples = replay.map_or(&[][..], |run| &run.samples);
        let moments: Vec<(&RecordedSample, f64)> = summary
            .recorded
            .iter()
            .filter_map(|recorded| Some((recorded, samples.get(recorded.sample)?.2 as f64)))
            .collect();
        let heaps: Vec<(f64, f64)> = moments
            .iter()
            .filter_map(|(recorded, replayed)| Some((recorded.heap? as f64, *replayed)))
            .collect();
        let count = if heaps.is_empty() { measured(&moments).len() } else { heaps.len() };
        let is_of_peaks = count < FEWEST_SAMPLES;
        let (rss_error, other_memory) = if is_of_peaks {
            (replay.and_then(|run| error_of_peaks(&moments, run)), None)
        } else if heaps.is_empty() {
            let pairs = measured(&moments);
            let least = pairs.iter().min_by(|a, b| a.1.total_cmp(&b.1));
            let other = least.map(|(recorded, replayed)| recorded - replayed);
            let shifted =
                |(recorded, replayed): (f64, f64)| (recorded, replayed + other.unwrap_or(0.0));
            let pairs: Vec<(f64, f64)> = pairs.into_iter().map(shifted).collect();
            (peak_error(&pairs), other)
        } else {
            (peak_error(&heaps), other_than_heap(&moments))
        };
        Fidelity {
            allocator: allocator.to_owned(),
            rss_error,
            other_memory,
            samples: count,
            is_of_peaks,
            missing: summary.coverage.missing(),
            coverage: summary.coverage,
        }
    }

    /// Why the allocators must not be ranked by this replay; none if they may.
    pub fn objection(&self) -> Option<Objection> {
        if self.missing > MOST_MISSING {
            return Some(Objection::Missing { part: self.missing, coverage: self.coverage });
        }
        match self.rss_error {
            None => Some(Objection::NotMeasured),
            Some(error) if error > LARGEST_ERROR => {
                Some(Objection::Differs { allocator: self.allocator.clone(), error })
            }
            Some(_) => None,
        }
    }
}

/// Why a replay does not tell what the program would do.
#[derive(Clone, Debug, PartialEq)]
pub enum Objection {
    /// Of the calls, so many as a part.
    Missing { part: f64, coverage: Coverage },
    /// The recorded run was too short.
    NotMeasured,
    /// On the allocator of the recording the peak is off by this part.
    Differs { allocator: String, error: f64 },
    /// The allocator of the recording cannot be had here.
    NotInstalled { allocator: String },
    /// It can, but the replay on it failed.
    Failed { reason: String },
}

impl std::fmt::Display for Objection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Objection::Missing { part, coverage } => write!(
                f,
                "{:.1} % of the calls are missing or unknown ({} dropped, {} frees of unknown blocks, \
                 {} frees unseen), so the replay's heap is not the program's",
                part * 100.0,
                coverage.dropped,
                coverage.unmatched_frees,
                coverage.lost_frees
            ),
            Objection::NotMeasured => f.write_str(
                "the program's memory was not measured often enough to compare with (the run was too \
                 short)",
            ),
            Objection::Differs { allocator, error } => write!(
                f,
                "replayed on {allocator}, on which it was recorded, the peak is {:.0} % off the \
                 recorded one",
                error * 100.0
            ),
            Objection::NotInstalled { allocator } => {
                write!(f, "{allocator}, on which the trace was recorded, is not installed here")
            }
            Objection::Failed { reason } => f.write_str(reason),
        }
    }
}

impl Objection {
    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Objection::Missing { .. } => {
                "Record again with larger buffers or on a quieter machine."
            }
            Objection::NotMeasured => {
                "Record a longer run; the figures above hold for the replay itself."
            }
            Objection::NotInstalled { .. } => {
                "Install it, or record the run again on an allocator that is here."
            }
            Objection::Differs { .. } | Objection::Failed { .. } => {
                "Measure the program itself with: mallow compare."
            }
        }
    }
}

/// How far the replay's peak is from the recorded one, by anonymous memory. The recorded peak is known
/// from few looks, so the true one may be higher; and the look at the mappings may say that the program
/// has memory beside its heap. What either may explain is not known to be an error.
fn error_of_peaks(moments: &[(&RecordedSample, f64)], run: &Run) -> Option<f64> {
    let most = |value: fn(&RecordedSample) -> u64| {
        moments.iter().map(|(recorded, _)| value(recorded)).max().unwrap_or(0)
    };
    let peak_rss = most(|recorded| recorded.peak_rss);
    if peak_rss == 0 {
        return None;
    }
    let anonymous = most(|recorded| recorded.anonymous);
    let of_files = most(|recorded| match recorded.anonymous {
        0 => 0,
        anonymous => recorded.rss.saturating_sub(anonymous),
    });
    let recorded = anonymous.max(peak_rss.saturating_sub(of_files)) as f64;
    let of_files = run.samples.iter().map(|sample| sample.1.saturating_sub(sample.2)).max();
    let replayed = run.peak_rss.saturating_sub(of_files.unwrap_or(0)) as f64;
    let error = peak_error(&[(recorded, replayed)])?;
    let is_explained = if replayed > recorded {
        measured(moments).len() < FEWEST_SAMPLES
    } else {
        moments.iter().any(|(recorded, _)| has_much_beside(recorded))
    };
    (error <= LARGEST_ERROR || !is_explained).then_some(error)
}

/// Whether much of the memory lay in mappings without blocks.
fn has_much_beside(recorded: &RecordedSample) -> bool {
    let all = recorded.anonymous as f64;
    let beside = |heap: u64| all - heap as f64 - UNAVOIDABLE;
    recorded.heap.is_some_and(|heap| beside(heap) > LARGEST_ERROR * all)
}

/// What was measured, beside what the replay had then.
fn measured(moments: &[(&RecordedSample, f64)]) -> Vec<(f64, f64)> {
    let pair = |(recorded, replayed): &(&RecordedSample, f64)| {
        let bytes = if recorded.anonymous > 0 { recorded.anonymous } else { recorded.rss };
        (bytes > 0).then_some((bytes as f64, *replayed))
    };
    moments.iter().filter_map(pair).collect()
}

/// At the moment when the heap was largest.
fn other_than_heap(moments: &[(&RecordedSample, f64)]) -> Option<f64> {
    let (largest, _) = moments.iter().max_by_key(|(recorded, _)| recorded.heap)?;
    let all = largest.anonymous.max(largest.heap?);
    Some((all - largest.heap?) as f64)
}

/// How far the second peak is from the first, as a part of the first.
fn peak_error(pairs: &[(f64, f64)]) -> Option<f64> {
    let recorded = pairs.iter().map(|pair| pair.0).fold(0.0, f64::max);
    let replayed = pairs.iter().map(|pair| pair.1).fold(0.0, f64::max);
    let difference = ((recorded - replayed).abs() - UNAVOIDABLE).max(0.0);
    (recorded > 0.0).then(|| difference / recorded)
}

/// Spearman's rank correlation; ties share their mean rank. None of fewer than two, or of equals.
pub fn rank_correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() != b.len() || a.len() < 2 {
        return None;
    }
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 + 1.0) / 2.0;
    let product = |x: &[f64], y: &[f64]| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum()
    };
    let scale = (product(&a, &a) * product(&b, &b)).sqrt();
    (scale > 0.0).then(|| product(&a, &b) / scale)
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let below = |value: f64| values.iter().filter(|other| **other < value).count() as f64;
    let equal = |value: f64| values.iter().filter(|other| **other == value).count() as f64;
    values.iter().map(|&value| below(value) + (equal(value) + 1.0) / 2.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(recorded: &[u64]) -> Summary {
        let sample = |(sample, mib): (usize, &u64)| RecordedSample {
            sample,
            rss: (mib + 5) << 20,
            anonymous: mib << 20,
            peak_rss: 0,
            heap: None,
        };
        Summary {
            recorded: recorded.iter().enumerate().map(sample).collect(),
            coverage: Coverage { calls: 1000, ..Coverage::default() },
            ..Summary::default()
        }
    }

    fn replay(mib: &[u64]) -> Run {
        Run { samples: mib.iter().map(|mib| (0, mib << 20, mib << 20)).collect(), ..Run::default() }
    }

    /// More of the last one, so that there are enough of them.
    fn long(mib: &[u64]) -> Vec<u64> {
        let last = mib.last().copied().unwrap_or(0);
        mib.iter().copied().chain(std::iter::repeat(last)).take(FEWEST_SAMPLES).collect()
    }

    #[test]
    fn constant_difference_is_other_memory() {
        let run = replay(&long(&[2, 52, 92, 12]));
        let summary = summary(&long(&[10, 60, 100, 20]));
        let fidelity = Fidelity::of(&summary, "glibc", Some(&run));
        assert_eq!(fidelity.rss_error, Some(0.0));
        assert_eq!(fidelity.other_memory, Some(f64::from(8 << 20)));
        assert_eq!(fidelity.objection(), None);
    }

    #[test]
    fn growth_that_the_replay_lacks_is_error() {
        let run = replay(&long(&[2, 22, 42]));
        let fidelity = Fidelity::of(&summary(&long(&[10, 60, 100])), "glibc", Some(&run));
        let error = fidelity.rss_error.unwrap();
        assert!((error - 0.495).abs() < 1e-9, "{error}");
        let sentence = fidelity.objection().unwrap().to_string();
        assert!(sentence.contains("50 % off"), "{sentence}");
    }

    /// A garbage collector's memory grows, and is known not to be the heap.
    #[test]
    fn other_memory_is_told_by_its_mappings() {
        let mut summary = summary(&long(&[10, 60, 100]));
        for (recorded, heap) in summary.recorded.iter_mut().zip(long(&[1, 20, 30])) {
            recorded.heap = Some(heap << 20);
        }
        let fidelity = Fidelity::of(&summary, "glibc", Some(&replay(&long(&[2, 20, 33]))));
        let error = fidelity.rss_error.unwrap();
        assert!((error - 2.5 / 30.0).abs() < 1e-9, "{error}");
        assert_eq!(fidelity.other_memory, Some(f64::from(70 << 20)));
    }

    /// Measured on slopes, of a run whose peak was 50 MiB of its own and 5 of files.
    fn short(recorded: &[u64], heap: Option<u64>) -> Summary {
        let mut summary = summary(recorded);
        for recorded in &mut summary.recorded {
            (recorded.peak_rss, recorded.heap) = (55 << 20, heap.map(|heap| heap << 20));
        }
        summary
    }

    fn peaked(mib: &[u64], peak: u64) -> Run {
        Run { peak_rss: peak << 20, ..replay(mib) }
    }

    #[test]
    fn few_measurements_fall_on_slopes_so_the_peaks_are_compared() {
        for heap in [None, Some(20)] {
            let run = peaked(&[3, 48], 49);
            let fidelity = Fidelity::of(&short(&[20, 5], heap), "glibc", Some(&run));
            let error = fidelity.rss_error.unwrap();
            assert!((error - 0.5 / 50.0).abs() < 1e-9, "{error}");
            assert!(fidelity.is_of_peaks && fidelity.objection().is_none());
        }
        // The replay lacks memory that the program had.
        let lacking = peaked(&[3, 20], 20);
        let fidelity = Fidelity::of(&short(&[20, 5], None), "glibc", Some(&lacking));
        let error = fidelity.rss_error.unwrap();
        assert!((error - 29.5 / 50.0).abs() < 1e-9, "{error}");
    }

    #[test]
    fn what_few_measurements_cannot_tell_is_not_measured() {
        let is_unknown = |summary: &Summary, run: &Run| {
            let fidelity = Fidelity::of(summary, "glibc", Some(run));
            fidelity.objection() == Some(Objection::NotMeasured)
        };
        // No peak was recorded.
        assert!(is_unknown(&summary(&[20, 5]), &peaked(&[3, 48], 49)));
        // The recorded peak may have been missed.
        assert!(is_unknown(&short(&[20, 5], None), &peaked(&[3, 48], 90)));
        // A part of the program's memory is not its heap's.
        assert!(is_unknown(&short(&[20, 5], Some(2)), &peaked(&[3, 4], 4)));
    }

    #[test]
    fn losses_and_silence_are_objections() {
        let mut lossy = summary(&[10, 60]);
        lossy.coverage.dropped = 300;
        let objection = Fidelity::of(&lossy, "glibc", Some(&replay(&[2, 52]))).objection();
        assert!(objection.unwrap().to_string().starts_with("23.1 % of the calls"));
        let silent = Fidelity::of(&summary(&[]), "glibc", Some(&replay(&[1, 2])));
        assert_eq!(silent.objection(), Some(Objection::NotMeasured));
    }

    #[test]
    fn rank_correlation_matches_worked_examples() {
        let up = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(rank_correlation(&up, &[2.0, 4.0, 6.0, 8.0, 99.0]), Some(1.0));
        assert_eq!(rank_correlation(&up, &[5.0, 4.0, 3.0, 2.0, 1.0]), Some(-1.0));
        // 1 - 6 * sum(d^2) / (n (n^2 - 1)) with d = (0, 1, 1, 0, 0).
        let rho = rank_correlation(&up, &[1.0, 3.0, 2.0, 4.0, 5.0]).unwrap();
        assert!((rho - 0.9).abs() < 1e-12);
        // R: cor(c(1,2,2,3), c(1,3,2,4), method = "spearman") is 0.9486833.
        let tied = rank_correlation(&[1.0, 2.0, 2.0, 3.0], &[1.0, 3.0, 2.0, 4.0]).unwrap();
        assert!((tied - 0.948_683_3).abs() < 1e-6);
        assert_eq!(rank_correlation(&[1.0, 1.0], &[1.0, 2.0]), None);
    }
}
