// SPDX-License-Identifier: MIT
//! The result of `tune` as data, and what it says in words.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::output::{self, wording};
use mallow_measure::machine::Machine;
use mallow_measure::search::limit::Constraint;
use mallow_measure::statistics::Verdict;
use mallow_measure::verdict::{Metric, Versus};
use mallow_stats::figures::counted;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub schema: &'static str,
    pub version: &'static str,
    pub allocator: String,
    pub allocator_version: Option<String>,
    pub command: String,
    pub trace: Option<String>,
    /// What was run for the search, and for the confirmation.
    pub searched_on: Ground,
    pub confirmed_on: Ground,
    pub machine: Machine,
    pub settings: Settings,
    pub constraints: Vec<String>,
    /// The defaults first, then what was confirmed, then the rest.
    pub entries: Vec<Entry>,
    /// The place in `entries` of what is recommended.
    pub chosen: Option<usize>,
    /// What sets it, as `VARIABLE=value`, and the whole command.
    pub line: Option<String>,
    pub try_it: Option<String>,
    pub verdict: String,
    pub end: End,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Found,
    /// Something takes less of one thing and more of another.
    Trade,
    /// Something takes less of one thing, and whether it takes more of another the runs do not tell.
    CostNotExcluded,
    DefaultsAreAsGood,
    /// Nothing is proven to be better, and the runs do not exclude that something is.
    Inconclusive,
    /// Nothing keeps the limits.
    LimitsNotKept,
    /// Too few runs to prove anything.
    NoVerdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ground {
    Command,
    Replay,
}

#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    pub budget_s: f64,
    pub took_s: f64,
    pub margin_percent: f64,
    /// Of each interval of the confirmation, so that all of them together hold with 95 %.
    pub confidence: f64,
    pub seed: u64,
    pub runs_made: usize,
    /// Settings that there are to try, and that there was time for.
    pub settings_known: usize,
    pub settings_tried: usize,
    pub rounds_confirmed: u32,
    pub rounds_needed: u32,
    /// The command has failed under the defaults too, now and then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub defaults_failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Defaults,
    Confirmed,
    /// Left behind by better ones.
    Dropped,
    Failed,
    NotTried,
}

/// Sizes are in bytes, times in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    pub settings: String,
    /// The variables that make them.
    pub environment: BTreeMap<String, String>,
    pub why: String,
    pub standing: Standing,
    pub failure: Option<String>,
    /// Against the defaults in the search: no proof.
    pub searched: Option<Searched>,
    pub confirmed: Option<Figures>,
    /// On the second recording.
    pub second: Option<Figures>,
    /// Limits that are not kept, as in "rss < 400 MiB: 512 MiB"; "on the second recording" follows there.
    pub broken_limits: Vec<String>,
    /// No other that was confirmed is better in both time and memory.
    pub is_on_front: bool,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Searched {
    pub rounds: usize,
    pub time_ratio: f64,
    pub memory_ratio: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    pub rounds: usize,
    pub wall_s: Metric,
    pub cpu_s: Metric,
    pub peak_rss: Metric,
    /// The command had less: this is what the copy of this tool had that became it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_peak_of_start: bool,
    /// Against the defaults; `null` for themselves.
    pub time: Option<Versus>,
    pub cpu: Option<Versus>,
    pub memory: Option<Versus>,
}

impl Figures {
    fn versus(&self) -> [(&'static str, &Option<Versus>); 3] {
        [("time", &self.time), ("CPU", &self.cpu), ("memory", &self.memory)]
    }

    fn of(&self, name: &str) -> &Option<Versus> {
        match name {
            "time" => &self.time,
            "CPU" => &self.cpu,
            _ => &self.memory,
        }
    }

    fn with(&self, wanted: Verdict) -> impl Iterator<Item = &'static str> {
        let is_it = move |versus: &Option<Versus>| {
            versus.as_ref().is_some_and(|versus| versus.verdict == wanted)
        };
        self.versus().into_iter().filter(move |(_, v)| is_it(v)).map(|(name, _)| name)
    }
}

