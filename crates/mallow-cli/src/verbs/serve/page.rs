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
        ("free, resident at most", true),
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
                // Mallow does not count which of them were never written to, or were swapped out.
                let free = heap.free_slots().saturating_add(kept).min(target.vitals.rss);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::serve::collect::Reading;
    use mallow_process::heap::mallow::{Arena, Heap};
    use mallow_process::vitals::Vitals;

    #[test]
    fn no_more_is_resident_of_what_is_free_than_of_the_process() {
        let free = |rss: u64, slots_bytes: u64, dirty: u64| {
            let arena = Arena { slots_bytes, dirty, ..Arena::default() };
            let heap = Heap { arenas: vec![arena], ..Heap::default() };
            let heap = Outcome::Read(Box::new(Reading { heap, ..Reading::default() }));
            let vitals = Vitals { rss: rss << 20, ..Vitals::default() };
            let (exe, started_as, limit) = (None, None, None);
            let allocator = "mallow".into();
            let target = Target { pid: 7, exe, started_as, vitals, limit, allocator, heap };
            let snapshot = Snapshot { targets: vec![target], ..Snapshot::default() };
            table(&snapshot).rows[0][5].clone()
        };
        assert_eq!(free(78, 100 << 20, 28 << 20), "78.0 MiB");
        assert_eq!(free(78, 30 << 20, 28 << 20), "58.0 MiB");
    }
}
