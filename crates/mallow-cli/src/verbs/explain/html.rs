// SPDX-License-Identifier: MIT
//! The report as one page that needs nothing else: no script, no network. Its picture is a map of
//! the address space: every mapping in the order of addresses, as wide as the root of its size, the
//! resident part filled.

use std::iter::once;

use maud::{Markup, html};

use crate::output::chart::place;
use crate::output::clean;
use crate::output::html::{self, Page};

use super::text::{self, size};
use mallow_advice::explain::Report;
use mallow_process::heap::Heap;
use mallow_process::heap::spans::Heap as Spans;
use mallow_process::mappings::{Kind, Mapping};
use mallow_stats::figures::counted;

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

/// So many mappings are one piece of the page, which may be too large to be held as a whole.
const AT_ONCE: usize = 1000;

/// The page in pieces.
pub fn page(report: &Report) -> impl Iterator<Item = String> {
    let cells = cells(&report.mappings);
    // What names hold is escaped, so these are the ends of the map and of the last table.
    let mut start = without_mappings(report, cells.last().map_or(ROW, |cell| cell.y + ROW));
    let end = start.split_off(start.rfind("</tbody>").unwrap_or(start.len()));
    let middle = start.split_off(start.rfind("</svg>").unwrap_or(start.len()));
    let map = (0..cells.len()).step_by(AT_ONCE).map(move |first| {
        let next = cells.len().min(first + AT_ONCE);
        html! { @for cell in &cells[first..next] { (drawn(cell)) } }.into_string()
    });
    let tables = report.mappings.chunks(AT_ONCE).map(text::mapping_table);
    let rows = tables.map(|table| html::rows(&table).into_string());
    once(start).chain(map).chain(once(middle)).chain(rows).chain(once(end))
}

/// All but what stands in the map and in the table of mappings.
fn without_mappings(report: &Report, map_height: f64) -> String {
    let title = format!("mallow explain: process {}", report.pid);
    let mappings = format!("All {} mappings", report.mappings.len());
    let body = html! {
        (html::head(&title, Some(&report.command), &report.answer))
        (html::notes(&report.notes))
        (totals(report))
        (findings(report))
        (shares(report))
        (map(map_height))
        (html::details("By kind", &text::group_table(report), true))
        (heap(report))
        @for heap in &report.other_heaps {
            h2 { "Heap of " (clean::line(&heap.name())) ", beside malloc's" }
            (spans(heap))
        }
        @if !report.runtime_spaces.is_empty() {
            (html::details("What the runtime keeps", &text::runtime_table(report), true))
        }
        @if !report.native.is_empty() {
            (html::details(text::NATIVE, &text::native_table(report), true))
        }
        (html::details(&mappings, &text::mapping_table(&[]), false))
    };
    Page { title: &title, body, version: &report.version, script: None }.render()
}

fn totals(report: &Report) -> Markup {
    let totals = &report.totals;
    let figures = [
        ("VIRT", size(totals.virt)),
        ("RSS", size(totals.rss)),
        ("PSS", size(totals.pss)),
        ("swap", size(totals.swap)),
        ("THP", size(totals.huge)),
        ("page tables", size(totals.page_tables)),
        ("peak RSS", size(totals.peak_rss)),
        ("threads", totals.threads.to_string()),
        ("mappings", totals.mappings.to_string()),
        ("malloc by", clean::line(&report.allocator).into_owned()),
    ];
    html! {
        dl.totals { @for (name, value) in figures { div { dt { (name) } dd { (value) } } } }
    }
}

fn findings(report: &Report) -> Markup {
    html! {
        section {
            h2 { "Findings" }
            @if report.findings.is_empty() { p { "Nothing unusual." } }
            @for finding in &report.findings {
                div.finding {
                    h3 { code { (finding.id) } " " (clean::line(&finding.title)) }
                    p { (clean::line(&finding.evidence)) }
                    p {
                        b { "Do:" } " " (clean::line(&finding.remedy))
                        br;
                        b { "Effect:" } " " (clean::line(&finding.effect))
                    }
                }
            }
        }
    }
}

/// One bar each for VIRT and RSS, cut by kind.
fn shares(report: &Report) -> Markup {
    let virt: Vec<u64> = report.groups.iter().map(|group| group.size).collect();
    let rss: Vec<u64> = report.groups.iter().map(|group| group.rss).collect();
    html! {
        figure {
            figcaption { "What VIRT and RSS consist of" }
            svg viewBox={ "0 0 " (WIDTH) " 92" } role="img" aria-label="shares" {
                (bar(report, "VIRT", 4.0, &virt, report.totals.virt))
                (bar(report, "RSS", 50.0, &rss, report.totals.rss))
            }
            p.parts.legend {
                @for group in &report.groups {
                    span { i class=(class(group.kind)) {} (clean::line(&group.title)) }
                    " "
                }
            }
        }
    }
}

fn bar(report: &Report, name: &str, y: f64, parts: &[u64], whole: u64) -> Markup {
    const LEFT: f64 = 50.0;
    let scale = (WIDTH - LEFT) / whole.max(1) as f64;
    let starts = parts.iter().scan(LEFT, |end, bytes| {
        let start = *end;
        *end += scale * *bytes as f64;
        Some(start)
    });
    html! {
        text x="0" y=(place(y + 18.0)) { (name) }
        @for ((group, bytes), x) in report.groups.iter().zip(parts).zip(starts) {
            rect class=(class(group.kind)) x=(format!("{x:.2}")) y=(y)
                width=(format!("{:.2}", scale * *bytes as f64)) height="28" {
                title { (clean::line(&group.title)) ": " (size(*bytes)) }
            }
        }
    }
}

