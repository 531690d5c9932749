//! The result of `compare` as one HTML file that needs nothing else.

use super::report::Report;

pub fn page(report: &Report) -> String {
    report.verdict.clone()
}
