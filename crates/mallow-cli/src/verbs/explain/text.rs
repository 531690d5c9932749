// SPDX-License-Identifier: MIT
//! The report as text: the answer first, then what is behind it.

use std::fmt::Write as _;

use crate::output::Format;
use crate::output::{self, Screen, Table, clean};

use mallow_advice::explain::Report;
use mallow_process::heap::Heap;
use mallow_process::heap::glibc::Heaps;
use mallow_process::heap::mallow;
use mallow_process::heap::spans;
use mallow_process::mappings::Mapping;
use mallow_stats::figures::counted;

pub const NATIVE: &str = "What the Java machine counts itself (jcmd VM.native_memory)";

/// Arenas and classes that are listed without --all.
const MOST_ROWS: usize = 10;

pub fn size(bytes: u64) -> String {
    if bytes == 0 { "0".into() } else { output::bytes(bytes as f64) }
}

pub fn text(report: &Report, format: Format, all: bool, screen: Screen) -> String {
    let mut text = String::new();
    let heading = |title: &str| match format {
        Format::Md => format!("\n## {title}\n\n"),
        _ => format!("\n{title}\n"),
    };
    let command = match format {
        Format::Md => clean::markdown(&command(report)),
        _ => clean::line(&command(report)).into_owned(),
    };
    let _ = writeln!(text, "Process {}: {command}\n\n{}", report.pid, report.answer);
    for note in &report.notes {
        let _ = writeln!(text, "Note: {note}");
    }
    text = screen.fill(&text);
    text += &heading("Totals");
    text += &totals_table(report).render(format, screen);
    text += &heading("By kind");
    text += &group_table(report).render(format, screen);
    match &report.heap {
        Heap::Glibc(heaps) if heaps.is_unused => {}
        Heap::Glibc(heaps) => text += &glibc(heaps, &heading, format, all, screen),
        Heap::Mallow(heap) => text += &mallow(heap, &heading, format, all, screen),
        Heap::Spans(heap) => text += &spans(heap, &heading, format, all, screen),
        Heap::Other(other) => {
            let taken = other.taken.map_or(String::new(), |taken| {
                format!("; it counts {} as taken from the system", size(taken))
            });
            text += &heading("Heap");
            let opaque = format!(
                "{}: {} mapped, {} resident{taken}. It is opaque: what is free inside cannot be \
                 seen from outside.\n",
                other.name,
                size(other.size),
                size(other.rss)
            );
            text += &screen.fill(&opaque);
        }
        Heap::Unknown => {}
    }
    for heap in &report.other_heaps {
        let beside = |title: &str| heading(&format!("{title}, beside malloc's"));
        text += &spans(heap, &beside, format, all, screen);
    }
    if !report.runtime_spaces.is_empty() {
        text += &heading("What the runtime keeps, by its own headers");
        text += &runtime_table(report).render(format, screen);
    }
    if !report.native.is_empty() {
        text += &heading(NATIVE);
        text += &native_table(report).render(format, screen);
    }
    text += &screen.fill(&findings(report, &heading, format));
    if all {
        text += &heading("Mappings");
        text += &mapping_table(&report.mappings).render(format, screen);
    }
    text
}

fn command(report: &Report) -> String {
    const LONGEST: usize = 200;
    let mut command: String = report.command.chars().take(LONGEST).collect();
    if command.len() < report.command.len() {
        command += " ...";
    }
    let version = report.runtime_version.as_ref().map_or(String::new(), |v| format!(", {v}"));
    let threads = counted(report.totals.threads, "thread");
    let served = match report.allocator.as_str() {
        "none" => "no malloc".into(),
        name => format!("malloc by {name}"),
    };
    format!("{command} ({threads}{version}, {served})")
}

fn totals_table(report: &Report) -> Table {
    let totals = &report.totals;
    let mut table = Table::new(&[
        ("VIRT", true),
        ("RSS", true),
        ("PSS", true),
        ("swap", true),
        ("private dirty", true),
        ("THP", true),
        ("freed lazily", true),
        ("locked", true),
        ("page tables", true),
        ("peak RSS", true),
        ("mappings", true),
    ]);
    let sizes = [
        totals.virt,
        totals.rss,
        totals.pss,
        totals.swap,
        totals.private_dirty,
        totals.huge,
        totals.lazy_free,
        totals.locked,
        totals.page_tables,
        totals.peak_rss,
    ];
    let mut row: Vec<String> = sizes.map(size).to_vec();
    row.push(totals.mappings.to_string());
    table.rows.push(row);
    table
}

