// SPDX-License-Identifier: MIT

use mallow_process::mappings::{Group, Mapping};
use mallow_process::process::Commitment;
use mallow_process::sparse::Sparse;

use super::*;
use crate::explain::answer::answer;

fn group(kind: Kind, size: u64, rss: u64) -> Group {
    Group { kind: Some(kind), size, rss, ..Group::default() }
}

fn ids(report: &Report) -> Vec<String> {
    findings(report).into_iter().map(|finding| finding.id).collect()
}

/// A heap of 100 MiB resident, of which so much is in use, and so much is whole pages.
fn heap(used: u64, whole_pages: u64) -> Report {
    let mut arena = Arena { is_main: true, ..Arena::default() };
    arena.chunks.used_bytes = used;
    arena.chunks.free_bytes = 100 * MIB - used;
    arena.chunks.free_resident = whole_pages;
    let heaps = Heaps { arenas: vec![arena], ..Heaps::default() };
    let groups = vec![group(Kind::GlibcHeap, 100 * MIB, 100 * MIB)];
    let mut report = Report { heap: Heap::Glibc(heaps), groups, ..Report::default() };
    report.totals.rss = 100 * MIB;
    report.totals.pss = 100 * MIB;
    report
}

/// The arena of such a heap.
fn arena(report: &mut Report) -> &mut Arena {
    let Heap::Glibc(heaps) = &mut report.heap else { panic!("it is glibc's") };
    &mut heaps.arenas[0]
}

#[test]
fn what_is_free_is_either_pinned_or_trimmable() {
    assert_eq!(ids(&heap(15 * MIB, MIB)), ["MLW2108"]);
    assert_eq!(ids(&heap(15 * MIB, 80 * MIB)), ["MLW2102"]);
    assert!(ids(&heap(95 * MIB, MIB)).is_empty());
    let found = findings(&heap(15 * MIB, MIB)).remove(0);
    assert!(found.evidence.contains("84.0 MiB of 100 MiB"), "{}", found.evidence);
    assert!(found.evidence.contains("(85 % of the heap is free)"), "{}", found.evidence);
    assert_eq!(found.effect, "malloc_trim would give back 1.00 MiB only");
}

#[test]
fn what_others_took_from_the_break_and_what_was_not_read_is_not_pinned() {
    let mut report = heap(15 * MIB, MIB);
    arena(&mut report).chunks.foreign = 40 * MIB;
    let found = findings(&report).remove(0);
    assert!(found.evidence.contains("44.0 MiB of 60.0 MiB"), "{}", found.evidence);
    assert!(found.evidence.contains("(75 % of the heap is free)"), "{}", found.evidence);
    arena(&mut report).chunks.unread = 40 * MIB;
    assert!(ids(&report).is_empty());
}

#[test]
fn malloc_trim_is_said_to_give_back_the_end_of_the_main_arena_alone() {
    let effects = |report: &Report, id: &str| -> Vec<String> {
        let found = findings(report).into_iter().filter(|finding| finding.id == id);
        found.map(|finding| finding.effect + "; " + &finding.remedy).collect()
    };
    let mut report = heap(15 * MIB, 2 * MIB);
    arena(&mut report).chunks.top_resident = 20 * MIB;
    let Heap::Glibc(heaps) = &mut report.heap else { panic!("it is glibc's") };
    let mut of_thread = Arena::default();
    of_thread.chunks.top_resident = 40 * MIB;
    heaps.arenas.push(of_thread);
    report.groups.push(group(Kind::GlibcArena, 64 * MIB, 40 * MIB));
    let threshold = "GLIBC_TUNABLES=glibc.malloc.trim_threshold=131072";
    let ends = effects(&report, "MLW2103");
    let both = "up to 60.0 MiB goes back, 20.0 MiB of it by malloc_trim";
    assert_eq!(ends, [format!("{both}; {threshold}, or malloc_trim(0)")]);
    let pinned = effects(&report, "MLW2108");
    assert!(pinned[0].starts_with("malloc_trim would give back 22.0 MiB only"), "{pinned:?}");
    arena(&mut report).chunks.free_resident = 30 * MIB;
    let between = effects(&report, "MLW2102");
    assert!(between[0].starts_with("malloc_trim gives back 50.0 MiB now"), "{between:?}");
    // Where the break could not grow.
    arena(&mut report).top_is_mapped = true;
    let between = effects(&report, "MLW2102");
    assert!(between[0].starts_with("malloc_trim gives back 30.0 MiB now"), "{between:?}");
    let ends = effects(&report, "MLW2103");
    assert_eq!(ends, [format!("up to 60.0 MiB goes back, 0 B of it by malloc_trim; {threshold}")]);
    arena(&mut report).chunks.top_resident = 0;
    let ends = effects(&report, "MLW2103");
    assert!(ends[0].starts_with("up to 40.0 MiB goes back, 0 B of it"), "{ends:?}");
    assert!(ends[0].ends_with(threshold), "{ends:?}");
}

