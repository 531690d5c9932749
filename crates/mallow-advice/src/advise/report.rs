// SPDX-License-Identifier: MIT
//! What `advise` found out, as data.

use serde::Serialize;

pub const SCHEMA: &str = "mallow.advise/1";

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub schema: &'static str,
    pub version: &'static str,
    /// The process, the file of the dump, or the command.
    pub source: String,
    pub pid: Option<u32>,
    pub allocator: String,
    pub allocator_version: Option<String>,
    pub findings: Vec<Finding>,
    pub not_judged: Vec<NotJudged>,
    /// What the statistics do not tell.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// `mallow help ID` explains it.
    pub id: &'static str,
    pub title: &'static str,
    /// What was seen, with figures.
    pub evidence: String,
    /// Why that costs something.
    pub reason: &'static str,
    /// The line to set, or what to do.
    pub set: Step,
    /// What it is expected to change, and what it may cost.
    pub effect: String,
    /// The command that shows whether it did.
    pub check: Step,
}

/// What somebody is to do. As data it is its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Step {
    /// A line to set or to type: it is copied as it stands, so nobody breaks it.
    Typed(String),
    Words(String),
}

impl Step {
    pub fn typed(line: impl Into<String>) -> Step {
        Step::Typed(line.into())
    }

    pub fn words(text: impl Into<String>) -> Step {
        Step::Words(text.into())
    }

    pub fn text(&self) -> &str {
        match self {
            Step::Typed(text) | Step::Words(text) => text,
        }
    }
}

/// A rule that applies, but lacks what it looks at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotJudged {
    pub id: &'static str,
    pub title: &'static str,
    pub why: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct RuleList {
    pub schema: &'static str,
    pub version: &'static str,
    pub rules: Vec<Listed>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    pub id: &'static str,
    pub of: &'static str,
    pub title: &'static str,
    pub reason: &'static str,
}