pub fn group_table(report: &Report) -> Table {
    let mut table = Table::new(&[
        ("kind", false),
        ("mappings", true),
        ("VIRT", true),
        ("RSS", true),
        ("PSS", true),
        ("swap", true),
        ("THP", true),
    ]);
    let row = |title: &str, count: u64, sizes: [u64; 5]| {
        let mut row = vec![title.to_owned(), count.to_string()];
        row.extend(sizes.map(size));
        row
    };
    for group in &report.groups {
        let sizes = [group.size, group.rss, group.pss, group.swap, group.huge];
        table.rows.push(row(&group.title, group.mappings, sizes));
    }
    let totals = &report.totals;
    let sizes = [totals.virt, totals.rss, totals.pss, totals.swap, totals.huge];
    table.rows.push(row("all", totals.mappings, sizes));
    table
}

fn glibc(
    heaps: &Heaps,
    heading: &dyn Fn(&str) -> String,
    format: Format,
    all: bool,
    screen: Screen,
) -> String {
    let mut text = heading("Heap of glibc");
    let free = heaps.free();
    let part = 100.0 * free as f64 / free.saturating_add(heaps.used()).max(1) as f64;
    let _ = writeln!(
        text,
        "In use {} in {}; free {} ({part:.1} % of the heap), of which malloc_trim would give \
         back {}; at the ends of the heaps {}; {}.",
        size(heaps.used()),
        counted(heaps.used_count(), "block"),
        size(free),
        size(heaps.sum(|arena| arena.chunks.free_resident)),
        size(heaps.sum(|arena| arena.chunks.top_bytes)),
        mapped_blocks(heaps)
    );
    if let Some(missing) = missing_blocks(heaps) {
        let _ = writeln!(text, "{missing}");
    }
    text = screen.fill(&text);
    if format == Format::Md {
        text.push('\n');
    }
    text += &arena_table(heaps, all).render(format, screen);
    let hidden = if all { 0 } else { heaps.arenas.len().saturating_sub(MOST_ROWS) };
    if hidden > 0 {
        let _ = writeln!(text, "and {hidden} more (--all)");
    }
    text += &screen.fill(&heading("Block sizes that take the most (with glibc's header)"));
    let mut table = Table::new(&[("size", true), ("blocks", true), ("bytes", true)]);
    for (chunk, count) in heaps.sizes.iter().filter(|(_, count)| *count > 0).take(5) {
        table.rows.push(vec![
            chunk.to_string(),
            count.to_string(),
            size(chunk.saturating_mul(*count)),
        ]);
    }
    text + &table.render(format, screen)
}

/// Those that are no part of an arena.
pub fn mapped_blocks(heaps: &Heaps) -> String {
    let bytes = size(heaps.mapped.in_use());
    match heaps.mapped.count() {
        0 => "no block with a mapping of its own".into(),
        1 => format!("1 block with a mapping of its own, {bytes}"),
        count => format!("{} with mappings of their own, {bytes}", counted(count, "block")),
    }
}

/// What glibc counts and was not found, in a sentence.
pub fn missing_blocks(heaps: &Heaps) -> Option<String> {
    let mapped = &heaps.mapped;
    let missing = mapped.missing();
    let blocks = mapped.count().saturating_sub(mapped.chunks);
    (missing > 0).then(|| match blocks {
        0 => format!(
            "glibc counts {} more in blocks with mappings of their own than was found: what they \
             lie in is named as something else.",
            size(missing)
        ),
        _ => format!(
            "Of the blocks with mappings of their own {blocks} could not be found, {}: what they \
             lie in is named as something else.",
            size(missing)
        ),
    })
}