#[test]
fn huge_pages_are_told_of_where_free_memory_is_still_resident() {
    let is_told = |whole_pages| {
        let mut report = heap(15 * MIB, whole_pages);
        report.groups[0].huge = 64 * MIB;
        ids(&report).contains(&"MLW2302".to_owned())
    };
    assert!(is_told(30 * MIB) && !is_told(MIB));
}

#[test]
fn huge_pages_are_remedied_where_they_come_from() {
    let remedy = |id: &str, mode: &str, runtime, is_sparse: bool| {
        let mut report = Report { runtime, ..heap(15 * MIB, 30 * MIB) };
        report.groups[0].huge = 64 * MIB;
        let stacks = Group { huge: 64 * MIB, ..group(Kind::ThreadStack, 64 * MIB, 64 * MIB) };
        report.groups.push(stacks);
        report.system.huge_pages = mode.into();
        report.sparse = is_sparse.then_some(Sparse { huge: 64 * MIB, looked: 512, empty: 510 });
        let found = findings(&report).into_iter().find(|finding| finding.id == id);
        found.expect(id).remedy
    };
    let (setting, asking) = ("transparent_hugepage=madvise", "no madvise(MADV_HUGEPAGE) there");
    for (mode, is_unasked) in [("always", true), ("madvise", false), ("", false)] {
        for (id, is_sparse) in [("MLW2302", true), ("MLW2302", false), ("MLW2307", false)] {
            let remedy = remedy(id, mode, Runtime::None, is_sparse);
            assert_eq!(remedy.contains(setting), is_unasked, "{id} {mode}: {remedy}");
            assert_eq!(remedy.contains(asking), !is_unasked, "{id} {mode}: {remedy}");
            assert!(!remedy.contains("numpy"), "{id} {mode}: {remedy}");
        }
        let remedy = remedy("MLW2302", mode, Runtime::Python, true);
        assert!(remedy.contains("NUMPY_MADVISE_HUGEPAGE=0"), "{mode}: {remedy}");
        assert_eq!(remedy.contains(setting), is_unasked, "{mode}: {remedy}");
    }
}

#[test]
fn pages_given_away_are_remedied_by_who_gave_them() {
    let remedy = |runtime, allocator: &str| {
        let mut report = Report { runtime, allocator: allocator.into(), ..Report::default() };
        report.totals.lazy_free = 64 * MIB;
        findings(&report).remove(0).remedy
    };
    assert_eq!(remedy(Runtime::None, "glibc"), "nothing");
    assert_eq!(remedy(Runtime::None, "jemalloc"), "nothing, or muzzy_decay_ms:0 in MALLOC_CONF");
    assert_eq!(remedy(Runtime::Go, "glibc"), "nothing, or GODEBUG=madvdontneed=1");
}

#[test]
fn memory_that_the_kernel_may_not_promise_is_told_of() {
    let is_told = |promised| {
        let mut report = heap(95 * MIB, MIB);
        let (limit, memory, swap) = (100 * MIB, 200 * MIB, 0);
        report.system.commitment = Some(Commitment { limit, promised, memory, swap });
        ids(&report) == ["MLW2308"]
    };
    assert!(is_told(90 * MIB) && !is_told(90 * MIB - 1));
}

#[test]
fn the_answer_does_not_count_more_than_is_resident() {
    let mut report = heap(40 * MIB, 60 * MIB);
    report.groups[0].rss = 50 * MIB;
    assert!(answer(&report).contains("40.0 MiB in use, 10.0 MiB to 50.0 MiB free but resident"));
    report.groups[0].rss = 41 * MIB;
    assert!(answer(&report).contains(
        "1.00 MiB to 41.0 MiB free but resident; how much of it is free cannot be told more exactly"
    ));
    report.groups[0].rss = 100 * MIB;
    assert!(
        answer(&report).contains("40.0 MiB in use, 60.0 MiB free but resident; most of it is free")
    );
    report.groups[0].rss = 30 * MIB;
    assert!(answer(&report).contains("40.0 MiB in use, of which 10.0 MiB or more is not"));
}