impl Entry {
    /// What is proven to be less: time or memory. Less CPU counts where it takes no more time.
    pub fn gains(&self) -> Vec<&'static str> {
        let Some(figures) = &self.confirmed else { return Vec::new() };
        let is_slower = figures.time.as_ref().is_some_and(|v| v.verdict == Verdict::More);
        let gains = figures.with(Verdict::Less).filter(|name| *name != "CPU" || !is_slower);
        gains.filter(|name| self.holds_again(name)).collect()
    }

    pub fn costs(&self) -> Vec<&'static str> {
        let of = |figures: &Option<Figures>| -> Vec<&'static str> {
            figures.iter().flat_map(|figures| figures.with(Verdict::More)).collect()
        };
        let mut costs = of(&self.confirmed);
        costs.extend(of(&self.second));
        costs.sort_unstable();
        costs.dedup();
        costs
    }

    /// What the runs leave open: it may take more by the margin or beyond.
    pub fn unclear(&self, margin_percent: f64) -> Vec<&'static str> {
        let figures = [&self.confirmed, &self.second].into_iter().flatten();
        // No more runs can tell the memory of a command that is smaller than what it was started from.
        let judged = figures.flat_map(|figures| {
            let is_known = figures.memory.is_some() || figures.time.is_none();
            figures.versus().into_iter().filter(move |(name, _)| is_known || *name != "memory")
        });
        let open = judged.filter(|(_, versus)| {
            versus.as_ref().is_none_or(|versus| may_be_more(versus, margin_percent))
        });
        let open: Vec<&str> = open.map(|(name, _)| name).collect();
        ["time", "CPU", "memory"].into_iter().filter(|name| open.contains(name)).collect()
    }

    /// On the second recording, if there is one.
    fn holds_again(&self, name: &str) -> bool {
        self.second.as_ref().is_none_or(|figures| figures.with(Verdict::Less).any(|n| n == name))
    }

    /// Proven on the first recording alone.
    pub fn is_overfitted(&self) -> bool {
        self.gains().is_empty()
            && self.second.is_some()
            && self.confirmed.as_ref().is_some_and(|f| f.with(Verdict::Less).next().is_some())
    }

    /// How much is gained in all that is proven, as a ratio.
    fn gain(&self) -> f64 {
        let gains = self.gains();
        // CPU goes with time, and counts alone where only CPU is less.
        let counts = |name: &&&str| **name != "CPU" || !gains.contains(&"time");
        gains.iter().filter(counts).map(|name| self.ratio(name)).product()
    }

    /// Of each recording.
    fn recordings(&self) -> impl Iterator<Item = &Figures> {
        [&self.confirmed, &self.second].into_iter().flatten()
    }

    /// Against the defaults, on the recording where it is more.
    fn ratio(&self, name: &str) -> f64 {
        let known = self.recordings().filter_map(|figures| figures.of(name).as_ref());
        known.map(|versus| versus.comparison.ratio).reduce(f64::max).unwrap_or(1.0)
    }

    /// A gain that neither is proven nor excluded, and that nothing is known to be paid for.
    fn may_gain(&self, name: &str, margin_percent: f64) -> bool {
        let least = 1.0 - margin_percent / 100.0;
        let reaches =
            |versus: &Versus| versus.comparison.interval.is_none_or(|known| known.low < least);
        let known = || self.recordings().filter_map(|figures| figures.of(name).as_ref());
        let is_open = |versus: &Versus| versus.verdict == Verdict::Inconclusive && reaches(versus);
        self.costs().is_empty()
            && known().any(is_open)
            && known().all(|versus| versus.verdict == Verdict::Less || is_open(versus))
    }

    /// Whether more is gained than it costs, in time and memory together.
    fn is_fair(&self) -> bool {
        self.confirmed.is_some() && self.ratio("time") * self.ratio("memory") < 1.0
    }

    /// The runs tell neither time nor memory of the two apart.
    fn is_like(&self, other: &Entry) -> bool {
        let interval = |versus: &Option<Versus>| versus.as_ref()?.comparison.interval;
        let overlap = |a: &Option<Versus>, b: &Option<Versus>| match (interval(a), interval(b)) {
            (Some(a), Some(b)) => a.low <= b.high && b.low <= a.high,
            _ => a.is_none() && b.is_none(),
        };
        match (&self.confirmed, &other.confirmed) {
            (Some(own), Some(other)) => {
                overlap(&own.time, &other.time) && overlap(&own.memory, &other.memory)
            }
            _ => false,
        }
    }

    /// A sentence about what is less and what is more.
    fn in_short(&self) -> String {
        let costs = self.costs();
        let more = match costs.is_empty() {
            true => String::new(),
            false => format!(" and more {}", costs.join(" and ")),
        };
        format!(" {} takes less {}{more}.", self.settings, self.gains().join(" and "))
    }

    fn is_confirmed(&self) -> bool {
        self.standing == Standing::Confirmed && self.confirmed.is_some()
    }

    /// As in "time: faster -6.1 %, interval -7.0 % to -5.2 %". With a second recording both are told;
    /// what is less on the first alone is named, without a figure of how much.
    fn differences(&self) -> String {
        let Some(first) = &self.confirmed else { return "not confirmed".into() };
        let (mut told, mut lost) = (Vec::new(), Vec::new());
        for (name, versus) in first.versus() {
            let again = self.second.as_ref().map(|figures| figures.of(name));
            let is_less = versus.as_ref().is_some_and(|v| v.verdict == Verdict::Less);
            match again {
                Some(again) if is_less && !self.holds_again(name) => {
                    lost.push(format!("{name}: {}", in_words(name, again)));
                }
                Some(again) => told.push(format!(
                    "{}: {}, on the second recording {}",
                    title(name),
                    in_words(name, versus),
                    in_words(name, again)
                )),
                None => told.push(format!("{}: {}", title(name), in_words(name, versus))),
            }
        }
        let mut text = told.join("; ");
        if !lost.is_empty() {
            let what = if lost.len() == 1 { "a gain that does" } else { "gains that do" };
            let lost = lost.join("; ");
            text += &format!("; {what} not hold on the second recording is left out ({lost})");
        }
        text
    }
}

