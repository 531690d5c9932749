// SPDX-License-Identifier: MIT
use super::*;
use mallow_measure::statistics::{Comparison, Interval};

pub fn versus(verdict: Verdict, ratio: f64) -> Option<Versus> {
    let interval = Some(Interval { low: ratio - 0.01, high: ratio + 0.01 });
    Some(Versus { verdict, comparison: Comparison { ratio, interval, p_value: 0.01, pairs: 10 } })
}

fn figures(time: Option<Versus>, memory: Option<Versus>) -> Figures {
    let metric = |value: f64| Metric::of(&[value; 7]).unwrap();
    let ratio = |v: &Option<Versus>| v.as_ref().map_or(1.0, |v| v.comparison.ratio);
    Figures {
        rounds: 10,
        wall_s: metric(ratio(&time)),
        cpu_s: metric(1.0),
        peak_rss: metric(1e8 * ratio(&memory)),
        cpu: time.as_ref().and_then(|_| versus(Verdict::NoDifference, 1.0)),
        time,
        memory,
    }
}

pub fn entry(name: &str, time: Option<Versus>, memory: Option<Versus>) -> Entry {
    let standing = if time.is_none() { Standing::Defaults } else { Standing::Confirmed };
    Entry {
        settings: name.into(),
        environment: BTreeMap::new(),
        why: String::new(),
        standing,
        failure: None,
        searched: None,
        confirmed: Some(figures(time, memory)),
        second: None,
        broken_limits: Vec::new(),
        is_on_front: false,
    }
}

pub fn settings() -> Settings {
    Settings {
        budget_s: 600.0,
        took_s: 1.0,
        margin_percent: 2.0,
        confidence: 0.99,
        seed: 1,
        runs_made: 50,
        settings_known: 8,
        settings_tried: 8,
        rounds_confirmed: 10,
        rounds_needed: 9,
    }
}

use Verdict::{Inconclusive, Less, More, NoDifference};

fn concluded(entries: &[Entry]) -> (Option<usize>, End, String) {
    conclude(entries, &[], &settings())
}

#[test]
fn what_gains_without_a_cost_is_recommended() {
    let entries = [
        entry("defaults", None, None),
        entry("a:1", versus(More, 1.2), versus(Less, 0.3)),
        entry("b:1", versus(Inconclusive, 1.01), versus(Less, 0.6)),
    ];
    let (chosen, end, text) = concluded(&entries);
    assert_eq!((chosen, end), (Some(2), End::Found));
    assert!(text.starts_with("b:1 is better") && text.contains("memory: less -40.0 %"), "{text}");
    assert!(text.contains("a:1 takes less memory and more time."), "{text}");
    let (chosen, end, text) = concluded(&entries[..2]);
    assert_eq!((chosen, end), (Some(1), End::Trade));
    assert!(text.contains("without a cost"), "{text}");
    // Three times the time for a little memory is no trade.
    let dear = [entry("defaults", None, None), entry("a:1", versus(More, 3.0), versus(Less, 0.9))];
    let (chosen, end, text) = concluded(&dear);
    assert_eq!((chosen, end), (None, End::DefaultsAreAsGood));
    assert!(text.ends_with("a:1 takes less memory and more time."), "{text}");
}

#[test]
fn a_cost_that_the_runs_do_not_exclude_is_no_gain_for_nothing() {
    let wide = |low: f64, high: f64| {
        let mut open = versus(Inconclusive, 0.997);
        open.as_mut().unwrap().comparison.interval = Some(Interval { low, high });
        open
    };
    let mut entries =
        [entry("defaults", None, None), entry("a:1", wide(0.72, 1.36), versus(Less, 0.6))];
    let (chosen, end, text) = concluded(&entries);
    assert_eq!((chosen, end), (Some(1), End::CostNotExcluded), "{text}");
    assert!(text.starts_with("a:1 takes less memory, but more time is not excluded: "), "{text}");
    assert!(text.contains("interval -28.0 % to +36.0 %"), "{text}");
    // Below the margin a cost does not matter.
    entries[1].confirmed.as_mut().unwrap().time = wide(0.95, 1.01);
    assert_eq!(concluded(&entries).1, End::Found);
    // What one recording excludes has to be excluded on the other too.
    entries[1].second = Some(figures(wide(0.9, 1.2), versus(Less, 0.6)));
    assert_eq!(concluded(&entries).1, End::CostNotExcluded);
}

#[test]
fn of_equals_the_one_with_the_fewest_settings_is_chosen() {
    let entries = [
        entry("defaults", None, None),
        entry("a:1 b:1", versus(Less, 0.500), versus(Less, 0.500)),
        entry("a:1", versus(Less, 0.505), versus(Less, 0.505)),
        entry("c:1", versus(Less, 0.505), versus(Less, 0.6)),
    ];
    assert_eq!(concluded(&entries).0, Some(2));
}

#[test]
fn without_a_proven_gain_the_defaults_are_as_good() {
    let mut entries = vec![
        entry("defaults", None, None),
        entry("a:1", versus(NoDifference, 1.0), versus(Inconclusive, 0.95)),
        entry("b:1", versus(More, 1.1), versus(NoDifference, 1.0)),
    ];
    let (chosen, end, text) = concluded(&entries);
    assert_eq!((chosen, end), (None, End::DefaultsAreAsGood));
    assert!(text.starts_with("The defaults are as good as anything found: of 8"), "{text}");
    assert!(text.contains("exclude a difference in memory (-6.0 % to -4.0 %)."), "{text}");
    // What holds on one recording alone is no gain.
    entries[1] = entry("a:1", versus(Less, 0.8), versus(NoDifference, 1.0));
    assert_eq!(concluded(&entries).0, Some(1));
    entries[1].second = Some(figures(versus(NoDifference, 1.0), versus(NoDifference, 1.0)));
    let (chosen, end, text) = concluded(&entries);
    assert_eq!((chosen, end), (None, End::DefaultsAreAsGood));
    assert!(text.contains("a:1 gains does not hold on the second recording"), "{text}");
}

#[test]
fn limits_decide_first() {
    let limit = super::super::constraint::parse("rss<50M").unwrap();
    let mut entries = vec![
        entry("defaults", None, None),
        entry("a:1", versus(More, 1.2), versus(Less, 0.3)),
        entry("b:1", versus(More, 1.1), versus(Less, 0.4)),
    ];
    let broken = vec!["rss < 50.0 MiB: 95.4 MiB".to_owned()];
    entries[0].broken_limits = broken.clone();
    let (chosen, end, text) = conclude(&entries, &[limit], &settings());
    assert_eq!((chosen, end), (Some(2), End::Found), "the faster of the two: {text}");
    entries[1].broken_limits = broken.clone();
    entries[2].broken_limits = broken;
    let (chosen, end, text) = conclude(&entries, &[limit], &settings());
    assert_eq!((chosen, end), (None, End::LimitsNotKept));
    assert!(text.contains("Nothing keeps the limit"), "{text}");
}

#[test]
fn too_few_rounds_prove_nothing() {
    let entries =
        [entry("defaults", None, None), entry("a:1", versus(Less, 0.5), versus(Less, 0.5))];
    let few = Settings { rounds_confirmed: 3, ..settings() };
    assert_eq!(conclude(&entries, &[], &few).1, End::NoVerdict);
    assert_eq!(conclude(&entries[..1], &[], &settings()).1, End::NoVerdict);
}
