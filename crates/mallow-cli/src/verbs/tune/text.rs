// SPDX-License-Identifier: MIT
//! The result of `tune` as tables.

use mallow_measure::verdict::{Metric, Versus};
use mallow_stats::figures::counted;

use super::report::{End, Entry, Figures, Ground, Report, Standing};
use crate::output::wording;
use crate::output::{self, Format, Screen, Table};

impl Report {
    pub fn text(&self, format: Format, screen: Screen) -> String {
        if format == Format::Csv {
            return self.csv().render(Format::Csv, Screen::PLAIN);
        }
        let mut text = format!("{}\n{}\n", format.code(&self.command), self.headline());
        text += &format!("{}\n\n", wording::machine(&self.machine));
        text = screen.fill(&text);
        text += &self.table().render(format, screen);
        for entry in self.entries.iter().filter(|entry| entry.second.is_some()) {
            let Some(figures) =
                entry.second.as_ref().filter(|_| entry.standing != Standing::Defaults)
            else {
                continue;
            };
            text += &format!(
                "\nOn the second recording {}: time {}, memory {}.\n",
                entry.settings,
                short(&figures.time, "time"),
                short(&figures.memory, "memory")
            );
        }
        text += &screen.fill(&format!("\n{}\n", self.verdict));
        if let Some(note) = self.ground_note() {
            text += &screen.fill(&format!("{note}\n"));
        }
        if let (Some(line), Some(try_it)) = (&self.line, &self.try_it) {
            let worth = match self.end {
                End::Trade | End::CostNotExcluded => "\nIf that is worth it:",
                _ => "",
            };
            let [line, try_it] = [line, try_it].map(|words| format.code(words));
            text += &format!("{worth}\nSet:    {line}\nTry it: {try_it}\n");
        }
        text
    }

    pub fn headline(&self) -> String {
        let version = self.allocator_version.as_deref().unwrap_or_default();
        let on = |ground: Ground| match ground {
            Ground::Command => "the command",
            Ground::Replay => "the replay",
        };
        format!(
            "{} {version}: {} of {} settings tried on {}, confirmed in {} on {}, {} in {}",
            self.allocator,
            self.settings.settings_tried,
            self.settings.settings_known,
            on(self.searched_on),
            counted(self.settings.rounds_confirmed.into(), "round"),
            on(self.confirmed_on),
            counted(self.settings.runs_made as u64, "run"),
            output::seconds(self.settings.took_s)
        )
    }

    /// A replay is not the program.
    pub fn ground_note(&self) -> Option<&'static str> {
        (self.confirmed_on == Ground::Replay).then_some(
            "This is of the recorded calls alone. Confirm it on the program: mallow tune TRACE -- \
             COMMAND.",
        )
    }

    pub fn table(&self) -> Table {
        let mut table = Table::new(&[
            ("settings", false),
            ("time", true),
            ("CPU", true),
            ("peak RSS", true),
            ("against the defaults: time", false),
            ("CPU", false),
            ("memory", false),
            ("", false),
        ]);
        for entry in &self.entries {
            table.rows.push(entry.row());
            let Some(figures) = &entry.confirmed else { continue };
            for (column, versus) in [(4, &figures.time), (5, &figures.cpu), (6, &figures.memory)] {
                table.set_tone(column, wording::tone(versus));
            }
        }
        table
    }

    /// A line for each group of settings; numbers without units.
    fn csv(&self) -> Table {
        let mut table = Table::new(&[
            ("settings", false),
            ("standing", false),
            ("wall_s", true),
            ("cpu_s", true),
            ("peak_rss", true),
            ("time_ratio", true),
            ("cpu_ratio", true),
            ("memory_ratio", true),
            ("searched_time_ratio", true),
            ("searched_memory_ratio", true),
            ("on_front", false),
            ("environment", false),
        ]);
        table.rows.extend(self.entries.iter().map(Entry::csv_row));
        table
    }
}

fn short(versus: &Option<Versus>, metric: &str) -> String {
    versus.as_ref().map_or("not compared".into(), |versus| wording::verdict(versus, metric))
}

impl Entry {
    /// What became of it, in words.
    pub fn fate(&self) -> String {
        let mut words = match (self.standing, &self.failure) {
            (_, Some(failure)) => vec![format!("left out: {failure}")],
            (Standing::Dropped, _) => vec!["searched only".into()],
            (Standing::NotTried, _) => vec!["not tried".into()],
            _ => Vec::new(),
        };
        words.extend(self.broken_limits.iter().map(|limit| format!("breaks {limit}")));
        if self.is_on_front {
            words.push("on the front".into());
        }
        words.join("; ")
    }

    /// The peak is not known, only that it was less.
    pub fn is_peak_of_start(&self) -> bool {
        self.confirmed.as_ref().is_some_and(|figures| figures.is_peak_of_start)
    }

    fn row(&self) -> Vec<String> {
        let median = |of: fn(&Figures) -> &Metric, form: fn(f64) -> String| {
            self.confirmed.as_ref().map_or("-".into(), |figures| form(of(figures).median))
        };
        let is_less = self.is_peak_of_start();
        let peak = median(|figures| &figures.peak_rss, output::bytes);
        let [time, cpu, memory] = self.against();
        vec![
            self.settings.clone(),
            median(|figures| &figures.wall_s, output::seconds),
            median(|figures| &figures.cpu_s, output::seconds),
            if is_less { format!("< {peak}") } else { peak },
            time,
            cpu,
            memory,
            self.fate(),
        ]
    }

    /// Verdicts; of what was searched only, about how much in brackets.
    fn against(&self) -> [String; 3] {
        if self.standing == Standing::Defaults {
            return ["baseline", "baseline", "baseline"].map(str::to_owned);
        }
        match (&self.confirmed, &self.searched) {
            (Some(figures), _) => [
                short(&figures.time, "time"),
                short(&figures.cpu, "CPU"),
                short(&figures.memory, "memory"),
            ],
            (None, Some(searched)) => [
                format!("({})", output::percent_change(searched.time_ratio)),
                "-".into(),
                format!("({})", output::percent_change(searched.memory_ratio)),
            ],
            _ => ["-", "-", "-"].map(str::to_owned),
        }
    }

    fn csv_row(&self) -> Vec<String> {
        let plain = |of: fn(&Figures) -> &Metric| {
            wording::number(self.confirmed.as_ref().map(|figures| of(figures).median))
        };
        let is_known = !self.is_peak_of_start();
        let peak_rss = if is_known { plain(|figures| &figures.peak_rss) } else { String::new() };
        let ratio = |of: fn(&Figures) -> &Option<Versus>| {
            self.confirmed.as_ref().map_or(String::new(), |f| wording::plain_ratio(of(f)))
        };
        let standing = match self.standing {
            Standing::Defaults => "defaults",
            Standing::Confirmed => "confirmed",
            Standing::Dropped => "dropped",
            Standing::Failed => "failed",
            Standing::NotTried => "not_tried",
        };
        let variables = self.environment.iter().map(|(name, value)| format!("{name}={value}"));
        vec![
            self.settings.clone(),
            standing.into(),
            plain(|figures| &figures.wall_s),
            plain(|figures| &figures.cpu_s),
            peak_rss,
            ratio(|figures| &figures.time),
            ratio(|figures| &figures.cpu),
            ratio(|figures| &figures.memory),
            wording::number(self.searched.map(|searched| searched.time_ratio)),
            wording::number(self.searched.map(|searched| searched.memory_ratio)),
            self.is_on_front.to_string(),
            variables.collect::<Vec<_>>().join(" "),
        ]
    }
}
