//! Limits that have to hold, such as `rss<400M`.

use crate::output;
use crate::parse;

use super::trial::Trial;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    Rss,
    Time,
    Cpu,
}

/// The figure stays below the limit, in bytes or seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constraint {
    pub figure: Figure,
    pub limit: f64,
}

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

impl Constraint {
    pub fn value(self, trial: &Trial) -> f64 {
        match self.figure {
            Figure::Rss => trial.peak_rss,
            Figure::Time => trial.time_s,
            Figure::Cpu => trial.cpu_s,
        }
    }

    pub fn show(self, value: f64) -> String {
        match self.figure {
            Figure::Rss => output::bytes(value),
            Figure::Time | Figure::Cpu => output::seconds(value),
        }
    }

    /// As it is written.
    pub fn text(self) -> String {
        let name = match self.figure {
            Figure::Rss => "rss",
            Figure::Time => "time",
            Figure::Cpu => "cpu",
        };
        format!("{name} < {}", self.show(self.limit))
    }

    /// Memory has to hold in every run, for one that passes it is killed; the others in the middle.
    pub fn worst(self, trials: &[&Trial]) -> Option<f64> {
        let values: Vec<f64> = trials.iter().map(|trial| self.value(trial)).collect();
        match self.figure {
            Figure::Rss => values.into_iter().reduce(f64::max),
            Figure::Time | Figure::Cpu => mallow_measure::statistics::median(&values),
        }
    }

    pub fn holds(self, trials: &[&Trial]) -> bool {
        self.worst(trials).is_some_and(|worst| worst < self.limit)
    }
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
        assert_eq!(parse("rss<400M").unwrap().text(), "rss < 400 MiB");
    }

    #[test]
    fn memory_holds_in_every_run_and_time_in_the_middle() {
        let trial = |time_s, peak_rss| Trial { time_s, cpu_s: 0.1, peak_rss };
        let trials = [trial(1.0, 10.0), trial(9.0, 10.0), trial(1.0, 50.0)];
        let all: Vec<&Trial> = trials.iter().collect();
        let limit = |figure, limit| Constraint { figure, limit };
        assert!(limit(Figure::Time, 2.0).holds(&all));
        assert!(!limit(Figure::Rss, 20.0).holds(&all) && limit(Figure::Rss, 51.0).holds(&all));
        assert!(!limit(Figure::Rss, 20.0).holds(&[]), "nothing ran");
    }
}
