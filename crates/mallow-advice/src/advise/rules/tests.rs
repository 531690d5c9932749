// SPDX-License-Identifier: MIT
//! The rules of processes, on pictures that are made for them.

use mallow_process::heap::Heap;
use mallow_process::heap::glibc::{Arena, Heaps};
use mallow_process::heap::mallow;
use mallow_process::mappings::{Kind, Mapping};
use mallow_process::picture::Picture;
use mallow_process::process::Process;
use mallow_process::smaps::Vma;
use mallow_stats::{Stats, live};

use super::super::case::{Case, MIB, Seen};
use super::{judge, list};
use crate::findings;

fn mapping(kind: Kind, rss: u64, huge: u64) -> Mapping {
    Mapping {
        start: 0,
        end: rss,
        perms: "rw-p".into(),
        kind,
        label: String::new(),
        rss,
        pss: rss,
        anonymous: 0,
        swap: 0,
        huge,
    }
}

/// A program whose heap is resident with so much.
fn picture(program: &str, heap: Heap, kind: Kind, rss: u64) -> Picture {
    let vma = Vma { start: 0, end: rss, rss, ..Vma::default() };
    let process = Process {
        exe: format!("/usr/bin/{program}"),
        vmas: vec![vma],
        cpus: 16,
        ..Process::default()
    };
    let allocator = String::new();
    let mappings = vec![mapping(kind, rss, 0)];
    let (others, kept, gaps) = (vec![], vec![], vec![]);
    Picture {
        process,
        allocator,
        heap,
        others,
        mappings,
        kept,
        runtime_version: None,
        sparse: None,
        gaps,
    }
}

/// Arenas of glibc, each with so much in use and so much in free pages.
fn glibc(count: usize, threads: u64, used: u64, free: u64) -> Heap {
    let mut arena = Arena { threads: Some(threads), ..Arena::default() };
    arena.chunks.used_bytes = used;
    arena.chunks.free_bytes = free;
    arena.chunks.free_resident = free;
    Heap::Glibc(Heaps { arenas: vec![arena; count], ..Heaps::default() })
}

fn ids(picture: &Picture) -> Vec<&'static str> {
    let musl = || Stats { allocator: "musl".into(), ..Stats::default() };
    let stats = live::stats(&picture.heap, None).unwrap_or_else(musl);
    let case = Case { stats: &stats, process: Some(Seen::new(picture)), command: None };
    judge(&case).0.iter().map(|finding| finding.id).collect()
}

#[test]
fn arenas_are_held_against_the_quota_of_the_group() {
    let mut process = picture("app", glibc(12, 1, 16 * MIB, 2 * MIB), Kind::GlibcHeap, 216 * MIB);
    assert!(ids(&process).is_empty(), "without a quota glibc counts right");
    process.process.cpu_quota = Some(2.0);
    assert_eq!(ids(&process), ["MLW2105"]);
    process.process.cpu_quota = Some(8.0);
    assert!(ids(&process).is_empty());
    let mut full = picture("app", glibc(12, 1, 4 * MIB, 0), Kind::GlibcHeap, 48 * MIB);
    full.process.cpu_quota = Some(2.0);
    assert!(ids(&full).is_empty(), "nothing is free that could come together");
}

#[test]
fn who_follows_one_rule_is_not_told_the_contrary_by_another() {
    let mut process = picture("app", glibc(4, 8, 4 * MIB, 0), Kind::GlibcHeap, 16 * MIB);
    assert_eq!(ids(&process), ["MLW2104"], "many threads on four arenas");
    process.process.cpu_quota = Some(2.0);
    assert!(ids(&process).is_empty(), "as MLW2105 says for two CPUs");
    process.process.cpu_quota = Some(8.0);
    assert_eq!(ids(&process), ["MLW2104"]);
    let ruby =
        |arenas| ids(&picture("ruby3.1", glibc(arenas, 8, 4 * MIB, 0), Kind::GlibcHeap, 16 * MIB));
    assert_eq!((ruby(1), ruby(2)), (vec!["MLW2104"], vec![]), "as MLW3403 says");
}

#[test]
fn free_memory_of_glibc_is_told_with_what_brings_it_back() {
    let trimmable = picture("app", glibc(1, 1, 50 * MIB, 50 * MIB), Kind::GlibcHeap, 100 * MIB);
    assert_eq!(ids(&trimmable), ["MLW2102"]);
    let pinned = picture("app", glibc(1, 1, 50 * MIB, 0), Kind::GlibcHeap, 100 * MIB);
    assert_eq!(ids(&pinned), ["MLW2108"]);
    let mut of_others = glibc(1, 1, 50 * MIB, 0);
    let Heap::Glibc(heaps) = &mut of_others else { panic!("it is glibc's") };
    heaps.arenas[0].chunks.foreign = 50 * MIB;
    assert!(ids(&picture("app", of_others, Kind::GlibcHeap, 100 * MIB)).is_empty());
    let crowded = picture("app", glibc(2, 8, 50 * MIB, 0), Kind::GlibcHeap, 100 * MIB);
    assert_eq!(ids(&crowded), ["MLW2104"]);
}

