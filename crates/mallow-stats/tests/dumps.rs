// SPDX-License-Identifier: MIT
//! Dumps that real allocators wrote: what is read of them, and what of damaged ones.
#![allow(clippy::unwrap_used)]

use mallow_stats::{Error, Stats, read};

const OF_5_2_1: &str = include_str!("dumps/jemalloc-5.2.1-arenas.json");
const OF_5_3_0: &str = include_str!("dumps/jemalloc-5.3.0-arenas.json");
const OF_5_3_1: &str = include_str!("dumps/jemalloc-5.3.1-arenas.json");
const MIMALLOC_2: &str = include_str!("dumps/mimalloc-2.5.2.json");
const MIMALLOC_3: &str = include_str!("dumps/mimalloc-3.6.0.json");
const GLIBC: &str = include_str!("dumps/glibc-malloc_info.xml");
const GLIBC_2_43: &str = include_str!("dumps/glibc-2.43-malloc_info.xml");
const TEXT: &str = include_str!("dumps/jemalloc-5.3.0-text.txt");

fn stats(text: &str) -> Stats {
    read(text.as_bytes()).unwrap()
}

#[test]
fn versions_of_jemalloc_are_read_alike() {
    for (text, version, threads) in
        [(OF_5_2_1, "5.2.1", 65), (OF_5_3_0, "5.3.0", 257), (OF_5_3_1, "5.3.1", 257)]
    {
        let stats = stats(text);
        assert_eq!(stats.allocator, "jemalloc");
        assert_eq!(stats.version.as_deref(), Some(version));
        assert_eq!((stats.threads, stats.arenas_for_threads), (Some(threads), Some(1)));
        assert_eq!(stats.option("dirty_decay_ms"), Some("10000"));
        assert_eq!(stats.number("muzzy_decay_ms"), Some(0));
        let totals = stats.totals;
        let all = [
            totals.allocated,
            totals.active,
            totals.metadata,
            totals.resident,
            totals.mapped,
            totals.retained,
            totals.dirty,
            totals.muzzy,
            totals.cached,
        ];
        assert!(all.iter().all(Option::is_some), "{version}: {totals:?}");
        assert!(totals.active >= totals.allocated && totals.mapped >= totals.active);
        let class = stats.classes.iter().find(|class| class.size == 256).unwrap();
        assert_eq!((class.slab_size, class.blocks_per_slab), (Some(4096), Some(16)));
        assert!(class.fills > Some(30_000) && class.requests > Some(1_000_000), "{class:?}");
        assert!(class.lock.as_ref().unwrap().operations > 100_000);
        assert!(stats.large.allocations >= Some(threads - 1), "{:?}", stats.large);
        assert!(stats.uptime_ns > Some(100_000_000));
    }
}

/// Mallow writes jemalloc's JSON, under its own version and with the counters of locks where they belong.
#[test]
fn the_json_of_mallow_is_called_so() {
    for version in ["5.3.0-mallow-0.1.0", "0.1.0 secure"] {
        let locks = r#""extents_dirty":{"num_ops":10,"num_wait":3,"num_spin_acq":2,
            "num_owner_switch":4,"total_wait_time":500,"max_wait_time":300,"max_num_thds":1}"#;
        let text = format!(
            r#"{{"jemalloc":{{"version":"{version}","config":{{"stats":true}},"stats":{{"allocated":1}},
            "stats.arenas":{{"merged":{{"nthreads":1,"mutexes":{{{locks}}}}}}}}}}}"#
        );
        let stats = stats(&text);
        assert_eq!((stats.allocator.as_str(), stats.version.as_deref()), ("mallow", Some("0.1.0")));
        let lock = stats.lock("extents_dirty").unwrap();
        assert_eq!((lock.waits, lock.spins), (Some(3), Some(2)));
        assert!(!stats.missing.iter().any(|what| what.contains("wrong names")));
    }
}

/// As of a process under Mallow that is read from outside: what waits in lists of threads is not with the program.
#[test]
fn what_mallow_has_in_lists_is_not_allocated() {
    let allocated = |version: &str| {
        let figures = r#""nthreads":1,"small":{"allocated":700},"large":{"allocated":300},"tcache_bytes":400"#;
        let text = format!(
            r#"{{"jemalloc":{{"version":"{version}","config":{{"stats":true}},"stats":{{"allocated":1000}},
            "stats.arenas":{{"merged":{{{figures}}},"0":{{{figures}}}}}}}}}"#
        );
        let stats = stats(&text);
        (stats.totals.allocated, stats.arenas[0].totals.allocated, stats.totals.cached)
    };
    assert_eq!(allocated("5.3.0-mallow-0.1.0"), (Some(600), Some(600), Some(400)));
    assert_eq!(allocated("5.3.0-0-g54eaed1d"), (Some(1000), Some(1000), Some(400)));
}