pub fn arena_table(heaps: &Heaps, all: bool) -> Table {
    let mut table = Table::new(&[
        ("arena", false),
        ("threads", true),
        ("heaps", true),
        ("from system", true),
        ("in use", true),
        ("blocks", true),
        ("free", true),
        ("of it cached", true),
        ("largest free", true),
        ("trimmable", true),
        ("top", true),
    ]);
    let mut arenas: Vec<_> = heaps.arenas.iter().enumerate().collect();
    // The main one first, then the largest.
    arenas.sort_by_key(|(index, arena)| (*index != 0, std::cmp::Reverse(arena.system)));
    let most = if all { arenas.len() } else { MOST_ROWS };
    for (index, arena) in arenas.into_iter().take(most) {
        let mut name = arena.name(index);
        if !arena.is_complete {
            name += " (in part)";
        }
        let chunks = &arena.chunks;
        table.rows.push(vec![
            name,
            arena.threads.map_or("-".into(), |threads| threads.to_string()),
            arena.heaps.to_string(),
            size(arena.system),
            size(arena.used()),
            arena.used_count().to_string(),
            size(arena.free()),
            size(arena.fast.saturating_add(arena.cached)),
            size(chunks.largest_free),
            size(chunks.free_resident),
            size(chunks.top_bytes),
        ]);
    }
    table
}

fn mallow(
    heap: &mallow::Heap,
    heading: &dyn Fn(&str) -> String,
    format: Format,
    all: bool,
    screen: Screen,
) -> String {
    let mut text = heading(&format!("Heap of Mallow {}", clean::line(&heap.build)));
    let _ = writeln!(
        text,
        "In use {}; free slots {} (of which threads have {} at hand); heaps of threads {}; \
         metadata {}.",
        size(heap.allocated()),
        size(heap.free_slots()),
        size(heap.listed),
        heap.heaps,
        size(heap.metadata)
    );
    text = screen.fill(&text);
    if format == Format::Md {
        text.push('\n');
    }
    text += &mallow_arena_table(heap).render(format, screen);
    text += &heading("By class");
    text += &class_table(&heap.classes, all).render(format, screen);
    text + &hidden(heap.classes.len(), all)
}

/// How many rows of a table are not shown.
fn hidden(rows: usize, all: bool) -> String {
    match if all { 0 } else { rows.saturating_sub(MOST_ROWS) } {
        0 => String::new(),
        more => format!("and {more} more (--all)\n"),
    }
}

fn spans(
    heap: &spans::Heap,
    heading: &dyn Fn(&str) -> String,
    format: Format,
    all: bool,
    screen: Screen,
) -> String {
    let mut text = heading(&format!("Heap of {}", heap.name()));
    let _ = writeln!(text, "{}", spans_line(heap));
    text = screen.fill(&text);
    if format == Format::Md {
        text.push('\n');
    }
    text += &span_table(heap, all).render(format, screen);
    text += &hidden(heap.arenas.len(), all);
    text += &heading("By block size");
    text += &class_table(&heap.classes, all).render(format, screen);
    text + &hidden(heap.classes.len(), all)
}

/// The sums of a heap in a sentence or two.
pub fn spans_line(heap: &spans::Heap) -> String {
    let with = match heap.counted_as_used.as_str() {
        "" => String::new(),
        with => format!(" ({with} included, as it counts them itself)"),
    };
    let unread = match heap.unread {
        0 => String::new(),
        unread => format!(" Pages that were changing and are not counted: {}.", size(unread)),
    };
    let least = if heap.unasked > 0 { "at least " } else { "" };
    format!(
        "In use {} in {}{with}; free {} in pages that have blocks in use, {} in free pages \
         ({least}{} of it resident); metadata {}.{unread}",
        size(heap.used()),
        counted(heap.used_count(), "block"),
        size(heap.free_blocks()),
        size(heap.free_pages()),
        size(heap.free_resident()),
        size(heap.metadata)
    )
}

pub fn span_table(heap: &spans::Heap, all: bool) -> Table {
    let mut table = Table::new(&[
        ("arena", false),
        ("active", true),
        ("small", true),
        ("blocks", true),
        ("free blocks", true),
        ("large", true),
        ("blocks", true),
        ("dirty", true),
        ("muzzy", true),
        ("retained", true),
        ("free resident", true),
    ]);
    let mut arenas: Vec<_> = heap.arenas.iter().collect();
    arenas.sort_by_key(|arena| std::cmp::Reverse(arena.active));
    let most = if all { arenas.len() } else { MOST_ROWS };
    for arena in arenas.into_iter().take(most) {
        table.rows.push(vec![
            arena.index.to_string(),
            size(arena.active),
            size(arena.small),
            arena.small_count.to_string(),
            size(arena.small_room.saturating_sub(arena.small)),
            size(arena.large),
            arena.large_count.to_string(),
            size(arena.dirty),
            size(arena.muzzy),
            size(arena.retained),
            size(arena.free_resident),
        ]);
    }
    table
}

