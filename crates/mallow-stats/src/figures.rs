// SPDX-License-Identifier: MIT
//! Quantities as people read them, with three digits.

use std::time::Duration;

/// `1.234 s`, `56.7 ms`, `890 us`.
pub fn seconds(value: f64) -> String {
    let micro = value * 1e6;
    if value == 0.0 {
        "0 s".into()
    } else if micro < 999.5 {
        format!("{} us", three_digits(micro))
    } else if micro < 999_500.0 {
        format!("{} ms", three_digits(micro / 1e3))
    } else {
        format!("{} s", three_digits(value))
    }
}

/// `512 KiB`, `12.3 MiB`, `1.50 GiB`, `8.00 TiB`.
pub fn bytes(value: f64) -> String {
    /// What rounds to 1024 of a unit is one of the next.
    const LEAST: f64 = 1023.5 / 1024.0;
    for (unit, power) in [("TiB", 4), ("GiB", 3), ("MiB", 2), ("KiB", 1)] {
        let scale = 1024f64.powi(power);
        if value >= LEAST * scale {
            return format!("{} {unit}", three_digits(value / scale));
        }
    }
    format!("{value:.0} B")
}

fn three_digits(value: f64) -> String {
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$}")
}

/// `+3.1 %` for a ratio of 1.031.
pub fn percent_change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent.abs() < 0.05 { "0.0 %".into() } else { format!("{percent:+.1} %") }
}

/// With as many decimals as show on which side of `limit`, in percent, the change lies.
pub fn percent_change_beside(limit: f64, before: u64, after: u64) -> String {
    let percent = (after as f64 - before as f64) * 100.0 / before as f64;
    let is_shown = |decimals: &usize| {
        let shown: f64 = format!("{percent:.decimals$}").parse().unwrap_or(percent);
        (shown.abs() > limit) == (percent.abs() > limit)
    };
    let decimals = (1..=6).find(is_shown).unwrap_or(1);
    let shown = format!("{percent:+.decimals$} %");
    if matches!(shown.as_str(), "+0.0 %" | "-0.0 %") { "0.0 %".into() } else { shown }
}

pub fn duration(time: Duration) -> String {
    seconds(time.as_secs_f64())
}

/// `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 thread`, `1,234 threads`, `2 processes`.
pub fn counted(number: u64, word: &str) -> String {
    let plural = match (number, word.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        _ => "s",
    };
    format!("{} {word}{plural}", count(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits() {
        assert_eq!(seconds(1.2345), "1.23 s");
        assert_eq!(seconds(0.056_78), "56.8 ms");
        assert_eq!(seconds(0.000_89), "890 us");
        assert_eq!(bytes(1536.0 * 1024.0), "1.50 MiB");
        assert_eq!(bytes(100.0), "100 B");
        // What databases and sanitizers reserve.
        assert_eq!(bytes(8.0 * 1024f64.powi(4)), "8.00 TiB");
        // What is just below a unit is rounded to one of it.
        let below = |power| bytes(1024f64.powi(power) - 1024f64.powi(power - 2));
        assert_eq!([2, 3, 4].map(below), ["1.00 MiB", "1.00 GiB", "1.00 TiB"]);
        assert_eq!([bytes(1023.0), bytes(1024.0)], ["1023 B", "1.00 KiB"]);
        assert_eq!([bytes(1023.49 * 1024.0), bytes(1023.5 * 1024.0)], ["1023 KiB", "1.00 MiB"]);
        assert_eq!(percent_change(1.0311), "+3.1 %");
        assert_eq!(percent_change(0.9), "-10.0 %");
    }

    #[test]
    fn a_change_has_the_decimals_that_tell_it_from_a_limit() {
        assert_eq!(percent_change_beside(5.0, 100, 105), "+5.0 %");
        assert_eq!(percent_change_beside(5.0, 100_000, 105_010), "+5.01 %");
        assert_eq!(percent_change_beside(0.0, 1_000_000, 1_000_001), "+0.0001 %");
        assert_eq!(percent_change_beside(0.0, 3, 2), "-33.3 %");
        assert_eq!(percent_change_beside(10.0, 10_000, 10_001), "0.0 %");
        assert_eq!(percent_change_beside(10.0, 8, 7), "-12.5 %");
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!([0, 12, 999, 1000].map(count), ["0", "12", "999", "1,000"]);
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!([counted(1, "thread"), counted(1776, "thread")], ["1 thread", "1,776 threads"]);
        assert_eq!([counted(1, "process"), counted(2, "process")], ["1 process", "2 processes"]);
    }
}