fn title(name: &str) -> &str {
    if name == "memory" { "peak memory" } else { name }
}

/// As in "faster -6.1 %, interval -7.0 % to -5.2 %".
fn in_words(name: &str, versus: &Option<Versus>) -> String {
    match versus {
        Some(known) => {
            format!("{} {}", wording::word(known.verdict, name), wording::difference(versus))
        }
        None => "not compared".into(),
    }
}

fn may_be_more(versus: &Versus, margin_percent: f64) -> bool {
    let most = 1.0 + margin_percent / 100.0;
    let reaches = versus.comparison.interval.is_none_or(|interval| interval.high > most);
    versus.verdict == Verdict::Inconclusive && reaches
}

/// What the confirmation comes to: the entry that is recommended, how it ended, and in words.
pub fn conclude(
    entries: &[Entry],
    constraints: &[Constraint],
    settings: &Settings,
) -> (Option<usize>, End, String) {
    let confirmed: Vec<usize> =
        (0..entries.len()).filter(|index| entries[*index].is_confirmed()).collect();
    let failed = entries.iter().filter(|entry| entry.standing == Standing::Failed).count();
    if failed > 0 && settings.defaults_failed && confirmed.is_empty() {
        let text = "No verdict: the command fails now and then under the defaults too, so which settings it fails \
                    under says nothing of them. Let it end alike each time.";
        return (None, End::NoVerdict, text.into());
    }
    if failed > 0 && failed + 1 == entries.len() {
        let text = "The defaults are all that works: the command fails under every other setting.";
        return (None, End::DefaultsAreAsGood, text.into());
    }
    if settings.rounds_confirmed < settings.rounds_needed || confirmed.is_empty() {
        return (None, End::NoVerdict, no_verdict(settings));
    }
    let keeps = |index: &usize| entries[*index].broken_limits.is_empty();
    let defaults_keep = constraints.is_empty() || keeps(&0);
    if !constraints.is_empty() && !defaults_keep {
        return under_limits(entries, &confirmed, settings);
    }
    let with_gain =
        confirmed.iter().copied().filter(keeps).filter(|index| !entries[*index].gains().is_empty());
    let with_gain: Vec<usize> = with_gain.collect();
    if let Some(found) = with_a_gain(entries, &with_gain, settings) {
        return found;
    }
    let poor: String = with_gain.iter().map(|index| entries[*index].in_short()).collect();
    let (end, text) = nothing_proven(entries, &confirmed, settings);
    (None, end, text + &poor)
}

