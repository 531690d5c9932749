// SPDX-License-Identifier: MIT
//! The result of `compare` as tables.

use mallow_measure::statistics::{Interval, Verdict};
use mallow_measure::verdict::{Metric, Versus};
use mallow_stats::figures::counted;

use super::timeline;
use crate::comparing::report::{ConditionReport, Entry, Report};
use crate::output::wording;
use crate::output::{self, Format, Screen, Table};

impl Report {
    pub fn text(&self, format: Format, screen: Screen) -> String {
        if format == Format::Csv {
            return self.csv().render(Format::Csv, Screen::PLAIN);
        }
        let machine = wording::machine(&self.machine);
        let mut text = format!("{}\n{machine}\n", format.code(&self.command));
        text += &format!(
            "medians of up to {} each, +- 95 % interval of the median, {} in all\n",
            counted(self.settings.rounds_made as u64, "run"),
            output::seconds(self.settings.took_s)
        );
        text = screen.fill(&text);
        for condition in &self.conditions {
            if !condition.name.is_empty() {
                text += &format!("\n{}\n", condition.name);
            }
            text.push('\n');
            text += &condition.table().render(format, screen);
            text += &timeline::text(&condition.entries, format, screen);
        }
        for failure in self.failures() {
            text += &screen.fill(&format!("\n{failure}"));
        }
        text += &screen.fill(&format!("\n{}\n", self.verdict));
        if screen.unicode { text.replace("+-", "±") } else { text }
    }

    /// One line for each allocator and condition; numbers without units.
    fn csv(&self) -> Table {
        let mut table = Table::new(&[
            ("condition", false),
            ("allocator", false),
            ("runs", true),
            ("failed", true),
            ("wall_s", true),
            ("wall_low_s", true),
            ("wall_high_s", true),
            ("user_s", true),
            ("system_s", true),
            ("peak_rss", true),
            ("average_rss", true),
            ("minor_faults", true),
            ("major_faults", true),
            ("time_ratio", true),
            ("time_verdict", false),
            ("cpu_ratio", true),
            ("cpu_verdict", false),
            ("memory_ratio", true),
            ("memory_verdict", false),
        ]);
        for condition in &self.conditions {
            for entry in &condition.entries {
                table.rows.push(entry.csv_row(&condition.name));
            }
        }
        add_value_columns(&mut table, self.conditions.iter().flat_map(|c| &c.entries));
        table
    }
}

fn add_value_columns<'a>(table: &mut Table, mut entries: impl Iterator<Item = &'a Entry>) {
    for value in entries.next().iter().flat_map(|entry| &entry.values) {
        table.add_column(&value.name, true);
    }
}

impl ConditionReport {
    fn table(&self) -> Table {
        let mut table = Table::new(&[
            ("allocator", false),
            ("time", true),
            ("user", true),
            ("system", true),
            ("peak RSS", true),
            ("average RSS", true),
            ("faults", true),
            ("against baseline: time", false),
            ("CPU", false),
            ("memory", false),
        ]);
        add_value_columns(&mut table, self.entries.iter());
        for entry in &self.entries {
            table.rows.push(entry.row());
            for (column, versus) in [(7, &entry.time), (8, &entry.cpu), (9, &entry.memory)] {
                table.set_tone(column, wording::tone(versus));
            }
        }
        table
    }
}

/// The median and how far the interval reaches from it, or a dash.
fn with_interval(metric: &Option<Metric>, form: fn(f64) -> String) -> String {
    match metric {
        Some(Metric { median, interval: Some(Interval { low, high }), .. }) if *median > 0.0 => {
            let half = 100.0 * (high - median).max(median - low) / median;
            format!("{} +- {half:.1} %", form(*median))
        }
        _ => wording::median(metric, form),
    }
}

impl Entry {
    fn row(&self) -> Vec<String> {
        let verdict = |versus: &Option<Versus>, metric: &str| match versus {
            _ if self.who.is_baseline => "baseline".to_owned(),
            Some(versus) => wording::verdict(versus, metric),
            None if self.runs.is_empty() => "not run".into(),
            None if self.runs_finished == 0 => "no finished run".into(),
            None => "not compared".into(),
        };
        let peak = match self.peak_rss_below {
            Some(most) => format!("< {}", output::bytes(most)),
            None => wording::median(&self.peak_rss, output::bytes),
        };
        let faults = match (&self.minor_faults, &self.major_faults) {
            (Some(minor), Some(major)) => format!("{:.0}", minor.median + major.median),
            _ => "-".into(),
        };
        let mut row = vec![
            self.who.name(),
            with_interval(&self.wall_s, output::seconds),
            wording::median(&self.user_s, output::seconds),
            wording::median(&self.system_s, output::seconds),
            peak,
            wording::median(&self.average_rss, output::bytes),
            faults,
            verdict(&self.time, "time"),
            verdict(&self.cpu, "CPU"),
            verdict(&self.memory, "memory"),
        ];
        row.extend(self.values.iter().map(|value| with_interval(&value.metric, wording::plain)));
        row
    }

    fn csv_row(&self, condition: &str) -> Vec<String> {
        let edge = |pick: fn(Interval) -> f64| {
            wording::number(self.wall_s.as_ref().and_then(|metric| metric.interval).map(pick))
        };
        let verdict = |versus: &Option<Versus>| match versus {
            _ if self.who.is_baseline => "baseline",
            None => "",
            Some(versus) => match versus.verdict {
                Verdict::Less => "less",
                Verdict::More => "more",
                Verdict::NoDifference => "no_difference",
                Verdict::Inconclusive => "inconclusive",
            },
        };
        let failed: usize = self.failures.iter().map(|failure| failure.count).sum();
        let mut row = vec![
            condition.to_owned(),
            self.who.name(),
            self.runs_finished.to_string(),
            failed.to_string(),
            wording::plain_median(&self.wall_s),
            edge(|interval| interval.low),
            edge(|interval| interval.high),
            wording::plain_median(&self.user_s),
            wording::plain_median(&self.system_s),
            wording::plain_median(&self.peak_rss),
            wording::plain_median(&self.average_rss),
            wording::plain_median(&self.minor_faults),
            wording::plain_median(&self.major_faults),
            wording::plain_ratio(&self.time),
            verdict(&self.time).to_owned(),
            wording::plain_ratio(&self.cpu),
            verdict(&self.cpu).to_owned(),
            wording::plain_ratio(&self.memory),
            verdict(&self.memory).to_owned(),
        ];
        row.extend(self.values.iter().map(|value| wording::plain_median(&value.metric)));
        row
    }
}