#[test]
fn runtimes_are_told_only_where_malloc_matters() {
    let ruby = |arenas, used| {
        let heap = glibc(arenas, 1, used, 0);
        picture("ruby3.1", heap, Kind::GlibcHeap, arenas as u64 * used)
    };
    assert_eq!(ids(&ruby(8, 16 * MIB)), ["MLW3403"]);
    assert!(ids(&ruby(1, 128 * MIB)).is_empty(), "one arena is shared by none");
    assert!(ids(&ruby(8, MIB)).is_empty(), "too small");
    let mysql = |cpus| {
        let heap = glibc(4, 1, 32 * MIB, 0);
        let mut process = picture("mysqld", heap, Kind::GlibcHeap, 128 * MIB);
        process.process.cpus = cpus;
        ids(&process)
    };
    assert_eq!((mysql(16), mysql(8)), (vec!["MLW3405"], vec![]));
}

#[test]
fn runtimes_are_told_only_where_much_of_mallocs_heap_is_free() {
    let of = |program: &str, used: u64, free: u64| {
        let (used, free) = (used * MIB, free * MIB);
        picture(program, glibc(1, 1, used, free), Kind::GlibcHeap, used + free)
    };
    for (program, id) in [
        ("python3.11", "MLW3402"),
        ("node", "MLW3404"),
        ("redis-server", "MLW3406"),
        ("valkey-server", "MLW3406"),
    ] {
        assert_eq!(ids(&of(program, 60, 40)), ["MLW2102", id]);
        assert!(ids(&of(program, 90, 10)).is_empty(), "{program}: it is in use");
        assert_eq!(ids(&of(program, 30, 30)), ["MLW2102"], "{program}: too small");
    }
    let mut python = of("python3.11", 86, 14);
    assert!(ids(&python).is_empty());
    python.process.status.insert("Threads".into(), "4".into());
    assert_eq!(ids(&python), ["MLW3402"], "with threads it is worth it earlier");
}

#[test]
fn musl_huge_pages_and_mappings_are_told() {
    let other =
        Heap::Other(mallow_process::heap::Other { name: "musl".into(), ..Default::default() });
    let mut musl = picture("app", other, Kind::Allocator, MIB);
    musl.process.status.insert("Threads".into(), "4".into());
    assert_eq!(ids(&musl), ["MLW2402"]);
    musl.process.max_mappings = Some(1);
    assert_eq!(ids(&musl), ["MLW2304", "MLW2402"]);
    let arena =
        mallow::Arena { active: 80 * MIB, large: 80 * MIB, dirty: 80 * MIB, ..Default::default() };
    let heap = Heap::Mallow(mallow::Heap { arenas: vec![arena], ..Default::default() });
    let mut own = picture("app", heap, Kind::MallowRegion, 160 * MIB);
    assert_eq!(ids(&own), ["MLW2201"]);
    own.mappings[0].huge = 100 * MIB;
    assert_eq!(ids(&own), ["MLW2201", "MLW2302"]);
    let mut trimmed = glibc(1, 1, 90 * MIB, 80 * MIB);
    let Heap::Glibc(heaps) = &mut trimmed else { panic!("it is glibc's") };
    heaps.arenas[0].chunks.free_resident = 0;
    let mut trimmed = picture("app", trimmed, Kind::GlibcHeap, 100 * MIB);
    trimmed.mappings[0].huge = 90 * MIB;
    assert!(ids(&trimmed).is_empty());
}

/// What MLW2201 says of 80 MiB that are free, under these options: what to set, and what it brings.
fn of_free_pages(options: &[(&str, &str)]) -> Option<(String, String, String)> {
    let arena = mallow::Arena { dirty: 80 * MIB, ..Default::default() };
    let heap = Heap::Mallow(mallow::Heap { arenas: vec![arena], ..Default::default() });
    let picture = picture("app", heap, Kind::MallowRegion, 80 * MIB);
    let mut stats = live::stats(&picture.heap, None).unwrap();
    let option = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    stats.options = options.iter().map(option).collect();
    let case = Case { stats: &stats, process: Some(Seen::new(&picture)), command: None };
    let mut found = judge(&case).0;
    found.retain(|finding| finding.id == "MLW2201");
    found.pop().map(|finding| (finding.set.text().to_owned(), finding.evidence, finding.effect))
}

#[test]
fn free_pages_of_mallow_are_judged_by_the_options_of_the_process() {
    let of = |decay, thread| of_free_pages(&[("dirty_decay_ms", decay), ("purge_thread", thread)]);
    assert_eq!(of("10000", "true"), None, "the advice was followed");
    assert_eq!(of("60000", "true"), None);
    let (set, _, effect) = of("5000", "false").unwrap();
    assert_eq!(set, "MALLOW_CONF=purge_thread:true");
    assert!(effect.contains("dirty_decay_ms (5.00 s)"), "{effect}");
    for (decay, kept) in [("-1", "for ever"), ("600000", "for up to 600 s")] {
        for thread in ["true", "false"] {
            let (set, evidence, effect) = of(decay, thread).unwrap();
            assert_eq!(set, "MALLOW_CONF=dirty_decay_ms:10000");
            assert!(evidence.ends_with(&format!("is {decay}, so they are kept {kept}")));
            assert_eq!(effect.contains("with purge_thread:true"), thread == "false", "{effect}");
        }
    }
    let (set, _, effect) = of_free_pages(&[]).unwrap();
    assert_eq!(set, "MALLOW_CONF=purge_thread:true");
    assert!(effect.contains("unless the program has set another time"), "{effect}");
}

#[test]
fn every_rule_is_in_the_catalogue_and_none_is_there_twice() {
    let rules = list();
    assert!(rules.windows(2).all(|pair| pair[0].id < pair[1].id));
    for rule in &rules {
        assert!(findings::find(rule.id).is_some() && !rule.reason.is_empty(), "{}", rule.id);
    }
}