/// The best of what is proven to take less: without a cost, else with one that is not excluded, else
/// with one that is less than the gain.
fn with_a_gain(
    entries: &[Entry],
    with_gain: &[usize],
    settings: &Settings,
) -> Option<(Option<usize>, End, String)> {
    let margin = settings.margin_percent;
    let gain = |index: usize| entries[index].gain();
    let (dear, cheap): (Vec<usize>, Vec<usize>) =
        with_gain.iter().partition(|index| !entries[**index].costs().is_empty());
    let (unclear, free): (Vec<usize>, Vec<usize>) =
        cheap.into_iter().partition(|index| !entries[*index].unclear(margin).is_empty());
    if let Some(index) = best(entries, &free, gain) {
        let entry = &entries[index];
        let others = free.iter().chain(&unclear).chain(&dear).filter(|other| **other != index);
        let others: String = others.map(|other| entries[*other].in_short()).collect();
        let text = format!(
            "{} is better than the defaults: {}.{others}",
            entry.settings,
            entry.differences()
        );
        return Some((Some(index), End::Found, text));
    }
    let fair = |of: Vec<usize>| -> Vec<usize> {
        of.into_iter().filter(|index| entries[*index].is_fair()).collect()
    };
    if let Some(index) = best(entries, &fair(unclear), gain) {
        let entry = &entries[index];
        let text = format!(
            "{} takes less {}, but more {} is not excluded: {}. More runs (--runs, --budget) can tell.",
            entry.settings,
            entry.gains().join(" and "),
            entry.unclear(margin).join(" and "),
            entry.differences()
        );
        return Some((Some(index), End::CostNotExcluded, text));
    }
    let index = best(entries, &fair(dear), gain)?;
    let entry = &entries[index];
    let text = format!(
        "Nothing found is better without a cost.{} {}: {}.",
        entry.in_short(),
        entry.settings,
        entry.differences()
    );
    Some((Some(index), End::Trade, text))
}

/// Whose figure is least; of those that cannot be told from it, the one with the fewest settings.
fn best(entries: &[Entry], of: &[usize], figure: impl Fn(usize) -> f64) -> Option<usize> {
    let by_figure = |a: &usize, b: &usize| figure(*a).total_cmp(&figure(*b));
    let most = of.iter().copied().min_by(by_figure)?;
    let is_like = |index: &usize| *index == most || entries[*index].is_like(&entries[most]);
    let alike = of.iter().copied().filter(is_like);
    alike.min_by(|a, b| {
        let parts = |index: usize| entries[index].settings.split(' ').count();
        parts(*a).cmp(&parts(*b)).then(by_figure(a, b))
    })
}

