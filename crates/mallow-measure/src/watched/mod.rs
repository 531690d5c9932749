// SPDX-License-Identifier: MIT
//! A run that was watched, as data: samples as they come, what they add up to, and whether memory grows.

use serde::{Deserialize, Serialize};

use crate::timeline::{Figures, Tally, Thinning};

mod trend;

pub use trend::Trend;

/// As many seconds are half a day; a longer run has a sample for each two seconds, then four ...
const MOST_SAMPLES: usize = 40_000;

pub const SCHEMA: &str = "mallow.watch/1";

/// Sums over the process and its children at a moment; sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the start.
    pub time_s: f64,
    pub rss: u64,
    pub pss: Option<u64>,
    pub swap: u64,
    /// Since the processes began.
    pub minor_faults: u64,
    pub major_faults: u64,
    pub processes: u64,
    pub threads: u64,
    /// Of the main process: with the program, and free but kept. `null` where the heap cannot be
    /// read, or was not read this time because that takes long.
    pub heap_used: Option<u64>,
    pub heap_free: Option<u64>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    pub schema: String,
    pub version: String,
    pub command: String,
    pub pid: u32,
    pub allocator: String,
    /// Seconds since 1970.
    pub started_at: u64,
    pub interval_s: f64,
    /// Why it ended.
    pub ending: String,
    pub summary: Summary,
    /// Each, or the highest of as many as it takes to keep the list short.
    pub samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub duration_s: f64,
    pub rss: Figures,
    pub pss: Option<Figures>,
    pub swap: Figures,
    pub heap_used: Option<Figures>,
    pub heap_free: Option<Figures>,
    /// RSS over the samples that have a heap, where others have none: what to compare the heap with.
    #[serde(default)]
    pub rss_at_heap: Option<Figures>,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Of RSS, up to the end.
    #[serde(default)]
    pub trend: Option<Trend>,
}

/// Samples as they come, added up; of a long run not all are kept.
pub struct History {
    pub run: Run,
    thinning: Thinning,
    tallies: [Tally; 6],
    /// Before the first sample, minor and major.
    faults: Option<(u64, u64)>,
}

impl History {
    /// `is_whole`: the processes began with the watch.
    pub fn new(run: Run, is_whole: bool) -> History {
        let faults = is_whole.then_some((0, 0));
        History { run, thinning: Thinning::new(MOST_SAMPLES), tallies: Default::default(), faults }
    }

    pub fn add(&mut self, sample: Sample) {
        for (tally, value) in self.tallies.iter_mut().zip(sample.sizes()) {
            if let Some(value) = value {
                tally.add(sample.time_s, value as f64);
            }
        }
        let [rss, pss, swap, heap_used, heap_free, rss_at_heap] =
            self.tallies.map(|tally| tally.figures());
        let is_partial = self.tallies[5].count < self.tallies[0].count;
        let first = self.faults.get_or_insert((sample.minor_faults, sample.major_faults));
        self.run.summary = Summary {
            duration_s: self.tallies[0].time(),
            rss: rss.unwrap_or_default(),
            pss,
            swap: swap.unwrap_or_default(),
            heap_used,
            heap_free,
            rss_at_heap: rss_at_heap.filter(|_| is_partial),
            // A child that has ended and was not waited for takes its faults along.
            minor_faults: sample.minor_faults.saturating_sub(first.0),
            major_faults: sample.major_faults.saturating_sub(first.1),
            trend: self.run.summary.trend,
        };
        self.thinning.add(&mut self.run.samples, sample, Sample::join);
    }

    /// Apart from `add`, for it looks at some hundred samples.
    pub fn find_trend(&mut self) {
        let samples = &self.run.samples;
        let point = |index: usize| (samples[index].time_s, samples[index].rss as f64);
        self.run.summary.trend = trend::of(samples.len(), point);
    }
}

