//! The report as one page that needs nothing else: no script, no network. Its picture is a map of
//! the address space: every mapping in the order of addresses, as wide as the root of its size, the
//! resident part filled.

use std::fmt::Write as _;

use crate::output::Table;
use crate::output::html::{self, Page, escape};

use super::report::Report;
use super::text::{self, size};
use mallow_process::heap::Heap;
use mallow_process::heap::spans::Heap as Spans;
use mallow_process::mappings::{Group, Kind, Mapping};

// The map, in SVG units.
const WIDTH: f64 = 1100.0;
const ROW: f64 = 46.0;
const BAR: f64 = 26.0;
const NARROWEST: f64 = 2.5;
/// About so many rows, whatever the process is.
const ROWS: f64 = 9.0;
const GAP: f64 = 10.0;
/// What an address takes as text.
const ADDRESS: f64 = 75.0;
/// A hole in the address space that is worth a break in the row.
const HOLE: u64 = 1 << 30;

pub fn page(report: &Report) -> String {
    let title = format!("mallow explain: process {}", report.pid);
    let mut body = html::head(&title, Some(&report.command), &report.answer);
    for note in &report.notes {
        let _ = writeln!(body, "<p class=\"quiet\">{}</p>", escape(note));
    }
    body += &totals(report);
    body += &findings(report);
    body += &shares(report);
    body += &map(report);
    body += &table("By kind", &text::group_table(report), true);
    body += &heap(report);
    for heap in &report.other_heaps {
        let _ = write!(body, "<h2>Heap of {}, beside malloc's</h2>\n{}", heap.layout, spans(heap));
    }
    if !report.runtime_spaces.is_empty() {
        body += &table("What the runtime keeps", &text::runtime_table(report), true);
    }
    body += &table(
        &format!("All {} mappings", report.mappings.len()),
        &text::mapping_table(report),
        false,
    );
    Page { title: &title, body: &body, version: &report.version, script: None }.render()
}

fn totals(report: &Report) -> String {
    let totals = &report.totals;
    let mut text = String::from("<dl class=\"totals\">");
    let figures = [
        ("VIRT", totals.virt),
        ("RSS", totals.rss),
        ("PSS", totals.pss),
        ("swap", totals.swap),
        ("THP", totals.huge),
        ("page tables", totals.page_tables),
        ("peak RSS", totals.peak_rss),
    ];
    for (name, value) in figures {
        let _ = write!(text, "<div><dt>{name}</dt><dd>{}</dd></div>", size(value));
    }
    let _ = write!(text, "<div><dt>threads</dt><dd>{}</dd></div>", totals.threads);
    let _ = write!(text, "<div><dt>mappings</dt><dd>{}</dd></div>", totals.mappings);
    let allocator = escape(&report.allocator);
    let _ = writeln!(text, "<div><dt>malloc by</dt><dd>{allocator}</dd></div></dl>");
    text
}

fn findings(report: &Report) -> String {
    let mut text = String::from("<section><h2>Findings</h2>\n");
    if report.findings.is_empty() {
        text += "<p>Nothing unusual.</p>\n";
    }
    for finding in &report.findings {
        let _ = writeln!(
            text,
            "<div class=\"finding\"><h3><code>{}</code> {}</h3><p>{}</p><p><b>Do:</b> {}<br>\
             <b>Effect:</b> {}</p></div>",
            finding.id,
            escape(&finding.title),
            escape(&finding.evidence),
            escape(&finding.remedy),
            escape(&finding.effect)
        );
    }
    text + "</section>\n"
}

/// One bar each for VIRT and RSS, cut by kind.
fn shares(report: &Report) -> String {
    let mut text = String::from("<figure><figcaption>What VIRT and RSS consist of</figcaption>\n");
    let _ = writeln!(text, "<svg viewBox=\"0 0 {WIDTH} 92\" role=\"img\" aria-label=\"shares\">");
    type Part = fn(&Group) -> u64;
    let bars: [(&str, u64, Part); 2] = [
        ("VIRT", report.totals.virt, |group| group.size),
        ("RSS", report.totals.rss, |group| group.rss),
    ];
    for (index, (name, whole, part)) in bars.into_iter().enumerate() {
        let y = 4.0 + 46.0 * index as f64;
        let _ = write!(text, "<text x=\"0\" y=\"{:.1}\">{name}</text>", y + 18.0);
        let mut x = 50.0;
        for group in &report.groups {
            let width = (WIDTH - 50.0) * part(group) as f64 / whole.max(1) as f64;
            let _ = writeln!(
                text,
                "<rect class=\"{}\" x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"28\">\
                 <title>{}: {}</title></rect>",
                class(group.kind),
                escape(&group.title),
                size(part(group))
            );
            x += width;
        }
    }
    text += "</svg>\n<p class=\"parts legend\">";
    for group in &report.groups {
        let _ = write!(
            text,
            "<span><i class=\"{}\"></i>{}</span> ",
            class(group.kind),
            escape(&group.title)
        );
    }
    text + "</p></figure>\n"
}