#[test]
fn the_answer_says_how_much_of_the_heap_the_program_holds() {
    let ends =
        |free, verdict: &str| answer(&heap((100 - free) * MIB, free * MIB)).ends_with(verdict);
    assert!(ends(5, "the program holds nearly all of it."));
    assert!(ends(16, "the program holds most of it."));
    assert!(ends(30, "a good part of it is free and has not been given back."));
    // A tenth, a quarter and as much as what is in use are where the words change.
    assert!(ends(9, "the program holds nearly all of it."));
    assert!(ends(10, "the program holds most of it."));
    assert!(ends(20, "the program holds most of it."));
    assert!(ends(21, "a good part of it is free and has not been given back."));
    assert!(ends(50, "a good part of it is free and has not been given back."));
    assert!(ends(51, "most of it is free and has not been given back."));
}

#[test]
fn what_may_be_free_is_not_called_unknown_where_it_is_little() {
    let answer_of = |free| {
        let mut report = heap(100 * MIB, 0);
        let Heap::Glibc(heaps) = &mut report.heap else { panic!("it is glibc's") };
        heaps.arenas[0].chunks.free_bytes = free * MIB;
        report.groups[0].rss = 101 * MIB;
        answer(&report)
    };
    let little = "1.00 MiB to 10.0 MiB free but resident; the program holds nearly all of it.";
    assert!(answer_of(10).ends_with(little), "{}", answer_of(10));
    assert!(answer_of(25).ends_with("the program holds most of it."));
    assert!(answer_of(26).ends_with("how much of it is free cannot be told more exactly."));
    assert!(answer_of(1).contains(" 1.00 MiB free but resident"));
}

#[test]
fn a_setting_of_two_arenas_leaves_one_beside_the_main_one() {
    let of = |arenas, reserve| {
        let heaps = Heaps { arenas: vec![Arena::default(); arenas], ..Heaps::default() };
        let groups = vec![group(Kind::GlibcReserve, reserve * MIB, 0)];
        let report = Report { heap: Heap::Glibc(heaps), groups, ..Report::default() };
        findings(&report).into_iter().find(|finding| finding.id == "MLW2101")
    };
    assert!(of(2, 256).is_none() && of(3, 63).is_none());
    let found = of(3, 128).expect("two arenas of threads");
    assert_eq!(found.evidence, "2 arenas, 128 MiB of VIRT without memory behind it");
    assert_eq!(found.effect, "VIRT falls by about 64.0 MiB, RSS hardly at all");
}

#[test]
fn who_follows_one_rule_is_not_told_the_contrary_by_another() {
    let of = |arenas, quota, runtime| {
        let arena = Arena { threads: Some(7), ..Arena::default() };
        let heaps = Heaps { arenas: vec![arena; arenas], ..Heaps::default() };
        let mut report = Report { heap: Heap::Glibc(heaps), runtime, ..Report::default() };
        (report.system.cpus, report.system.cpu_quota) = (16, quota);
        ids(&report)
    };
    assert_eq!(of(6, None, Runtime::None), ["MLW2104"]);
    assert_eq!(of(6, Some(1.0), Runtime::None), ["MLW2105"]);
    assert_eq!(of(6, Some(4.0), Runtime::None), ["MLW2104"], "MLW2105 would allow 8");
    assert!(of(6, None, Runtime::Java).is_empty(), "as MLW3401 of advise says");
}

#[test]
fn pages_of_files_that_were_written_to_are_no_files() {
    let mut report =
        Report { groups: vec![group(Kind::File, 200 * MIB, 150 * MIB)], ..Report::default() };
    (report.totals.rss, report.totals.pss) = (200 * MIB, 200 * MIB);
    assert_eq!(findings(&report)[0].evidence, "150 MiB of 200 MiB resident is files");
    report.groups[0].anonymous = 50 * MIB;
    assert!(ids(&report).is_empty());
}

#[test]
fn the_largest_part_is_called_by_a_name_that_fits_a_sentence() {
    let of = |kind: Kind| {
        let groups = vec![Group { title: kind.title().into(), ..group(kind, 80 * MIB, 80 * MIB) }];
        let mut report = Report { groups, ..Report::default() };
        report.totals.rss = 100 * MIB;
        answer(&report)
    };
    let says = "RSS is 100 MiB: the largest part, 80.0 MiB, is";
    assert_eq!(of(Kind::Anonymous), format!("{says} anonymous memory that nothing explains."));
    assert_eq!(of(Kind::Program), format!("{says} the program's file and data."));
    assert_eq!(of(Kind::File), format!("{says} mapped files."));
    assert_eq!(of(Kind::Library), format!("{says} libraries."));
}