impl Sample {
    fn sizes(&self) -> [Option<u64>; 6] {
        let rss_at_heap = self.heap_used.map(|_| self.rss);
        [Some(self.rss), self.pss, Some(self.swap), self.heap_used, self.heap_free, rss_at_heap]
    }

    /// The higher one stands for both.
    fn join(self, other: Sample) -> Sample {
        let (high, low) = if other.rss > self.rss { (other, self) } else { (self, other) };
        let heap = if high.heap_used.is_some() { high } else { low };
        Sample { heap_used: heap.heap_used, heap_free: heap.heap_free, ..high }
    }
}

impl Summary {
    pub fn faults(&self) -> u64 {
        self.minor_faults.saturating_add(self.major_faults)
    }
}

impl Run {
    /// Times and values where there are any.
    pub fn points(&self, of: fn(&Sample) -> Option<u64>) -> Vec<(f64, f64)> {
        let point = |sample: &Sample| Some((sample.time_s, of(sample)? as f64));
        self.samples.iter().filter_map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(samples: &[Sample], is_whole: bool) -> History {
        let mut history = History::new(Run::default(), is_whole);
        samples.iter().for_each(|sample| history.add(*sample));
        history
    }

    #[test]
    fn gaps_are_left_out() {
        let samples = [(0.0, Some(5)), (1.0, None), (2.0, Some(9))]
            .map(|(time_s, heap_used)| Sample { time_s, heap_used, ..Sample::default() });
        let summary = history(&samples, false).run.summary;
        assert_eq!(summary.heap_used.map(|figures| figures.average), Some(7.0));
        assert_eq!(summary.pss, None);
    }

    /// Of a program that grows, the heap is often read only when it is large.
    #[test]
    fn a_heap_has_an_rss_of_its_own_samples() {
        let sample =
            |(time_s, rss, heap_used)| Sample { time_s, rss, heap_used, ..Sample::default() };
        let grown = [(0.0, 10, None), (1.0, 90, Some(80)), (2.0, 110, Some(100))].map(sample);
        let summary = history(&grown, false).run.summary;
        let averages = [Some(summary.rss), summary.heap_used, summary.rss_at_heap]
            .map(|figures| figures.map(|figures| figures.average));
        assert_eq!(averages, [Some(75.0), Some(90.0), Some(100.0)]);
        // Where all have one, RSS itself is that.
        assert_eq!(history(&grown[1..], false).run.summary.rss_at_heap, None);
        assert_eq!(history(&grown[..1], false).run.summary.rss_at_heap, None);
    }

    #[test]
    fn faults_count_from_the_start_of_the_watch() {
        let samples = [100, 160].map(|minor_faults| Sample {
            minor_faults,
            major_faults: 2,
            ..Sample::default()
        });
        let faults = |is_whole| {
            let summary = history(&samples, is_whole).run.summary;
            (summary.minor_faults, summary.major_faults)
        };
        assert_eq!((faults(false), faults(true)), ((60, 0), (160, 2)));
    }

    #[test]
    fn long_runs_keep_their_figures_in_a_short_list() {
        let count = 3 * MOST_SAMPLES as u64;
        let sample = |n: u64| Sample {
            time_s: n as f64,
            rss: if n == 77_777 { 9000 } else { 1000 + n % 2 },
            heap_used: (n % 4 == 1).then_some(500),
            ..Sample::default()
        };
        let samples: Vec<Sample> = (0..count).map(sample).collect();
        let run = history(&samples, false).run;
        assert!(run.samples.len() <= MOST_SAMPLES && run.samples.len() >= MOST_SAMPLES / 2);
        assert!(run.samples.iter().any(|sample| sample.rss == 9000));
        assert!(run.samples.iter().all(|sample| sample.heap_used == Some(500)));
        let rss = run.summary.rss;
        assert!((rss.average - 1000.5).abs() < 0.1 && rss.peak == 9000.0 && rss.end == 1001.0);
        assert_eq!(run.summary.duration_s, (count - 1) as f64);
    }
}