fn class(kind: Option<Kind>) -> String {
    let name = kind.and_then(|kind| serde_json::to_value(kind).ok());
    format!("k-{}", name.as_ref().and_then(|name| name.as_str()).unwrap_or("none"))
}

fn map(report: &Report) -> String {
    let roots: f64 = report.mappings.iter().map(|m| ((m.end - m.start) as f64).sqrt()).sum();
    let scale = ROWS * WIDTH / roots.max(1.0);
    let (mut x, mut row, mut before) = (0.0, 0.0, None);
    // Where there is room for the next address in the row.
    let mut free = 0.0;
    let mut drawn = String::new();
    for mapping in &report.mappings {
        let width = (((mapping.end - mapping.start) as f64).sqrt() * scale).max(NARROWEST);
        let hole = before.is_some_and(|end: u64| mapping.start.saturating_sub(end) >= HOLE);
        if hole && x > 0.0 {
            x += GAP;
        }
        if x > 0.0 && x + width > WIDTH {
            (x, row) = (0.0, row + 1.0);
        }
        if x == 0.0 || (hole && x >= free) {
            free = x + ADDRESS;
            let _ = writeln!(
                drawn,
                "<text class=\"tick start\" x=\"{x:.1}\" y=\"{:.1}\">{:x}</text>",
                row * ROW + 10.0,
                mapping.start
            );
        }
        drawn += &map_cell(mapping, x, row * ROW + 14.0, width.min(WIDTH - x));
        x += width;
        before = Some(mapping.end);
    }
    format!(
        "<figure><figcaption>Map of the address space: every mapping by address, filled as far as \
         it is resident</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" \
         aria-label=\"map of the address space\">\n{drawn}</svg></figure>\n",
        (row + 1.0) * ROW
    )
}

fn map_cell(mapping: &Mapping, x: f64, y: f64, width: f64) -> String {
    let bytes = mapping.end - mapping.start;
    let filled = BAR * mapping.rss as f64 / bytes.max(1) as f64;
    let class = class(Some(mapping.kind));
    format!(
        "<g><title>{:x}-{:x} {} {}: {} ({} resident)</title>\
         <rect class=\"{class} empty\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
         height=\"{BAR}\"/><rect class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" \
         height=\"{filled:.1}\"/></g>\n",
        mapping.start,
        mapping.end,
        mapping.perms,
        escape(&mapping.label),
        size(bytes),
        size(mapping.rss),
        y + BAR - filled
    )
}

fn heap(report: &Report) -> String {
    match &report.heap {
        Heap::Glibc(heaps) => {
            let line = format!(
                "<p>In use {} in {} blocks, free {}, at the ends {}; {} blocks with mappings of \
                 their own, {}.</p>\n",
                size(heaps.used()),
                heaps.used_count(),
                size(heaps.free()),
                size(heaps.sum(|arena| arena.chunks.top_bytes)),
                heaps.mapped.count(),
                size(heaps.mapped.in_use())
            );
            line + &table("Arenas of glibc", &text::arena_table(heaps, true), true)
        }
        Heap::Mallow(heap) => {
            table(
                &format!("Arenas of Mallow {}", heap.build),
                &text::mallow_arena_table(heap),
                true,
            ) + &table("Size classes", &text::class_table(&heap.classes, true), true)
        }
        Heap::Spans(heap) => spans(heap),
        _ => String::new(),
    }
}

fn spans(heap: &Spans) -> String {
    format!("<p>{}</p>\n", escape(&text::spans_line(heap)))
        + &table(&format!("Arenas of {}", heap.layout), &text::span_table(heap, true), true)
        + &table("Block sizes", &text::class_table(&heap.classes, true), true)
}

fn table(title: &str, table: &Table, is_open: bool) -> String {
    let open = if is_open { " open" } else { "" };
    format!(
        "<details{open}><summary>{}</summary>{}</details>\n",
        escape(title),
        html::table(table).trim_end()
    )
}
