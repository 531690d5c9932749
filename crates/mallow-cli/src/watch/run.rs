//! A watched run as data: what is saved, read back, shown and compared.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

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
    pub minor_faults: u64,
    pub major_faults: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Over time.
    pub average: f64,
    pub peak: f64,
    pub end: f64,
}

impl Figures {
    /// Of points (time, value), with straight lines between them.
    pub fn of(points: &[(f64, f64)]) -> Option<Figures> {
        let (first, last) = (points.first()?, points.last()?);
        let between =
            |pair: &[(f64, f64)]| f64::midpoint(pair[0].1, pair[1].1) * (pair[1].0 - pair[0].0);
        let area: f64 = points.windows(2).map(between).sum();
        let time = last.0 - first.0;
        let average = if time > 0.0 { area / time } else { last.1 };
        let peak = points.iter().map(|point| point.1).fold(0.0, f64::max);
        Some(Figures { average, peak, end: last.1 })
    }
}

impl Summary {
    pub fn of(samples: &[Sample]) -> Summary {
        let figures = |of: &dyn Fn(&Sample) -> Option<u64>| {
            let points: Vec<(f64, f64)> = points(samples, of);
            Figures::of(&points)
        };
        let (first, last) = match (samples.first(), samples.last()) {
            (Some(first), Some(last)) => (first, last),
            _ => return Summary::default(),
        };
        Summary {
            duration_s: last.time_s - first.time_s,
            rss: figures(&|sample| Some(sample.rss)).unwrap_or_default(),
            pss: figures(&|sample| sample.pss),
            swap: figures(&|sample| Some(sample.swap)).unwrap_or_default(),
            heap_used: figures(&|sample| sample.heap_used),
            heap_free: figures(&|sample| sample.heap_free),
            // A child that has ended and was not waited for takes its faults along.
            minor_faults: last.minor_faults.saturating_sub(first.minor_faults),
            major_faults: last.major_faults.saturating_sub(first.major_faults),
        }
    }
}

/// Times and values where there are any.
pub fn points(samples: &[Sample], of: &dyn Fn(&Sample) -> Option<u64>) -> Vec<(f64, f64)> {
    samples.iter().filter_map(|sample| Some((sample.time_s, of(sample)? as f64))).collect()
}

pub fn load(path: &Path) -> Result<Run> {
    let text = std::fs::read_to_string(path)
        .map_err(Error::io(format!("{} cannot be read", path.display())))?;
    let damaged = |reason: String| {
        Error::Damaged(format!("{} is not a run that watch saved: {reason}.", path.display()))
    };
    let run: Run = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
    match run.schema.as_str() {
        SCHEMA if run.samples.is_empty() => Err(damaged("it has no samples".into())),
        SCHEMA => Ok(run),
        other => Err(damaged(format!("it has the form {other}, this is {SCHEMA}"))),
    }
}

pub fn csv(run: &Run) -> String {
    let mut text = String::from(
        "time_s,rss,pss,swap,minor_faults,major_faults,processes,threads,heap_used,heap_free\n",
    );
    let optional = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    for sample in &run.samples {
        text += &format!(
            "{:.3},{},{},{},{},{},{},{},{},{}\n",
            sample.time_s,
            sample.rss,
            optional(sample.pss),
            sample.swap,
            sample.minor_faults,
            sample.major_faults,
            sample.processes,
            sample.threads,
            optional(sample.heap_used),
            optional(sample.heap_free)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_is_over_time() {
        let figures = Figures::of(&[(0.0, 10.0), (1.0, 100.0), (4.0, 50.0)]).unwrap();
        assert_eq!(figures, Figures { average: 70.0, peak: 100.0, end: 50.0 });
        assert_eq!(Figures::of(&[(3.0, 7.0)]).unwrap().average, 7.0);
        assert_eq!(Figures::of(&[]), None);
    }

    #[test]
    fn gaps_are_left_out() {
        let samples = [(0.0, Some(5)), (1.0, None), (2.0, Some(9))]
            .map(|(time_s, heap_used)| Sample { time_s, heap_used, ..Sample::default() });
        let summary = Summary::of(&samples);
        assert_eq!(summary.heap_used.map(|figures| figures.average), Some(7.0));
        assert_eq!(summary.pss, None);
        let run = Run { samples: samples.to_vec(), ..Run::default() };
        assert_eq!(csv(&run).lines().nth(2), Some("1.000,0,,0,0,0,0,0,,"));
    }
}
