// SPDX-License-Identifier: MIT
//! Measurements in words, as the verbs that measure share them.

use mallow_launch::Allocator;
use mallow_measure::machine::Machine;
use mallow_measure::statistics::{Interval, Verdict};
use mallow_measure::verdict::{Metric, Versus};
use serde::Serialize;

use crate::output;
use crate::output::colour::Tone;

/// Who was measured: what the rows of `compare` and `replay` begin with.
#[derive(Default, Clone, Debug, Serialize)]
pub struct Contestant {
    pub allocator: String,
    /// Where one allocator is compared under several conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    pub version: Option<String>,
    pub path: Option<String>,
    pub is_baseline: bool,
}

impl Contestant {
    pub fn new(allocator: &Allocator, is_baseline: bool) -> Contestant {
        Contestant {
            allocator: allocator.name.clone(),
            condition: None,
            version: allocator.version.clone(),
            path: allocator.path.as_ref().map(|path| path.display().to_string()),
            is_baseline,
        }
    }

    /// What to call it in a table and in a sentence.
    pub fn name(&self) -> String {
        match &self.condition {
            Some(condition) => format!("{} with {condition}", self.allocator),
            None => self.allocator.clone(),
        }
    }
}

/// The verdict and the size of the difference, such as "faster -6.1 %".
pub fn verdict(versus: &Versus, metric: &str) -> String {
    let word = word(versus.verdict, metric);
    format!("{word} {}", output::percent_change(versus.comparison.ratio))
}

/// The verdict alone.
pub fn word(verdict: Verdict, metric: &str) -> &'static str {
    match (verdict, metric) {
        (Verdict::Less, "time") => "faster",
        (Verdict::More, "time") => "slower",
        (Verdict::Less, _) => "less",
        (Verdict::More, _) => "more",
        (Verdict::NoDifference, _) => "no difference",
        (Verdict::Inconclusive, _) => "inconclusive",
    }
}

/// How good the verdict is, as a colour; nothing for what is no news.
pub fn tone(versus: &Option<Versus>) -> Option<Tone> {
    match versus.as_ref()?.verdict {
        Verdict::Less => Some(Tone::Better),
        Verdict::More => Some(Tone::Worse),
        Verdict::Inconclusive => Some(Tone::Unsure),
        Verdict::NoDifference => None,
    }
}

/// The difference with its interval, such as "-6.1 %, interval -7.0 % to -5.2 %".
pub fn difference(versus: &Option<Versus>) -> String {
    let Some(versus) = versus else { return "not compared".into() };
    let change = output::percent_change(versus.comparison.ratio);
    match versus.comparison.interval {
        Some(Interval { low, high }) => format!(
            "{change}, interval {} to {}",
            output::percent_change(low),
            output::percent_change(high)
        ),
        None => change,
    }
}

/// The median, or a dash.
pub fn median(metric: &Option<Metric>, form: fn(f64) -> String) -> String {
    metric.as_ref().map_or("-".into(), |metric| form(metric.median))
}

/// A number whose unit its column names: four digits where it has a fraction.
pub fn plain(value: f64) -> String {
    let digits = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    let decimals = (3.0 - digits).clamp(0.0, 6.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A number without unit, for CSV.
pub fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value}"))
}

/// The median without unit.
pub fn plain_median(metric: &Option<Metric>) -> String {
    number(metric.as_ref().map(|metric| metric.median))
}

/// The ratio to the baseline.
pub fn plain_ratio(versus: &Option<Versus>) -> String {
    number(versus.as_ref().map(|versus| versus.comparison.ratio))
}

/// The machine in one line.
pub fn machine(machine: &Machine) -> String {
    format!(
        "{}, {} CPUs, {}, Linux {}, huge pages: {}",
        machine.cpu,
        machine.usable_cpus,
        output::bytes(machine.memory_bytes as f64),
        machine.kernel,
        machine.transparent_huge_pages
    )
}
