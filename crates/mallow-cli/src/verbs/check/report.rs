//! The result of `check` as data.

use std::path::Path;

use serde::{Serialize, Serializer};

use super::measure::Place;
use super::metric::{Metric, Range};

pub const SCHEMA: &str = "mallow.check/1";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    Regressed,
    Improved,
    Inconclusive,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Regressed => "regressed",
            Verdict::Improved => "improved",
            Verdict::Inconclusive => "inconclusive",
        }
    }

    pub fn exit_code(self) -> u8 {
        match self {
            Verdict::Ok | Verdict::Improved => 0,
            Verdict::Regressed => 3,
            Verdict::Inconclusive => 6,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub schema: &'static str,
    pub version: &'static str,
    pub command: Vec<String>,
    pub baseline: String,
    /// Whether the baseline was written anew.
    pub updated: bool,
    pub runs: u32,
    pub verdict: Verdict,
    /// File names of the programs that are counted.
    pub processes: Vec<String>,
    pub metrics: Vec<Judged>,
    /// By metric, the largest change first.
    pub changes: Vec<Change>,
    pub notes: Vec<String>,
}

/// Counts are sums over the stacks that are the same in each run.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    pub metric: Metric,
    pub before: Range,
    pub after: Range,
    pub tolerance_percent: f64,
    pub verdict: Verdict,
    pub left_out_stacks: usize,
    /// Of the metric now, from 0 to 1.
    pub left_out_share: f64,
}

/// A stack that does more, or less, than the baseline says.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    pub stack: String,
    pub metric: Metric,
    pub before: u64,
    pub after: Range,
    /// The innermost place of it whose source is here.
    #[serde(flatten, serialize_with = "place")]
    pub place: Option<Place>,
}

fn place<S: Serializer>(place: &Option<Place>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Named<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        file: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<u32>,
    }
    let place = place.as_ref();
    Named { file: place.map(|p| p.file.as_str()), line: place.map(|p| p.line) }
        .serialize(serializer)
}

impl Change {
    pub fn new(
        stack: &str,
        metric: Metric,
        before: u64,
        after: Range,
        places: Option<&Vec<Place>>,
    ) -> Change {
        let place = places.and_then(|places| places.iter().find_map(in_workspace));
        Change { stack: stack.into(), metric, before, after, place }
    }

    /// How far it is from the baseline.
    pub fn size(&self) -> u64 {
        self.before.abs_diff(self.after.low).max(self.before.abs_diff(self.after.high))
    }

    pub fn is_more(&self) -> bool {
        self.after.high > self.before
    }
}

/// The place with its file relative to the workspace, where it is in it.
fn in_workspace(place: &Place) -> Option<Place> {
    let root = match std::env::var_os("GITHUB_WORKSPACE").filter(|root| !root.is_empty()) {
        Some(root) => root.into(),
        None => std::env::current_dir().ok()?,
    };
    let root = root.canonicalize().ok()?;
    let file = root.join(&place.file).canonicalize().ok()?;
    let file = file.strip_prefix(&root).ok().and_then(Path::to_str)?;
    Some(Place { file: file.to_owned(), line: place.line })
}

/// The worst of all: what regressed first, then what is not known.
pub fn overall(metrics: &[Judged]) -> Verdict {
    let has = |verdict| metrics.iter().any(|judged| judged.verdict == verdict);
    let order = [Verdict::Regressed, Verdict::Inconclusive, Verdict::Improved];
    order.into_iter().find(|verdict| has(*verdict)).unwrap_or(Verdict::Ok)
}
