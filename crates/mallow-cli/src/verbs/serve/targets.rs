// SPDX-License-Identifier: MIT
//! Which processes are served.

use mallow_process::stat;
use mallow_process::vitals::{self, Vitals};
use regex_lite::Regex;

use super::args::ServeArgs;
use crate::error::{Error, Result};
use crate::parse;

pub enum Choice {
    Pids(Vec<u32>),
    Match(Regex),
    Unit(String),
    All,
}

impl Choice {
    pub fn of(args: &ServeArgs) -> Result<Choice> {
        if !args.pid.is_empty() {
            return Ok(Choice::Pids(args.pid.clone()));
        }
        if let Some(pattern) = &args.r#match {
            let regex = Regex::new(pattern).map_err(|error| {
                let reason = error.to_string().replace('\n', " ");
                Error::Usage(format!("{pattern} is no regular expression: {reason}."))
            })?;
            return Ok(Choice::Match(regex));
        }
        Ok(match &args.unit {
            Some(name) if name.is_empty() => {
                return Err(Error::Usage(
                    "--unit needs the name of a unit. List them with: systemctl list-units --type \
                     service."
                        .into(),
                ));
            }
            Some(name) => Choice::Unit(parse::unit(name)),
            None => Choice::All,
        })
    }

    /// What is worth a note when there is nothing to serve yet: a unit may start later, or its name be wrong.
    pub fn missing_unit(&self) -> Option<String> {
        let Choice::Unit(unit) = self else { return None };
        let has_process = |pid: u32| Vitals::read(pid).is_ok_and(|v| v.is_in_group(unit));
        let is_there = self.candidates().into_iter().any(has_process);
        (!is_there).then(|| {
            format!("No process belongs to {unit} now. Those that it starts later will be served.")
        })
    }

    /// What there may be to serve now; `takes` decides.
    pub fn candidates(&self) -> Vec<u32> {
        let Choice::Pids(pids) = self else {
            let own = std::process::id();
            let all = stat::pids().unwrap_or_default();
            return all.into_iter().filter(|pid| *pid != own).collect();
        };
        let mut found = Vec::new();
        for pid in pids {
            mallow_process::descendants(*pid, &mut found);
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    pub fn takes(&self, pid: u32, vitals: &Vitals) -> bool {
        match self {
            Choice::Pids(_) | Choice::All => true,
            Choice::Unit(unit) => vitals.is_in_group(unit),
            Choice::Match(regex) => {
                regex.is_match(&vitals.comm) || regex.is_match(&vitals::command_line(pid))
            }
        }
    }
}