pub fn mallow_arena_table(heap: &mallow::Heap) -> Table {
    let mut table = Table::new(&[
        ("arena", false),
        ("mapped", true),
        ("active", true),
        ("slots out", true),
        ("large", true),
        ("very large", true),
        ("kept", true),
        ("dirty", true),
        ("muzzy", true),
        ("retained", true),
    ]);
    for (index, arena) in heap.arenas.iter().enumerate() {
        let sizes = [
            arena.mapped,
            arena.active,
            arena.slots_used,
            arena.large,
            arena.huge,
            arena.cached,
            arena.dirty,
            arena.muzzy,
            arena.retained,
        ];
        let mut row = vec![index.to_string()];
        row.extend(sizes.map(size));
        table.rows.push(row);
    }
    table
}

pub fn class_table(classes: &[mallow::Class], all: bool) -> Table {
    let mut table = Table::new(&[
        ("slot size", true),
        ("slabs", true),
        ("slots", true),
        ("used", true),
        ("% used", true),
        ("bytes", true),
    ]);
    let mut classes: Vec<_> = classes.iter().collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.bytes));
    let most = if all { classes.len() } else { MOST_ROWS };
    for class in classes.into_iter().take(most) {
        let part = 100.0 * class.used as f64 / class.capacity.max(1) as f64;
        table.rows.push(vec![
            class.slot_size.to_string(),
            class.slabs.to_string(),
            class.capacity.to_string(),
            class.used.to_string(),
            format!("{part:.0}"),
            size(class.bytes),
        ]);
    }
    table
}

pub fn runtime_table(report: &Report) -> Table {
    let mut table = Table::new(&[("what", false), ("size", true), ("RSS", true), ("in use", true)]);
    for kept in &report.runtime_spaces {
        let mappings = report.mappings.iter().filter(|mapping| mapping.label == kept.what);
        let rss =
            kept.rss.or_else(|| mappings.map(|mapping| mapping.rss).reduce(u64::saturating_add));
        let used = kept.used.map_or("-".into(), size);
        let rss = rss.map_or("-".into(), size);
        table.rows.push(vec![kept.what.clone(), size(kept.size), rss, used]);
    }
    table
}

pub fn native_table(report: &Report) -> Table {
    let columns = [("space", false), ("reserved", true), ("committed", true), ("by malloc", true)];
    let mut table = Table::new(&columns);
    for space in &report.native {
        let figures = [space.reserved, space.committed, space.malloc].map(size);
        table.rows.push([vec![space.what.clone()], figures.to_vec()].concat());
    }
    table
}

fn findings(report: &Report, heading: &dyn Fn(&str) -> String, format: Format) -> String {
    let mut text = heading("Findings");
    if report.findings.is_empty() {
        return text + "Nothing unusual.\n";
    }
    for finding in &report.findings {
        let start = if format == Format::Md { "* " } else { "" };
        let _ = writeln!(
            text,
            "{start}{} {}: {}\n    do: {}\n    effect: {}",
            finding.id, finding.title, finding.evidence, finding.remedy, finding.effect
        );
    }
    let _ = writeln!(text, "mallow help {} explains the first.", report.findings[0].id);
    text
}

pub fn mapping_table(mappings: &[Mapping]) -> Table {
    let mut table = Table::new(&[
        ("start", false),
        ("end", false),
        ("access", false),
        ("VIRT", true),
        ("RSS", true),
        ("PSS", true),
        ("swap", true),
        ("kind", false),
        ("what", false),
    ]);
    for mapping in mappings {
        table.rows.push(vec![
            format!("{:x}", mapping.start),
            format!("{:x}", mapping.end),
            mapping.perms.clone(),
            size(mapping.end - mapping.start),
            size(mapping.rss),
            size(mapping.pss),
            size(mapping.swap),
            mapping.kind.title().into(),
            mapping.label.clone(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_with_mappings_are_counted_in_words_that_fit_the_number() {
        let of = |chunks| {
            let mut heaps = Heaps::default();
            (heaps.mapped.chunks, heaps.mapped.bytes) = (chunks, chunks << 20);
            mapped_blocks(&heaps)
        };
        assert_eq!(of(0), "no block with a mapping of its own");
        assert_eq!(of(1), "1 block with a mapping of its own, 1.00 MiB");
        assert_eq!(of(2), "2 blocks with mappings of their own, 2.00 MiB");
    }
}
