// SPDX-License-Identifier: MIT
//! Limits as they are written, such as `rss<400M`.

use mallow_measure::search::limit::{Constraint, Figure};

use crate::output;
use crate::parse;

pub fn parse(text: &str) -> Result<Constraint, String> {
    let wrong = || "a limit is written like rss<400M, time<2s or cpu<1.5s".to_owned();
    let (name, limit) = text.split_once('<').ok_or_else(wrong)?;
    let limit = limit.trim_start_matches('=').trim();
    let seconds = |limit: &str| parse::duration(limit).map(|time| time.as_secs_f64());
    let (figure, limit) = match name.trim() {
        "rss" => (Figure::Rss, parse::size(limit)? as f64),
        "time" => (Figure::Time, seconds(limit)?),
        "cpu" => (Figure::Cpu, seconds(limit)?),
        _ => return Err(wrong()),
    };
    Ok(Constraint { figure, limit })
}

pub fn show(limit: &Constraint, value: f64) -> String {
    match limit.figure {
        Figure::Rss => output::bytes(value),
        Figure::Time | Figure::Cpu => output::seconds(value),
    }
}

/// As it is written.
pub fn text(limit: &Constraint) -> String {
    let name = match limit.figure {
        Figure::Rss => "rss",
        Figure::Time => "time",
        Figure::Cpu => "cpu",
    };
    format!("{name} < {}", show(limit, limit.limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let is = |text, figure, limit| assert_eq!(parse(text), Ok(Constraint { figure, limit }));
        is("rss<400M", Figure::Rss, f64::from(400 << 20));
        is("rss <= 1G", Figure::Rss, f64::from(1 << 30));
        is("time<2s", Figure::Time, 2.0);
        is("cpu < 1500ms", Figure::Cpu, 1.5);
        for wrong in
            ["", "rss", "rss>4M", "rss<", "rss<-1", "rss<0", "time<0", "heap<4M", "time<2M"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(text(&parse("rss<400M").unwrap()), "rss < 400 MiB");
    }
}
