// SPDX-License-Identifier: MIT
//! The difference between two watched runs, in percent.

use serde::Serialize;

use crate::output::{self, Table};
use mallow_measure::timeline::Figures;
use mallow_measure::watched::Run;

#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    pub name: &'static str,
    pub a: f64,
    pub b: f64,
    /// (b - a) / a; `null` where a is 0.
    pub percent: Option<f64>,
    #[serde(skip)]
    is_count: bool,
}

#[derive(Serialize)]
pub struct Report<'a> {
    schema: &'static str,
    a: &'a str,
    b: &'a str,
    verdict: String,
    differences: &'a [Difference],
}

impl Difference {
    fn new(name: &'static str, a: f64, b: f64, is_count: bool) -> Difference {
        let percent = (a > 0.0).then(|| (b - a) / a * 100.0);
        Difference { name, a, b, percent, is_count }
    }

    pub fn show(&self, value: f64) -> String {
        if self.is_count { format!("{value:.0}") } else { output::bytes(value) }
    }

    pub fn percent(&self) -> String {
        self.percent.map_or("-".into(), |percent| output::percent_change(1.0 + percent / 100.0))
    }
}

pub fn differences(a: &Run, b: &Run) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut add = |names: [&'static str; 3], a: Option<Figures>, b: Option<Figures>| {
        if let (Some(a), Some(b)) = (a, b) {
            found.push(Difference::new(names[0], a.average, b.average, false));
            found.push(Difference::new(names[1], a.peak, b.peak, false));
            found.push(Difference::new(names[2], a.end, b.end, false));
        }
    };
    let (first, second) = (&a.summary, &b.summary);
    add(["RSS average", "RSS peak", "RSS end"], Some(first.rss), Some(second.rss));
    add(["PSS average", "PSS peak", "PSS end"], first.pss, second.pss);
    if first.swap.peak + second.swap.peak > 0.0 {
        add(["swap average", "swap peak", "swap end"], Some(first.swap), Some(second.swap));
    }
    let names = ["heap in use, average", "heap in use, peak", "heap in use, end"];
    add(names, first.heap_used, second.heap_used);
    let names = ["heap free, average", "heap free, peak", "heap free, end"];
    add(names, first.heap_free, second.heap_free);
    let faults = |run: &Run| run.summary.faults() as f64;
    found.push(Difference::new("faults", faults(a), faults(b), true));
    found
}

/// Such as "jemalloc uses 24.0 % less than glibc: ...".
pub fn sentence(a: &str, b: &str, differences: &[Difference]) -> String {
    let part = |name: &str| {
        differences.iter().find(|d| d.name == name).and_then(|d| d.percent).unwrap_or(0.0)
    };
    let words = |percent: f64| match percent {
        p if p <= -0.05 => format!("{:.1} % less", -p),
        p if p >= 0.05 => format!("{p:.1} % more"),
        _ => "the same".into(),
    };
    let joiner = if part("RSS average").abs() < 0.05 { "as" } else { "than" };
    format!(
        "{b} uses {} RSS on average {joiner} {a}; {} at the peak, {} at the end.",
        words(part("RSS average")),
        words(part("RSS peak")),
        words(part("RSS end"))
    )
}

/// The files' names, or what tells them apart better: the allocators.
pub fn names(a: &Run, b: &Run, files: [String; 2]) -> [String; 2] {
    let known = |run: &Run| !run.allocator.is_empty() && run.allocator != "unknown";
    if a.allocator != b.allocator && known(a) && known(b) {
        return [a.allocator.clone(), b.allocator.clone()];
    }
    files
}

pub fn table(a: &str, b: &str, differences: &[Difference]) -> Table {
    let mut table = Table::new(&[("", false), ("A", true), ("B", true), ("difference", true)]);
    table.rows.push(vec!["run".into(), a.into(), b.into(), String::new()]);
    for difference in differences {
        table.rows.push(vec![
            difference.name.into(),
            difference.show(difference.a),
            difference.show(difference.b),
            difference.percent(),
        ]);
    }
    table
}

/// Bytes and numbers without units; the names are always quoted.
pub fn csv(differences: &[Difference]) -> String {
    let mut text = String::from("figure,a,b,percent\n");
    for Difference { name, a, b, percent, .. } in differences {
        let percent = percent.map_or(String::new(), |percent| format!("{percent:.3}"));
        text += &format!("\"{name}\",{a:.0},{b:.0},{percent}\n");
    }
    text
}

pub fn report<'a>(a: &'a str, b: &'a str, differences: &'a [Difference]) -> Report<'a> {
    let verdict = sentence(a, b, differences);
    Report { schema: "mallow.watch-compare/1", a, b, verdict, differences }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_measure::watched::{History, Sample};

    fn run(rss: [u64; 3], allocator: &str) -> Run {
        let run = Run { allocator: allocator.into(), ..Run::default() };
        let mut history = History::new(run, true);
        for (index, rss) in rss.into_iter().enumerate() {
            history.add(Sample { time_s: index as f64, rss, ..Sample::default() });
        }
        history.run
    }

    #[test]
    fn percentages_and_the_sentence() {
        let (a, b) = (run([1000, 1000, 800], "glibc"), run([760, 760, 1200], "jemalloc"));
        let found = differences(&a, &b);
        let named = names(&a, &b, ["x".into(), "y".into()]);
        assert_eq!(
            sentence(&named[0], &named[1], &found),
            "jemalloc uses 8.4 % less RSS on average than glibc; 20.0 % more at the peak, 50.0 % \
             more at the end."
        );
        assert_eq!(names(&a, &a, ["x".into(), "y".into()]), ["x", "y"]);
        let same = differences(&a, &a);
        assert!(sentence("x", "y", &same).starts_with("y uses the same RSS on average as x"));
    }
}
