// SPDX-License-Identifier: MIT
//! The rules of processes, on pictures that are made for them.

use mallow_process::heap::Heap;
use mallow_process::heap::glibc::{Arena, Heaps};
use mallow_process::heap::mallow;
use mallow_process::mappings::{Kind, Mapping};
use mallow_process::page_size;
use mallow_process::picture::Picture;
use mallow_process::process::{Commitment, Process};
use mallow_process::smaps::Vma;
use mallow_process::vitals::Limit;
use mallow_stats::{Stats, live};

use super::super::case::{Case, MIB, Seen};
use super::{Finding, NotJudged, judge, list};
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

/// What the rules say of a process that has run for so long.
fn judged(picture: &Picture, age_s: u64) -> (Vec<Finding>, Vec<NotJudged>) {
    let mut stats = live::stats(&picture.heap, None).unwrap();
    stats.uptime_ns = Some(age_s * 1_000_000_000);
    judge(&Case { stats: &stats, process: Some(Seen::new(picture)), command: None })
}

/// The line that is to be set, of the one finding that there may be.
fn advised((found, not_judged): (Vec<Finding>, Vec<NotJudged>), id: &str) -> Option<String> {
    assert!(found.iter().all(|finding| finding.id == id), "{found:?}");
    assert!(not_judged.iter().all(|rule| rule.id != id), "{not_judged:?}");
    found.first().map(|finding| finding.set.text().to_owned())
}

#[test]
fn memory_is_held_against_what_the_kernel_may_promise() {
    let of = |promised| {
        let mut app = picture("app", glibc(1, 1, MIB, 0), Kind::GlibcHeap, MIB);
        let (limit, memory, swap) = (100 * MIB, 160 * MIB, 20 * MIB);
        app.process.commitment = Some(Commitment { limit, promised, memory, swap });
        advised(judged(&app, 1), "MLW2308")
    };
    // Of 150 MiB swap has 20.
    assert_eq!(of(90 * MIB).unwrap(), "sysctl vm.overcommit_ratio=82");
    assert_eq!(of(90 * MIB - 1), None);
}

/// A process under Mallow that has used 100 s of CPU time and met so many page faults.
fn of_mallow(heap: mallow::Heap, faults: u64, rss: u64) -> Picture {
    let mut picture = picture("app", Heap::Mallow(heap), Kind::MallowRegion, rss);
    let stat = format!("1 (app) S 1 1 1 0 -1 0 {faults} 0 0 0 9000 1000 0 0 20 0 8 0 100 0 0");
    picture.process.files.insert("stat", stat);
    picture
}

fn options(pairs: &[(&str, i64)]) -> std::collections::BTreeMap<String, i64> {
    pairs.iter().map(|(name, value)| (name.to_string(), *value)).collect()
}

#[test]
fn arenas_of_mallow_are_more_where_threads_wait_for_them() {
    const SECOND: u64 = 1_000_000_000;
    let of = |threads, arenas, waits, wait_time, age_s| {
        let lock = |name: &str, wait_time| mallow::Lock {
            name: name.into(),
            operations: 1_000_000,
            waits,
            wait_time,
            ..Default::default()
        };
        // What belongs to no arena, more arenas do not help.
        let locks = vec![lock("heaps", 90 * SECOND), lock("arena 1 pool", wait_time)];
        let arenas = vec![mallow::Arena::default(); arenas];
        let heap = mallow::Heap { arenas, threads: Some(threads), locks, ..Default::default() };
        advised(judged(&of_mallow(heap, 0, MIB), age_s), "MLW3201")
    };
    let arenas = |count: u64| Some(format!("MALLOW_CONF=arenas:{count}"));
    assert_eq!(of(8, 2, 1000, 5 * SECOND, 10), arenas(4));
    assert_eq!(of(1000, 63, 1000, 5 * SECOND, 10), arenas(64));
    assert_eq!(of(1000, 64, 1000, 5 * SECOND, 10), None, "more cannot be set");
    assert_eq!(of(7, 2, 1000, 5 * SECOND, 10), None);
    assert_eq!(of(8, 2, 999, 5 * SECOND, 10), None);
    assert_eq!(of(8, 2, 1000, 5 * SECOND - 1, 10), None, "less than a twentieth of the CPU time");
    assert_eq!(of(8, 2, 1000, 5 * SECOND, 9), None, "too short a time");
}

