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
    pub set: String,
    /// What it is expected to change, and what it may cost.
    pub effect: String,
    /// The command that shows whether it did.
    pub check: String,
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
