// SPDX-License-Identifier: MIT
//! The report as text: the totals first, then what was asked for.

use std::fmt::Write as _;

use mallow_stats::{Lock, Stats, Totals};

use super::args::StatsArgs;
use super::report::{Report, Sample};
use crate::output::{self, Format, Screen, Table, clean};

/// How a figure is written: for people, or for programs.
type Show = fn(Option<u64>) -> String;

const UNKNOWN: &str = "-";

#[derive(Clone, Copy, Debug, Default)]
pub struct Sections {
    pub arenas: bool,
    pub classes: bool,
    pub locks: bool,
    pub options: bool,
    /// With what was never used.
    pub all: bool,
}

impl Sections {
    pub fn of(args: &StatsArgs) -> Sections {
        let all = args.all;
        Sections {
            arenas: args.arenas || all,
            classes: args.classes || all,
            locks: args.locks || all,
            options: args.options || all,
            all,
        }
    }
}

pub fn size(bytes: Option<u64>) -> String {
    match bytes {
        None => UNKNOWN.into(),
        Some(0) => "0".into(),
        Some(bytes) => output::bytes(bytes as f64),
    }
}

fn plain(number: Option<u64>) -> String {
    number.map_or(String::new(), |number| number.to_string())
}

fn count(number: Option<u64>) -> String {
    number.map_or(UNKNOWN.into(), |number| number.to_string())
}

/// Each total, with what it means.
fn named(totals: &Totals) -> [(&'static str, Option<u64>, &'static str); 10] {
    [
        ("allocated", totals.allocated, "with the program"),
        ("active", totals.active, "pages that hold blocks of the program"),
        ("cached", totals.cached, "free, at hand for threads"),
        ("dirty", totals.dirty, "free pages that did not go back"),
        ("muzzy", totals.muzzy, "free pages that the kernel may take"),
        ("metadata", totals.metadata, "the allocator's own"),
        ("resident", totals.resident, "in physical memory"),
        ("huge", totals.huge, "of that, in huge pages"),
        ("mapped", totals.mapped, "address space in use"),
        ("retained", totals.retained, "address space without memory"),
    ]
}

