// SPDX-License-Identifier: MIT
//! The page at `/`: what is served, and where.

use maud::html;

use super::collect::{Outcome, Snapshot, Target};
use super::metrics;
use crate::output::{self, Page, Table};

/// Processes in the table of the page; the metrics have all.
const MOST_ROWS: usize = 200;

pub fn render(snapshot: &Snapshot) -> String {
    let body = html! {
        (output::html::head("mallow serve", None, &sentence(snapshot)))
        p {
            a href="metrics" { "Metrics" } " for Prometheus, " a href="healthz" { "healthz" }
            ". Profiles: /debug/pprof/heap?pid=PID and /debug/pprof/allocs?pid=PID."
        }
        (output::html::table(&table(snapshot)))
    };
    let version = env!("CARGO_PKG_VERSION");
    Page { title: "mallow serve", body, version, script: None }.render()
}

fn sentence(snapshot: &Snapshot) -> String {
    let [(_, read), (_, other), (_, denied), (_, unreadable), (_, left_out)] =
        metrics::states(snapshot);
    format!(
        "Heaps that are read: {read}. Processes with another allocator: {other}; that this user may \
         not read: {denied}; that could not be read: {unreadable}; beyond --most: {left_out}."
    )
}

fn table(snapshot: &Snapshot) -> Table {
    let mut rows = Table::new(&[
        ("pid", true),
        ("name", false),
        ("allocator", false),
        ("RSS", true),
        ("allocated", true),
        ("free but resident", true),
        ("heap", false),
    ]);
    let mut targets: Vec<&Target> = snapshot.targets.iter().collect();
    let is_read = |target: &Target| matches!(target.heap, Outcome::Read(_));
    targets.sort_by_key(|target| (!is_read(target), u64::MAX - target.vitals.rss));
    for target in targets.into_iter().take(MOST_ROWS) {
        let (used, free) = match &target.heap {
            Outcome::Read(reading) => {
                let heap = &reading.heap;
                let kept = heap.sum(|arena| arena.dirty.saturating_add(arena.cached));
                let free = heap.free_slots().saturating_add(kept);
                (output::bytes(heap.allocated() as f64), output::bytes(free as f64))
            }
            _ => (String::new(), String::new()),
        };
        rows.rows.push(vec![
            target.pid.to_string(),
            target.vitals.comm.clone(),
            target.allocator.clone(),
            output::bytes(target.vitals.rss as f64),
            used,
            free,
            target.heap.name().into(),
        ]);
    }
    rows
}
