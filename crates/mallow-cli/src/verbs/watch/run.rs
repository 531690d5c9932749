// SPDX-License-Identifier: MIT
//! A watched run as it is saved, read back and shown.

use std::path::Path;

use crate::error::{Error, Result};
use crate::output::chart::Line;
use crate::output::{self, Format, Screen, Table};
use mallow_measure::watched::{Run, SCHEMA, Sample, Trend};

/// What a chart of the run shows.
pub fn lines(run: &Run) -> Vec<Line> {
    type Of = fn(&Sample) -> Option<u64>;
    let lines: [(&str, Of); 5] = [
        ("RSS", |sample| Some(sample.rss)),
        ("PSS", |sample| sample.pss),
        ("heap in use", |sample| sample.heap_used),
        ("heap free but kept", |sample| sample.heap_free),
        ("swap", |sample| Some(sample.swap).filter(|swap| *swap > 0)),
    ];
    let lines = lines.map(|(name, of)| Line { name: name.into(), points: run.points(of) });
    lines.into_iter().filter(|line| !line.points.is_empty()).collect()
}

/// Such as `+9.00 MiB/s for 40.0 s`.
pub fn rate(trend: Trend) -> String {
    let sign = if trend.bytes_per_s < 0.0 { '-' } else { '+' };
    let bytes = output::bytes(trend.bytes_per_s.abs());
    format!("{sign}{bytes}/s for {}", output::seconds(trend.duration_s))
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
    use mallow_measure::watched::History;

    #[test]
    fn a_table_has_nothing_where_nothing_is_known() {
        let sample = Sample { time_s: 1.0, ..Sample::default() };
        let run = Run { samples: vec![sample], ..Run::default() };
        assert_eq!(csv(&run).lines().nth(1), Some("1.000,0,,0,0,0,0,0,,"));
    }

    #[test]
    fn a_trend_has_a_sign_and_a_time() {
        let trend = Trend { bytes_per_s: -2.0 * 1024.0 * 1024.0, duration_s: 99.0 };
        assert_eq!(rate(trend), "-2.00 MiB/s for 99.0 s");
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
        let mut history = History::new(Run::default(), true);
        (0..200).map(sample).for_each(|sample| history.add(sample));
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
