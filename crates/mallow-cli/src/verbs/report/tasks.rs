// SPDX-License-Identifier: MIT
//! The processes of a recording, and their threads, as a table.

use std::collections::HashMap;

use mallow_report::{Process, Sizes, Summary, Thread};

use super::words::{count, shortened};
use crate::output::{self, Table};

/// Sizes that a thread's line shows.
const SIZES_IN_LINE: usize = 3;
/// Threads of a process that are shown one by one; more are summed up.
const MOST_THREADS: usize = 64;
/// Endings that are nothing to speak of.
const QUIET_ENDINGS: [&str; 3] = ["exit 0", "exec", "unknown"];
/// Deeper processes are not indented further: there may be a chain of very many.
const DEEPEST: usize = 12;

pub fn table(summary: &Summary) -> Table {
    let mut table = Table::new(&[
        ("process, thread", false),
        ("allocations", true),
        ("reallocs", true),
        ("frees", true),
        ("bytes", true),
        ("at the peak", true),
        ("never freed", true),
        ("frequent sizes", false),
    ]);
    for place in order(&summary.processes) {
        process_rows(&summary.processes[place.index], &place, &mut table);
    }
    table
}

/// Where a process stands in the table.
#[derive(Debug, PartialEq)]
struct Place {
    index: usize,
    depth: usize,
    /// How it began; nothing for the first one.
    start: &'static str,
}

/// Each process before those that it started, in the order of their starts.
fn order(processes: &[Process]) -> Vec<Place> {
    let mut known: HashMap<u32, usize> = HashMap::new();
    let mut children: Vec<Vec<Place>> = Vec::with_capacity(processes.len());
    let mut roots = Vec::new();
    for (index, process) in processes.iter().enumerate() {
        children.push(Vec::new());
        // A parent comes before its children, so there is no circle.
        let parent = process.parent.and_then(|parent| known.get(&parent).copied());
        let start = match (process.start, parent) {
            ("first", _) => "",
            // By vfork or posix_spawn: without a fork that was seen, it is another process.
            ("exec", Some(parent)) if processes[parent].pid != process.pid => "spawn",
            (start, _) => start,
        };
        // After an exec it is the same process.
        let depth = usize::from(start != "exec");
        match parent {
            Some(parent) => children[parent].push(Place { index, depth, start }),
            None => roots.push(Place { index, depth: 0, start }),
        }
        known.entry(process.id).or_insert(index);
    }
    let mut open: Vec<Place> = roots.into_iter().rev().collect();
    let mut places = Vec::with_capacity(processes.len());
    while let Some(place) = open.pop() {
        let below = std::mem::take(&mut children[place.index]).into_iter().rev();
        open.extend(below.map(|child| Place { depth: place.depth + child.depth, ..child }));
        places.push(place);
    }
    places
}

fn process_rows(process: &Process, place: &Place, table: &mut Table) {
    let depth = place.depth.min(DEEPEST);
    let indent = "  ".repeat(depth);
    let command = if process.command.is_empty() {
        process.executable.clone()
    } else {
        process.command.join(" ")
    };
    let start = match place.start {
        "" => String::new(),
        start => format!("{start} "),
    };
    let ending = process.ending.as_deref().filter(|ending| !QUIET_ENDINGS.contains(ending));
    let ending = ending.map(|ending| format!(" ({ending})")).unwrap_or_default();
    let name = format!("{indent}{start}{} {}{ending}", process.pid, shortened(&command));
    let all = thread_sum(&process.threads);
    table.rows.push(task_row(name, &all, all_sizes(&process.threads)));
    if process.threads.len() > 1 {
        let indent = "  ".repeat(depth + 1);
        for thread in process.threads.iter().take(MOST_THREADS) {
            let name = format!("{indent}{} {}", thread.tid, thread.name);
            table.rows.push(task_row(name, &TaskSum::of(thread), size_line(&thread.sizes)));
        }
        let more = process.threads.len().saturating_sub(MOST_THREADS);
        if more > 0 {
            let rest = thread_sum(&process.threads[MOST_THREADS..]);
            let name = format!("{indent}{} more threads", count(more as u64));
            table.rows.push(task_row(name, &rest, String::new()));
        }
    }
}

#[derive(Default)]
struct TaskSum {
    allocations: u64,
    reallocs: u64,
    frees: u64,
    bytes: u64,
    peak: u64,
    leaked: u64,
}

