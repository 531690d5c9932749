// SPDX-License-Identifier: MIT
//! The rules on dumps that real jemallocs wrote, and on the same with figures changed.

use mallow_stats::{Stats, read};
use serde_json::{Value, json};

use super::super::super::case::Case;
use super::super::super::report::{Finding, NotJudged, Step};
use super::super::judge;

macro_rules! dump {
    ($name:literal) => {
        include_str!(concat!("../../../../tests/dumps/jemalloc-", $name, ".json"))
    };
}

const HEALTHY: [&str; 2] = [dump!("5.3.0-healthy"), dump!("5.3.1-healthy")];
const ARENAS: [&str; 3] = [dump!("5.2.1-arenas"), dump!("5.3.0-arenas"), dump!("5.3.1-arenas")];
const BINS: [&str; 2] = [dump!("5.3.0-bins"), dump!("5.3.1-bins")];
const PAGES: [&str; 2] = [dump!("5.3.0-pages"), dump!("5.3.1-pages")];

fn judged(stats: &Stats) -> (Vec<Finding>, Vec<NotJudged>) {
    judge(&Case { stats, process: None, command: Some("./server".into()) })
}

fn of(dump: &str) -> Vec<Finding> {
    judged(&read(dump.as_bytes()).unwrap()).0
}

#[track_caller]
fn found(dump: &str, id: &str) -> Finding {
    let all = of(dump);
    let ids: Vec<&str> = all.iter().map(|finding| finding.id).collect();
    all.iter().find(|f| f.id == id).unwrap_or_else(|| panic!("{id} is not in {ids:?}")).clone()
}

/// The healthy dump with one value of its JSON changed.
fn changed(values: &[(&str, Value)]) -> String {
    let mut dump: Value = serde_json::from_str(HEALTHY[1]).unwrap();
    for (place, value) in values {
        let slot = dump.pointer_mut(&format!("/jemalloc{place}"));
        *slot.unwrap_or_else(|| panic!("there is no {place}")) = value.clone();
    }
    dump.to_string()
}

fn ids(dump: &str) -> Vec<&'static str> {
    of(dump).iter().map(|finding| finding.id).collect()
}

fn set_numbers(value: &mut Value, to: u64) {
    match value {
        Value::Number(number) => *number = to.into(),
        Value::Array(items) => items.iter_mut().for_each(|item| set_numbers(item, to)),
        Value::Object(fields) => fields.values_mut().for_each(|field| set_numbers(field, to)),
        _ => {}
    }
}

/// A counter of jemalloc may have run below 0, and a broken dump has anything.
#[test]
fn no_number_is_too_large_to_be_judged() {
    for dump in [HEALTHY, BINS, PAGES].concat().iter().chain(&ARENAS) {
        for power in [0, 1, 20, 31, 32, 47, 52, 53, 59, 60, 62, 63, 64] {
            for number in
                [1u64.checked_shl(power).unwrap_or(0), (1u128 << power).wrapping_sub(1) as u64]
            {
                let mut dump: Value = serde_json::from_str(dump).unwrap();
                set_numbers(&mut dump, number);
                if let Ok(stats) = read(dump.to_string().as_bytes()) {
                    judged(&stats);
                }
            }
        }
    }
}

#[test]
fn a_healthy_program_gets_no_advice() {
    for dump in HEALTHY {
        let (found, not_judged) = judged(&read(dump.as_bytes()).unwrap());
        assert_eq!((found, not_judged), (vec![], vec![]));
    }
    assert!(ids(&changed(&[])).is_empty());
}