fn class(kind: Option<Kind>) -> String {
    let name = kind.and_then(|kind| serde_json::to_value(kind).ok());
    format!("k-{}", name.as_ref().and_then(|name| name.as_str()).unwrap_or("none"))
}

/// Where a mapping stands in the map, and whether its address is written above it.
struct Cell<'a> {
    mapping: &'a Mapping,
    x: f64,
    y: f64,
    width: f64,
    is_labelled: bool,
}

/// Without its cells.
fn map(height: f64) -> Markup {
    html! {
        figure {
            figcaption {
                "Map of the address space: every mapping by address, filled as far as it is \
                 resident"
            }
            svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img"
                aria-label="map of the address space" {}
        }
    }
}

fn cells(mappings: &[Mapping]) -> Vec<Cell<'_>> {
    let roots: f64 = mappings.iter().map(|m| ((m.end - m.start) as f64).sqrt()).sum();
    let scale = ROWS * WIDTH / roots.max(1.0);
    let (mut x, mut y, mut before) = (0.0, 0.0, None);
    // Where there is room for the next address in the row.
    let mut free = 0.0;
    let mut cells = Vec::with_capacity(mappings.len());
    for mapping in mappings {
        let width = (((mapping.end - mapping.start) as f64).sqrt() * scale).max(NARROWEST);
        let hole = before.is_some_and(|end: u64| mapping.start.saturating_sub(end) >= HOLE);
        if hole && x > 0.0 {
            x += GAP;
        }
        if x > 0.0 && x + width > WIDTH {
            (x, y) = (0.0, y + ROW);
        }
        let is_labelled = x == 0.0 || (hole && x >= free);
        if is_labelled {
            free = x + ADDRESS;
        }
        cells.push(Cell { mapping, x, y, width: width.min(WIDTH - x), is_labelled });
        x += width;
        before = Some(mapping.end);
    }
    cells
}

fn drawn(cell: &Cell) -> Markup {
    let Cell { mapping, x, y, width, is_labelled } = *cell;
    let bytes = mapping.end - mapping.start;
    let filled = BAR * mapping.rss as f64 / bytes.max(1) as f64;
    let (class, top) = (class(Some(mapping.kind)), y + 14.0);
    html! {
        @if is_labelled {
            text.tick.start x=(place(x)) y=(place(y + 10.0)) { (format!("{:x}", mapping.start)) }
        }
        g {
            title {
                (format!("{:x}-{:x} {} ", mapping.start, mapping.end, mapping.perms))
                (clean::line(&mapping.label)) ": " (size(bytes)) " (" (size(mapping.rss))
                " resident)"
            }
            rect class={ (class) " empty" } x=(place(x)) y=(place(top)) width=(place(width))
                height=(BAR) {}
            rect class=(class) x=(place(x)) y=(place(top + BAR - filled)) width=(place(width))
                height=(place(filled)) {}
        }
    }
}

fn heap(report: &Report) -> Markup {
    match &report.heap {
        Heap::Glibc(heaps) => html! {
            p {
                "In use " (size(heaps.used())) " in " (counted(heaps.used_count(), "block"))
                ", free " (size(heaps.free())) ", at the ends "
                (size(heaps.sum(|arena| arena.chunks.top_bytes))) "; " (text::mapped_blocks(heaps))
                "."
            }
            (html::details("Arenas of glibc", &text::arena_table(heaps, true), true))
        },
        Heap::Mallow(heap) => html! {
            (html::details(
                &format!("Arenas of Mallow {}", heap.build),
                &text::mallow_arena_table(heap),
                true,
            ))
            (html::details("Size classes", &text::class_table(&heap.classes, true), true))
        },
        Heap::Spans(heap) => spans(heap),
        _ => html! {},
    }
}

fn spans(heap: &Spans) -> Markup {
    html! {
        p { (clean::line(&text::spans_line(heap))) }
        (html::details(&format!("Arenas of {}", heap.layout), &text::span_table(heap, true), true))
        (html::details("Block sizes", &text::class_table(&heap.classes, true), true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_stand_in_the_map_and_in_the_table_whatever_their_names() {
        const COUNT: usize = 2 * AT_ONCE + 1;
        let mapping = |index: usize| Mapping {
            start: (index as u64) << 20,
            end: ((index as u64) << 20) + 4096,
            perms: "r--p".into(),
            kind: Kind::File,
            label: "</svg></tbody>".into(),
            rss: 4096,
            pss: 4096,
            anonymous: 0,
            swap: 0,
            huge: 0,
        };
        let mappings = (1..=COUNT).map(mapping).collect();
        let report = Report { mappings, ..Report::default() };
        let pieces: Vec<String> = page(&report).collect();
        assert!(pieces.iter().all(|piece| piece.len() < 1 << 20), "no piece is large");
        let page = pieces.concat();
        let (map, rest) = page.rsplit_once("</svg>").expect("a map");
        let (_, table) = rest.rsplit_once("<tbody>").expect("a table");
        let (rows, end) = table.split_once("</tbody>").expect("its end");
        assert_eq!((map.matches("<g>").count(), rows.matches("<tr>").count()), (COUNT, COUNT));
        assert!(rows.starts_with("<tr><td class=\"words\">100000</td>"), "{}", &rows[..100]);
        assert!(end.starts_with("</table>") && end.ends_with("</html>\n"), "{end}");
    }
}