/// The defaults do not keep the limits.
fn under_limits(
    entries: &[Entry],
    confirmed: &[usize],
    settings: &Settings,
) -> (Option<usize>, End, String) {
    let broken = entries[0].broken_limits.join(", ");
    let time = |index: usize| {
        entries[index].confirmed.as_ref().map_or(f64::INFINITY, |figures| figures.wall_s.median)
    };
    let keeping =
        confirmed.iter().copied().filter(|index| entries[*index].broken_limits.is_empty());
    let keeping: Vec<usize> = keeping.collect();
    if let Some(index) = best(entries, &keeping, time) {
        let entry = &entries[index];
        let text = format!(
            "The defaults do not keep the limit ({broken}); {} does: {}.",
            entry.settings,
            entry.differences()
        );
        return (Some(index), End::Found, text);
    }
    let near = confirmed.iter().map(|index| {
        format!("{} ({})", entries[*index].settings, entries[*index].broken_limits.join(", "))
    });
    let text = format!(
        "Nothing keeps the limit, neither the defaults ({broken}) nor the best of {} settings: {}.",
        settings.settings_tried,
        near.collect::<Vec<_>>().join("; ")
    );
    (None, End::LimitsNotKept, text)
}

/// Without a proven gain the defaults are as good, unless the runs leave one open.
fn nothing_proven(entries: &[Entry], confirmed: &[usize], settings: &Settings) -> (End, String) {
    let margin = settings.margin_percent;
    let tried: Vec<&Entry> = confirmed.iter().map(|index| &entries[*index]).collect();
    let of_these = |name: &str, counts: &dyn Fn(&&&Entry) -> bool| {
        left_open(&tried.iter().filter(counts).copied().collect::<Vec<_>>(), name)
    };
    let names = ["time", "CPU", "memory"];
    let gain = names
        .into_iter()
        .filter_map(|name| of_these(name, &|entry: &&&Entry| entry.may_gain(name, margin)));
    let gain: Vec<String> = gain.collect();
    let rest = match settings.settings_known.saturating_sub(settings.settings_tried) {
        0 => String::new(),
        rest => format!(" (for {rest} more the budget had no time)"),
    };
    let none = format!(
        "of {} tried{rest}, none was proven better by {margin} % or more",
        counted(settings.settings_tried as u64, "setting")
    );
    let (end, mut text) = if gain.is_empty() {
        let mut text = format!("The defaults are as good as anything found: {none}.");
        let open: Vec<String> =
            names.into_iter().filter_map(|name| of_these(name, &|_| true)).collect();
        if !open.is_empty() {
            let open = open.join(" and ");
            text += &format!(" The runs vary too much to exclude a difference in {open}.");
        }
        (End::DefaultsAreAsGood, text)
    } else {
        let gain = gain.join(" and ");
        let text = format!(
            "Inconclusive: {none}, but the runs vary too much to exclude a gain in {gain}. More runs \
             (--runs, --budget), or a quieter machine, can tell."
        );
        (End::Inconclusive, text)
    };
    let over = tried.iter().filter(|entry| entry.is_overfitted());
    let over: Vec<&str> = over.map(|entry| entry.settings.as_str()).collect();
    if !over.is_empty() {
        text += &format!(" What {} gains does not hold on the second recording.", over.join(", "));
    }
    (end, text)
}

/// The figure with the widest range that its inconclusive intervals cover, such as
/// "time (-17.0 % to +3.0 %)"; nothing if none is inconclusive.
fn left_open(tried: &[&Entry], name: &str) -> Option<String> {
    let figures = tried.iter().flat_map(|entry| entry.recordings());
    let open: Vec<&Versus> = figures
        .filter_map(|figures| figures.of(name).as_ref())
        .filter(|versus| versus.verdict == Verdict::Inconclusive)
        .collect();
    open.first()?;
    let intervals = || open.iter().filter_map(|versus| versus.comparison.interval);
    let low = intervals().map(|interval| interval.low).reduce(f64::min);
    let high = intervals().map(|interval| interval.high).reduce(f64::max);
    Some(match (low, high) {
        (Some(low), Some(high)) => {
            let [low, high] = [low, high].map(output::percent_change);
            format!("{name} ({low} to {high})")
        }
        _ => name.to_owned(),
    })
}

fn no_verdict(settings: &Settings) -> String {
    format!(
        "No verdict: it needs {} rounds of the confirmation, and there are {}. What the search found \
         is not proven.",
        settings.rounds_needed, settings.rounds_confirmed
    )
}

#[cfg(test)]
pub mod tests;