/// By the text that the same jemalloc writes, num_wait of the JSON is a rate up to 5.3.0, and the
/// waits stand under num_spin_acq.
#[test]
fn mixed_up_counters_of_locks_are_put_right() {
    for (text, waits, spins, has_times) in
        [(OF_5_2_1, 170, 707, false), (OF_5_3_0, 139, 700, false), (OF_5_3_1, 376, 1141, true)]
    {
        let stats = stats(text);
        let lock = stats.lock("extents_dirty").unwrap();
        assert_eq!((lock.waits, lock.spins), (Some(waits), Some(spins)));
        assert_eq!(lock.contended(), waits + spins);
        assert_eq!(lock.wait_ns.is_some(), has_times);
        let is_said = stats.missing.iter().any(|sentence| sentence.contains("wrong names"));
        assert_eq!(is_said, !has_times, "{:?}", stats.missing);
    }
}

#[test]
fn mimalloc_is_read_as_far_as_it_counts() {
    let stats = stats(MIMALLOC_3);
    assert_eq!((stats.allocator.as_str(), stats.version.as_deref()), ("mimalloc", Some("3.6.0")));
    assert_eq!(stats.totals.allocated, Some(136_583_152));
    assert_eq!(stats.totals.active, Some(145_910_992));
    assert_eq!(stats.totals.resident, None, "it shows what is committed in its place");
    assert_eq!(stats.threads, Some(4));
    assert!(stats.classes.iter().any(|class| class.size == 1536 && class.requests == Some(6)));
    let older = read(MIMALLOC_2.as_bytes()).unwrap();
    assert_eq!(older.version.as_deref(), Some("2.5.2"));
    assert_eq!(older.totals.allocated, None);
    assert!(older.missing.iter().any(|sentence| sentence.contains("MI_STAT")), "{older:?}");
}

#[test]
fn malloc_info_is_read() {
    let stats = stats(GLIBC);
    assert_eq!(stats.allocator, "glibc");
    assert_eq!(stats.arenas.len(), 4);
    assert_eq!(stats.totals.allocated, Some(143_474_688 - 86_586_797 + 5_246_976));
    assert_eq!(stats.arenas[1].totals.allocated, Some(47_779_840 - 28_819_087));
    assert_eq!(stats.totals.resident, None);
    let unused = stats_of_unused();
    assert!(unused.missing.iter().any(|s| s.contains("another allocator")), "{unused:?}");
}

#[test]
fn malloc_info_without_fast_bins_is_read() {
    let stats = stats(GLIBC_2_43);
    assert_eq!(stats.totals.allocated, Some(3_731_456 - 1_294_435 + 1_052_672));
    let of_arenas: Vec<_> = stats.arenas.iter().map(|arena| arena.totals.allocated).collect();
    assert_eq!(of_arenas, [Some(1_912_832 - 690_975), Some(1_818_624 - 603_460)]);
}

