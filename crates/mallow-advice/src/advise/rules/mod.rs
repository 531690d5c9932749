// SPDX-License-Identifier: MIT
//! The rules: each looks at a case and says what it found. `jemalloc` judges dumps, `glibc` and
//! `mallow` heaps that were read from outside, `system` what surrounds them, `runtime` what the
//! program is.

mod glibc;
mod jemalloc;
mod mallow;
mod runtime;
mod system;

use super::case::Case;
use super::report::{Finding, Listed, NotJudged, Step};
use crate::findings;

pub struct Rule {
    pub id: &'static str,
    /// Which allocators or runtimes it is for.
    pub of: &'static str,
    /// Why what it finds costs something.
    pub reason: &'static str,
    pub applies: fn(&Case) -> bool,
    pub judge: fn(&Case) -> Verdict,
}

pub enum Verdict {
    Fine,
    Found(Advice),
    /// What is lacking, in a sentence.
    Unknown(String),
}

pub struct Advice {
    pub evidence: String,
    pub set: Step,
    pub effect: String,
    pub check: Step,
}

fn all() -> impl Iterator<Item = &'static Rule> {
    let sets = [glibc::RULES, mallow::RULES, system::RULES, jemalloc::RULES, runtime::RULES];
    sets.into_iter().flatten()
}

/// What the rules that apply say of a case.
pub fn judge(case: &Case) -> (Vec<Finding>, Vec<NotJudged>) {
    let (mut found, mut not_judged) = (Vec::new(), Vec::new());
    for rule in all().filter(|rule| (rule.applies)(case)) {
        let title = findings::find(rule.id).map_or("", |entry| entry.title);
        match (rule.judge)(case) {
            Verdict::Fine => {}
            Verdict::Unknown(why) => not_judged.push(NotJudged { id: rule.id, title, why }),
            Verdict::Found(Advice { evidence, set, effect, check }) => found.push(Finding {
                id: rule.id,
                title,
                evidence,
                reason: rule.reason,
                set,
                effect,
                check,
            }),
        }
    }
    found.sort_by_key(|finding| finding.id);
    not_judged.sort_by_key(|rule| rule.id);
    (found, not_judged)
}

/// All rules, for `--rules`.
pub fn list() -> Vec<Listed> {
    let mut rules: Vec<Listed> = all()
        .map(|rule| Listed {
            id: rule.id,
            of: rule.of,
            title: findings::find(rule.id).map_or("", |entry| entry.title),
            reason: rule.reason,
        })
        .collect();
    rules.sort_by_key(|rule| rule.id);
    rules
}

#[cfg(test)]
mod tests;
