// SPDX-License-Identifier: MIT
//! A watched run as data: what is saved, read back, shown and compared.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::output::chart::Line;
use crate::output::{Format, Screen, Table};
use mallow_measure::timeline::{Figures, Tally, Thinning};

use super::trend::{self, Trend};

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
}

impl History {
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

    /// What a chart of the run shows.
    pub fn lines(&self) -> Vec<Line> {
        type Of = fn(&Sample) -> Option<u64>;
        let lines: [(&str, Of); 5] = [
            ("RSS", |sample| Some(sample.rss)),
            ("PSS", |sample| sample.pss),
            ("heap in use", |sample| sample.heap_used),
            ("heap free but kept", |sample| sample.heap_free),
            ("swap", |sample| Some(sample.swap).filter(|swap| *swap > 0)),
        ];
        let lines = lines.map(|(name, of)| Line { name: name.into(), points: self.points(of) });
        lines.into_iter().filter(|line| !line.points.is_empty()).collect()
    }
}

pub fn load(path: &Path) -> Result<Run> {
    let text = crate::parse::text_of(path)
        .map_err(Error::io(format!("{} cannot be read", path.display())))?;
    let damaged = |reason: String| {
        Error::Damaged(format!("{} is not a run that watch saved: {reason}.", path.display()))
    };
    let run: Run = crate::parse::of_schema(&text, SCHEMA).map_err(damaged)?;
    if run.samples.is_empty() { Err(damaged("it has no samples".into())) } else { Ok(run) }
}

/// Bytes and numbers without units, a line for each sample.
pub fn csv(run: &Run) -> String {
    let names = [
        "time_s",
        "rss",
        "pss",
        "swap",
        "minor_faults",
        "major_faults",
        "processes",
        "threads",
        "heap_used",
        "heap_free",
    ];
    let mut table = Table::new(&names.map(|name| (name, true)));
    let optional = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    for sample in &run.samples {
        table.rows.push(vec![
            format!("{:.3}", sample.time_s),
            sample.rss.to_string(),
            optional(sample.pss),
            sample.swap.to_string(),
            sample.minor_faults.to_string(),
            sample.major_faults.to_string(),
            sample.processes.to_string(),
            sample.threads.to_string(),
            optional(sample.heap_used),
            optional(sample.heap_free),
        ]);
    }
    table.render(Format::Csv, Screen::PLAIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::watch::{compare, html};

    fn history(samples: &[Sample], is_whole: bool) -> History {
        let mut history = History::new(Run::default(), is_whole);
        samples.iter().for_each(|sample| history.add(*sample));
        history
    }

    #[test]
    fn gaps_are_left_out() {
        let samples = [(0.0, Some(5)), (1.0, None), (2.0, Some(9))]
            .map(|(time_s, heap_used)| Sample { time_s, heap_used, ..Sample::default() });
        let run = history(&samples, false).run;
        assert_eq!(run.summary.heap_used.map(|figures| figures.average), Some(7.0));
        assert_eq!(run.summary.pss, None);
        assert_eq!(csv(&run).lines().nth(2), Some("1.000,0,,0,0,0,0,0,,"));
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

    /// Files of it are sent around, and whoever sends one may have written anything into it.
    #[test]
    fn a_changed_run_is_shown_or_refused() {
        let sample = |n: u64| Sample {
            time_s: n as f64,
            rss: (40 + n) << 20,
            pss: Some(30 << 20),
            swap: 4096,
            heap_used: Some(20 << 20),
            heap_free: Some(1 << 20),
            minor_faults: 10 + n,
            major_faults: 1,
            ..Sample::default()
        };
        let mut history = history(&(0..200).map(sample).collect::<Vec<_>>(), true);
        history.find_trend();
        let run = Run { schema: SCHEMA.into(), ..history.run };
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("run.json");
        let data = serde_json::to_value(&run).expect("data");
        let mut copies = crate::parse::changed_copies(data, u64::MAX);
        // And some of two places.
        let twice = copies.iter().enumerate().step_by(5).flat_map(|(index, copy)| {
            let twice = crate::parse::changed_copies(copy.clone(), u64::MAX);
            twice.into_iter().skip(index % 97).step_by(97)
        });
        let twice: Vec<_> = twice.collect();
        copies.extend(twice);
        let mut shown = 0;
        for copy in copies {
            std::fs::write(&file, copy.to_string()).expect("a file");
            let Ok(changed) = load(&file) else { continue };
            csv(&changed);
            html::page(&changed);
            for (a, b) in [(&run, &changed), (&changed, &run)] {
                let differences = compare::differences(a, b);
                compare::sentence("a", "b", &differences);
                compare::table("a", "b", &differences).render(Format::Table, Screen::PLAIN);
                html::comparison_page(("a", a), ("b", b), &differences);
            }
            shown += 1;
        }
        assert!(shown > 50, "{shown}");
    }
}