#[test]
fn many_threads_on_one_contended_arena_need_more() {
    for dump in ARENAS {
        let finding = found(dump, "MLW3101");
        assert!(finding.evidence.contains("on 1 arena, "), "{}", finding.evidence);
        let wanted = if dump == ARENAS[0] { 32 } else { 128 };
        assert_eq!(finding.set.text(), format!("MALLOC_CONF=narenas:{wanted}"));
        let matrix = format!("--matrix 'MALLOC_CONF=narenas:1,narenas:{wanted}' -- ./server");
        assert!(finding.check.text().ends_with(&matrix), "{}", finding.check.text());
    }
    // The figures of the published case: 1,776 threads on 256 arenas.
    let locks = json!({ "num_ops": 1_000_000, "num_wait": 20_000, "num_spin_acq": 0,
        "num_owner_switch": 0, "total_wait_time": 0, "max_wait_time": 0, "max_num_thds": 9 });
    let merged = "/stats.arenas/merged";
    let large = changed(&[
        (&format!("{merged}/nthreads"), json!(1776)),
        ("/opt/narenas", json!(256)),
        (&format!("{merged}/mutexes/base"), locks),
    ]);
    assert_eq!(found(&large, "MLW3101").set.text(), "MALLOC_CONF=narenas:1024");
    // Without contention as many threads are as well off as they are.
    let calm = changed(&[("/opt/narenas", json!(1)), (&format!("{merged}/nthreads"), json!(500))]);
    assert!(ids(&calm).is_empty());
}

#[test]
fn slabs_of_few_blocks_that_are_filled_often_are_made_larger() {
    for dump in BINS {
        let finding = found(dump, "MLW3105");
        assert_eq!(finding.set.text(), "MALLOC_CONF=slab_sizes:512-4096:16");
        assert!(finding.evidence.starts_with("4096 bytes: "), "{}", finding.evidence);
        assert!(finding.evidence.contains("1 block in a slab, 20 in a cache"));
        assert_eq!(ids(dump), ["MLW3105"]);
        let mut larger: Value = serde_json::from_str(dump).unwrap();
        larger["jemalloc"]["arenas"]["page"] = json!(16_384);
        let finding = found(&larger.to_string(), "MLW3105");
        assert_eq!(finding.set.text(), "MALLOC_CONF=slab_sizes:512-4096:4", "64 KiB too");
    }
}

#[test]
fn deeper_caches_are_asked_of_versions_that_have_them() {
    assert_eq!(found(ARENAS[1], "MLW3107").set.text(), "MALLOC_CONF=lg_tcache_nslots_mul:2");
    assert!(found(ARENAS[0], "MLW3107").set.text().contains("5.3"));
    assert_eq!(found(ARENAS[2], "MLW3104").set.text(), "MALLOC_CONF=lg_tcache_nslots_mul:2");
}

#[test]
fn memory_that_goes_back_at_once_and_comes_again_is_told() {
    for dump in PAGES {
        let finding = found(dump, "MLW3109");
        assert_eq!(finding.set.text(), "MALLOC_CONF=dirty_decay_ms:10000");
        assert!(finding.check.text().contains("dirty_decay_ms:0,dirty_decay_ms:10000"));
    }
    assert_eq!(found(PAGES[0], "MLW3108").set.text(), "MALLOC_CONF=tcache_max:262144");
    // What 5.3.1 takes no notice of is not advised.
    let advice = found(PAGES[1], "MLW3108").set;
    assert!(
        matches!(&advice, Step::Words(text) if text.contains("none above 32.0 KiB")),
        "{advice:?}"
    );
    // Where nothing is decayed into, this is the list that everybody gets to.
    assert_eq!(found(PAGES[0], "MLW3102").set.text(), "MALLOC_CONF=dirty_decay_ms:10000");
}

/// The options of a live program, changed or not, decide; -1 is never advised.
#[test]
fn locks_of_extents_have_their_options_and_never_is_no_advice() {
    let busy = json!({ "num_ops": 1_000_000, "num_wait": 30_000, "num_spin_acq": 5_000,
        "num_owner_switch": 0, "total_wait_time": 9_000_000, "max_wait_time": 0,
        "max_num_thds": 9 });
    let with = |lock: &str, values: &[(&str, Value)]| {
        let place = format!("/stats.arenas/merged/mutexes/{lock}");
        let mut all = values.to_vec();
        all.push((&place, busy.clone()));
        changed(&all)
    };
    let retained = found(&with("extents_retained", &[]), "MLW3102");
    assert_eq!(retained.set.text(), "MALLOC_CONF=muzzy_decay_ms:10000");
    let muzzy = found(&with("extents_muzzy", &[]), "MLW3103");
    assert_eq!(muzzy.set.text(), "MALLOC_CONF=dirty_decay_ms:100000");
    for finding in [retained, muzzy] {
        assert!(finding.effect.contains("Not -1"), "{}", finding.effect);
        assert!(finding.evidence.contains("30,000 with a wait"), "{}", finding.evidence);
    }
    // Without empty caches deeper ones would not help.
    assert!(ids(&with("extents_dirty", &[])).is_empty());
}

