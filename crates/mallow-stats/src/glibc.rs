// SPDX-License-Identifier: MIT
//! The XML that `malloc_info` writes: glibc's, and Mallow's, which has its own figures behind glibc's.

use roxmltree::{Document, Node};

use crate::jemalloc::version_of_mallow;
use crate::vocabulary::{Arena, Stats, Totals};

pub fn read(text: &str) -> Option<Stats> {
    let document = Document::parse(text).ok()?;
    let root = document.root_element();
    let arenas: Vec<Arena> = children(root, "heap").map(arena).collect();
    let stats = Stats {
        arenas_for_threads: Some(arenas.len() as u64),
        totals: totals(root),
        arenas,
        ..Stats::default()
    };
    match children(root, "mallow").next() {
        Some(own) => of_mallow(own, stats),
        None => of_glibc(root, stats),
    }
}

fn of_glibc(root: Node, stats: Stats) -> Option<Stats> {
    let system = value(root, "system", "current", "size");
    if stats.arenas.is_empty() && system.is_none() {
        return None;
    }
    let mut missing = vec![
        "malloc_info counts what waits in the caches of threads as allocated, and does not tell \
         what is resident; mallow explain PID does."
            .to_owned(),
    ];
    if system == Some(0) && apart(root) == 0 {
        missing.push("glibc has served nothing in this process: another allocator does.".into());
    }
    Some(Stats { allocator: "glibc".into(), missing, ..stats })
}

/// The names are those of stats.def.
fn of_mallow(own: Node, stats: Stats) -> Option<Stats> {
    let figure = |name: &str| -> Option<u64> {
        let found = own
            .children()
            .find(|child| child.has_tag_name("figure") && child.attribute("name") == Some(name))?;
        found.attribute("value")?.parse().ok()
    };
    let (allocated, retained) = (figure("allocated")?, figure("retained")?);
    Some(Stats {
        allocator: "mallow".into(),
        version: own.attribute("version").and_then(version_of_mallow).map(str::to_owned),
        uptime_ns: figure("uptime"),
        threads: figure("threads"),
        totals: Totals {
            allocated: Some(allocated),
            active: figure("active"),
            metadata: figure("metadata"),
            resident: figure("resident"),
            mapped: figure("mapped").map(|mapped| mapped.saturating_sub(retained)),
            retained: Some(retained),
            dirty: figure("dirty"),
            muzzy: figure("muzzy"),
            cached: figure("cached"),
            huge: figure("huge_pages"),
        },
        missing: vec![
            "malloc_info does not tell the size classes, the locks and the options; the JSON of \
             malloc_stats_print does."
                .to_owned(),
        ],
        ..stats
    })
}

fn children<'a>(node: Node<'a, 'a>, name: &'static str) -> impl Iterator<Item = Node<'a, 'a>> {
    node.children().filter(move |child| child.has_tag_name(name))
}

/// An attribute of the child with this name and type.
fn value(node: Node, name: &str, kind: &str, attribute: &str) -> Option<u64> {
    let found = node
        .children()
        .find(|child| child.has_tag_name(name) && child.attribute("type") == Some(kind))?;
    found.attribute(attribute)?.parse().ok()
}

/// Free, of an arena or of all. Since 2.43 there are no fast bins.
fn free(node: Node) -> Option<u64> {
    let part = |kind| value(node, "total", kind, "size");
    Some(part("fast").unwrap_or(0).saturating_add(part("rest")?))
}

/// In blocks that are mappings of their own, which nothing else counts. glibc does not tell it of arenas.
fn apart(node: Node) -> u64 {
    value(node, "total", "mmap", "size").unwrap_or(0)
}

/// Of an arena, or of all.
fn totals(node: Node) -> Totals {
    let usable = value(node, "aspace", "mprotect", "size");
    let total = value(node, "aspace", "total", "size");
    let system = value(node, "system", "current", "size");
    Totals {
        allocated: system
            .zip(free(node))
            .map(|(system, free)| system.saturating_sub(free).saturating_add(apart(node))),
        mapped: usable.map(|size| size.saturating_add(apart(node))),
        retained: total.zip(usable).map(|(total, usable)| total.saturating_sub(usable)),
        ..Totals::default()
    }
}

fn arena(heap: Node) -> Arena {
    Arena {
        name: heap.attribute("nr").unwrap_or("?").to_owned(),
        threads: None,
        totals: totals(heap),
    }
}