pub fn sentence(report: &Report) -> String {
    let stats = &report.stats;
    let mut sentence = stats.allocator.clone();
    if let Some(version) = &stats.version {
        let _ = write!(sentence, " {version}");
    }
    if let Some(threads) = stats.threads.filter(|threads| *threads > 0) {
        let _ = write!(sentence, ", {} that allocated", counted(threads, "thread"));
    }
    if let Some(arenas) = stats.arenas_for_threads.filter(|arenas| *arenas > 0) {
        let _ = write!(sentence, ", {}", counted(arenas, "arena"));
    }
    if let Some(time) = stats.uptime_s() {
        let _ = write!(sentence, ", {} after its start", output::seconds(time));
    }
    // The process wrote its version itself, and may have written anything there.
    clean::line(&format!("{sentence}: {}.", report.source)).into_owned()
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// With `is_followed` the totals were shown as they came.
pub fn text(
    report: &Report,
    sections: Sections,
    format: Format,
    screen: Screen,
    is_followed: bool,
) -> String {
    let stats = &report.stats;
    let heading = |title: &str| match format {
        Format::Md => format!("\n## {title}\n\n"),
        _ => format!("\n{title}\n"),
    };
    let mut text = String::new();
    if !is_followed {
        text += &screen.fill(&sentence(report));
        text += "\n\n";
        text += &totals_table(&stats.totals, size).render(format, screen);
    }
    for sentence in &stats.missing {
        text += &format!("\n{}\n", screen.fill(&format!("Note: {sentence}")));
    }
    for (title, table) in tables(stats, sections, size) {
        text += &heading(title);
        text += &match table.rows.is_empty() {
            true => "Nothing is known of them.\n".into(),
            false => table.render(format, screen),
        };
    }
    text
}

/// The one table that was asked for, or the totals.
pub fn csv(report: &Report, sections: Sections) -> String {
    let mut tables = tables(&report.stats, sections, plain);
    let table = match tables.len() {
        1 => tables.remove(0).1,
        _ if !report.samples.is_empty() => samples_table(&report.samples),
        _ => totals_table(&report.stats.totals, plain),
    };
    table.render(Format::Csv, Screen::PLAIN)
}

pub fn tables(stats: &Stats, sections: Sections, show: Show) -> Vec<(&'static str, Table)> {
    let mut tables = Vec::new();
    if sections.arenas {
        tables.push(("Arenas", arena_table(stats, show)));
    }
    if sections.classes {
        tables.push(("Size classes", class_table(stats, sections.all)));
    }
    if sections.locks {
        tables.push(("Locks", lock_table(stats, sections.all)));
    }
    if sections.options {
        let mut table = Table::new(&[("option", false), ("value", false)]);
        table.rows = stats.options.iter().map(|(k, v)| vec![k.clone(), v.clone()]).collect();
        tables.push(("Options", table));
    }
    tables
}

pub fn totals_table(totals: &Totals, show: Show) -> Table {
    let mut table = Table::new(&[("", false), ("bytes", true), ("what it is", false)]);
    let is_for_people = show(None) == UNKNOWN;
    for (name, bytes, what) in named(totals) {
        if bytes.is_none() && is_for_people {
            continue;
        }
        table.rows.push(vec![name.into(), show(bytes), what.into()]);
    }
    table
}

fn arena_table(stats: &Stats, show: Show) -> Table {
    let mut table = Table::new(&[
        ("arena", false),
        ("threads", true),
        ("allocated", true),
        ("active", true),
        ("cached", true),
        ("dirty", true),
        ("resident", true),
        ("mapped", true),
    ]);
    for arena in &stats.arenas {
        let totals = &arena.totals;
        let mut row = vec![arena.name.clone(), count(arena.threads)];
        let sizes = [
            totals.allocated,
            totals.active,
            totals.cached,
            totals.dirty,
            totals.resident,
            totals.mapped,
        ];
        row.extend(sizes.map(show));
        table.rows.push(row);
    }
    without_unknown(table)
}

/// Without the columns in which nothing is known.
fn without_unknown(table: Table) -> Table {
    let is_known = |column: &usize| table.rows.iter().any(|row| row[*column] != UNKNOWN);
    let known: Vec<usize> = (0..table.columns.len()).filter(is_known).collect();
    let mut shown = Table::new(&[]);
    for column in &known {
        let (name, is_number) = &table.columns[*column];
        shown.add_column(name, *is_number);
    }
    let row = |row: &Vec<String>| known.iter().map(|column| row[*column].clone()).collect();
    shown.rows = table.rows.iter().map(row).collect();
    shown
}

fn class_table(stats: &Stats, all: bool) -> Table {
    let mut table = Table::new(&[
        ("size", true),
        ("in a slab", true),
        ("slabs", true),
        ("used", true),
        ("requests", true),
        ("fills", true),
        ("flushes", true),
    ]);
    let is_used = |class: &&mallow_stats::Class| {
        all || class.used.unwrap_or(0) > 0 || class.requests.unwrap_or(0) > 0
    };
    for class in stats.classes.iter().filter(is_used) {
        let figures = [
            class.blocks_per_slab,
            class.slabs,
            class.used,
            class.requests,
            class.fills,
            class.flushes,
        ];
        let mut row = vec![class.size.to_string()];
        row.extend(figures.map(count));
        table.rows.push(row);
    }
    without_unknown(table)
}

fn lock_table(stats: &Stats, all: bool) -> Table {
    let mut table = Table::new(&[
        ("lock", false),
        ("taken", true),
        ("waits", true),
        ("spins", true),
        ("time waited", true),
        ("most at once", true),
    ]);
    let of_class = |class: &mallow_stats::Class| {
        let lock = class.lock.clone()?;
        Some(Lock { name: format!("slabs of {}", class.size), ..lock })
    };
    // Of the many locks of classes, those that threads met at.
    let is_shown = |lock: &Lock| all || lock.contended() > 0;
    let own = stats.locks.iter().filter(|lock| is_shown(lock) || lock.operations > 0).cloned();
    let of_classes = stats.classes.iter().filter_map(of_class).filter(is_shown);
    let mut locks: Vec<Lock> = own.chain(of_classes).collect();
    let waited = |lock: &Lock| (lock.wait_ns, lock.contended(), lock.operations);
    locks.sort_by_key(|lock| std::cmp::Reverse(waited(lock)));
    for lock in locks {
        let time = lock.wait_ns.map_or(UNKNOWN.into(), |time| output::seconds(time as f64 / 1e9));
        table.rows.push(vec![
            lock.name,
            lock.operations.to_string(),
            count(lock.waits),
            count(lock.spins),
            time,
            count(lock.most_waiting),
        ]);
    }
    table
}

const COLUMNS: [&str; 7] =
    ["time", "allocated", "cached", "dirty", "resident", "mapped", "retained"];

fn of_sample(sample: &Sample) -> [Option<u64>; 6] {
    let totals = &sample.totals;
    [totals.allocated, totals.cached, totals.dirty, totals.resident, totals.mapped, totals.retained]
}

pub fn line_heading() -> String {
    COLUMNS.iter().map(|name| format!("{name:>10}")).collect::<String>() + "\n"
}

pub fn line(sample: &Sample) -> String {
    let sizes: String =
        of_sample(sample).iter().map(|bytes| format!("{:>10}", size(*bytes))).collect();
    format!("{:>8.1} s{sizes}\n", sample.time_s)
}

fn samples_table(samples: &[Sample]) -> Table {
    let columns = COLUMNS.map(|name| (if name == "time" { "time_s" } else { name }, true));
    let mut table = Table::new(&columns);
    for sample in samples {
        let mut row = vec![format!("{:.3}", sample.time_s)];
        row.extend(of_sample(sample).map(plain));
        table.rows.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_calls_itself_stays_on_one_line() {
        let stats = Stats {
            allocator: "mallow".into(),
            version: Some("0.1\n\u{1b}[1mfast".into()),
            ..Stats::default()
        };
        let report = Report::of_process(7, "a\nb", stats);
        assert_eq!(sentence(&report), "mallow 0.1\\n\\u{1b}[1mfast: process 7 (a b).");
    }

    #[test]
    fn locks_of_classes_are_shown_if_threads_met_at_them() {
        let lock = |name: &str, waits| Lock {
            name: name.into(),
            operations: 5,
            waits: Some(waits),
            ..Lock::default()
        };
        let class = |size, waits| mallow_stats::Class {
            size,
            lock: Some(lock("", waits)),
            ..mallow_stats::Class::default()
        };
        let stats = Stats {
            // What the dump names so is no lock of a class for that.
            locks: vec![lock("slabs of old", 0)],
            classes: vec![class(16, 0), class(32, 1)],
            ..Stats::default()
        };
        let names = |all| -> Vec<String> {
            lock_table(&stats, all).rows.into_iter().map(|row| row[0].clone()).collect()
        };
        assert_eq!(names(false), ["slabs of 32", "slabs of old"]);
        assert_eq!(names(true).len(), 3);
    }
}