/// Mallow writes glibc's form too, and its own figures behind it. Blocks that are mappings of their own are not in `system`.
#[test]
fn malloc_info_of_mallow_is_called_so() {
    let totals = r#"<total type="fast" count="1" size="96"/><total type="rest" count="2" size="65000000"/>
        <total type="mmap" count="1" size="104857600"/><system type="current" size="70000000"/>
        <aspace type="total" size="70000000"/><aspace type="mprotect" size="69000000"/>"#;
    let figures = [
        ("allocated", 109_857_000),
        ("dirty", 64_000_000),
        ("retained", 1_000_000),
        ("resident", 175_000_000),
        ("mapped", 176_000_000),
        ("threads", 3),
    ]
    .map(|(name, value)| format!(r#"<figure name="{name}" unit="bytes" value="{value}"/>"#))
    .concat();
    let stats = stats(&format!(
        r#"<malloc version="1"><heap nr="0">{totals}</heap>{totals}
        <mallow version="0.1.0 secure">{figures}</mallow></malloc>"#
    ));
    assert_eq!((stats.allocator.as_str(), stats.version.as_deref()), ("mallow", Some("0.1.0")));
    assert_eq!(stats.totals.allocated, Some(109_857_000));
    assert_eq!((stats.totals.dirty, stats.totals.resident), (Some(64_000_000), Some(175_000_000)));
    assert_eq!((stats.totals.mapped, stats.totals.retained), (Some(175_000_000), Some(1_000_000)));
    assert_eq!((stats.threads, stats.arenas_for_threads), (Some(3), Some(1)));
    let arena = stats.arenas[0].totals;
    assert_eq!(arena.allocated, Some(70_000_000 - 65_000_096 + 104_857_600));
    assert_eq!((arena.mapped, arena.retained), (Some(173_857_600), Some(1_000_000)));
    assert!(!stats.missing.iter().any(|what| what.contains("caches of threads")));
}

fn stats_of_unused() -> Stats {
    stats(
        "<malloc version=\"1\"><heap nr=\"0\"/><total type=\"fast\" count=\"0\" size=\"0\"/>\
         <total type=\"rest\" count=\"0\" size=\"0\"/><total type=\"mmap\" count=\"0\" size=\"0\"/>\
         <system type=\"current\" size=\"0\"/></malloc>",
    )
}

#[test]
fn a_dump_is_found_among_other_output_and_the_last_one_counts() {
    let exit = include_str!("dumps/jemalloc-5.3.0-exit.json");
    let log =
        format!("starting {{\"jemalloc\"\n{OF_5_3_1}\nwarning: x\n{}\nbye\n", exit.trim_end());
    assert_eq!(stats(&log).threads, stats(exit).threads);
    assert_eq!(stats(&format!("log\n{GLIBC}\n{GLIBC}end")).arenas.len(), 4);
}

#[test]
fn what_was_left_out_is_said() {
    let mut dump: serde_json::Value = serde_json::from_str(OF_5_3_1).unwrap();
    let jemalloc = dump["jemalloc"].as_object_mut().unwrap();
    let arenas = jemalloc.remove("stats.arenas");
    jemalloc.remove("opt");
    let stats = stats(&dump.to_string());
    assert!(stats.totals.allocated.is_some() && stats.totals.dirty.is_none());
    assert_eq!(stats.missing.len(), 2, "{:?}", stats.missing);
    // Without the merged arena the others are added up.
    let merged = arenas.unwrap()["merged"].take();
    let whole = read(OF_5_3_1.as_bytes()).unwrap();
    dump["jemalloc"]["stats.arenas"] = serde_json::json!({ "0": merged.clone(), "1": merged });
    let twice = read(dump.to_string().as_bytes()).unwrap();
    assert_eq!(twice.threads, whole.threads.map(|threads| 2 * threads));
    assert_eq!(twice.totals.dirty, whole.totals.dirty.map(|dirty| 2 * dirty));
    assert_eq!(twice.arenas.len(), 2);
}

#[test]
fn damaged_and_foreign_texts_are_errors() {
    assert_eq!(read(b" \n"), Err(Error::Empty));
    assert_eq!(read(b"total 12\ndrwxr-xr-x"), Err(Error::Foreign));
    assert_eq!(read(b"{\"schema\": \"other\"}"), Err(Error::Foreign));
    assert_eq!(read(TEXT.as_bytes()), Err(Error::JemallocText));
    let nested = "{\"jemalloc\":".repeat(100_000); // looked at a thousand times, not at each level
    assert_eq!(read(nested.as_bytes()), Err(Error::Damaged("jemalloc")));
    for text in [OF_5_2_1, OF_5_3_0, OF_5_3_1, MIMALLOC_2, MIMALLOC_3, GLIBC] {
        let end = text.trim_end().len();
        for part in 1..50 {
            let read = read(&text.as_bytes()[..end * part / 50]);
            assert!(
                matches!(read, Err(Error::Damaged(_) | Error::Foreign)),
                "{part}: {:?}",
                read.map(|stats| stats.allocator)
            );
        }
    }
    for hollow in ["3", "{}", "{\"stats\": 7}", "{\"version\": \"5.3.0\"}"] {
        let text = format!("{{\"jemalloc\": {hollow}}}");
        assert_eq!(read(text.as_bytes()), Err(Error::Damaged("jemalloc")), "{text}");
    }
    assert_eq!(read(b"{\"mimalloc_version\": 30600}"), Err(Error::Damaged("mimalloc")));
    assert_eq!(read(b"<malloc version=\"1\"></malloc>"), Err(Error::Damaged("malloc_info")));
}
