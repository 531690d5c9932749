// SPDX-License-Identifier: MIT
//! One run under one group of settings.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    pub time_s: f64,
    pub cpu_s: f64,
    pub peak_rss: f64,
    /// The peak is that of the copy of this tool from which the command was started, which had no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_peak_of_start: bool,
}

impl Trial {
    /// Of a file that anybody may have written.
    pub fn is_sane(&self) -> bool {
        [self.time_s, self.cpu_s, self.peak_rss].iter().all(|v| v.is_finite() && *v >= 0.0)
    }
}

/// Why a run says nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// As in "ended with exit code 3".
    pub text: String,
    pub code: u8,
}

pub type Outcome = Result<Trial, Failure>;

/// What is tried: the defaults are the first.
pub type Index = usize;
pub const DEFAULTS: Index = 0;

/// What a round is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The first run, which says how long one takes.
    First,
    /// A step of the search, with fewer candidates than the one before.
    Step(u32),
    /// The best, alone and joined.
    Joined,
    Confirmation,
    /// On the second recording.
    Second,
}

/// A run's place in the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    pub stage: Stage,
    pub round: u32,
    pub candidate: Index,
}