impl TaskSum {
    fn of(thread: &Thread) -> TaskSum {
        TaskSum {
            allocations: thread.allocations(),
            reallocs: thread.reallocs(),
            frees: thread.frees(),
            bytes: thread.allocated.bytes,
            peak: thread.peak.bytes,
            leaked: thread.leaked.bytes,
        }
    }
}

fn thread_sum(threads: &[Thread]) -> TaskSum {
    threads.iter().map(TaskSum::of).fold(TaskSum::default(), |sum, thread| TaskSum {
        allocations: sum.allocations + thread.allocations,
        reallocs: sum.reallocs + thread.reallocs,
        frees: sum.frees + thread.frees,
        bytes: sum.bytes + thread.bytes,
        peak: sum.peak + thread.peak,
        leaked: sum.leaked + thread.leaked,
    })
}

fn task_row(name: String, sum: &TaskSum, sizes: String) -> Vec<String> {
    let bytes = |bytes: u64| output::bytes(bytes as f64);
    vec![
        name,
        count(sum.allocations),
        count(sum.reallocs),
        count(sum.frees),
        bytes(sum.bytes),
        bytes(sum.peak),
        bytes(sum.leaked),
        sizes,
    ]
}

/// A process with one thread shows that thread's sizes; one with several shows them at each.
fn all_sizes(threads: &[Thread]) -> String {
    match threads {
        [only] => size_line(&only.sizes),
        _ => String::new(),
    }
}

/// `8225 (45 %), 4133 (2 %)`
fn size_line(sizes: &Sizes) -> String {
    let shown = sizes.frequent.iter().take(SIZES_IN_LINE);
    let shown: Vec<String> =
        shown.map(|size| format!("{} ({:.0} %)", size.size, size.share * 100.0)).collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: u32, pid: u32, parent: u32, start: &'static str) -> Process {
        Process {
            id,
            pid,
            parent: Some(parent).filter(|parent| *parent > 0),
            start,
            executable: format!("/bin/{id}"),
            command: Vec::new(),
            allocator: String::new(),
            started_ns: 0,
            ended_ns: None,
            ending: None,
            peak: <_>::default(),
            peak_time_ns: 0,
            peak_rss_bytes: None,
            leaked: <_>::default(),
            unknown_frees: 0,
            threads: Vec::new(),
        }
    }

    fn shown(processes: &[Process]) -> Vec<(u32, usize, &'static str)> {
        let places = order(processes).into_iter();
        places.map(|place| (processes[place.index].id, place.depth, place.start)).collect()
    }

    /// gcc starts cc1 by vfork, so that of cc1 only the exec is seen.
    #[test]
    fn an_exec_in_another_process_is_a_child() {
        let processes = [
            process(1, 10, 0, "first"),
            process(2, 11, 1, "exec"),
            process(3, 12, 1, "fork"),
            process(4, 12, 3, "exec"),
            process(5, 10, 1, "exec"),
            process(6, 13, 2, "exec"),
        ];
        let expected = [
            (1, 0, ""),
            (2, 1, "spawn"),
            (6, 2, "spawn"),
            (3, 1, "fork"),
            (4, 1, "exec"),
            (5, 0, "exec"),
        ];
        assert_eq!(shown(&processes), expected);
        let mut table = Table::new(&[]);
        process_rows(&processes[1], &order(&processes)[1], &mut table);
        assert_eq!(table.rows[0][0], "  spawn 11 /bin/2");
    }

    #[test]
    fn every_process_is_shown_once_whatever_the_trace_says() {
        let odd = [
            process(1, 10, 1, "fork"),
            process(2, 11, 3, "exec"),
            process(3, 12, 2, "fork"),
            process(3, 13, 9, "first"),
        ];
        let mut ids: Vec<u32> = shown(&odd).into_iter().map(|(id, ..)| id).collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3, 3]);
    }

    /// In a thread with a small stack, and in time.
    #[test]
    fn chains_of_many_processes_are_shown() {
        let chain = |start| -> Vec<Process> {
            (1..=50_000).map(|id| process(id, id, id - 1, start)).collect()
        };
        let show = move || {
            for start in ["exec", "fork"] {
                let processes = chain(start);
                let places = order(&processes);
                assert_eq!(places.len(), processes.len());
                let mut table = Table::new(&[]);
                let last = &places[49_999];
                process_rows(&processes[last.index], last, &mut table);
                assert_eq!((last.index, last.depth), (49_999, 49_999));
                assert!(table.rows[0][0].len() < 60, "{}", table.rows[0][0]);
            }
        };
        let thread = std::thread::Builder::new().stack_size(128 << 10).spawn(show).unwrap();
        thread.join().unwrap();
    }
}