#[test]
fn address_space_is_explained_where_it_is_four_times_what_is_resident() {
    let says = |virt, rss| {
        let mut report = heap(rss * MIB, 0);
        (report.totals.virt, report.totals.rss) = (virt * MIB, rss * MIB);
        answer(&report).starts_with("VIRT is ")
    };
    assert!(says(400, 100) && !says(399, 100));
    assert!(says(256, 1) && !says(255, 1));
}

#[test]
fn what_is_not_mallocs_is_told_from_half_of_what_is_resident_on() {
    let of = |kind, rss, pss, part| {
        let mut report =
            Report { groups: vec![group(kind, part * MIB, part * MIB)], ..Report::default() };
        (report.totals.rss, report.totals.pss) = (rss * MIB, pss * MIB);
        ids(&report)
    };
    assert_eq!(of(Kind::RuntimeHeap, 200, 200, 101), ["MLW2501"]);
    assert!(of(Kind::RuntimeHeap, 200, 200, 100).is_empty());
    assert_eq!(of(Kind::Library, 200, 200, 101), ["MLW2502"]);
    assert!(of(Kind::Library, 200, 200, 100).is_empty());
    assert_eq!(of(Kind::Shared, 400, 200, 100), ["MLW2503", "MLW2504"]);
    assert!(of(Kind::Shared, 401, 201, 100).is_empty());
}

#[test]
fn stacks_and_shared_memory_are_told_when_they_are_resident() {
    let mut report = Report::default();
    report.totals.rss = 200 * MIB;
    report.totals.pss = 200 * MIB;
    let mut stacks = group(Kind::ThreadStack, 800 * MIB, 90 * MIB);
    stacks.huge = 80 * MIB;
    report.groups = vec![stacks, group(Kind::Shared, 90 * MIB, 80 * MIB)];
    let mapping = |label: &str, rss| Mapping {
        start: 0,
        end: rss,
        perms: "rw-s".into(),
        kind: Kind::Shared,
        label: label.into(),
        rss,
        pss: rss,
        anonymous: 0,
        swap: 0,
        huge: 0,
    };
    report.mappings =
        vec![mapping("shared memory (/dev/shm/a)", 20 * MIB), mapping("memfd", 60 * MIB)];
    assert_eq!(ids(&report), ["MLW2301", "MLW2306", "MLW2307", "MLW2504"]);
    let shared = findings(&report).remove(3);
    let expected =
        "80.0 MiB of 200 MiB resident: memfd 60.0 MiB, shared memory (/dev/shm/a) 20.0 MiB";
    assert_eq!(shared.evidence, expected);
    report.groups =
        vec![group(Kind::ThreadStack, 80 * MIB, MIB), group(Kind::Shared, 9 * MIB, MIB)];
    assert!(ids(&report).is_empty());
}

#[test]
fn no_runtime_gets_the_remedy_of_another() {
    let words = [
        (Runtime::Java, vec!["-X", "jcmd"]),
        (Runtime::Node, vec!["old-space"]),
        (Runtime::Go, vec!["GOMEMLIMIT"]),
        (Runtime::Python, vec!["tracemalloc"]),
        (Runtime::Ruby, vec!["GC.stat"]),
        (Runtime::Erlang, vec!["erlang:memory"]),
        (Runtime::Libgc, vec!["GC_PRINT_STATS"]),
        (Runtime::None, vec![]),
    ];
    for (runtime, own) in &words {
        let mut report = Report {
            runtime: *runtime,
            groups: vec![
                group(Kind::RuntimeHeap, 200 * MIB, 200 * MIB),
                group(Kind::ThreadStack, 800 * MIB, MIB),
            ],
            ..Report::default()
        };
        report.totals.rss = 201 * MIB;
        report.totals.virt = 1000 * MIB;
        report.totals.pss = 201 * MIB;
        let found = findings(&report);
        let remedies: String = found.iter().map(|finding| finding.remedy.as_str()).collect();
        assert_eq!(found.len(), 2, "{remedies}");
        for (other, words) in &words {
            for word in words {
                let is_there = remedies.contains(word);
                assert_eq!(is_there, other == runtime, "{runtime:?}: {word} in {remedies}");
            }
        }
        assert_eq!(own.is_empty(), *runtime == Runtime::None);
    }
}
