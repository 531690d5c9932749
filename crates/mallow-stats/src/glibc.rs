// SPDX-License-Identifier: MIT
//! The XML that glibc's `malloc_info` writes.

use roxmltree::{Document, Node};

use crate::vocabulary::{Arena, Stats, Totals};

pub fn read(text: &str) -> Option<Stats> {
    let document = Document::parse(text).ok()?;
    let root = document.root_element();
    let heaps = children(root, "heap");
    let arenas: Vec<Arena> = heaps.map(arena).collect();
    let system = value(root, "system", "current", "size");
    let mapped = value(root, "total", "mmap", "size");
    let free = free(root);
    let allocated = system
        .zip(free)
        .map(|(system, free)| system.saturating_sub(free).saturating_add(mapped.unwrap_or(0)));
    if arenas.is_empty() && system.is_none() {
        return None;
    }
    let mut missing = vec![
        "malloc_info counts what waits in the caches of threads as allocated, and does not tell \
         what is resident; mallow explain PID does."
            .to_owned(),
    ];
    if system == Some(0) && mapped.unwrap_or(0) == 0 {
        missing.push("glibc has served nothing in this process: another allocator does.".into());
    }
    Some(Stats {
        allocator: "glibc".into(),
        arenas_for_threads: Some(arenas.len() as u64),
        totals: Totals {
            allocated,
            mapped: value(root, "aspace", "mprotect", "size")
                .map(|size| size.saturating_add(mapped.unwrap_or(0))),
            retained: value(root, "aspace", "total", "size")
                .zip(value(root, "aspace", "mprotect", "size"))
                .map(|(total, usable)| total.saturating_sub(usable)),
            ..Totals::default()
        },
        arenas,
        missing,
        ..Stats::default()
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

/// Of an arena, or of all. Since 2.43 there are no fast bins.
fn free(node: Node) -> Option<u64> {
    let part = |kind| value(node, "total", kind, "size");
    Some(part("fast").unwrap_or(0).saturating_add(part("rest")?))
}

fn arena(heap: Node) -> Arena {
    let usable = value(heap, "aspace", "mprotect", "size");
    let total = value(heap, "aspace", "total", "size");
    let system = value(heap, "system", "current", "size");
    Arena {
        name: heap.attribute("nr").unwrap_or("?").to_owned(),
        threads: None,
        totals: Totals {
            allocated: system.zip(free(heap)).map(|(system, free)| system.saturating_sub(free)),
            mapped: usable,
            retained: total.zip(usable).map(|(total, usable)| total.saturating_sub(usable)),
            ..Totals::default()
        },
    }
}
