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
        is_peak_of_start: false,
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
        defaults_failed: false,
    }
}

use Verdict::{Inconclusive, Less, More, NoDifference};

fn concluded(entries: &[Entry]) -> (Option<usize>, End, String) {
    conclude(entries, &[], &settings())
}

/// Of a command that is smaller than what it was started from no memory is judged, however many the runs.
#[test]
fn a_gain_is_recommended_where_memory_is_not_known() {
    let entries = [entry("defaults", None, None), entry("a:1", versus(Less, 0.7), None)];
    let (chosen, end, text) = concluded(&entries);
    assert_eq!((chosen, end), (Some(1), End::Found), "{text}");
    assert!(text.starts_with("a:1 is better"), "{text}");
    assert!(entries[1].unclear(2.0).is_empty(), "{:?}", entries[1].unclear(2.0));
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

/// A verdict that the runs do not make, with this interval.
fn open(low: f64, high: f64) -> Option<Versus> {
    let mut open = versus(Inconclusive, (low + high) / 2.0);
    open.as_mut().unwrap().comparison.interval = Some(Interval { low, high });
    open
}

#[test]
fn without_a_proven_gain_the_defaults_are_as_good() {
    let mut entries = vec![
        entry("defaults", None, None),
        entry("a:1", versus(NoDifference, 1.0), open(0.99, 1.04)),
        entry("b:1", versus(More, 1.1), versus(NoDifference, 1.0)),
    ];
    let (chosen, end, text) = concluded(&entries);
    assert_eq!((chosen, end), (None, End::DefaultsAreAsGood));
    assert!(text.starts_with("The defaults are as good as anything found: of 8"), "{text}");
    assert!(text.contains("exclude a difference in memory (-1.0 % to +4.0 %)."), "{text}");
    // What holds on one recording alone is no gain.
    entries[1] = entry("a:1", versus(Less, 0.8), versus(NoDifference, 1.0));
    assert_eq!(concluded(&entries).0, Some(1));
    entries[1].second = Some(figures(versus(NoDifference, 1.0), versus(NoDifference, 1.0)));
    let (chosen, end, text) = concluded(&entries);
    assert_eq!((chosen, end), (None, End::DefaultsAreAsGood));
    assert!(text.contains("a:1 gains does not hold on the second recording"), "{text}");
    let some = Settings { settings_tried: 6, ..settings() };
    let text = conclude(&entries, &[], &some).2;
    assert!(text.contains("of 6 settings tried (for 2 more the budget had no time)"), "{text}");
}

#[test]
fn a_gain_that_the_runs_do_not_exclude_is_inconclusive() {
    let mut entries = vec![
        entry("defaults", None, None),
        entry("a:1", open(0.84, 1.1), versus(NoDifference, 1.0)),
        entry("b:1", open(0.97, 1.03), versus(NoDifference, 1.0)),
    ];
    let (chosen, end, text) = concluded(&entries);
    assert_eq!((chosen, end), (None, End::Inconclusive), "{text}");
    assert!(text.starts_with("Inconclusive: of 8 settings tried, none was proven"), "{text}");
    assert!(text.contains("exclude a gain in time (-16.0 % to +10.0 %)."), "{text}");
    // What one recording excludes is excluded.
    for entry in &mut entries[1..] {
        entry.second = Some(figures(versus(NoDifference, 1.0), versus(NoDifference, 1.0)));
    }
    assert_eq!(concluded(&entries).1, End::DefaultsAreAsGood);
    entries[1].second = Some(figures(versus(Less, 0.8), versus(NoDifference, 1.0)));
    assert_eq!(concluded(&entries).1, End::Inconclusive);
    // What is paid for is no gain that anybody waits for.
    let dear = [entry("defaults", None, None), entry("a:1", versus(More, 1.5), open(0.97, 1.03))];
    assert_eq!(concluded(&dear).1, End::DefaultsAreAsGood);
}

#[test]
fn only_what_holds_on_both_recordings_is_quoted() {
    let mut entries =
        [entry("defaults", None, None), entry("a:1", versus(Less, 0.24), versus(Less, 0.17))];
    entries[1].second = Some(figures(versus(Less, 0.83), versus(NoDifference, 1.0)));
    let (chosen, end, text) = concluded(&entries);
    assert_eq!((chosen, end), (Some(1), End::Found), "{text}");
    assert!(text.contains("time: faster -76.0 %, interval -77.0 % to -75.0 %, on the second"));
    assert!(text.contains("on the second recording faster -17.0 %"), "{text}");
    assert!(!text.contains("83.0 %"), "{text}");
    let lost =
        "a gain that does not hold on the second recording is left out (memory: no difference";
    assert!(text.contains(lost), "{text}");
    // The lesser gain of the two counts.
    let mut other = entry("b:1", versus(Less, 0.5), versus(NoDifference, 1.0));
    other.second = Some(figures(versus(Less, 0.5), versus(NoDifference, 1.0)));
    let [defaults, first] = entries;
    assert_eq!(concluded(&[defaults, first, other]).0, Some(2));
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