#[test]
fn memory_of_mallow_stays_longer_where_it_is_needed_again() {
    // So much in 100 s of CPU time.
    const LEAST: u64 = 6400 * MIB;
    let of = |decay: i64, bytes, refaulted, faults, soft: i64| {
        let purges = mallow::Purges { rounds: 10, calls: 1000, bytes };
        let arena = mallow::Arena { dirty_purges: Some(purges), refaulted, ..Default::default() };
        let limits = [("memory_limit", 0), ("memory_soft_limit", soft)];
        let mut options = options(&limits);
        options.insert("dirty_decay_ms".into(), decay);
        let threads = Some(1);
        let heap = mallow::Heap { arenas: vec![arena], options, threads, ..Default::default() };
        judged(&of_mallow(heap, faults, MIB), 100)
    };
    let faults = LEAST / page_size();
    let line = |decay, bytes, refaulted, faults, soft| {
        advised(of(decay, bytes, Some(refaulted), faults, soft), "MLW3202")
    };
    let decay = |value: &str| Some(format!("MALLOW_CONF=dirty_decay_ms:{value}"));
    assert_eq!(line(0, LEAST, LEAST, faults, 0), decay("10000"));
    assert_eq!(line(9_999, 2 * LEAST, LEAST, faults, 0), decay("10000"));
    assert_eq!(line(10_000, LEAST, LEAST, faults, 0), decay("60000"));
    assert_eq!(line(60_000, LEAST, LEAST, faults, 0), None, "the advice was followed");
    assert_eq!(line(-1, LEAST, LEAST, faults, 0), None);
    assert_eq!(line(0, LEAST, LEAST - 1, faults, 0), None);
    assert_eq!(line(0, 2 * LEAST + 2, LEAST, faults, 0), None, "most is not needed again");
    assert_eq!(line(0, LEAST, LEAST, faults - 1, 0), None, "it was not touched");
    assert_eq!(line(0, LEAST, LEAST, faults, 1 << 30), None, "a limit gives it back");
    let (found, not_judged) = of(0, LEAST, None, faults, 0);
    assert_eq!((found.len(), not_judged[0].id), (0, "MLW3202"));
    let (found, not_judged) = of(0, LEAST - 1, None, faults, 0);
    assert!(found.is_empty() && not_judged.is_empty(), "it cannot be much: {not_judged:?}");
}

#[test]
fn who_uses_no_cpu_time_needs_no_memory_again() {
    let of = |bytes, ticks| {
        let purges = mallow::Purges { rounds: 10, calls: 1000, bytes };
        let refaulted = Some(bytes);
        let arena = mallow::Arena { dirty_purges: Some(purges), refaulted, ..Default::default() };
        let limits = [("memory_limit", 0), ("memory_soft_limit", 0), ("dirty_decay_ms", 10_000)];
        let (options, threads) = (options(&limits), Some(1));
        let heap = mallow::Heap { arenas: vec![arena], options, threads, ..Default::default() };
        let mut picture = of_mallow(heap, 0, MIB);
        let stat = format!("1 (app) S 1 1 1 0 -1 0 1000000 0 0 0 {ticks} 0 0 0 20 0 8 0 100 0 0");
        picture.process.files.insert("stat", stat);
        advised(judged(&picture, 100), "MLW3202")
    };
    assert_eq!(of(0, 0), None);
    assert_eq!(of(64 * MIB, 0), None);
    assert_eq!(of(64 * MIB, 99), None);
    assert_eq!(of(64 * MIB, 100), Some("MALLOW_CONF=dirty_decay_ms:60000".to_owned()));
}

#[test]
fn free_pages_of_mallow_are_held_against_the_limit_of_the_group() {
    const GROUP: Limit = Limit { bytes: 1024 * MIB, used: 1000 * MIB };
    let of = |free, rss, told: &[(&str, i64)], group| {
        let arena = mallow::Arena { large: 640 * MIB, dirty: free, ..Default::default() };
        let options = options(told);
        let heap = mallow::Heap { arenas: vec![arena], options, ..Default::default() };
        let mut picture = of_mallow(heap, 0, rss);
        picture.process.memory_limit = group;
        judged(&picture, 1)
    };
    let none = [("memory_limit", 0), ("memory_soft_limit", 0)];
    let line =
        |free, rss, told: &[(&str, i64)], group| advised(of(free, rss, told, group), "MLW3203");
    let soft = Some("MALLOW_CONF=memory_soft_limit:90%".to_owned());
    assert_eq!(line(128 * MIB, 768 * MIB, &none, Some(GROUP)), soft);
    assert_eq!(line(128 * MIB - 1, 768 * MIB, &none, Some(GROUP)), None);
    assert_eq!(line(128 * MIB, 768 * MIB - 1, &none, Some(GROUP)), None);
    assert_eq!(line(128 * MIB, 768 * MIB, &none, None), None, "nothing is limited");
    let followed = [("memory_limit", 0), ("memory_soft_limit", 921 << 20)];
    assert_eq!(line(128 * MIB, 768 * MIB, &followed, Some(GROUP)), None);
    let (found, not_judged) = of(128 * MIB, 768 * MIB, &[], Some(GROUP));
    assert!(found.is_empty() && not_judged.iter().any(|rule| rule.id == "MLW3203"));
}

#[test]
fn blocks_of_mallow_are_held_against_its_own_limit() {
    let of = |metadata, limit, group: Option<u64>| {
        let arena = mallow::Arena { active: 90 * MIB - 4096, ..Default::default() };
        let options = options(&[("memory_limit", limit), ("memory_soft_limit", limit)]);
        let heap = mallow::Heap { arenas: vec![arena], metadata, options, ..Default::default() };
        let mut picture = of_mallow(heap, 0, 90 * MIB);
        picture.process.memory_limit = group.map(|bytes| Limit { bytes, used: 0 });
        advised(judged(&picture, 1), "MLW3204")
    };
    assert_eq!(of(4096, 100 << 20, None).unwrap(), "MALLOW_CONF=memory_limit:157286400");
    assert!(of(4096, 100 << 20, Some(149 * MIB)).unwrap().contains("control group"));
    assert_eq!(of(4095, 100 << 20, None), None);
    assert_eq!(of(4096, 0, None), None, "nothing is limited");
}

#[test]
fn every_rule_is_in_the_catalogue_and_none_is_there_twice() {
    let rules = list();
    assert!(rules.windows(2).all(|pair| pair[0].id < pair[1].id));
    for rule in &rules {
        assert!(findings::find(rule.id).is_some() && !rule.reason.is_empty(), "{}", rule.id);
    }
}