#[test]
fn decay_that_never_comes_is_told_of_memory_that_counts() {
    let with = |option: &str, dirty: u64, muzzy: u64| {
        changed(&[
            (&format!("/arenas/{option}"), json!(-1)),
            ("/stats.arenas/merged/pdirty", json!(dirty)),
            ("/stats.arenas/merged/pmuzzy", json!(muzzy)),
        ])
    };
    let finding = found(&with("dirty_decay_ms", 4096, 0), "MLW3110");
    assert_eq!(finding.set.text(), "MALLOC_CONF=dirty_decay_ms:10000");
    assert!(finding.effect.contains("out-of-memory"));
    assert!(finding.evidence.contains("16.0 MiB of free pages"), "{}", finding.evidence);
    let finding = found(&with("muzzy_decay_ms", 2048, 2048), "MLW3110");
    assert_eq!(finding.set.text(), "MALLOC_CONF=muzzy_decay_ms:10000");
    assert!(ids(&with("dirty_decay_ms", 3, 4092)).is_empty(), "below 16 MiB");
}

#[test]
fn memory_that_stays_is_told_with_what_keeps_it() {
    let merged = "/stats.arenas/merged";
    let pages = |mib: u64| json!(mib * 256);
    let bytes = |mib: u64| json!(mib << 20);
    let hour = (format!("{merged}/uptime_ns"), json!(3_600_000_000_000_u64));
    let dirty = changed(&[
        (&hour.0, hour.1.clone()),
        (&format!("{merged}/pdirty"), pages(300)),
        ("/stats/active", bytes(400)),
    ]);
    assert_eq!(ids(&dirty), ["MLW3111"]);
    assert!(found(&dirty, "MLW3111").evidence.starts_with("300 MiB of free pages"));
    let young =
        changed(&[(&format!("{merged}/pdirty"), pages(300)), ("/stats/active", bytes(400))]);
    assert!(ids(&young).is_empty(), "within the decay time this is as it should be");
    // 4,096 slabs of 64 KiB and 10 blocks of 64 bytes.
    let partly = changed(&[
        (&format!("{merged}/bins/4/curslabs"), json!(40_000)),
        (&format!("{merged}/bins/4/curregs"), json!(10)),
        ("/stats/active", bytes(200)),
    ]);
    let finding = found(&partly, "MLW3112");
    assert!(finding.evidence.contains("64 bytes 156 MiB"), "{}", finding.evidence);
    assert_eq!(finding.set.text(), "MALLOC_CONF=narenas:4");
    let caches = changed(&[
        (&format!("{merged}/tcache_bytes"), bytes(500)),
        ("/stats/allocated", bytes(600)),
    ]);
    assert_eq!(found(&caches, "MLW3114").set.text(), "MALLOC_CONF=lg_tcache_nslots_mul:0");
    assert_eq!(ids(&changed(&[("/opt/tcache", json!(false))])), ["MLW3113"]);
    let huge = changed(&[
        ("/system/thp_mode", json!("always")),
        (&format!("{merged}/dirty_nmadvise"), json!(50_000)),
    ]);
    assert_eq!(ids(&huge), ["MLW3115"]);
}

#[test]
fn what_a_dump_does_not_hold_is_not_judged_and_said() {
    let stats = read(dump!("5.3.0-exit").as_bytes()).unwrap();
    let (_, not_judged) = judged(&stats);
    assert_eq!(not_judged.len(), 1);
    assert_eq!(not_judged[0].id, "MLW3101");
    assert!(not_judged[0].why.contains("without its threads"));
    let mut bare: Value = serde_json::from_str(HEALTHY[1]).unwrap();
    bare["jemalloc"].as_object_mut().unwrap().remove("stats.arenas");
    bare["jemalloc"].as_object_mut().unwrap().remove("opt");
    let (found, not_judged) = judged(&read(bare.to_string().as_bytes()).unwrap());
    assert_eq!(found, vec![]);
    assert!(not_judged.len() >= 10, "{not_judged:?}");
}
